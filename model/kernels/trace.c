#include "model/kernels/trace.h"

struct trace *trace_current;

void trace_products(struct trace *t)
{
    trace_current = t;
}

void trace_add(const struct trace_call *call)
{
    struct trace *t = trace_current;

    #pragma omp critical(trace)
    {
        if (t->n < t->cap)
            t->call[t->n] = *call;
        t->n++;
        t->madds += (uint64_t)call->m * (uint64_t)call->n * (uint64_t)call->k;
    }
}
