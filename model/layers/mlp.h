/* SwiGLU:  y = wd( silu(wg x) * (wu x) ).
 *
 * x, y (n, C); wg, wu (h, C) lie next to each other and are used as one matrix
 * wgu (2h, C); wd (C, h).
 */
#ifndef WEFT_MLP_H
#define WEFT_MLP_H

#include "model/kernels/real.h"

#include <stdbool.h>

struct mlp {
    int         C, h;
    const real *wgu, *wd;
    real       *gu;         // (n, 2h) kept by forward; backward leaves its gradient
    real       *act;        // (n, h) scratch
};

/* y is overwritten. */
void mlp_forward(const struct mlp *m, real *y, const real *x, long n);

/* The calling thread's part of a loop over tiles of rows, in which there is more to do
 * with rows that are in the cache: rows t .. t + rows - 1 of the arrays, at most
 * product_tile of them. May n rows be cut so? Forward has rows of x and act of its own
 * wherever there is room, (rows, C) and (rows, h). */
bool mlp_by_rows(long n);
void mlp_forward_rows(const struct mlp *m, real *y, const real *x, real *act, long t,
                      int rows);

/* dx is overwritten. */
void mlp_backward_rows(const struct mlp *m, real *dx, const real *dy, long t, int rows);

/* dwgu and dwd += once all n rows are done; inside a parallel region, which all its
 * threads must reach. */
void mlp_backward_weights(const struct mlp *m, real *dwgu, real *dwd, const real *dy,
                          const real *x, long n);

#endif
