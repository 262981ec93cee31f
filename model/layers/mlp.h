/* SwiGLU:  y = wd( silu(wg x) * (wu x) ).
 *
 * x, y (n, C); wg, wu (h, C) lie next to each other and are used as one matrix
 * wgu (2h, C); wd (C, h).
 */
#ifndef WEFT_MLP_H
#define WEFT_MLP_H

#include "model/kernels/product.h"

#include <stdbool.h>

struct mlp {
    int         C, h;
    const real *wgu, *wd;
    real       *gu;         // (n, 2h) kept by forward; backward leaves its gradient
    real       *act;        // (n, h) scratch
    struct product_right w[3];      // as tiles meet them: forward wg, wu and wd,
};                                  // backward wd and wgu

/* y is overwritten. */
void mlp_forward(const struct mlp *m, real *y, const real *x, long n);

/* Tile by tile of the rows, at most product_tile of them, in a loop that has more to do
 * with rows that are in the cache. May n rows be cut so? */
bool mlp_by_rows(long n);

/* Before the parallel region of such a loop over n rows. */
void mlp_open_forward(struct mlp *m, long n);
void mlp_open_backward(struct mlp *m, long n);

/* Before the loop, inside the region: all its threads must reach it. */
void mlp_lay(const struct mlp *m);

/* Rows t .. t + rows - 1 of y and gu, by one thread; x (rows, C) and act (rows, h) are
 * those rows alone. */
void mlp_forward_rows(const struct mlp *m, real *y, const real *x, real *act, long t,
                      int rows);

/* Rows t .. t + rows - 1 of all arrays, by one thread; dx is overwritten. */
void mlp_backward_rows(const struct mlp *m, real *dx, const real *dy, long t, int rows);

/* dwgu and dwd += once all n rows are done; inside a parallel region, which all its
 * threads must reach. */
void mlp_backward_weights(const struct mlp *m, real *dwgu, real *dwd, const real *dy,
                          const real *x, long n);

#endif
