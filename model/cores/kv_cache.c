#include "model/cores/kv_cache.h"

#include "model/kernels/turn.h"
#include "model/kernels/vmath.h"

#include <string.h>

/* Keys (span, e) of key head kv, and its values, in the cache of a sequence. */
static real *cached_keys(const struct attention *a, int span, void *state, int kv)
{
    return (real *)state + (size_t)kv * span * a->e;
}

static real *cached_values(const struct attention *a, int span, void *state, int kv)
{
    return cached_keys(a, span, state, a->Hk + kv);
}

size_t kv_cache_state(const struct attention *a, int span)
{
    return 2 * (size_t)span * a->Hk * a->e;
}

/* Row i of a's keys and values becomes position pos. */
static void store(const struct attention *a, int span, void *state, size_t i, long pos)
{
    size_t e = a->e, slot = (size_t)(pos % span) * e, row = i * a->ld_kv;

    for (int kv = 0; kv < a->Hk; kv++) {
        memcpy(cached_keys(a, span, state, kv) + slot, a->k + row + kv * e,
               e * sizeof(real));
        memcpy(cached_values(a, span, state, kv) + slot, a->v + row + kv * e,
               e * sizeof(real));
    }
}

/* ---- one token ------------------------------------------------------------------------
 *
 * Attention in its plain form: one query over all keys that it sees.
 */

/* A query on its way over the keys. Softmax divides o by sum at the end. */
struct query {
    const real *q;
    real       *o, max, sum;
};

enum {
    KEYS_AT_ONCE = TINY(32, 4),         // keys whose scores are taken together
    COLUMNS = 4,                        // vectors of values
};

static inline void fetch(const real *rows, int e, int n)
{
    for (int i = 0; i < n * e; i += 64 / (int)sizeof *rows)
        __builtin_prefetch(rows + i);
}

/* s[u] = q . k_u of LANES keys or fewer, as vdot adds them up: lane by lane of a vector
 * of sums. The sums of all keys are turned, so that they are added at once. e is a whole
 * number of vectors. */
static inline void vector_of_dots(real *s, const real *q, const real *k, int n, int e)
{
    _Alignas(VEC_BYTES) real lanes[LANES * LANES] = {0}, turned[LANES * LANES];
    vec dots = {0};

    for (int u = 0; u < n; u++, k += e) {
        vec sum = {0};

        fetch(k + KEYS_AT_ONCE * e, e, 1);
        for (int j = 0; j < e; j += LANES)
            sum += *(const loose *)(q + j) * *(const loose *)(k + j);
        *(vec *)(lanes + u * LANES) = sum;
    }
    turn_square(turned, LANES, lanes, LANES);
    #pragma GCC unroll 16
    for (int l = 0; l < LANES; l++)
        dots += *(const vec *)(turned + l * LANES);
    memcpy(s, &dots, n * sizeof *s);
}

/* s[u] = q . k_u */
static void dots(real *s, const real *q, const real *k, int n, int e)
{
    for (int u = 0; u < n && e % LANES; u++)
        s[u] = vdot(q, k + u * e, e);
    for (int u = 0; u < n && e % LANES == 0; u += LANES)
        vector_of_dots(s + u, q, k + u * e, n - u < LANES ? n - u : LANES, e);
}

/* o += sum_u p_u v_u, in the order of u: nv vectors, a constant wherever this is inlined,
 * that stay in registers meanwhile. */
static inline __attribute__((always_inline)) void
add_columns(real *o, int nv, const real *p, const real *v, int n, int e)
{
    vec sum[COLUMNS];

    #pragma GCC unroll 4
    for (int j = 0; j < nv; j++)
        sum[j] = *(const loose *)(o + j * LANES);
    for (int u = 0; u < n; u++, v += e) {
        fetch(v + KEYS_AT_ONCE * e, nv * LANES, 1);
        #pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            sum[j] += p[u] * *(const loose *)(v + j * LANES);
    }
    #pragma GCC unroll 4
    for (int j = 0; j < nv; j++)
        *(loose *)(o + j * LANES) = sum[j];
}

static void add_values(real *o, const real *p, const real *v, int n, int e)
{
    int j = 0;

    for (; j + COLUMNS * LANES <= e; j += COLUMNS * LANES)
        add_columns(o + j, COLUMNS, p, v + j, n, e);
    for (; j + LANES <= e; j += LANES)
        add_columns(o + j, 1, p, v + j, n, e);
    for (int u = 0; u < n && j < e; u++)
        vaxpy(o + j, p[u], v + u * e + j, e - j);
}

/* A larger maximum shrinks what was summed before. */
static inline void raise_max(struct query *x, real to, int e)
{
    real shrink = vexp(x->max - to);

    x->sum *= shrink;
    vscale(x->o, shrink, x->o, e);
    x->max = to;
}

/* n <= KEYS_AT_ONCE keys and values, e apart. */
static void take_softmax(struct query *x, const real *k, const real *v, int n, int e,
                         real scale)
{
    real p[KEYS_AT_ONCE], sum = 0, max;

    dots(p, x->q, k, n, e);
    vscale(p, scale, p, n);
    max = vmax(p, n, x->max);
    if (max > x->max)
        raise_max(x, max, e);
    #pragma omp simd reduction(+ : sum)
    for (int u = 0; u < n; u++)
        sum += p[u] = vexp(p[u] - max);
    x->sum += sum;
    add_values(x->o, p, v, n, e);
}

/* Take n keys and values in a row, e apart, into the query's output. */
static void pass_softmax(struct query *x, const real *k, const real *v, int n, int e,
                         real scale)
{
    for (int u = 0; u < n; u += KEYS_AT_ONCE) {
        int keys = n - u < KEYS_AT_ONCE ? n - u : KEYS_AT_ONCE;

        take_softmax(x, k + u * e, v + u * e, keys, e, scale);
    }
}

static void pass_relu(struct query *x, const real *k, const real *v, int n, int e,
                      real scale)
{
    for (int u = 0; u < n; u++, k += e, v += e) {
        real s = scale * vdot(x->q, k, e);

        if (!(s <= 0))
            vaxpy(x->o, s, v, e);
    }
}

/* Query head i of a token at position pos, which is in the cache already; o (e). */
static void decode_head(const struct attention *a, int span, void *state,
                        const real *q, real *o, long pos, int i)
{
    int   e = a->e, kv = i / (a->H / a->Hk);
    long  n = pos + 1 < a->window ? pos + 1 : a->window, from = (pos + 1 - n) % span;
    long  first = span - from < n ? span - from : n;     // slots before it wraps
    real *k = cached_keys(a, span, state, kv), *v = cached_values(a, span, state, kv);
    struct query x = {q, o, a->sink ? a->sink[i] : -INFINITY, a->sink ? 1 : 0};
    void (*pass)(struct query *, const real *, const real *, int, int, real) =
        a->kind == ATTENTION_RELU ? pass_relu : pass_softmax;

    memset(o, 0, e * sizeof *o);
    pass(&x, k + from * e, v + from * e, (int)first, e, a->scale);
    pass(&x, k, v, (int)(n - first), e, a->scale);
    for (int j = 0; j < e && a->kind == ATTENTION_SOFTMAX; j++)
        o[j] /= x.sum;
}

static void decode(const struct attention *a, int span, void *const *state,
                   const long *pos, real *o)
{
    for (int b = 0; b < a->B; b++)
        store(a, span, state[b], b, pos[b]);
    // sequences differ in length: who is free takes the next head
    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (int b = 0; b < a->B; b++)
        for (int i = 0; i < a->H; i++)
            decode_head(a, span, state[b], a->q + b * a->ld_q + (size_t)i * a->e,
                        o + ((size_t)b * a->H + i) * a->e, pos[b], i);
}

/* ---- many tokens ------------------------------------------------------------------- */

/* What the new tokens of a sequence see, in the order of time: the last keys and values
 * of its cache, then their own. (span - 1 + T, Hk, e) each. */
struct history {
    real *k, *v;
};

static size_t history_reals(const struct attention *a, int span)
{
    return (size_t)(span - 1 + a->T) * a->Hk * a->e;
}

size_t kv_cache_scratch(const struct attention *a, int span)
{
    return a->T > 1 ? 2 * history_reals(a, span) : 0;
}

/* Returns how many came from the cache. */
static int history_fill(const struct attention *a, int span, void *state, int b,
                        long pos, struct history l)
{
    size_t e = a->e, ld = a->Hk * e;
    long   have = pos < span - 1 ? pos : span - 1;

    for (long u = 0; u < have; u++)
        for (int kv = 0; kv < a->Hk; kv++) {
            size_t slot = (size_t)((pos - have + u) % span) * e, to = u * ld + kv * e;

            memcpy(l.k + to, cached_keys(a, span, state, kv) + slot, e * sizeof(real));
            memcpy(l.v + to, cached_values(a, span, state, kv) + slot,
                   e * sizeof(real));
        }
    for (int t = 0; t < a->T; t++) {
        size_t row = ((size_t)b * a->T + t) * a->ld_kv, to = (have + t) * ld;

        memcpy(l.k + to, a->k + row, ld * sizeof(real));
        memcpy(l.v + to, a->v + row, ld * sizeof(real));
    }
    return (int)have;
}

static void prefill(const struct attention *a, int span, void *state, int b,
                    long pos, real *o, struct history l)
{
    struct attention one = *a;
    size_t           row = (size_t)b * a->T;

    one.B = 1;
    one.q = a->q + row * a->ld_q;
    if (pos == 0)
        one.k = a->k + row * a->ld_kv, one.v = a->v + row * a->ld_kv;
    else {
        one.first = history_fill(a, span, state, b, pos, l);
        one.k = l.k, one.v = l.v;
        one.ld_kv = (size_t)a->Hk * a->e;
    }
    attention_forward(&one, o + row * a->H * a->e, NULL);
    #pragma omp parallel for schedule(static)
    for (int t = a->T > span ? a->T - span : 0; t < a->T; t++)
        store(a, span, state, row + t, pos + t);
}

void kv_cache_extend(const struct attention *a, int span, void *const *state,
                     const long *pos, real *o, real *scratch)
{
    struct attention seen = *a;

    seen.window = a->window > 0 && a->window < span ? a->window : span;
    if (a->T == 1)
        decode(&seen, span, state, pos, o);
    else
        for (int b = 0; b < a->B; b++)
            prefill(&seen, span, state[b], b, pos[b], o,
                    (struct history){scratch, scratch + history_reals(a, span)});
}
