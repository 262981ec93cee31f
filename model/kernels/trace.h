/* The products that ran: bench runs them again alone, tests hold flops() to their number.
 * While nobody asks, a product pays for one look at a pointer. */
#ifndef WEFT_TRACE_H
#define WEFT_TRACE_H

#include "model/kernels/real.h"

#include <stddef.h>
#include <stdint.h>

/* One call of a function of gemm.h. */
struct trace_call {
    void (*product)(real *, size_t, const real *, size_t, const real *, size_t, int,
                    int, int, real, real);
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

/* Write products to t from now on; NULL: no more. Set outside of parallel regions. */
void trace_products(struct trace *t);

extern struct trace *trace_current;
void trace_add(const struct trace_call *call);

static inline void trace_product(struct trace_call call)
{
    if (trace_current)
        trace_add(&call);
}

#endif
