/* SwiGLU:  y = wd( silu(wg x) * (wu x) ).
 *
 * x, y (n, C); wg, wu (h, C) lie next to each other and are used as one matrix
 * wgu (2h, C); wd (C, h). Forward keeps gu (n, 2h) = x wguᵀ.
 */
#ifndef WEFT_MLP_H
#define WEFT_MLP_H

#include "model/kernels/real.h"

/* y is overwritten. act (n, h) is scratch. */
void mlp_forward(real *y, const real *x, const real *wgu, const real *wd, real *gu,
                 real *act, long n, int C, int h);

/* dx is overwritten, dwgu and dwd are added to. gu becomes its gradient. act (n, h) is
 * scratch. */
void mlp_backward(real *dx, real *dwgu, real *dwd, const real *dy, const real *x,
                  const real *wgu, const real *wd, real *gu, real *act, long n, int C,
                  int h);

#endif
