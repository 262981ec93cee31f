/* In-context regression with one attention layer.
 *
 *     a prompt: tokens z_i = (x_i, y_i), i = 1..L, and a query x;  x_i in R^d, y_i in R^t
 *     q_h = KQ_h x                    KQ_h (d + t, d)
 *     o_h = sum_i p_hi z_i            softmax: p_h = softmax_i(z_i . q_h)
 *                                     linear: z_i . q_h / L
 *     yhat = sum_h OV_h o_h           OV_h (t, d + t)
 *
 * The query sees the L tokens and not itself. Targets are y_i = beta x_i + noise;
 * the query's own is free of noise, so a loss is an excess risk.
 */
#ifndef WEFT_LAB_ICL_NET_H
#define WEFT_LAB_ICL_NET_H

#include "model/kernels/real.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct icl_task {
    int           d, t, L;
    double        noise;            // variance
    double        beta;             // standard deviation of the entries of beta
    bool          groups;           // target j depends on the j-th d/t coordinates only
    const double *spread;           // (d) standard deviations of x; NULL: 1
};

struct icl_net {
    struct icl_task task;
    int   H, B;                     // heads; prompts of a batch
    bool  linear;
    real *kq, *ov;                  // parameters (H, d + t, d), then (t, H, d + t)
    real *dkq, *dov;                // their gradients
    real *mask;                     // one for each parameter: 1, or 0 where it is held
    real *moments;
    size_t n;                       // parameters
    real *z, *x, *y;                // a batch: (B, d + t, L), (B, d), (B, t)
    real *q, *p, *o, *yhat;         // (B, H, d + t), (B, H, L), as q, (B, t)
    real *dq, *ds, *d_o, *dyhat;
    void *memory;
};

/* All buffers zero, all of mask 1. False: not enough memory. */
bool icl_open(struct icl_net *a, const struct icl_task *task, int H, int B, bool linear);
void icl_close(struct icl_net *a);

/* Prompts first .. first + B - 1 of the seed's endless list. */
void icl_draw(struct icl_net *a, uint64_t seed, uint64_t first);

/* The mean over the batch of |yhat - y|^2 / 2; icl_grad leaves its gradient, masked. */
double icl_loss(struct icl_net *a);
double icl_grad(struct icl_net *a);

/* Steps of training on fresh prompts, from `from` to `to` of `steps`. lr is Adam's,
 * or with sgd that of plain descent; it cools (tools/lab/learn.h) unless steady. With
 * factored, which needs sgd and weights >= 0, each weight is the product of two equal
 * factors that learn, as Q and K, O and V do when they begin so:
 *
 *     q' = q - lr g k,  k' = k - lr g q,     w' = q' k' = w (1 - lr g)^2
 */
struct icl_course {
    long     steps;
    double   lr;
    bool     sgd, steady, factored;
    uint64_t seed;
};

void icl_learn(struct icl_net *a, const struct icl_course *c, long from, long to);

/* Mean of |yhat - y|^2 over n prompts of length L that training never saw,
 * with its error. */
struct estimate icl_risk(const struct icl_net *a, int L, long n, uint64_t seed);

#endif
