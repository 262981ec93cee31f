/* A softmax model in plain loops and in double: every equation of model/model.h once, a
 * token after the other. Slow; for what its own kernels are not asked: keys that a query
 * would see, hidden from it.
 */
#ifndef WEFT_LAB_PLAIN_H
#define WEFT_LAB_PLAIN_H

#include "model/model.h"

/* The nats of targets (T) after tokens (T) into nats (T). hidden (T, T): 1 where query t
 * shall not see key u; NULL: it sees all up to itself. m has `softmax` in every block, no
 * option of it set. FAIL_MEMORY. */
enum fail plain_nats(const struct model *m, int T, const int32_t *tokens,
                     const int32_t *targets, const unsigned char *hidden, double *nats,
                     struct why *why);

#endif
