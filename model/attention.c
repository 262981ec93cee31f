#include "model/attention.h"

#include "model/linear.h"
#include "model/vmath.h"

#include <string.h>

enum { QB = 64, KB = 256 };             // a block of scores: queries, keys

/* Query head i of sequence b. Positions count from its first key. */
struct head {
    const struct attention *a;
    const real *q, *k, *v;              // q of position a->first, k and v of position 0
    const real *sink;                   // NULL: none
};

static size_t q_at(const struct attention *a, int b, int i)
{
    return (size_t)b * a->T * a->ld_q + (size_t)i * a->e;
}

static size_t kv_at(const struct attention *a, int b, int i)
{
    return (size_t)b * (a->first + a->T) * a->ld_kv + (size_t)(i / (a->H / a->Hk)) * a->e;
}

static size_t o_at(const struct attention *a, int b, int i)
{
    return ((size_t)b * a->T * a->H + i) * a->e;
}

static size_t ld_o(const struct attention *a) { return (size_t)a->H * a->e; }

static struct head head_of(const struct attention *a, int b, int i)
{
    size_t kv = kv_at(a, b, i);

    return (struct head){
        .a = a, .q = a->q + q_at(a, b, i), .k = a->k + kv, .v = a->v + kv,
        .sink = a->sink ? a->sink + i : NULL,
    };
}

static int blocks(const struct attention *a) { return (a->T + QB - 1) / QB; }

static int block_queries(const struct attention *a, int block)
{
    return a->T - block * QB < QB ? a->T - block * QB : QB;
}

static inline int first_key(const struct attention *a, int t)
{
    return a->window > 0 && t - a->window + 1 > 0 ? t - a->window + 1 : 0;
}

static inline int block_keys(int u0, int end)
{
    return end - u0 < KB ? end - u0 : KB;
}

/* The keys of block [u0, u0 + n) that position t sees: [*lo, *hi) relative to u0; may be empty. */
static inline void visible(const struct attention *a, int t, int u0, int n, int *lo, int *hi)
{
    *lo = a->window > 0 && t - a->window + 1 > u0 ? t - a->window + 1 - u0 : 0;
    *hi = t + 1 - u0 < n ? t + 1 - u0 : n;
    *hi = *hi < 0 ? 0 : *hi;
    *lo = *lo > *hi ? *hi : *lo;
}

/* ---- rows of a block ---------------------------------------------------------------------- */

static inline void clear_outside(real *s, int lo, int hi, int n)
{
    memset(s, 0, lo * sizeof *s);
    memset(s + hi, 0, (n - hi) * sizeof *s);
}

/* s <- e^(s - m) where visible, 0 elsewhere; returns the sum. */
static inline real row_exp(real *s, int lo, int hi, int n, real m)
{
    real sum = 0;

    clear_outside(s, lo, hi, n);
    #pragma omp simd reduction(+ : sum)
    for (int j = lo; j < hi; j++)
        sum += s[j] = vexp(s[j] - m);
    return sum;
}

/* s <- max(s, 0) where visible, 0 elsewhere. NaN stays. */
static inline void row_relu(real *s, int lo, int hi, int n)
{
    clear_outside(s, lo, hi, n);
    #pragma omp simd
    for (int j = lo; j < hi; j++)
        s[j] = s[j] < 0 ? 0 : s[j];
}

/* From dp to ds, in place, over the visible keys of a row; 0 elsewhere.
 *
 *     softmax  ds = p (dp - delta)        relu  ds = dp where p > 0
 */
static inline void row_exp_back(real *dp, const real *p, int lo, int hi, int n, real delta)
{
    clear_outside(dp, lo, hi, n);
    #pragma omp simd
    for (int j = lo; j < hi; j++)
        dp[j] = p[j] * (dp[j] - delta);
}

static inline void row_relu_back(real *dp, const real *p, int n)
{
    #pragma omp simd
    for (int j = 0; j < n; j++)
        dp[j] = p[j] > 0 ? dp[j] : 0;
}

static inline void scale_row(real *o, int e, real by)
{
    #pragma omp simd
    for (int j = 0; j < e; j++)
        o[j] *= by;
}

/* ---- forward ------------------------------------------------------------------------------ */

/* Take the scores of one block into a row's running maximum and sum; earlier output shrinks. */
static inline void absorb(real *s, int lo, int hi, int keys, real *max, real *sum, real *o, int e)
{
    real m = vmax(s + lo, hi - lo, *max), shrink = *max == m ? 1 : vexp(*max - m);

    *sum = *sum * shrink + row_exp(s, lo, hi, keys, m);
    if (shrink != 1 && o)
        scale_row(o, e, shrink);
    *max = m;
}

/* Divide a row by its sum; the sink takes its share and has no value. Returns the log-sum-exp. */
static inline real finish(const struct head *h, real *o, real max, real sum)
{
    real lse = max + (real)log(sum), all = lse;

    if (h->sink) {
        real hi = lse > *h->sink ? lse : *h->sink, lo = lse > *h->sink ? *h->sink : lse;

        all = hi + (real)log1p(exp(lo - hi));
    }
    scale_row(o, h->a->e, (real)exp(lse - all) / sum);
    return all;
}

/* Queries t0 .. t0 + n - 1; o and lse (or NULL) are those of the first of them. */
static void forward_block(const struct head *h, int t0, int n, real *o, real *lse)
{
    const struct attention *a = h->a;
    const real *q = h->q + (size_t)(t0 - a->first) * a->ld_q;
    real        s[QB * KB], max[QB], sum[QB];
    int         begin = first_key(a, t0), end = t0 + n, lo, hi;

    for (int i = 0; i < n; i++)
        max[i] = -INFINITY, sum[i] = 0;
    for (int u = begin; u < end; u += KB) {
        int keys = block_keys(u, end);

        gemm_nt(s, keys, q, a->ld_q, h->k + u * a->ld_kv, a->ld_kv, n, keys, a->e, a->scale, 0);
        for (int i = 0; i < n; i++) {
            visible(a, t0 + i, u, keys, &lo, &hi);
            if (a->kind == ATTENTION_RELU)
                row_relu(s + i * keys, lo, hi, keys);
            else
                absorb(s + i * keys, lo, hi, keys, &max[i], &sum[i],
                       u > begin ? o + i * ld_o(a) : NULL, a->e);
        }
        gemm_nn(o, ld_o(a), s, keys, h->v + u * a->ld_kv, a->ld_kv, n, a->e, keys, 1, u > begin);
    }
    for (int i = 0; i < n && a->kind == ATTENTION_SOFTMAX; i++) {
        real all = finish(h, o + i * ld_o(a), max[i], sum[i]);

        if (lse)
            lse[i] = all;
    }
}

void attention_forward(const struct attention *a, real *o, real *lse)
{
    #pragma omp parallel for collapse(3) schedule(dynamic)
    for (int b = 0; b < a->B; b++)
        for (int i = 0; i < a->H; i++)
            for (int block = 0; block < blocks(a); block++) {
                struct head h = head_of(a, b, i);
                size_t      t = (size_t)block * QB;

                forward_block(&h, a->first + (int)t, block_queries(a, block),
                              o + o_at(a, b, i) + t * ld_o(a),
                              lse ? lse + ((size_t)b * a->H + i) * a->T + t : NULL);
            }
}

/* ---- backward ----------------------------------------------------------------------------- */

/* What backward reads and writes of one head, all from its first row. */
struct head_grad {
    const real *o, *lse, *d_o;
    real       *dq, *dk, *dv;
};

/* p from s and ds from dp, in place, for one row. */
static inline void row_back(const struct attention *a, real *p, real *ds, int t, int u, int keys,
                            real lse, real delta)
{
    int lo, hi;

    visible(a, t, u, keys, &lo, &hi);
    if (a->kind == ATTENTION_RELU) {
        row_relu(p, lo, hi, keys);
        row_relu_back(ds, p, keys);
    } else {
        row_exp(p, lo, hi, keys, lse);
        row_exp_back(ds, p, lo, hi, keys, delta);
    }
}

/* delta = d_o . o of n rows; returns the derivative by the sink. */
static real deltas(const struct head *h, const struct head_grad *g, size_t from, int n, real *delta)
{
    size_t at = from * ld_o(h->a), ld = ld_o(h->a);
    real   dsink = 0;

    for (int i = 0; i < n; i++) {
        delta[i] = vdot(g->d_o + at + i * ld, g->o + at + i * ld, h->a->e);
        if (h->sink)
            dsink -= (real)exp(*h->sink - g->lse[from + i]) * delta[i];
    }
    return dsink;
}

/* Queries from .. from + n - 1, counted from the first: dq is overwritten, dk and dv +=. Returns
 * the derivative by the sink. */
static real backward_block(const struct head *h, const struct head_grad *g, size_t from, int n)
{
    const struct attention *a = h->a;
    const real *q = h->q + from * a->ld_q, *d_o = g->d_o + from * ld_o(a);
    real       *dq = g->dq + from * a->ld_q, p[QB * KB], ds[QB * KB], delta[QB] = {0}, dsink = 0;
    int         t0 = a->first + (int)from, begin = first_key(a, t0), end = t0 + n;

    if (a->kind == ATTENTION_SOFTMAX)
        dsink = deltas(h, g, from, n, delta);
    for (int u = begin; u < end; u += KB) {
        int    keys = block_keys(u, end);
        size_t ld = a->ld_kv, at = u * ld;

        gemm_nt(p, keys, q, a->ld_q, h->k + at, ld, n, keys, a->e, a->scale, 0);
        gemm_nt(ds, keys, d_o, ld_o(a), h->v + at, ld, n, keys, a->e, 1, 0);
        for (int i = 0; i < n; i++)
            row_back(a, p + i * keys, ds + i * keys, t0 + i, u, keys,
                     g->lse ? g->lse[from + i] : 0, delta[i]);
        gemm_tn(g->dv + at, ld, p, keys, d_o, ld_o(a), keys, a->e, n, 1, 1);
        gemm_nn(dq, a->ld_q, ds, keys, h->k + at, ld, n, a->e, keys, a->scale, u > begin);
        gemm_tn(g->dk + at, ld, ds, keys, q, a->ld_q, keys, a->e, n, a->scale, 1);
    }
    return dsink;
}

static real backward_head(const struct head *h, const struct head_grad *g)
{
    real dsink = 0;

    for (int block = 0; block < blocks(h->a); block++)
        dsink += backward_block(h, g, (size_t)block * QB, block_queries(h->a, block));
    return dsink;
}

static void clear_head(const struct attention *a, real *dkv)
{
    for (int u = 0; u < a->first + a->T; u++)
        memset(dkv + u * a->ld_kv, 0, a->e * sizeof *dkv);
}

/* One thread takes all query heads of a key head, so dk and dv are no other's. */
void attention_backward(const struct attention *a, const real *o, const real *lse,
                        const real *d_o, real *dq, real *dk, real *dv, real *dsink)
{
    const int G = a->H / a->Hk;

    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (int b = 0; b < a->B; b++)
        for (int kv = 0; kv < a->Hk; kv++) {
            size_t at = kv_at(a, b, kv * G);

            clear_head(a, dk + at);
            clear_head(a, dv + at);
            for (int i = kv * G; i < (kv + 1) * G; i++) {
                struct head h = head_of(a, b, i);
                size_t      row = (size_t)b * a->H + i, at_o = o_at(a, b, i);
                real        d = backward_head(&h, &(struct head_grad){
                    o ? o + at_o : NULL, lse ? lse + row * a->T : NULL, d_o + at_o,
                    dq + q_at(a, b, i), dk + at, dv + at});

                if (a->sink)
                    dsink[row] = d;
            }
        }
}

/* ---- counts ------------------------------------------------------------------------------- */

/* zeros and rows += those of queries t0 .. t0 + n - 1. */
static void count_block(const struct head *h, int t0, int n, long *zeros, long *rows)
{
    const struct attention *a = h->a;
    real s[QB * KB];
    long some[QB] = {0};
    int  end = t0 + n, lo, hi;

    for (int u = first_key(a, t0); u < end; u += KB) {
        int keys = block_keys(u, end);

        gemm_nt(s, keys, h->q + (size_t)(t0 - a->first) * a->ld_q, a->ld_q, h->k + u * a->ld_kv,
                a->ld_kv, n, keys, a->e, a->scale, 0);
        for (int i = 0; i < n; i++) {
            visible(a, t0 + i, u, keys, &lo, &hi);
            for (int j = lo; j < hi; j++)
                some[i] += s[i * keys + j] > 0;
            *zeros += hi - lo;
        }
    }
    for (int i = 0; i < n; i++) {
        *zeros -= some[i];
        *rows += some[i] == 0;
    }
}

void attention_zeros(const struct attention *a, long *pairs, long *rows)
{
    long zeros = 0, empty = 0;

    #pragma omp parallel for collapse(3) schedule(dynamic) reduction(+ : zeros, empty)
    for (int b = 0; b < a->B; b++)
        for (int i = 0; i < a->H; i++)
            for (int block = 0; block < blocks(a); block++) {
                struct head h = head_of(a, b, i);

                count_block(&h, a->first + block * QB, block_queries(a, block), &zeros, &empty);
            }
    *pairs = zeros;
    *rows = empty;
}

double attention_pairs(int T, int window)
{
    double full = window > 0 && window < T ? window : T;

    return full * (full + 1) / 2 + (T - full) * full;
}
