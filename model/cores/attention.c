#include "model/cores/attention.h"

#include "model/kernels/ahead.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { QB = TINY(64, 4), KB = TINY(256, 5) };    // a block of scores: queries, keys

#define LOWEST (-FLT_MAX / 2)           // below any score; finite, so that
                                        // -INFINITY - LOWEST is not NaN
#define LOG2_E ((real)1.4426950408889634)

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

/* ---- a block of scores ----------------------------------------------------------------
 *
 * Scores lie transposed, s (keys, QB): a column is a query, so that the maximum and the
 * sum over keys run down the columns, a vector of queries at a time.
 */

/* Queries t0 .. t0 + n - 1 and keys u .. u + keys - 1. */
struct score_block {
    int t0, n, u, keys;
};

/* The queries to which key u + j is visible: columns [*lo, *hi); may be empty. */
static inline void visible_to(const struct attention *a, const struct score_block *x,
                              int j, int *lo, int *hi)
{
    int first = x->u + j - x->t0;

    *lo = first < 0 ? 0 : first < x->n ? first : x->n;
    *hi = a->window > 0 && first + a->window < x->n ? first + a->window : x->n;
    *hi = *hi < *lo ? *lo : *hi;
}

static bool all_visible(const struct attention *a, const struct score_block *x)
{
    return x->u + x->keys - 1 <= x->t0 &&
           (a->window <= 0 || x->t0 + x->n - 1 - x->u < a->window);
}

/* s = scale k q, of softmax in units of log 2; -INFINITY where a query does not see a
 * key. */
static void scores(const struct head *h, const struct score_block *x, real *s)
{
    const struct attention *a = h->a;
    const real scale = a->kind == ATTENTION_SOFTMAX ? a->scale * LOG2_E : a->scale;

    gemm_nt(s, QB, h->k + x->u * a->ld_kv, a->ld_kv,
            h->q + (size_t)(x->t0 - a->first) * a->ld_q, a->ld_q, x->keys, x->n, a->e,
            scale, 0);
    if (all_visible(a, x))
        return;
    for (int j = 0; j < x->keys; j++) {
        int lo, hi;

        visible_to(a, x, j, &lo, &hi);
        for (int i = 0; i < lo; i++)
            s[j * QB + i] = -INFINITY;
        for (int i = hi; i < x->n; i++)
            s[j * QB + i] = -INFINITY;
    }
}

/* s <- max(s, 0). NaN stays. */
static inline void relu(real *s, int keys, int n)
{
    for (int j = 0; j < keys; j++, s += QB) {
        #pragma omp simd
        for (int i = 0; i < n; i++)
            s[i] = s[i] < 0 ? 0 : s[i];
    }
}

/* ---- forward --------------------------------------------------------------------------
 *
 * The softmax of a row that is never held whole. Over one block of keys after the other,
 * with M the largest score so far:
 *
 *     M' = max(M, max_u s_u),  p_u = e^{s_u - M'}
 *     sum <- e^{M - M'} sum + sum_u p_u,   o <- e^{M - M'} o + sum_u p_u v_u
 *
 * and in the end o / sum and lse = M + log sum. A sink is one score more, whose value
 * is 0:  lse' = log(e^lse + e^sink),  o' = e^{lse - lse'} o.
 *
 * s and M are held in units of log 2, so that e^s is 2^s of what is held.
 */

/* What is known of each query of a block so far: the largest score, and the sum
 * of 2^(s - max). */
struct running {
    real max[QB], sum[QB];
};

/* s <- 2^(s - max) after the block's scores have gone into max; the sums follow.
 * shrink is what earlier sums and outputs were multiplied by. */
static inline __attribute__((always_inline)) void
absorb_columns(struct running *r, real *s, int keys, int n, real *shrink)
{
    real max[QB];

    memcpy(max, r->max, sizeof max);
    for (int j = 0; j < keys; j++) {
        #pragma omp simd
        for (int i = 0; i < n; i++)
            max[i] = s[j * QB + i] > max[i] ? s[j * QB + i] : max[i];
    }
    #pragma omp simd
    for (int i = 0; i < n; i++) {
        shrink[i] = vexp2(r->max[i] - max[i]);
        r->sum[i] *= shrink[i];
        r->max[i] = max[i];
    }
    for (int j = 0; j < keys; j++) {
        #pragma omp simd
        for (int i = 0; i < n; i++)
            r->sum[i] += s[j * QB + i] = vexp2(s[j * QB + i] - max[i]);
    }
}

/* Of a whole block the number of columns is a constant, and its loops are unrolled. */
static void absorb(struct running *r, real *s, int keys, int n, real *shrink)
{
    if (n == QB)
        absorb_columns(r, s, keys, QB, shrink);
    else
        absorb_columns(r, s, keys, n, shrink);
}

/* Divide a row by its sum; the sink takes its share and has no value. Returns
 * the log-sum-exp, in units of log 2. */
static inline real finish(const struct head *h, real *o, real max, real sum)
{
    real lse = max + (real)log2(sum), all = lse, share = 1;

    if (h->sink) {
        real sink = *h->sink * LOG2_E, hi = lse > sink ? lse : sink,
             lo = lse > sink ? sink : lse;

        all = hi + (real)log1p(exp2(lo - hi)) * LOG2_E;
        share = (real)exp2(lse - all);
    }
    vscale(o, share / sum, o, h->a->e);
    return all;
}

/* Queries t0 .. t0 + n - 1; o and lse (or NULL) are those of the first of them. */
static void forward_block(const struct head *h, int t0, int n, real *o, real *lse)
{
    const struct attention *a = h->a;
    _Alignas(64) real s[KB * QB], shrink[QB];
    struct running r;
    int begin = first_key(a, t0), end = t0 + n;

    for (int i = 0; i < QB; i++)
        r.max[i] = LOWEST, r.sum[i] = 0;
    for (int u = begin; u < end; u += KB) {
        struct score_block x = {t0, n, u, block_keys(u, end)};

        scores(h, &x, s);
        if (a->kind == ATTENTION_RELU)
            relu(s, x.keys, n);
        else {
            absorb(&r, s, x.keys, n, shrink);
            for (int i = 0; i < n && u > begin; i++)
                vscale(o + i * ld_o(a), shrink[i], o + i * ld_o(a), a->e);
        }
        gemm_tn(o, ld_o(a), s, QB, h->v + u * a->ld_kv, a->ld_kv, n, a->e, x.keys, 1,
                u > begin);
    }
    for (int i = 0; i < n && a->kind == ATTENTION_SOFTMAX; i++) {
        real all = finish(h, o + i * ld_o(a), r.max[i], r.sum[i]);

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

/* ---- backward -------------------------------------------------------------------------
 *
 * Block by block again, the scores made anew. With dp_tu = d_o_t . v_u:
 *
 *     softmax  p_tu = e^{s_tu - lse_t},  ds_tu = p_tu (dp_tu - delta_t),
 *              delta_t = sum_u p_tu dp_tu = d_o_t . o_t
 *     relu     p_tu = max(s_tu, 0),      ds_tu = dp_tu where p_tu > 0, otherwise 0
 *     both     dv_u = sum_t p_tu d_o_t,  dq_t = scale sum_u ds_tu k_u,
 *              dk_u = scale sum_t ds_tu q_t
 *
 * lse is that with the sink. The sink's value is 0, so its dp is 0, delta is the same
 * sum, and dsink = -sum_t e^{sink - lse_t} delta_t.
 */

/* What backward reads and writes of one head, all from its first row. */
struct head_grad {
    const real *o, *lse, *d_o;
    real       *dq, *dk, *dv;
};

/* From scores to p and from dp to ds, in place. Where scores are so large that their last
 * digit counts, p is 1 at most all the same. */
static inline __attribute__((always_inline)) void
columns_back(enum attention_kind kind, int keys, int n, real *p, real *ds,
             const real *lse, const real *delta)
{
    for (int j = 0; j < keys; j++, p += QB, ds += QB)
        if (kind == ATTENTION_RELU) {
            #pragma omp simd
            for (int i = 0; i < n; i++) {
                p[i] = p[i] < 0 ? 0 : p[i];
                ds[i] = p[i] > 0 ? ds[i] : 0;
            }
        } else {
            #pragma omp simd
            for (int i = 0; i < n; i++) {
                real d = p[i] - lse[i];

                p[i] = vexp2(d > 0 ? 0 : d);
                ds[i] = p[i] * (ds[i] - delta[i]);
            }
        }
}

static void block_back(const struct attention *a, const struct score_block *x, real *p,
                       real *ds, const real *lse, const real *delta)
{
    if (a->kind == ATTENTION_SOFTMAX && x->n == QB)
        columns_back(ATTENTION_SOFTMAX, x->keys, QB, p, ds, lse, delta);
    else
        columns_back(a->kind, x->keys, x->n, p, ds, lse, delta);
}

/* delta = d_o . o of n rows; returns the derivative by the sink. */
static real deltas(const struct head *h, const struct head_grad *g, size_t from, int n,
                   real *delta)
{
    size_t at = from * ld_o(h->a), ld = ld_o(h->a);
    real   dsink = 0;

    for (int i = 0; i < n; i++) {
        send_for(g->d_o + at + (i + AHEAD_ROWS) * ld, h->a->e);
        send_for(g->o + at + (i + AHEAD_ROWS) * ld, h->a->e);
        delta[i] = vdot(g->d_o + at + i * ld, g->o + at + i * ld, h->a->e);
        if (h->sink)
            dsink -= (real)exp2(*h->sink * LOG2_E - g->lse[from + i]) * delta[i];
    }
    return dsink;
}

/* Queries from .. from + n - 1, counted from the first: dq is overwritten, dk and dv +=.
 * Returns the derivative by the sink. */
static real backward_block(const struct head *h, const struct head_grad *g,
                           size_t from, int n)
{
    const struct attention *a = h->a;
    const real *q = h->q + from * a->ld_q, *d_o = g->d_o + from * ld_o(a);
    _Alignas(64) real p[KB * QB], ds[KB * QB];
    real  *dq = g->dq + from * a->ld_q, delta[QB], dsink = 0;
    size_t ld = a->ld_kv;
    int    t0 = a->first + (int)from, begin = first_key(a, t0), end = t0 + n;

    if (a->kind == ATTENTION_SOFTMAX)
        dsink = deltas(h, g, from, n, delta);
    for (int u = begin; u < end; u += KB) {
        struct score_block x = {t0, n, u, block_keys(u, end)};
        size_t      at = u * ld;

        scores(h, &x, p);
        gemm_nt(ds, QB, h->v + at, ld, d_o, ld_o(a), x.keys, n, a->e, 1, 0);
        block_back(a, &x, p, ds, g->lse + from, delta);
        gemm_nn(g->dv + at, ld, p, QB, d_o, ld_o(a), x.keys, a->e, n, 1, 1);
        gemm_nn(g->dk + at, ld, ds, QB, q, a->ld_q, x.keys, a->e, n, a->scale, 1);
        gemm_tn(dq, a->ld_q, ds, QB, h->k + at, ld, n, a->e, x.keys, a->scale, u > begin);
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
    for (int u = 0; u < a->first + a->T; u++) {
        send_for_own(dkv + (u + AHEAD_ROWS) * a->ld_kv, a->e);
        memset(dkv + u * a->ld_kv, 0, a->e * sizeof *dkv);
    }
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

/* ---- counts ------------------------------------------------------------------------ */

/* zeros and rows += those of queries t0 .. t0 + n - 1. */
static void count_block(const struct head *h, int t0, int n, long *zeros, long *rows)
{
    _Alignas(64) real s[KB * QB];
    long some[QB] = {0};
    int  end = t0 + n, lo, hi;

    for (int u = first_key(h->a, t0); u < end; u += KB) {
        struct score_block x = {t0, n, u, block_keys(u, end)};

        scores(h, &x, s);
        for (int j = 0; j < x.keys; j++) {
            visible_to(h->a, &x, j, &lo, &hi);
            for (int i = lo; i < hi; i++)
                some[i] += s[j * QB + i] > 0;
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

                count_block(&h, a->first + block * QB, block_queries(a, block),
                            &zeros, &empty);
            }
    *pairs = zeros;
    *rows = empty;
}

/* One head's, p (n). */
static void head_weights(const struct head *h, int t, int n, double *p)
{
    const struct attention *a = h->a;
    const real *q = h->q + (size_t)t * a->ld_q;
    const int   first = first_key(a, n - 1);
    double      most = -INFINITY, sum = 0;

    for (int u = 0; u < first; u++)
        p[u] = 0;
    for (int u = first; u < n; u++) {
        p[u] = 0;
        for (int j = 0; j < a->e; j++)
            p[u] += (double)q[j] * (double)h->k[u * a->ld_kv + j];
        p[u] *= (double)a->scale;
        most = fmax(most, p[u]);
    }
    for (int u = first; u < n; u++) {
        p[u] = a->kind == ATTENTION_SOFTMAX ? exp(p[u] - most) : fmax(p[u], 0);
        sum += p[u];
    }
    for (int u = 0; sum > 0 && u < n; u++)
        p[u] /= sum;
}

void attention_weights(const struct attention *a, int b, int t, double *p)
{
    const int n = a->first + t + 1;

    for (int i = 0; i < a->H; i++) {
        struct head h = head_of(a, b, i);

        head_weights(&h, t, n, p + (size_t)i * n);
    }
}

double attention_pairs(int T, int window)
{
    double full = window > 0 && window < T ? window : T;

    return full * (full + 1) / 2 + (T - full) * full;
}
