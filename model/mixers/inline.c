/* InLine attention (arXiv:2412.06590), causal: linear attention normalised by subtraction.
 *
 *     q, k, v = Wq x, Wk x, Wv x       (H, e), e = C / H; the position encoding rotates q, k, then
 *                                      the feature map is taken of both
 *     token s has the weight (1 + q_t . (k_s - km_t) / sqrt(e)) / t in token t, counted from 1;
 *     km, vm, xm are means over the tokens so far. Weights sum to one and may be negative.
 *     r_t = W2 gelu(W1 xm_t + b1) + b2 (C, local), W1, W2 by heads:   l_t = sum_i r_t[:, i] v_{t-i}
 *     y = Wo (o + l)
 *
 * By Welford's recurrence the covariance C_t of keys and values has t C_t = sum_{s <= t} dk_s dv_sᵀ:
 *
 *     dk_s = k_s - km_{s-1},   dv_s = v_s - vm_s
 *     o_t = vm_t + (1 / (t sqrt(e))) sum_{s <= t} (q_t . dk_s) dv_s
 *
 * Plain linear attention of deviations (model/means.h): nothing large is ever subtracted. The local
 * term is model/local.h.
 */
#include "model/arena.h"
#include "model/core_scalar.h"
#include "model/feature.h"
#include "model/linear.h"
#include "model/local.h"
#include "model/means.h"
#include "model/mixer.h"

#include <math.h>

enum { WQ, WK, WV, WO, W1, B1, W2, B2 };
enum { MAP, LOCAL };

static const struct opt opts[] = {
    [MAP]   = {"feature", "feature map of queries and keys", OPT_CHOICE, "id|elu1", 0, 0, 0},
    [LOCAL] = {"local", "tokens of the local term; 0: without", OPT_INT, NULL, 3, 0, 64},
    {0},
};

static bool   mapped(const struct mixer_cfg *c) { return c->opt[MAP] > 0; }
static int    width(const struct mixer_cfg *c) { return c->C / c->H; }
static int    taps(const struct mixer_cfg *c) { return (int)c->opt[LOCAL]; }
static size_t row(const struct mixer_cfg *c) { return 3 * (size_t)c->C; }

static int params(const struct mixer_cfg *c, struct param *p)
{
    int e = width(c), rows = c->C * taps(c);

    p[WQ] = (struct param){"wq", c->C, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", c->C, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", c->C, c->C, INIT_INPUT, .decay = true};
    p[WO] = (struct param){"wo", c->C, c->C, INIT_OUTPUT, .decay = true};
    if (!taps(c))
        return W1;
    p[W1] = (struct param){"w1", c->C, e, INIT_INPUT, .decay = true};
    p[B1] = (struct param){"b1", c->C, 0, INIT_ZERO};
    p[W2] = (struct param){"w2", rows, e, INIT_NORMAL, 0.02, .decay = true};
    p[B2] = (struct param){"b2", rows, 0, INIT_ZERO};
    return B2 + 1;
}

static void angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->H;
    *dk = width(c);
}

/* ---- memory ----------------------------------------------------------------------------------- */

/* The core without its rows. */
static struct scalar shape(const struct mixer_cfg *c, int B, int T)
{
    return (struct scalar){.B = B, .T = T, .H = c->H, .dk = width(c), .dv = width(c),
                           .den = SCALAR_PLAIN, .scale = 1 / (real)sqrt(width(c))};
}

struct kept {
    real *qkv;          // (B, T, 3 C), rotated
    real *o;            // (B, T, C) o + l
    real *core;
};

static size_t carve_kept(struct kept *k, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena  a = arena_over(base);
    struct scalar s = shape(c, B, T);
    size_t        n = (size_t)B * T;

    k->qkv = arena_reals(&a, n * row(c));
    k->o = arena_reals(&a, n * c->C);
    k->core = arena_reals(&a, scalar_kept(&s));
    return a.used;
}

struct work {
    real *q, *k;            // (B, T, C) features; with a map
    real *dk, *dv;          // (B, T, C) deviations
    real *xm;               // (B, T, C) with the local term
    struct local_kept local;
};

static size_t carve_work(struct work *w, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena a = arena_over(base);
    size_t       n = (size_t)B * T * c->C, map = mapped(c) ? n : 0, local = taps(c) ? n : 0;

    w->q = arena_reals(&a, map);
    w->k = arena_reals(&a, map);
    w->dk = arena_reals(&a, n);
    w->dv = arena_reals(&a, n);
    w->xm = arena_reals(&a, local);
    w->local.pre = arena_reals(&a, local);
    w->local.hid = arena_reals(&a, local);
    w->local.r = arena_reals(&a, local * taps(c));
    return a.used;
}

struct grads {
    struct work w;
    real *dqkv;             // as qkv
    real *d_o, *du;         // (B, T, C) of o + l, of the core's output
    real *dq;               // as q of work
    real *ddk, *ddv;        // as dk, dv of work
    real *dxm, *dhid;       // as xm and hid
    real *core;
};

static size_t carve_grads(struct grads *g, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena  a = arena_over(base);
    struct scalar s = shape(c, B, T);
    size_t        n = (size_t)B * T * c->C, work = carve_work(&g->w, NULL, c, B, T);

    carve_work(&g->w, arena_bytes(&a, work), c, B, T);
    g->dqkv = arena_reals(&a, 3 * n);
    g->d_o = arena_reals(&a, n);
    g->du = arena_reals(&a, n);
    g->dq = arena_reals(&a, mapped(c) ? n : 0);
    g->ddk = arena_reals(&a, n);
    g->ddv = arena_reals(&a, n);
    g->dxm = arena_reals(&a, taps(c) ? n : 0);
    g->dhid = arena_reals(&a, taps(c) ? n : 0);
    g->core = arena_reals(&a, scalar_scratch(&s));
    return a.used;
}

/* Scratch of extend. */
struct extension {
    struct kept part;
    struct work w;
};

static size_t carve_extension(struct extension *x, void *base, const struct mixer_cfg *c, int B,
                              int T)
{
    struct arena a = arena_over(base);
    size_t       part = carve_kept(&x->part, NULL, c, B, T), work = carve_work(&x->w, NULL, c, B, T);

    carve_kept(&x->part, arena_bytes(&a, part), c, B, T);
    carve_work(&x->w, arena_bytes(&a, work), c, B, T);
    return a.used;
}

/* Where the parts of a state begin, in bytes; the core's is the first. */
struct state {
    size_t k, v, x;         // (C) sums
    size_t last;            // of the local term
    size_t end;
};

static struct state state_of(const struct mixer_cfg *c)
{
    struct scalar core = shape(c, 1, 1);
    size_t        sums = c->C * sizeof(double), n = taps(c) ? taps(c) - 1 : 0;
    struct state  s;

    s.k = (scalar_state(&core) * sizeof(real) + 63) / 64 * 64;
    s.v = s.k + sums;
    s.x = s.v + sums;
    s.last = s.x + (taps(c) ? sums : 0);
    s.end = s.last + n * c->C * sizeof(real);
    return s;
}

static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct kept      k;
    struct grads     g;
    struct extension x;
    size_t           back = carve_grads(&g, NULL, c, B, T), ext = carve_extension(&x, NULL, c, B, T);

    s->kept = carve_kept(&k, NULL, c, B, T);
    s->scratch = back > ext ? back : ext;
    s->state = state_of(c).end;
}

/* ---- pieces ----------------------------------------------------------------------------------- */

static struct feature feature_of(const struct ctx *ctx)
{
    int e = width(ctx->cfg);

    return (struct feature){.map = FEATURE_ELU1, .B = ctx->B, .T = ctx->T, .H = ctx->cfg->H,
                            .dk = e, .m = e};
}

static struct means means_of(const struct ctx *ctx)
{
    return (struct means){ctx->B, ctx->T, ctx->cfg->C, ctx->pos};
}

static struct local local_of(const struct ctx *ctx)
{
    const struct mixer_cfg *c = ctx->cfg;

    return (struct local){
        .B = ctx->B, .T = ctx->T, .C = c->C, .H = c->H, .taps = taps(c), .ld = row(c),
        .w1 = ctx->w[W1], .b1 = ctx->w[B1], .w2 = ctx->w[W2], .b2 = ctx->w[B2],
    };
}

static struct scalar core_of(const struct ctx *ctx, const struct kept *k, const struct work *w)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct scalar s = shape(c, ctx->B, ctx->T);

    s.q = mapped(c) ? w->q : k->qkv, s.k = w->dk, s.v = w->dv;
    s.ld_q = mapped(c) ? (size_t)c->C : row(c);
    s.ld_k = s.ld_v = s.ld_o = c->C;
    return s;
}

/* ---- forward and backward --------------------------------------------------------------------- */

static void project(struct ctx *ctx, const real *x, struct kept *k)
{
    const struct mixer_cfg *c = ctx->cfg;
    size_t ld = row(c);

    linear_forward(k->qkv, x, ctx->w[WQ], (long)ctx->B * ctx->T, c->C, (int)ld);
    rotate(&ctx->angles, k->qkv, ctx->B, ctx->T, c->H, ld);
    rotate(&ctx->angles, k->qkv + c->C, ctx->B, ctx->T, c->H, ld);
}

/* Everything between the projections and the core, and the taps of the local term. */
static void prepare(const struct ctx *ctx, const real *x, const struct kept *k, struct work *w,
                    void *const *state)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t   C = c->C, ld = row(c);
    struct feature f = feature_of(ctx);
    struct means   m = means_of(ctx);
    struct state   at = state_of(c);

    if (mapped(c)) {
        feature_forward(&f, w->q, NULL, k->qkv, ld);
        feature_forward(&f, w->k, NULL, k->qkv + C, ld);
    }
    means_forward(&m, MEANS_BEFORE, w->dk, mapped(c) ? w->k : k->qkv + C, mapped(c) ? C : ld, state,
                  at.k);
    means_forward(&m, MEANS_LESS, w->dv, k->qkv + 2 * C, ld, state, at.v);
    if (taps(c)) {
        struct local l = local_of(ctx);

        means_forward(&m, MEANS_OF, w->xm, x, C, state, at.x);
        local_taps(&l, &w->local, w->xm);
    }
}

/* o = vm + u / t + l, where o holds u and vm = v - dv. */
static void combine(const struct ctx *ctx, const struct kept *k, const struct work *w,
                    void *const *state)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t C = c->C;
    const long   n = (long)ctx->B * ctx->T;

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        const real *v = k->qkv + i * row(c) + 2 * C, *dv = w->dv + i * C;
        long        seen = ctx->pos ? ctx->pos[i / ctx->T] : 0;
        real       *o = k->o + i * C, by = 1 / (real)(seen + i % ctx->T + 1);

        #pragma omp simd
        for (size_t j = 0; j < C; j++)
            o[j] = v[j] - dv[j] + by * o[j];
    }
    if (taps(c)) {
        struct local l = local_of(ctx);

        local_apply(&l, &w->local, k->o, k->qkv + 2 * C, state, state_of(c).last);
    }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct kept   k;
    struct work   w;
    struct scalar s;

    carve_kept(&k, ctx->kept, c, ctx->B, ctx->T);
    carve_work(&w, ctx->scratch, c, ctx->B, ctx->T);
    project(ctx, x, &k);
    prepare(ctx, x, &k, &w, NULL);
    s = core_of(ctx, &k, &w);
    scalar_forward(&s, k.o, k.core);
    combine(ctx, &k, &w, NULL);
    linear_forward(y, k.o, ctx->w[WO], (long)ctx->B * ctx->T, c->C, c->C);
}

/* The local term's share of dx, and of dv in dqkv. */
static void local_back(const struct ctx *ctx, const struct kept *k, struct grads *g, real *dx)
{
    const size_t      C = ctx->cfg->C;
    real *const      *dw = ctx->dw;
    struct local      l = local_of(ctx);
    struct means      m = means_of(ctx);
    struct local_grad to = {.w1 = dw[W1], .b1 = dw[B1], .w2 = dw[W2], .b2 = dw[B2]};

    local_backward(&l, &to, &g->w.local, g->dqkv + 2 * C, g->dxm, g->dhid, g->d_o, g->w.xm,
                   k->qkv + 2 * C);
    means_backward(&m, MEANS_OF, dx, C, true, g->dxm, NULL);
}

/* From d_o to the gradient of q's features and of the deviations:  du_t = d_o_t / t. */
static void attend_back(const struct ctx *ctx, const struct kept *k, struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long         n = (long)ctx->B * ctx->T;
    const size_t       C = c->C;
    struct scalar      s = core_of(ctx, k, &g->w);
    struct scalar_grad to = {.dq = mapped(c) ? g->dq : g->dqkv, .dk = g->ddk, .dv = g->ddv,
                             .ld_dq = s.ld_q, .ld_dk = C, .ld_dv = C};

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        real by = 1 / (real)(i % ctx->T + 1);

        #pragma omp simd
        for (size_t j = 0; j < C; j++)
            g->du[i * C + j] = by * g->d_o[i * C + j];
    }
    scalar_backward(&s, &to, NULL, g->du, k->core, g->core);
}

/* On to q, k and v, still rotated; dqkv holds the local term's dv. */
static void prepare_back(const struct ctx *ctx, const struct kept *k, struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t   C = c->C, ld = row(c);
    struct feature f = feature_of(ctx);
    struct means   m = means_of(ctx);

    means_backward(&m, MEANS_LESS, g->dqkv + 2 * C, ld, taps(c) > 0, g->ddv, g->d_o);
    means_backward(&m, MEANS_BEFORE, mapped(c) ? g->ddk : g->dqkv + C, mapped(c) ? C : ld, false,
                   g->ddk, NULL);
    if (!mapped(c))
        return;
    feature_backward(&f, g->dqkv, ld, NULL, NULL, g->dq, g->w.q, k->qkv, ld);
    feature_backward(&f, g->dqkv + C, ld, NULL, NULL, g->ddk, g->w.k, k->qkv + C, ld);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    size_t       ld = row(c), C = c->C;
    struct kept  k;
    struct grads g;

    carve_kept(&k, ctx->kept, c, ctx->B, ctx->T);
    carve_grads(&g, ctx->scratch, c, ctx->B, ctx->T);
    prepare(ctx, x, &k, &g.w, NULL);
    linear_backward(g.d_o, 0, ctx->dw[WO], dy, k.o, ctx->w[WO], n, c->C, c->C);
    if (taps(c))
        local_back(ctx, &k, &g, dx);
    attend_back(ctx, &k, &g);
    prepare_back(ctx, &k, &g);
    rotate_back(&ctx->angles, k.qkv, g.dqkv, ctx->B, ctx->T, c->H, ld, ld);
    rotate_back(&ctx->angles, k.qkv + C, g.dqkv + C, ctx->B, ctx->T, c->H, ld, ld);
    linear_backward(dx, 1, ctx->dw[WQ], g.dqkv, x, ctx->w[WQ], n, c->C, (int)ld);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct extension e;
    struct scalar    s;

    carve_extension(&e, ctx->scratch, c, ctx->B, ctx->T);
    project(ctx, x, &e.part);
    prepare(ctx, x, &e.part, &e.w, state);
    s = core_of(ctx, &e.part, &e.w);
    scalar_extend(&s, state, 0, e.part.o);
    combine(ctx, &e.part, &e.w, state);
    linear_forward(y, e.part.o, ctx->w[WO], (long)ctx->B * ctx->T, c->C, c->C);
}

/* Projections, writing and reading the state, and the local term. */
static double flops(const struct mixer_cfg *c, int T, int window)
{
    double C = c->C, e = width(c), w = taps(c);

    (void)window;
    return T * (8 * C * C + c->H * scalar_flops(T, width(c), width(c)) +
                (w > 0 ? 2 * C * e * (1 + w) + 2 * w * C : 0));
}

const struct mixer mixer_inline = {
    .name     = "inline",
    .about    = "linear attention normalised by subtraction, with a local term",
    .system   = "L = ((t-1)/t) I, B = (k_t - mean k) (v_t - mean v) / t, C = q/sqrt(dk), D = mean v",
    .position = "none",
    .opts     = opts,
    .params   = params,
    .angles   = angles,
    .sizes    = sizes,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .flops    = flops,
};
