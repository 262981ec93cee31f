/* Linear maps over rows, and their gradients. The only caller of BLAS.
 *
 * A product over many rows is cut into tiles, each a product of gemm.h on one thread
 * inside a parallel loop. How m and n are cut never changes a bit of it, so results are
 * the same for any number of threads. BLAS is only asked how fast this machine can be.
 */
#ifndef WEFT_PRODUCT_H
#define WEFT_PRODUCT_H

#include "model/kernels/gemm.h"

/* y = x wᵀ.   x (n, in), w (out, in), y (n, out). Few rows (decoding) are dot
 * products. */
void product_forward(real *y, const real *x, const real *w, long n, int in, int out);

/* dx = dy w + keep dx,  dw += dyᵀ x.   Shapes as in product_forward; keep is 0 or 1;
 * dx or dw may be NULL. */
void product_backward(real *dx, real keep, real *dw, const real *dy, const real *x,
                      const real *w, long n, int in, int out);

/* Rows of a tile for a product over n rows. */
int product_tile(long n);

/* NULL, or why the BLAS that was loaded cannot be used. */
const char *product_blas_problem(void);

/* This machine's rate for our own products now, in GFLOP/s: 512 rows a thread, on all
 * threads, times 768 x 768; best of `tries`, of some 10 ms each. */
double product_peak_gflops(int tries);

/* OpenBLAS's: one older than the processor falls back to a kernel for any x86, a fifth as
 * fast. */
double linear_blas_gflops(int tries);

#endif
