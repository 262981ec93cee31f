/* Vectors scaled to unit length.
 *
 *     v = r x,  r = 1 / sqrt(|x|² + eps)
 */
#ifndef WEFT_UNIT_H
#define WEFT_UNIT_H

#include "model/kernels/vmath.h"

/* y = s v; y may be x. */
static inline void unit(real *y, const real *x, int n, real eps, real s)
{
    vscale(y, s / (real)sqrt(vdot(x, x, n) + eps), x, n);
}

/* dx += s r (dy - v (v . dy)); returns v . dy. */
static inline real unit_back(real *dx, const real *dy, const real *x, int n,
                             real eps, real s)
{
    real r = 1 / (real)sqrt(vdot(x, x, n) + eps), along = r * vdot(x, dy, n);

    #pragma omp simd
    for (int i = 0; i < n; i++)
        dx[i] += s * r * (dy[i] - along * r * x[i]);
    return along;
}

#endif
