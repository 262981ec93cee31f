#include "model/layers/loss.h"

#include "model/kernels/product.h"
#include "model/kernels/vmath.h"

#include <string.h>

/* The logits of a slice of tokens are held at once: about SLICE_LOGITS of them, for
 * a multiple of SLICE_STEP tokens, but SLICE_TOKENS where the vocabulary is so large that
 * there would be fewer. */
enum {
    SLICE_LOGITS = TINY(1 << 22, 64),
    SLICE_STEP   = TINY(64, 2),
    SLICE_TOKENS = TINY(256, 4),
};

static long slice_rows(long n, int V)
{
    long rows = SLICE_LOGITS / V;

    rows = rows < SLICE_TOKENS ? SLICE_TOKENS : rows / SLICE_STEP * SLICE_STEP;
    return rows < n ? rows : n;
}

size_t loss_scratch(long n, int V)
{
    return (size_t)slice_rows(n, V) * V;
}

/* Replaces the row by e^(x - max) and returns its sum. */
static inline real exp_row(real *x, real max, int V)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < V; j++)
        sum += x[j] = vexp(x[j] - max);
    return sum;
}

static real row_nats(real *x, int32_t target, int V, real scale)
{
    real max, at, sum;

    if (target < 0) {
        memset(x, 0, V * sizeof *x);
        return 0;
    }
    max = vmax(x, V, x[0]);
    at = x[target] - max;
    sum = exp_row(x, max, V);
    if (scale > 0) {
        #pragma omp simd
        for (int j = 0; j < V; j++)
            x[j] *= scale / sum;
        x[target] -= scale;
    }
    return (real)log(sum) - at;
}

/* Put id, whose logit is x, in its place among the n largest so far, of at most k. */
static int rank(struct likely *top, int n, int k, int32_t id, real x)
{
    int at = n < k ? n++ : k - 1;

    for (; at > 0 && top[at - 1].nats < x; at--)
        top[at] = top[at - 1];
    top[at] = (struct likely){id, x};
    return n;
}

real cross_entropy_top(real *logits, int32_t target, int V, struct likely *top, int k)
{
    real max = vmax(logits, V, logits[0]), at = target < 0 ? 0 : logits[target] - max,
         sum;
    int  n = 0;

    for (int32_t j = 0; j < V && k > 0; j++)
        if (n < k || logits[j] > top[n - 1].nats)
            n = rank(top, n, k, j, logits[j]);
    sum = exp_row(logits, max, V);
    for (int i = 0; i < n; i++)
        top[i].nats = (real)log(sum) - (top[i].nats - max);
    return target < 0 ? 0 : (real)log(sum) - at;
}

void cross_entropy(real *logits, const int32_t *targets, real *nats, long rows, int V,
                   real scale)
{
    for (long i = 0; i < rows; i++)
        nats[i] = row_nats(logits + (size_t)i * V, targets[i], V, scale);
}

/* What is done with the logits of a slice. */
struct slice {
    real          *logits, *nats;
    const int32_t *targets;
    int            V;
    real           scale;
};

static void rows_nats(const void *of, long from, long n)
{
    const struct slice *s = of;

    cross_entropy(s->logits + from * s->V, s->targets + from, s->nats + from, n, s->V,
                  s->scale);
}

void loss_run(const real *x, const real *w, const int32_t *targets, real *nats, real *dx,
              real *dw, real scale, real *scratch, long n, int C, int V)
{
    long rows = slice_rows(n, V);

    for (long i = 0; i < n; i += rows) {
        const long         m = n - i < rows ? n - i : rows;
        const struct slice s = {scratch, nats + i, targets + i, V, dw ? scale : 0};

        product_forward_then(scratch, x + i * C, w, m, C, V,
                             (struct rows_work){rows_nats, &s});
        if (dw)
            product_backward(dx + i * C, 0, dw, scratch, x + i * C, w, m, C, V);
    }
}
