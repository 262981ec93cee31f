/* How fast a layer forgets: the smallest and the largest |a| of h_t = a_t h_{t-1} + b_t,
 * over tokens and channels; a is what a mixer's `system` calls L. A range starts as
 * {INFINITY, 0}. */
#ifndef WEFT_RANGE_H
#define WEFT_RANGE_H

#include "model/kernels/real.h"

#include <math.h>
#include <stddef.h>

struct range {
    double lo, hi;
};

static inline void range_add(struct range *r, double x)
{
    r->lo = fmin(r->lo, x);
    r->hi = fmax(r->hi, x);
}

/* e^g of n tokens: g (n, H, e), ld reals from token to token; r (H). */
static inline void range_logs(struct range *r, const real *g, size_t ld, long n,
                              int H, int e)
{
    for (long i = 0; i < n; i++)
        for (int j = 0; j < H * e; j++)
            range_add(&r[j / e], exp((double)g[i * ld + j]));
}

#endif
