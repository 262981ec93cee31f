/* Cross-entropy over slices of tokens: the logits of all tokens never exist at once.
 *
 *     nats_i = logsumexp(logits_i) - logits_i[target_i],   logits = x wᵀ
 *
 * x (n, C), w (V, C), targets (n), -1 = ignored.
 */
#ifndef WEFT_LOSS_H
#define WEFT_LOSS_H

#include "model/kernels/real.h"

#include <stddef.h>
#include <stdint.h>

/* In place on rows of logits (rows, V): nats (rows), 0 where ignored. With scale > 0
 * logits become scale (softmax - onehot), zero rows where ignored; with 0 they are left
 * as e^(logit - largest). */
void cross_entropy(real *logits, const int32_t *targets, real *nats, long rows, int V,
                   real scale);

/* A token that a row of logits may be followed by. */
struct likely {
    int32_t id;
    real    nats;
};

/* Of one row of logits (V), left as e^(logit - largest): the nats of target, as
 * cross_entropy has them (0 where it is -1), and into top (k <= V) the k likeliest tokens
 * with theirs, the likeliest first, of equal ones the lower id. */
real cross_entropy_top(real *logits, int32_t target, int V, struct likely *top, int k);

/* Nats of each target; and, when dw is not NULL, the gradient of scale * sum of nats: dx
 * is overwritten, dw added to. scratch: loss_scratch(n, V) reals. */
void loss_run(const real *x, const real *w, const int32_t *targets, real *nats, real *dx,
              real *dw, real scale, real *scratch, long n, int C, int V);

size_t loss_scratch(long n, int V);

#endif
