/* Short causal convolution of each channel over time, with bias and SiLU where wanted.
 *
 *     z_t = sum_{j < 4} w[:, j] x_{t-3+j} + b,   y = z  or  silu(z);   zeros before t = 0
 *
 * x, y (B, T, C) with ld reals from token to token; w (C, 4); b (C) or NULL. Column 3
 * multiplies the current token. When streaming, the state of a sequence is its last 3
 * inputs (3, C), zero at the start.
 */
#ifndef WEFT_CONV_H
#define WEFT_CONV_H

#include "model/kernels/real.h"

#include <stdbool.h>
#include <stddef.h>

enum { CONV_TAPS = 4 };

struct conv {
    int         B, T, C;
    size_t      ld_x, ld_y;
    const real *w, *b;
    bool        silu;
};

/* y may not be x. */
void conv_forward(const struct conv *o, real *y, const real *x);

/* dx (ld_x apart) is overwritten, dw and db (NULL when there is no bias) are added to.
 * dy is ld_y apart, and not dx. */
void conv_backward(const struct conv *o, real *dx, real *dw, real *db, const real *dy,
                   const real *x);

/* T more tokens of each sequence, whose state is the conv_state() reals at
 * state[b] + at; zero at the start. */
void conv_extend(const struct conv *o, void *const *state, size_t at, real *y,
                 const real *x);

static inline size_t conv_state(const struct conv *o)
{
    return (CONV_TAPS - 1) * (size_t)o->C;
}

/* Of one token. */
static inline double conv_flops(int C)
{
    return 2.0 * CONV_TAPS * C;
}

#endif
