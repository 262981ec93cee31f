/* Matrix products: the only caller of BLAS.
 *
 * A product over many rows is cut into fixed tiles, each one BLAS call on one thread inside a
 * parallel loop. The tiles depend on the shape alone, so results have the same bits for any
 * number of threads (and run faster than BLAS's own threading at our sizes).
 */
#ifndef WEFT_LINEAR_H
#define WEFT_LINEAR_H

#include "model/real.h"

#include <stddef.h>
#include <stdint.h>

/* y = x wᵀ.   x (n, in), w (out, in), y (n, out). Few rows (decoding) run without BLAS. */
void linear_forward(real *y, const real *x, const real *w, long n, int in, int out);

/* dx = dy w + keep dx,  dw += dyᵀ x.   Shapes as in linear_forward; keep is 0 or 1; dx or dw may
 * be NULL. */
void linear_backward(real *dx, real keep, real *dw, const real *dy, const real *x, const real *w,
                     long n, int in, int out);

/* Single products for use inside a parallel loop, on strided rows. c (m, n) = alpha a b + beta c. */
void gemm_nt(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta);       // a (m, k), b (n, k) transposed
void gemm_nn(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta);       // a (m, k), b (k, n)
void gemm_tn(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta);       // a (k, m) transposed, b (k, n)

/* Multiply-adds of every product that this thread has run: what flops() is held to. */
extern _Thread_local uint64_t linear_madds;

/* Rows of a tile for a product over n rows. */
int linear_tile(long n);

/* NULL, or why the BLAS that was loaded cannot be used. */
const char *linear_blas_problem(void);

/* This machine's rate for products now, in GFLOP/s: 4096 x 768 x 768, best of `tries`, on all threads. */
double linear_peak_gflops(int tries);

#endif
