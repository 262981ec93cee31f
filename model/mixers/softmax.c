/* Softmax attention (arXiv:1706.03762), full or in a sliding window, with grouped keys and values.
 *
 *     q, k, v = Wq x, Wk x, Wv x       q (H, e), k and v (Hk, e), e = C / H
 *     q, k <- rms(q) qn, rms(k) kn     with qk_norm; then the position encoding rotates both
 *     s_tu = q_t . k_u / sqrt(e)       visible iff 0 <= t - u < window (0: no limit)
 *     o_t = sum_u softmax(s_t)_u v_u   with sink, one more logit per head that has no value
 *     y = Wo o
 *
 * Key head h serves query heads h G .. h G + G - 1, G = H / Hk. The decode state is a ring of the
 * last `span` rotated keys and values: the window, or, without one, the context.
 */
#include "model/arena.h"
#include "model/attention.h"
#include "model/linear.h"
#include "model/mixer.h"
#include "model/norm.h"
#include "model/vmath.h"

#include <math.h>
#include <string.h>

enum { WQ, WK, WV, WO };
enum { WINDOW, QK_NORM, SINK };

static const struct opt opts[] = {
    [WINDOW]  = {"window", "tokens a query sees, itself included; 0: all", OPT_SPAN, NULL, 0, 0, 1 << 30},
    [QK_NORM] = {"qk_norm", "RMSNorm of queries and keys", OPT_FLAG, NULL, 0, 0, 1},
    [SINK]    = {"sink", "a logit per head that takes weight and has no value", OPT_FLAG, NULL, 0, 0, 1},
    {0},
};

static int  width(const struct mixer_cfg *c) { return c->C / c->H; }
static bool has_norm(const struct mixer_cfg *c) { return c->opt[QK_NORM] > 0; }
static bool has_sink(const struct mixer_cfg *c) { return c->opt[SINK] > 0; }

/* Channels of a row [q, k, v], and where k and v begin in it. */
static size_t row(const struct mixer_cfg *c) { return (size_t)(c->H + 2 * c->Hk) * width(c); }
static size_t k_at(const struct mixer_cfg *c) { return (size_t)c->H * width(c); }
static size_t v_at(const struct mixer_cfg *c) { return (size_t)(c->H + c->Hk) * width(c); }

static int span(const struct mixer_cfg *c)
{
    return c->opt[WINDOW] > 0 ? (int)c->opt[WINDOW] : c->context;
}

static const char *check(const struct mixer_cfg *c)
{
    if (c->C % c->H)
        return "width must be a multiple of heads";
    return c->H % c->Hk ? "heads must be a multiple of kv_heads" : NULL;
}

static int params(const struct mixer_cfg *c, struct param *p)
{
    int e = width(c), n = 4;

    p[WQ] = (struct param){"wq", c->H * e, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", c->Hk * e, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", c->Hk * e, c->C, INIT_INPUT, .decay = true};
    p[WO] = (struct param){"wo", c->C, c->H * e, INIT_OUTPUT, .decay = true};
    if (has_norm(c)) {
        p[n++] = (struct param){"qn", e, 0, INIT_ONE};
        p[n++] = (struct param){"kn", e, 0, INIT_ONE};
    }
    if (has_sink(c))
        p[n++] = (struct param){"sink", c->H, 0, INIT_ZERO};
    return n;
}

/* Indices of the optional parameters. */
static int qn_at(void) { return 4; }
static int kn_at(void) { return 5; }
static int sink_at(const struct mixer_cfg *c) { return has_norm(c) ? 6 : 4; }

static void angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->Hk;
    *dk = width(c);
}

struct kept {
    real *qkv;          // (B, T, H + 2 Hk, e) after norm and rotation
    real *raw;          // (B, T, H + Hk, e) before them; with qk_norm
    real *o;            // (B, T, H, e)
    real *lse;          // (B, H, T)
};

static size_t carve_kept(struct kept *k, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena a = arena_over(base);
    size_t       n = (size_t)B * T;

    k->qkv = arena_reals(&a, n * row(c));
    k->raw = arena_reals(&a, has_norm(c) ? n * v_at(c) : 0);
    k->o = arena_reals(&a, n * k_at(c));
    k->lse = arena_reals(&a, n * c->H);
    return a.used;
}

struct grads {
    real *dqkv;         // as qkv
    real *d_o;          // as o
    real *dsink;        // (B, H)
    real *partial;      // of the norms
};

static size_t carve_grads(struct grads *g, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena a = arena_over(base);
    struct norm  o = {c->H, width(c), true, 0};
    size_t       n = (size_t)B * T;

    g->dqkv = arena_reals(&a, n * row(c));
    g->d_o = arena_reals(&a, n * k_at(c));
    g->dsink = arena_reals(&a, (size_t)B * c->H);
    g->partial = arena_reals(&a, norm_partial(&o));
    return a.used;
}

/* Scratch of extend: what forward keeps, and the keys and values of one sequence in a row. */
struct extension {
    struct kept part;
    real       *k, *v;          // (span - 1 + T, Hk, e)
};

static size_t carve_extension(struct extension *x, void *base, const struct mixer_cfg *c, int B,
                              int T)
{
    struct arena a = arena_over(base);
    size_t       n = (size_t)(span(c) - 1 + T) * c->Hk * width(c);
    size_t       kept = carve_kept(&x->part, NULL, c, B, T);

    carve_kept(&x->part, arena_bytes(&a, kept), c, B, T);
    x->k = arena_reals(&a, T > 1 ? n : 0);
    x->v = arena_reals(&a, T > 1 ? n : 0);
    return a.used;
}

static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct kept      k;
    struct grads     g;
    struct extension x;
    size_t           back = carve_grads(&g, NULL, c, B, T), ext = carve_extension(&x, NULL, c, B, T);

    s->kept = carve_kept(&k, NULL, c, B, T);
    s->scratch = back > ext ? back : ext;
    s->state = 2 * (size_t)span(c) * c->Hk * width(c) * sizeof(real);
}

static struct norm head_norm(const struct mixer_cfg *c, int heads)
{
    return (struct norm){heads, width(c), true, (real)1e-5};
}

/* x to rows of normalised, rotated q and k, and v. */
static void project(struct ctx *ctx, const real *x, struct kept *k)
{
    const struct mixer_cfg *c = ctx->cfg;
    long   n = (long)ctx->B * ctx->T;
    size_t ld = row(c);

    linear_forward(k->qkv, x, ctx->w[WQ], n, c->C, (int)ld);
    if (has_norm(c)) {
        struct norm q = head_norm(c, c->H), kn = head_norm(c, c->Hk);

        for (long i = 0; i < n; i++)
            memcpy(k->raw + i * v_at(c), k->qkv + i * ld, v_at(c) * sizeof(real));
        rms_forward(&q, k->qkv, ld, k->qkv, ld, ctx->w[qn_at()], n);
        rms_forward(&kn, k->qkv + k_at(c), ld, k->qkv + k_at(c), ld, ctx->w[kn_at()], n);
    }
    rotate(&ctx->angles, k->qkv, ctx->B, ctx->T, c->H, ld);
    rotate(&ctx->angles, k->qkv + k_at(c), ctx->B, ctx->T, c->Hk, ld);
}

/* Query head i of sequence b, over rows of qkv. */
static struct head head_of(const struct ctx *ctx, const struct kept *k, int b, int i)
{
    const struct mixer_cfg *c = ctx->cfg;
    size_t      ld = row(c), e = width(c), kv = i / (c->H / c->Hk);
    const real *qkv = k->qkv + (size_t)b * ctx->T * ld;

    return (struct head){
        .q = qkv + i * e, .k = qkv + k_at(c) + kv * e, .v = qkv + v_at(c) + kv * e,
        .ld_q = ld, .ld_k = ld, .ld_v = ld, .ld_o = k_at(c),
        .e = (int)e, .window = ctx_window(ctx, (int)c->opt[WINDOW]),
        .scale = 1 / (real)sqrt((double)e),
        .sink = has_sink(c) ? ctx->w[sink_at(c)] + i : NULL,
    };
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int   T = ctx->T, blocks = (T + ATTENTION_QUERIES - 1) / ATTENTION_QUERIES;
    struct kept k;

    carve_kept(&k, ctx->kept, c, ctx->B, T);
    project(ctx, x, &k);
    #pragma omp parallel for collapse(3) schedule(dynamic)
    for (int b = 0; b < ctx->B; b++)
        for (int i = 0; i < c->H; i++)
            for (int block = 0; block < blocks; block++) {
                struct head h = head_of(ctx, &k, b, i);
                int         t0 = block * ATTENTION_QUERIES;
                int         n = T - t0 < ATTENTION_QUERIES ? T - t0 : ATTENTION_QUERIES;

                attention_forward(&h, t0, n, k.o + (size_t)b * T * k_at(c) + (size_t)i * h.e,
                                  k.lse + ((size_t)b * c->H + i) * T);
            }
    linear_forward(y, k.o, ctx->w[WO], (long)ctx->B * T, (int)k_at(c), c->C);
}

/* All queries of query head i of sequence b; its key head is no other thread's. */
static void backward_head(const struct ctx *ctx, const struct kept *k, const struct grads *g, int b,
                          int i)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct head h = head_of(ctx, k, b, i);
    size_t      at = (size_t)b * ctx->T, o = at * k_at(c) + (size_t)i * h.e;
    real       *dqkv = g->dqkv + at * row(c), dsink = 0;
    size_t      kv = (size_t)(i / (c->H / c->Hk)) * h.e;

    for (int t = 0; t < ctx->T; t += ATTENTION_QUERIES) {
        int n = ctx->T - t < ATTENTION_QUERIES ? ctx->T - t : ATTENTION_QUERIES;

        dsink += attention_backward(&h, t, n, k->o + o, k->lse + ((size_t)b * c->H + i) * ctx->T,
                                    g->d_o + o, dqkv + (size_t)i * h.e, dqkv + k_at(c) + kv,
                                    dqkv + v_at(c) + kv);
    }
    g->dsink[(size_t)b * c->H + i] = dsink;
}

static void zero_kv(const struct mixer_cfg *c, real *dqkv, int T)
{
    for (int t = 0; t < T; t++)
        memset(dqkv + t * row(c) + k_at(c), 0, (row(c) - k_at(c)) * sizeof(real));
}

/* Back through rotation and norm, from the gradient of the rows to that of x. */
static void project_back(struct ctx *ctx, const real *x, const struct kept *k, struct grads *g,
                         real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    long   n = (long)ctx->B * ctx->T;
    size_t ld = row(c), at = k_at(c);

    rotate_back(&ctx->angles, k->qkv, g->dqkv, ctx->B, ctx->T, c->H, ld, ld);
    rotate_back(&ctx->angles, k->qkv + at, g->dqkv + at, ctx->B, ctx->T, c->Hk, ld, ld);
    if (has_norm(c)) {
        struct norm q = head_norm(c, c->H), kn = head_norm(c, c->Hk);

        rms_backward(&q, g->dqkv, ld, 0, ctx->dw[qn_at()], g->dqkv, ld, k->raw, v_at(c),
                     ctx->w[qn_at()], n, g->partial);
        rms_backward(&kn, g->dqkv + at, ld, 0, ctx->dw[kn_at()], g->dqkv + at, ld, k->raw + at,
                     v_at(c), ctx->w[kn_at()], n, g->partial);
    }
    linear_backward(dx, 1, ctx->dw[WQ], g->dqkv, x, ctx->w[WQ], n, c->C, (int)ld);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int    G = c->H / c->Hk;
    struct kept  k;
    struct grads g;

    carve_kept(&k, ctx->kept, c, ctx->B, ctx->T);
    carve_grads(&g, ctx->scratch, c, ctx->B, ctx->T);
    linear_backward(g.d_o, 0, ctx->dw[WO], dy, k.o, ctx->w[WO], (long)ctx->B * ctx->T,
                    (int)k_at(c), c->C);
    #pragma omp parallel for schedule(static)
    for (int b = 0; b < ctx->B; b++)
        zero_kv(c, g.dqkv + (size_t)b * ctx->T * row(c), ctx->T);
    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (int b = 0; b < ctx->B; b++)
        for (int kv = 0; kv < c->Hk; kv++)
            for (int i = kv * G; i < (kv + 1) * G; i++)
                backward_head(ctx, &k, &g, b, i);
    if (has_sink(c))
        for (int i = 0; i < ctx->B * c->H; i++)
            ctx->dw[sink_at(c)][i % c->H] += g.dsink[i];
    project_back(ctx, x, &k, &g, dx);
}

/* The ring of a sequence: k (Hk, span, e), then v. Position p is in slot p mod span. */
static real *ring_k(const struct mixer_cfg *c, void *state, int kv)
{
    return (real *)state + (size_t)kv * span(c) * width(c);
}

static real *ring_v(const struct mixer_cfg *c, void *state, int kv)
{
    return ring_k(c, state, c->Hk + kv);
}

static void ring_store(const struct mixer_cfg *c, void *state, const real *qkv, long pos)
{
    size_t e = width(c), slot = (size_t)(pos % span(c)) * e;

    for (int kv = 0; kv < c->Hk; kv++) {
        memcpy(ring_k(c, state, kv) + slot, qkv + k_at(c) + kv * e, e * sizeof(real));
        memcpy(ring_v(c, state, kv) + slot, qkv + v_at(c) + kv * e, e * sizeof(real));
    }
}

/* Attention of one query over `n` keys in a row, taken into a running maximum, sum and output. */
static void attend(real *o, real *max, real *sum, const real *q, const real *k, const real *v,
                   int n, int e, real scale)
{
    for (int u = 0; u < n; u++) {
        real s = 0, m, p;

        #pragma omp simd reduction(+ : s)
        for (int j = 0; j < e; j++)
            s += q[j] * k[(size_t)u * e + j];
        s *= scale;
        m = s > *max ? s : *max;
        p = vexp(s - m);
        if (m > *max) {
            real shrink = vexp(*max - m);

            *sum *= shrink;
            for (int j = 0; j < e; j++)
                o[j] *= shrink;
            *max = m;
        }
        *sum += p;
        #pragma omp simd
        for (int j = 0; j < e; j++)
            o[j] += p * v[(size_t)u * e + j];
    }
}

/* One token of one head, from the ring, in which it already is. */
static void decode_head(const struct ctx *ctx, void *state, const real *q, real *o, long pos, int i)
{
    const struct mixer_cfg *c = ctx->cfg;
    int  e = width(c), R = span(c), kv = i / (c->H / c->Hk), w = ctx_window(ctx, R);
    long n = pos + 1 < w ? pos + 1 : w, from = (pos + 1 - n) % R, head = R - from < n ? R - from : n;
    real max = -INFINITY, sum = 0, scale = 1 / (real)sqrt((double)e);
    real *k = ring_k(c, state, kv), *v = ring_v(c, state, kv);

    memset(o, 0, e * sizeof *o);
    if (has_sink(c))
        max = ctx->w[sink_at(c)][i], sum = 1;
    attend(o, &max, &sum, q, k + from * e, v + from * e, (int)head, e, scale);
    attend(o, &max, &sum, q, k, v, (int)(n - head), e, scale);
    for (int j = 0; j < e; j++)
        o[j] /= sum;
}

static void decode(struct ctx *ctx, void *const *state, struct kept *k)
{
    const struct mixer_cfg *c = ctx->cfg;

    for (int b = 0; b < ctx->B; b++)
        ring_store(c, state[b], k->qkv + b * row(c), ctx->pos[b]);
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int i = 0; i < c->H; i++)
            decode_head(ctx, state[b], k->qkv + b * row(c) + (size_t)i * width(c),
                        k->o + b * k_at(c) + (size_t)i * width(c), ctx->pos[b], i);
}

/* The keys and values that the new tokens of sequence b see, in a row: the last `have` of the ring,
 * then the new ones. */
static int line_up(const struct ctx *ctx, void *state, struct extension *x, int b)
{
    const struct mixer_cfg *c = ctx->cfg;
    size_t e = width(c), ld = c->Hk * e;
    long   pos = ctx->pos[b], have = pos < span(c) - 1 ? pos : span(c) - 1;

    for (long u = 0; u < have; u++)
        for (int kv = 0; kv < c->Hk; kv++) {
            size_t slot = (size_t)((pos - have + u) % span(c)) * e;

            memcpy(x->k + u * ld + kv * e, ring_k(c, state, kv) + slot, e * sizeof(real));
            memcpy(x->v + u * ld + kv * e, ring_v(c, state, kv) + slot, e * sizeof(real));
        }
    for (int t = 0; t < ctx->T; t++) {
        const real *qkv = x->part.qkv + ((size_t)b * ctx->T + t) * row(c);

        memcpy(x->k + (have + t) * ld, qkv + k_at(c), ld * sizeof(real));
        memcpy(x->v + (have + t) * ld, qkv + v_at(c), ld * sizeof(real));
    }
    return (int)have;
}

static void prefill(struct ctx *ctx, void *state, struct extension *x, int b)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int T = ctx->T, have = line_up(ctx, state, x, b);
    const int blocks = (T + ATTENTION_QUERIES - 1) / ATTENTION_QUERIES;

    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (int i = 0; i < c->H; i++)
        for (int block = 0; block < blocks; block++) {
            struct head h = head_of(ctx, &x->part, b, i);
            int         t0 = block * ATTENTION_QUERIES;
            int         n = T - t0 < ATTENTION_QUERIES ? T - t0 : ATTENTION_QUERIES;
            size_t      kv = (size_t)(i / (c->H / c->Hk)) * h.e;

            h.k = x->k + kv, h.v = x->v + kv;
            h.ld_k = h.ld_v = (size_t)c->Hk * h.e;
            h.first = have;
            h.window = ctx_window(ctx, span(c));
            attention_forward(&h, have + t0, n, x->part.o + (size_t)b * T * k_at(c) + (size_t)i * h.e,
                              x->part.lse + ((size_t)b * c->H + i) * T);
        }
    for (int t = T > span(c) ? T - span(c) : 0; t < T; t++)
        ring_store(c, state, x->part.qkv + ((size_t)b * T + t) * row(c), ctx->pos[b] + t);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct extension ext;

    carve_extension(&ext, ctx->scratch, c, ctx->B, ctx->T);
    project(ctx, x, &ext.part);
    if (ctx->T == 1)
        decode(ctx, state, &ext.part);
    else
        for (int b = 0; b < ctx->B; b++)
            prefill(ctx, state[b], &ext, b);
    linear_forward(y, ext.part.o, ctx->w[WO], (long)ctx->B * ctx->T, (int)k_at(c), c->C);
}

/* Projections, and 4 e per visible pair and head. */
static double flops(const struct mixer_cfg *c, int T, int window)
{
    int    own = (int)c->opt[WINDOW], w = own > 0 && window > 0 && window < own ? window : own;
    double full = w > 0 && w < T ? w : T;
    double pairs = full * (full + 1) / 2 + (T - full) * full;

    return 2.0 * T * c->C * ((double)row(c) + (double)k_at(c)) + 4.0 * pairs * (double)k_at(c);
}

const struct mixer mixer_softmax = {
    .name     = "softmax",
    .about    = "softmax attention, full or in a sliding window",
    .system   = "infinite feature map: L = (n_{t-1}/n_t) I, B = f(k)/n_t, C = f(q), n = sum of e^(q.k)",
    .position = "rope",
    .opts     = opts,
    .check    = check,
    .params   = params,
    .angles   = angles,
    .sizes    = sizes,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .flops    = flops,
};
