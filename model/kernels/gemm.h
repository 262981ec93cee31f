/* Matrix products of one thread, on strided rows; for use inside parallel loops.
 *
 *     c (m, n) = alpha a b + beta c
 *
 *     gemm_nt   c_ij = alpha sum_p a_ip b_jp + beta c_ij     a (m, k), b (n, k)
 *     gemm_nn   c_ij = alpha sum_p a_ip b_pj + beta c_ij     a (m, k), b (k, n)
 *     gemm_tn   c_ij = alpha sum_p a_pi b_pj + beta c_ij     a (k, m), b (k, n)
 *
 * Matrices lie in rows; lda, ldb and ldc are the reals from one row to the next. With
 * beta 0 what c held is not read. c overlaps neither a nor b. Any size may be 0: with
 * k = 0, c = beta c. Nothing is allocated (half a megabyte of stack is used), nothing
 * can fail.
 *
 * The order in which a sum is formed depends on k alone, so cutting m or n into parts,
 * for threads or for the cache, never changes a bit of the result.
 */
#ifndef WEFT_GEMM_H
#define WEFT_GEMM_H

#include "model/kernels/real.h"

#include <stddef.h>
#include <stdint.h>

void gemm_nt(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta);
void gemm_nn(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta);
void gemm_tn(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta);

/* ---- what ran ---------------------------------------------------------------------- */

/* Multiply-adds of every product that this thread has run: what flops() is held to. */
extern _Thread_local uint64_t gemm_madds;

struct gemm_call {
    void (*product)(real *, size_t, const real *, size_t, const real *, size_t, int,
                    int, int, real, real);
    real       *c;
    const real *a, *b;
    size_t      ldc, lda, ldb;
    int         m, n, k;
    real        alpha, beta;
};

/* The products of a stretch of work, of all threads, in the order they began. */
struct gemm_log {
    struct gemm_call *call;
    long              n, room;      // n may pass room: then the log is not complete
};

/* Write products to log from now on; NULL: no more. Set outside of parallel regions. */
void gemm_record(struct gemm_log *log);

#endif
