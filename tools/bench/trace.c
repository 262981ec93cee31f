#include "tools/bench/trace.h"

static struct trace      *current;
static const struct gemm *maker;

static void add(const struct trace_call *call)
{
    struct trace *t = current;

    #pragma omp critical(trace)
    {
        if (t->n < t->cap)
            t->call[t->n] = *call;
        t->n++;
        t->madds += (uint64_t)call->m * (uint64_t)call->n * (uint64_t)call->k;
    }
}

#define TRACED(form)                                                                     \
    static void form(real *c, size_t ldc, const real *a, size_t lda, const real *b,      \
                     size_t ldb, int m, int n, int k, real alpha, real beta)             \
    {                                                                                    \
        add(&(struct trace_call){maker->form, c, a, b, ldc, lda, ldb, m, n, k, alpha,    \
                                 beta});                                                 \
        maker->form(c, ldc, a, lda, b, ldb, m, n, k, alpha, beta);                       \
    }
TRACED(nt)
TRACED(nn)
TRACED(tn)
TRACED(lay_nt)
TRACED(lay_nn)
TRACED(laid)

void trace_products(struct trace *t)
{
    static struct gemm traced = {"traced", nt, nn, tn, .lay_nt = lay_nt,
                                 .lay_nn = lay_nn, .laid = laid};

    if (t && !current) {
        traced.copy = gemm_used()->copy;
        traced.depth = gemm_used()->depth;
        traced.panel = gemm_used()->panel;
        maker = gemm_use(&traced);
    } else if (!t && current) {
        gemm_use(maker);
    }
    current = t;
}
