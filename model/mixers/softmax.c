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
#include "model/ring.h"

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

struct acts {
    real *qkv;          // (B, T, H + 2 Hk, e) after norm and rotation
    real *o;            // (B, T, H, e)
    real *raw;          // (B, T, H + Hk, e) q and k before norm and rotation; with qk_norm
    real *lse;          // (B, H, T) in training
    real *ring;         // scratch of the ring in extend
};

static struct attention shape(const struct mixer_cfg *c, int B, int T)
{
    return (struct attention){.kind = ATTENTION_SOFTMAX, .B = B, .T = T, .H = c->H, .Hk = c->Hk,
                              .e = width(c), .scale = 1 / (real)sqrt((double)width(c))};
}

static struct attention core_of(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct attention core = shape(c, ctx->B, ctx->T);

    core.window = ctx_window(ctx, (int)c->opt[WINDOW]);
    core.sink = has_sink(c) ? ctx->w[sink_at(c)] : NULL;
    core.q = a->qkv, core.k = a->qkv + k_at(c), core.v = a->qkv + v_at(c);
    core.ld_q = core.ld_kv = row(c);
    return core;
}

static size_t carve(struct acts *a, void *base, const struct mixer_cfg *c, int B, int T, bool train)
{
    struct arena     m = arena_over(base);
    struct attention core = shape(c, B, T);
    size_t           n = (size_t)B * T;

    a->qkv = arena_reals(&m, n * row(c));
    a->o = arena_reals(&m, n * k_at(c));
    a->raw = arena_reals(&m, has_norm(c) ? n * v_at(c) : 0);
    a->lse = arena_reals(&m, train ? n * c->H : 0);
    a->ring = arena_reals(&m, train ? 0 : ring_scratch(&core, span(c)));
    return m.used;
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

static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct attention core = shape(c, B, T);
    struct acts      a;
    struct grads     g;
    size_t           back = carve_grads(&g, NULL, c, B, T), ext = carve(&a, NULL, c, B, T, false);

    s->kept = carve(&a, NULL, c, B, T, true);
    s->scratch = back > ext ? back : ext;
    s->state = ring_state(&core, span(c)) * sizeof(real);
}

static struct norm head_norm(const struct mixer_cfg *c, int heads)
{
    return (struct norm){heads, width(c), true, (real)1e-5};
}

/* x to rows of normalised, rotated q and k, and v. */
static void project(struct ctx *ctx, const real *x, struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    long   n = (long)ctx->B * ctx->T;
    size_t ld = row(c);

    linear_forward(a->qkv, x, ctx->w[WQ], n, c->C, (int)ld);
    if (has_norm(c)) {
        struct norm q = head_norm(c, c->H), k = head_norm(c, c->Hk);

        for (long i = 0; i < n; i++)
            memcpy(a->raw + i * v_at(c), a->qkv + i * ld, v_at(c) * sizeof(real));
        rms_forward(&q, a->qkv, ld, a->qkv, ld, ctx->w[qn_at()], n);
        rms_forward(&k, a->qkv + k_at(c), ld, a->qkv + k_at(c), ld, ctx->w[kn_at()], n);
    }
    rotate(&ctx->angles, a->qkv, ctx->B, ctx->T, c->H, ld);
    rotate(&ctx->angles, a->qkv + k_at(c), ctx->B, ctx->T, c->Hk, ld);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts      a;
    struct attention core;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    core = core_of(ctx, &a);
    project(ctx, x, &a);
    attention_forward(&core, a.o, a.lse);
    linear_forward(y, a.o, ctx->w[WO], (long)ctx->B * ctx->T, (int)k_at(c), c->C);
}

/* Back through rotation and norm, from the gradient of the rows to that of x. */
static void project_back(struct ctx *ctx, const real *x, const struct acts *a, struct grads *g,
                         real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    long   n = (long)ctx->B * ctx->T;
    size_t ld = row(c), at = k_at(c);

    rotate_back(&ctx->angles, a->qkv, g->dqkv, ctx->B, ctx->T, c->H, ld, ld);
    rotate_back(&ctx->angles, a->qkv + at, g->dqkv + at, ctx->B, ctx->T, c->Hk, ld, ld);
    if (has_norm(c)) {
        struct norm q = head_norm(c, c->H), k = head_norm(c, c->Hk);

        rms_backward(&q, g->dqkv, ld, 0, ctx->dw[qn_at()], g->dqkv, ld, a->raw, v_at(c),
                     ctx->w[qn_at()], n, g->partial);
        rms_backward(&k, g->dqkv + at, ld, 0, ctx->dw[kn_at()], g->dqkv + at, ld, a->raw + at,
                     v_at(c), ctx->w[kn_at()], n, g->partial);
    }
    linear_backward(dx, 1, ctx->dw[WQ], g->dqkv, x, ctx->w[WQ], n, c->C, (int)ld);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts      a;
    struct grads     g;
    struct attention core;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    carve_grads(&g, ctx->scratch, c, ctx->B, ctx->T);
    core = core_of(ctx, &a);
    linear_backward(g.d_o, 0, ctx->dw[WO], dy, a.o, ctx->w[WO], (long)ctx->B * ctx->T, (int)k_at(c),
                    c->C);
    attention_backward(&core, a.o, a.lse, g.d_o, g.dqkv, g.dqkv + k_at(c), g.dqkv + v_at(c),
                       g.dsink);
    for (int i = 0; core.sink && i < ctx->B * c->H; i++)
        ctx->dw[sink_at(c)][i % c->H] += g.dsink[i];
    project_back(ctx, x, &a, &g, dx);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts      a;
    struct attention core;

    carve(&a, ctx->scratch, c, ctx->B, ctx->T, false);
    core = core_of(ctx, &a);
    project(ctx, x, &a);
    ring_extend(&core, span(c), state, ctx->pos, a.o, a.ring);
    linear_forward(y, a.o, ctx->w[WO], (long)ctx->B * ctx->T, (int)k_at(c), c->C);
}

/* Projections, and 4 e per visible pair and head. */
static double flops(const struct mixer_cfg *c, int T, int window)
{
    int w = ctx_window(&(struct ctx){.window = window}, (int)c->opt[WINDOW]);

    return 2.0 * T * c->C * ((double)row(c) + (double)k_at(c)) +
           4.0 * attention_pairs(T, w) * (double)k_at(c);
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
