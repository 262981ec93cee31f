#include "model/attention.h"

#include "model/linear.h"
#include "model/vmath.h"

#include <string.h>

enum { QB = ATTENTION_QUERIES, KB = ATTENTION_KEYS };

/* The keys of block [u0, u0 + n) that position t sees: [*lo, *hi) relative to u0; may be empty. */
static inline void visible(const struct head *h, int t, int u0, int n, int *lo, int *hi)
{
    *lo = h->window > 0 && t - h->window + 1 > u0 ? t - h->window + 1 - u0 : 0;
    *hi = t + 1 - u0 < n ? t + 1 - u0 : n;
    *hi = *hi < 0 ? 0 : *hi;
    *lo = *lo > *hi ? *hi : *lo;
}

static inline int first_key(const struct head *h, int t0)
{
    return h->window > 0 && t0 - h->window + 1 > 0 ? t0 - h->window + 1 : 0;
}

static inline int block_keys(int u0, int end)
{
    return end - u0 < KB ? end - u0 : KB;
}

static inline real row_max(const real *s, int lo, int hi, real m)
{
    #pragma omp simd reduction(max : m)
    for (int j = lo; j < hi; j++)
        m = s[j] > m ? s[j] : m;
    return m;
}

/* s <- e^(s - m) where visible, 0 elsewhere; returns the sum. */
static inline real row_exp(real *s, int lo, int hi, int n, real m)
{
    real sum = 0;

    memset(s, 0, lo * sizeof *s);
    #pragma omp simd reduction(+ : sum)
    for (int j = lo; j < hi; j++)
        sum += s[j] = vexp(s[j] - m);
    memset(s + hi, 0, (n - hi) * sizeof *s);
    return sum;
}

static inline void scale_row(real *o, int e, real by)
{
    #pragma omp simd
    for (int j = 0; j < e; j++)
        o[j] *= by;
}

/* Take the scores of one block into a row's running maximum and sum; earlier output shrinks. */
static inline void absorb(const struct head *h, real *s, int t, int u0, int keys, real *max,
                          real *sum, real *o)
{
    int  lo, hi;
    real m, shrink;

    visible(h, t, u0, keys, &lo, &hi);
    m = row_max(s, lo, hi, *max);
    shrink = *max == m ? 1 : vexp(*max - m);
    *sum = *sum * shrink + row_exp(s, lo, hi, keys, m);
    if (shrink != 1 && o)
        scale_row(o, h->e, shrink);
    *max = m;
}

/* Divide a row by its sum; the sink takes its share and has no value. */
static inline real finish(const struct head *h, real *o, real max, real sum)
{
    real lse = max + (real)log(sum), all = lse;

    if (h->sink) {
        real hi = lse > *h->sink ? lse : *h->sink, lo = lse > *h->sink ? *h->sink : lse;

        all = hi + (real)log1p(exp(lo - hi));
    }
    scale_row(o, h->e, (real)exp(lse - all) / sum);
    return all;
}

void attention_forward(const struct head *h, int t0, int n, real *o, real *lse)
{
    real s[QB * KB], max[QB], sum[QB];
    int  begin = first_key(h, t0), end = t0 + n;

    o += (size_t)(t0 - h->first) * h->ld_o;
    for (int i = 0; i < n; i++)
        max[i] = -INFINITY, sum[i] = 0;
    for (int u = begin; u < end; u += KB) {
        int keys = block_keys(u, end);

        gemm_nt(s, keys, h->q + (size_t)(t0 - h->first) * h->ld_q, h->ld_q, h->k + u * h->ld_k,
                h->ld_k, n, keys, h->e, h->scale, 0);
        for (int i = 0; i < n; i++)
            absorb(h, s + i * keys, t0 + i, u, keys, &max[i], &sum[i],
                   u > begin ? o + i * h->ld_o : NULL);
        gemm_nn(o, h->ld_o, s, keys, h->v + u * h->ld_v, h->ld_v, n, h->e, keys, 1, u > begin);
    }
    for (int i = 0; i < n; i++)
        lse[t0 - h->first + i] = finish(h, o + i * h->ld_o, max[i], sum[i]);
}

static inline real dot(const real *a, const real *b, int n)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < n; j++)
        sum += a[j] * b[j];
    return sum;
}

/* ds = p (dp - delta) over the visible keys of a row, in place of dp; 0 elsewhere. */
static inline void row_back(real *dp, const real *p, int lo, int hi, int n, real delta)
{
    memset(dp, 0, lo * sizeof *dp);
    #pragma omp simd
    for (int j = lo; j < hi; j++)
        dp[j] = p[j] * (dp[j] - delta);
    memset(dp + hi, 0, (n - hi) * sizeof *dp);
}

real attention_backward(const struct head *h, int t0, int n, const real *o, const real *lse,
                        const real *d_o, real *dq, real *dk, real *dv)
{
    real        p[QB * KB], ds[QB * KB], delta[QB], dsink = 0;
    int         begin = first_key(h, t0), end = t0 + n;
    size_t      at = t0 - h->first;
    const real *q = h->q + at * h->ld_q;

    o += at * h->ld_o, d_o += at * h->ld_o, dq += at * h->ld_q, lse += at;
    for (int i = 0; i < n; i++) {
        delta[i] = dot(d_o + i * h->ld_o, o + i * h->ld_o, h->e);
        if (h->sink)
            dsink -= (real)exp(*h->sink - lse[i]) * delta[i];
    }
    for (int u = begin; u < end; u += KB) {
        int         keys = block_keys(u, end);
        const real *k = h->k + u * h->ld_k;

        gemm_nt(p, keys, q, h->ld_q, k, h->ld_k, n, keys, h->e, h->scale, 0);
        gemm_nt(ds, keys, d_o, h->ld_o, h->v + u * h->ld_v, h->ld_v, n, keys, h->e, 1, 0);
        for (int i = 0; i < n; i++) {
            int lo, hi;

            visible(h, t0 + i, u, keys, &lo, &hi);
            row_exp(p + i * keys, lo, hi, keys, lse[i]);
            row_back(ds + i * keys, p + i * keys, lo, hi, keys, delta[i]);
        }
        gemm_tn(dv + u * h->ld_v, h->ld_v, p, keys, d_o, h->ld_o, keys, h->e, n, 1, 1);
        gemm_nn(dq, h->ld_q, ds, keys, k, h->ld_k, n, h->e, keys, h->scale, u > begin);
        gemm_tn(dk + u * h->ld_k, h->ld_k, ds, keys, q, h->ld_q, keys, h->e, n, h->scale, 1);
    }
    return dsink;
}
