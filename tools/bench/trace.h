/* The products that ran: bench runs them again alone, tests hold flops() to their number.
 * They are written down on their way to whoever makes them (gemm_use), so that the
 * kernels know nothing of it. */
#ifndef WEFT_TRACE_H
#define WEFT_TRACE_H

#include "model/kernels/gemm.h"

#include <stdint.h>

/* One call of a function of gemm.h. */
struct trace_call {
    gemm_form  *product;
    real       *c;
    const real *a, *b;
    size_t      ldc, lda, ldb;
    int         m, n, k;
    real        alpha, beta;
};

/* The products of a stretch of work, of all threads, in the order they began. */
struct trace {
    struct trace_call *call;        // (cap)
    long               n, cap;      // n may pass cap: then not all are written down
    uint64_t           madds;       // multiply-adds of all n
};

/* Write products to t from now on; NULL: no more. Set outside of parallel regions, and
 * gemm_use not at all in between. */
void trace_products(struct trace *t);

#endif
