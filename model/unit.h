/* Vectors scaled to unit length.
 *
 *     v = r x,  r = 1 / sqrt(|x|² + eps)
 */
#ifndef WEFT_UNIT_H
#define WEFT_UNIT_H

#include "model/real.h"

#include <math.h>

static inline real unit_dot(const real *a, const real *b, int n)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* y = s v; y may be x. */
static inline void unit(real *y, const real *x, int n, real eps, real s)
{
    real r = s / (real)sqrt(unit_dot(x, x, n) + eps);

    #pragma omp simd
    for (int i = 0; i < n; i++)
        y[i] = r * x[i];
}

/* dx += s r (dy - v (v . dy)); returns v . dy. */
static inline real unit_back(real *dx, const real *dy, const real *x, int n, real eps, real s)
{
    real r = 1 / (real)sqrt(unit_dot(x, x, n) + eps), along = r * unit_dot(x, dy, n);

    #pragma omp simd
    for (int i = 0; i < n; i++)
        dx[i] += s * r * (dy[i] - along * r * x[i]);
    return along;
}

#endif
