/* Matrix products of one thread, on strided rows; for use inside parallel loops.
 *
 *     c (m, n) = alpha a b + beta c;  with beta 0 what c held is not read
 *
 * The order in which a sum is formed depends on k alone, so cutting m or n into parts,
 * for threads or for the cache, never changes a bit of the result.
 */
#ifndef WEFT_GEMM_H
#define WEFT_GEMM_H

#include "model/kernels/real.h"

#include <stddef.h>

void gemm_nt(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta);   // a (m, k), b (n, k) turned
void gemm_nn(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta);   // a (m, k), b (k, n)
void gemm_tn(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta);   // a (k, m) turned, b (k, n)

#endif
