#include "model/cores/kv_cache.h"

#include "model/kernels/ahead.h"
#include "model/kernels/turn.h"
#include "model/kernels/vmath.h"

#include <omp.h>
#include <stdbool.h>
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
    TURNS = TINY(8, 2),                 // in which a thread takes heads
};

/* n keys of a head in a row, e apart, and their values. */
struct keys {
    const real *k, *v;
    int         n, head;
};

/* s[u] = q . k_u of LANES keys or fewer, as vdot adds them up: lane by lane of a vector
 * of sums. The sums of all keys are turned, so that they are added at once. e is a whole
 * number of vectors. Rows of next are sent for. */
static inline void vector_of_dots(real *s, const real *q, const real *k, int n, int e,
                                  const real *next)
{
    _Alignas(VEC_BYTES) real lanes[LANES * LANES] = {0}, turned[LANES * LANES];
    vec dots = {0};

    for (int u = 0; u < n; u++, k += e, next += e) {
        vec sum = {0};

        send_for(next, e);
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
static void dots(real *s, const real *q, const real *k, int n, int e, const real *next)
{
    for (int u = 0; u < n && e % LANES; u++)
        s[u] = vdot(q, k + u * e, e);
    for (int u = 0; u < n && e % LANES == 0; u += LANES)
        vector_of_dots(s + u, q, k + u * e, n - u < LANES ? n - u : LANES, e,
                       next + u * e);
}

/* o += sum_u p_u v_u, in the order of u: nv vectors, a constant wherever this is inlined,
 * that stay in registers meanwhile. */
static inline __attribute__((always_inline)) void
add_columns(real *o, int nv, const real *p, const real *v, int n, int e, const real *next)
{
    vec sum[COLUMNS];

    #pragma GCC unroll 4
    for (int j = 0; j < nv; j++)
        sum[j] = *(const loose *)(o + j * LANES);
    for (int u = 0; u < n; u++, v += e, next += e) {
        send_for(next, nv * LANES);
        #pragma GCC unroll 4
        for (int j = 0; j < nv; j++)
            sum[j] += p[u] * *(const loose *)(v + j * LANES);
    }
    #pragma GCC unroll 4
    for (int j = 0; j < nv; j++)
        *(loose *)(o + j * LANES) = sum[j];
}

static void add_values(real *o, const real *p, const real *v, int n, int e,
                       const real *next)
{
    int j = 0;

    for (; j + COLUMNS * LANES <= e; j += COLUMNS * LANES)
        add_columns(o + j, COLUMNS, p, v + j, n, e, next + j);
    for (; j + LANES <= e; j += LANES)
        add_columns(o + j, 1, p, v + j, n, e, next + j);
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

/* Take at most KEYS_AT_ONCE keys and values into the query's output; the next ones are
 * sent for meanwhile. */
static void take_softmax(struct query *x, struct keys now, struct keys next, int e,
                         real scale)
{
    real p[KEYS_AT_ONCE], sum = 0, max;

    dots(p, x->q, now.k, now.n, e, next.k);
    vscale(p, scale, p, now.n);
    max = vmax(p, now.n, x->max);
    if (max > x->max)
        raise_max(x, max, e);
    #pragma omp simd reduction(+ : sum)
    for (int u = 0; u < now.n; u++)
        sum += p[u] = vexp(p[u] - max);
    x->sum += sum;
    add_values(x->o, p, now.v, now.n, e, next.v);
}

static void take_relu(struct query *x, struct keys now, struct keys next, int e,
                      real scale)
{
    real s[KEYS_AT_ONCE];

    dots(s, x->q, now.k, now.n, e, next.k);
    vscale(s, scale, s, now.n);
    for (int u = 0; u < now.n; u++)
        if (!(s[u] <= 0))
            vaxpy(x->o, s[u], now.v + u * e, e);
}

/* A thread's way over the keys that its heads see. Head b H + i: head i of sequence b. */
struct walk {
    const struct attention *a;
    void *const            *state;
    const long             *pos;
    int         span, head, end;
    const real *k, *v;                  // (span, e) of this head
    int         seen, from, at;         // keys that it sees, slot of the first, how many
                                        // lie behind
};

static void enter_head(struct walk *w)
{
    const struct attention *a = w->a;
    int  b = w->head / a->H, kv = w->head % a->H / (a->H / a->Hk);
    long n = w->pos[b] + 1;

    w->k = cached_keys(a, w->span, w->state[b], kv);
    w->v = cached_values(a, w->span, w->state[b], kv);
    w->seen = (int)(n < a->window ? n : a->window);
    w->from = (int)((n - w->seen) % w->span);
    w->at = 0;
}

/* The next keys of the head, up to where the slots wrap, or after the last those of the
 * next head; none (n = 0) after the last head. */
static struct keys walk_on(struct walk *w)
{
    int  whole = w->span - w->from;     // keys before the slots wrap
    bool wrapped = w->at >= whole;
    int  left = (wrapped || w->seen < whole ? w->seen : whole) - w->at;
    long at = (long)(w->from + w->at - (wrapped ? w->span : 0)) * w->a->e;
    struct keys to = {w->k + at, w->v + at, left < KEYS_AT_ONCE ? left : KEYS_AT_ONCE,
                      w->head};

    w->at += to.n;
    if (w->at == w->seen && ++w->head < w->end)
        enter_head(w);
    return to;
}

static struct query begin_query(const struct attention *a, int head, real *o)
{
    int b = head / a->H, i = head % a->H;

    memset(o, 0, a->e * sizeof *o);
    return (struct query){a->q + b * a->ld_q + (size_t)i * a->e, o,
                          a->sink ? a->sink[i] : -INFINITY, a->sink ? 1 : 0};
}

/* o of the heads of w, whose newest keys are in the cache already. What comes next is
 * sent for one step ahead, from one head to the next, too. */
static void decode_heads(struct walk w, real *o)
{
    const struct attention *a = w.a;
    struct query            x = begin_query(a, w.head, o + (size_t)w.head * a->e);

    enter_head(&w);
    for (struct keys now = walk_on(&w), next; now.n; now = next) {
        next = walk_on(&w);
        if (a->kind == ATTENTION_RELU)
            take_relu(&x, now, next, a->e, a->scale);
        else
            take_softmax(&x, now, next, a->e, a->scale);
        if (next.head == now.head)
            continue;
        for (int j = 0; j < a->e && a->kind == ATTENTION_SOFTMAX; j++)
            x.o[j] /= x.sum;
        if (next.n)
            x = begin_query(a, next.head, o + (size_t)next.head * a->e);
    }
}

static void decode(const struct attention *a, int span, void *const *state,
                   const long *pos, real *o)
{
    const int heads = a->B * a->H, most = heads / (TURNS * omp_get_max_threads()),
              turn = most > 1 ? most : 1;

    for (int b = 0; b < a->B; b++)
        store(a, span, state[b], b, pos[b]);
    // sequences differ in length: who is free takes the next heads
    #pragma omp parallel for schedule(dynamic)
    for (int h = 0; h < heads; h += turn)
        decode_heads((struct walk){a, state, pos, span, h,
                                   h + turn < heads ? h + turn : heads}, o);
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
