/* Means of each channel over the tokens so far, and deviations from them.
 *
 *     MEANS_OF       y_t = (1 / t) sum_{s <= t} x_s           t counted from 1
 *     MEANS_LESS     y_t = x_t - that
 *     MEANS_BEFORE   y_t = x_t - that of t - 1                y_1 = x_1
 *
 * Sums are carried in double.
 */
#ifndef WEFT_MEANS_H
#define WEFT_MEANS_H

#include "model/kernels/real.h"

#include <stdbool.h>
#include <stddef.h>

enum means_what { MEANS_OF, MEANS_LESS, MEANS_BEFORE };

struct means {
    int         B, T, C;
    const long *pos;            // (B) tokens before these; NULL: none
};

/* y (B, T, C) from x, ld reals from token to token. With state, the sum of the
 * tokens before is the C doubles at state[b] + at (in reals, at a whole number of
 * doubles), zero at the start, and goes on there. */
void means_forward(const struct means *m, enum means_what what, real *y, const real *x,
                   size_t ld, void *const *state, size_t at);

/* dx (ld reals from token to token) from dy (B, T, C): overwritten, or, with keep, added
 * to. dmean (B, T, C; NULL: none) is the gradient of the means by other ways than y.
 * dx may be dy. */
void means_backward(const struct means *m, enum means_what what, real *dx, size_t ld,
                    bool keep, const real *dy, const real *dmean);

#endif
