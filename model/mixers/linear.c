/* Linear attention with a feature map (arXiv:2006.16236; the maps: model/feature.h).
 *
 *     q, k, v = Wq x, Wk x, Wv x       q, k (H, dk), v (H, dv); the position encoding rotates q, k
 *     s_tu = phi(q_t) . phi(k_u),      u <= t
 *     o_t = sum_u s_tu v_u / (sum_u s_tu + eps)            normalise = 1
 *     o_t = rms(sum_u s_tu v_u / sqrt(dk)) norm            normalise = 0
 *     y = Wo o
 *
 * favor divides phi(q) by its largest entry, which cancels, and phi(k_u) by e^{top_u}. The core puts
 * e^{top_u - top_0} back as the weight of token u and keeps it in range by a running maximum, which
 * starts with the first token and sees no later one. Features are computed anew for backward.
 */
#include "model/arena.h"
#include "model/core_scalar.h"
#include "model/feature.h"
#include "model/linear.h"
#include "model/mixer.h"
#include "model/norm.h"

#include <math.h>
#include <string.h>

enum { WQ, WK, WV, WO, FIRST };                 // then those of the map, then norm
enum { HQ = FIRST, HQB, HK, HKB };
enum { PROJ = FIRST };
enum { FEATURE, NORMALISE, DK, DV, M, MAX_LEN };
enum { TAYLOR_DK = 16 };

static const struct opt opts[] = {
    [FEATURE]   = {"feature", "the feature map", OPT_CHOICE, FEATURE_MAPS, FEATURE_ELU1, 0, 0},
    [NORMALISE] = {"normalise", "weights sum to one; 0: RMSNorm of o", OPT_FLAG, NULL, 1, 0, 1},
    [DK]        = {"dk", "key width; 0: width / heads (taylor: 16 at most)", OPT_INT, NULL, 0, 0, 4096},
    [DV]        = {"dv", "value width; 0: width / heads", OPT_INT, NULL, 0, 0, 4096},
    [M]         = {"m", "random features of favor; 0: dk ln dk", OPT_INT, NULL, 0, 0, 1 << 16},
    [MAX_LEN]   = {"max_len", "horizon of cosformer; 0: the context", OPT_SPAN, NULL, 0, 0, 1 << 30},
    {0},
};

static enum feature_map map_of(const struct mixer_cfg *c)
{
    return (enum feature_map)c->opt[FEATURE];
}

static bool normalised(const struct mixer_cfg *c) { return c->opt[NORMALISE] > 0; }

/* favor's weights need their own scale only where it cancels. */
static bool weighted(const struct mixer_cfg *c)
{
    return map_of(c) == FEATURE_FAVOR && normalised(c);
}

static int dk_of(const struct mixer_cfg *c)
{
    int e = c->C / c->H;

    if (c->opt[DK] > 0)
        return (int)c->opt[DK];
    return map_of(c) == FEATURE_TAYLOR && e > TAYLOR_DK ? TAYLOR_DK : e;
}

static int dv_of(const struct mixer_cfg *c)
{
    return c->opt[DV] > 0 ? (int)c->opt[DV] : c->C / c->H;
}

static int m_of(const struct mixer_cfg *c)
{
    int dk = dk_of(c), chosen = (int)lrint(dk * log(dk));

    if (c->opt[M] > 0)
        chosen = (int)c->opt[M];
    return feature_width(map_of(c), dk, chosen > dk || c->opt[M] > 0 ? chosen : dk);
}

/* Channels of a row [q, k, v], and where k and v begin in it. */
static size_t k_at(const struct mixer_cfg *c) { return (size_t)c->H * dk_of(c); }
static size_t v_at(const struct mixer_cfg *c) { return 2 * k_at(c); }
static size_t outs(const struct mixer_cfg *c) { return (size_t)c->H * dv_of(c); }
static size_t row(const struct mixer_cfg *c) { return v_at(c) + outs(c); }

static const char *check(const struct mixer_cfg *c)
{
    if (map_of(c) == FEATURE_ID && normalised(c))
        return "linear: weights of feature=id may sum to zero; add normalise=0";
    return NULL;
}

static int norm_at(const struct mixer_cfg *c)
{
    return map_of(c) == FEATURE_HEDGEHOG ? HKB + 1 : map_of(c) == FEATURE_FAVOR ? PROJ + 1 : FIRST;
}

static int params(const struct mixer_cfg *c, struct param *p)
{
    int k = (int)k_at(c), v = (int)outs(c), n = norm_at(c);

    p[WQ] = (struct param){"wq", k, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", k, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", v, c->C, INIT_INPUT, .decay = true};
    p[WO] = (struct param){"wo", c->C, v, INIT_OUTPUT, .decay = true};
    if (map_of(c) == FEATURE_HEDGEHOG) {
        p[HQ] = (struct param){"hq", k, dk_of(c), INIT_OWN};
        p[HQB] = (struct param){"hqb", k, 0, INIT_ZERO};
        p[HK] = (struct param){"hk", k, dk_of(c), INIT_OWN};
        p[HKB] = (struct param){"hkb", k, 0, INIT_ZERO};
    }
    if (map_of(c) == FEATURE_FAVOR)
        p[PROJ] = (struct param){"proj", m_of(c), dk_of(c), INIT_OWN, .buffer = true};
    if (!normalised(c))
        p[n++] = (struct param){"norm", dv_of(c), 0, INIT_ONE};
    return n;
}

static void angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->H;
    *dk = dk_of(c);
}

static void init(const struct mixer_cfg *c, real *const *w, struct rng *r)
{
    int dk = dk_of(c);

    if (map_of(c) == FEATURE_HEDGEHOG)
        for (size_t i = 0; i < k_at(c) * dk; i++)
            w[HQ][i] = w[HK][i] = i / dk % dk == i % dk;
    if (map_of(c) == FEATURE_FAVOR)
        feature_draw(w[PROJ], m_of(c), dk, r);
}

/* ---- memory ----------------------------------------------------------------------------------- */

/* The core without its rows. */
static struct scalar shape(const struct mixer_cfg *c, int B, int T)
{
    static const real some = 0;

    return (struct scalar){
        .B = B, .T = T, .H = c->H, .dk = m_of(c), .dv = dv_of(c),
        .log_i = weighted(c) ? &some : NULL,
        .den = normalised(c) ? SCALAR_SUM : SCALAR_PLAIN,
    };
}

struct kept {
    real *qkv;          // (B, T, row), rotated
    real *o;            // (B, T, H, dv) of the core
    real *core;
};

static size_t carve_kept(struct kept *k, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena  a = arena_over(base);
    struct scalar s = shape(c, B, T);
    size_t        n = (size_t)B * T;

    k->qkv = arena_reals(&a, n * row(c));
    k->o = arena_reals(&a, n * outs(c));
    k->core = arena_reals(&a, scalar_kept(&s));
    return a.used;
}

struct work {
    real *q, *k;        // (B, T, H, m) features; of id: q and k of qkv
    real *top_q, *top;  // (B, T, H) of q and k, for favor
    real *normed;       // (B, T, H, dv) with normalise = 0
};

static size_t features_of(const struct mixer_cfg *c)
{
    return map_of(c) == FEATURE_ID ? 0 : (size_t)c->H * m_of(c);
}

static size_t carve_work(struct work *w, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena a = arena_over(base);
    size_t       n = (size_t)B * T, tops = weighted(c) ? n * c->H : 0;

    w->q = arena_reals(&a, n * features_of(c));
    w->k = arena_reals(&a, n * features_of(c));
    w->top_q = arena_reals(&a, tops);
    w->top = arena_reals(&a, tops);
    w->normed = arena_reals(&a, normalised(c) ? 0 : n * outs(c));
    return a.used;
}

struct grads {
    struct work w;
    real *dqkv, *d_o;   // as qkv, o
    real *dq, *dk;      // as q, k of work
    real *core;
    real *partial;      // of the norm
};

static struct norm head_norm(const struct mixer_cfg *c)
{
    return (struct norm){c->H, dv_of(c), true, (real)1e-5};
}

static size_t carve_grads(struct grads *g, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena  a = arena_over(base);
    struct scalar s = shape(c, B, T);
    struct norm   o = head_norm(c);
    size_t        n = (size_t)B * T, work = carve_work(&g->w, NULL, c, B, T);

    carve_work(&g->w, arena_bytes(&a, work), c, B, T);
    g->dqkv = arena_reals(&a, n * row(c));
    g->d_o = arena_reals(&a, n * outs(c));
    g->dq = arena_reals(&a, n * features_of(c));
    g->dk = arena_reals(&a, n * features_of(c));
    g->core = arena_reals(&a, scalar_scratch(&s));
    g->partial = arena_reals(&a, normalised(c) ? 0 : norm_partial(&o));
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

/* State: the core's, then top_0 (H) of favor. */
static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct kept      k;
    struct grads     g;
    struct extension x;
    struct scalar    core = shape(c, B, T);
    size_t           back = carve_grads(&g, NULL, c, B, T), ext = carve_extension(&x, NULL, c, B, T);

    s->kept = carve_kept(&k, NULL, c, B, T);
    s->scratch = back > ext ? back : ext;
    s->state = (scalar_state(&core) + (weighted(c) ? c->H : 0)) * sizeof(real);
}

/* ---- forward and backward --------------------------------------------------------------------- */

static void project(struct ctx *ctx, const real *x, struct kept *k)
{
    const struct mixer_cfg *c = ctx->cfg;
    size_t ld = row(c);

    linear_forward(k->qkv, x, ctx->w[WQ], (long)ctx->B * ctx->T, c->C, (int)ld);
    rotate(&ctx->angles, k->qkv, ctx->B, ctx->T, c->H, ld);
    rotate(&ctx->angles, k->qkv + k_at(c), ctx->B, ctx->T, c->H, ld);
}

/* The map of q (side 0) or k (side 1). */
static struct feature feature_of(const struct ctx *ctx, int side)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct feature f = {
        .map = map_of(c), .B = ctx->B, .T = ctx->T, .H = c->H, .dk = dk_of(c), .m = m_of(c),
        .pos = ctx->pos, .horizon = c->opt[MAX_LEN] > 0 ? (int)c->opt[MAX_LEN] : c->context,
    };

    if (f.map == FEATURE_HEDGEHOG)
        f.w = ctx->w[side ? HK : HQ], f.b = ctx->w[side ? HKB : HQB];
    if (f.map == FEATURE_FAVOR)
        f.w = ctx->w[PROJ];
    return f;
}

/* top_t <- top_t - top_0, the one of the sequence's first token, which state[b] + at keeps. */
static void rebase(const struct ctx *ctx, real *top, void *const *state, size_t at)
{
    const int H = ctx->cfg->H;

    for (int b = 0; b < ctx->B; b++, top += (size_t)ctx->T * H)
        for (int h = 0; h < H; h++) {
            real *first = state ? (real *)state[b] + at + h : NULL, base;

            if (first && ctx->pos[b] == 0)
                *first = top[h];
            base = first ? *first : top[h];
            for (int t = 0; t < ctx->T; t++)
                top[(size_t)t * H + h] -= base;
        }
}

static void map_features(const struct ctx *ctx, const struct kept *k, struct work *w,
                         void *const *state)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct feature fq = feature_of(ctx, 0), fk = feature_of(ctx, 1);
    struct scalar  core = shape(c, ctx->B, ctx->T);
    bool           tops = weighted(c);

    if (fq.map == FEATURE_ID) {
        w->q = k->qkv, w->k = k->qkv + k_at(c);
        return;
    }
    feature_forward(&fq, w->q, tops ? w->top_q : NULL, k->qkv, row(c));
    feature_forward(&fk, w->k, tops ? w->top : NULL, k->qkv + k_at(c), row(c));
    if (tops)
        rebase(ctx, w->top, state, scalar_state(&core));
}

/* What keeps the sum of weights off zero; favor's are positive, but may all underflow. */
static real eps_of(enum feature_map map)
{
    return map == FEATURE_TAYLOR ? 0 : (real)(map == FEATURE_FAVOR ? 1e-30 : 1e-6);
}

static struct scalar core_of(const struct ctx *ctx, const struct kept *k, const struct work *w)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct scalar s = shape(c, ctx->B, ctx->T);

    s.q = w->q, s.k = w->k, s.v = k->qkv + v_at(c);
    s.ld_q = s.ld_k = map_of(c) == FEATURE_ID ? row(c) : features_of(c);
    s.ld_v = row(c);
    s.ld_o = outs(c);
    s.log_i = weighted(c) ? w->top : NULL;
    s.ld_i = c->H;
    s.scale = normalised(c) ? 1 : 1 / (real)sqrt(dk_of(c));
    s.den_eps = eps_of(map_of(c));
    return s;
}

/* The core's output as Wo takes it. */
static const real *finish(const struct ctx *ctx, const struct kept *k, const struct work *w)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct norm o = head_norm(c);

    if (normalised(c))
        return k->o;
    rms_forward(&o, w->normed, outs(c), k->o, outs(c), ctx->w[norm_at(c)], (long)ctx->B * ctx->T);
    return w->normed;
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
    map_features(ctx, &k, &w, NULL);
    s = core_of(ctx, &k, &w);
    scalar_forward(&s, k.o, k.core);
    linear_forward(y, finish(ctx, &k, &w), ctx->w[WO], (long)ctx->B * ctx->T, (int)outs(c), c->C);
}

/* From the gradient of the features to that of q and k. */
static void map_back(const struct ctx *ctx, const struct kept *k, const struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct feature fq = feature_of(ctx, 0), fk = feature_of(ctx, 1);
    bool           own = fq.map == FEATURE_HEDGEHOG;
    real *const   *dw = ctx->dw;

    if (fq.map == FEATURE_ID)
        return;
    feature_backward(&fq, g->dqkv, row(c), own ? dw[HQ] : NULL, own ? dw[HQB] : NULL, g->dq, g->w.q,
                     k->qkv, row(c));
    feature_backward(&fk, g->dqkv + k_at(c), row(c), own ? dw[HK] : NULL, own ? dw[HKB] : NULL,
                     g->dk, g->w.k, k->qkv + k_at(c), row(c));
}

/* Through the core: d_o to dqkv, with q and k still rotated. */
static void attend_back(const struct ctx *ctx, const struct kept *k, struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct scalar      s = core_of(ctx, k, &g->w);
    struct norm        o = head_norm(c);
    struct scalar_grad to = {.dv = g->dqkv + v_at(c), .ld_dq = s.ld_q, .ld_dk = s.ld_k,
                             .ld_dv = row(c)};

    if (map_of(c) == FEATURE_ID)
        g->dq = g->dqkv, g->dk = g->dqkv + k_at(c);
    to.dq = g->dq, to.dk = g->dk;
    if (!normalised(c))
        rms_backward(&o, g->d_o, outs(c), 0, ctx->dw[norm_at(c)], g->d_o, outs(c), k->o, outs(c),
                     ctx->w[norm_at(c)], (long)ctx->B * ctx->T, g->partial);
    scalar_backward(&s, &to, normalised(c) ? k->o : NULL, g->d_o, k->core, g->core);
    map_back(ctx, k, g);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    long         n = (long)ctx->B * ctx->T;
    size_t       ld = row(c), at = k_at(c);
    struct kept  k;
    struct grads g;

    carve_kept(&k, ctx->kept, c, ctx->B, ctx->T);
    carve_grads(&g, ctx->scratch, c, ctx->B, ctx->T);
    map_features(ctx, &k, &g.w, NULL);
    linear_backward(g.d_o, 0, ctx->dw[WO], dy, finish(ctx, &k, &g.w), ctx->w[WO], n, (int)outs(c),
                    c->C);
    attend_back(ctx, &k, &g);
    rotate_back(&ctx->angles, k.qkv, g.dqkv, ctx->B, ctx->T, c->H, ld, ld);
    rotate_back(&ctx->angles, k.qkv + at, g.dqkv + at, ctx->B, ctx->T, c->H, ld, ld);
    linear_backward(dx, 1, ctx->dw[WQ], g.dqkv, x, ctx->w[WQ], n, c->C, (int)ld);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct extension e;
    struct scalar    s;

    carve_extension(&e, ctx->scratch, c, ctx->B, ctx->T);
    project(ctx, x, &e.part);
    map_features(ctx, &e.part, &e.w, state);
    s = core_of(ctx, &e.part, &e.w);
    scalar_extend(&s, state, 0, e.part.o);
    linear_forward(y, finish(ctx, &e.part, &e.w), ctx->w[WO], (long)ctx->B * ctx->T, (int)outs(c),
                   c->C);
}

/* Projections, writing and reading the state, and the products of hedgehog and favor. */
static double flops(const struct mixer_cfg *c, int T, int window)
{
    double H = c->H, dk = dk_of(c), m = m_of(c);
    double map = map_of(c) == FEATURE_HEDGEHOG ? 4 * H * dk * dk
               : map_of(c) == FEATURE_FAVOR    ? 4 * H * dk * m : 0;

    (void)window;
    return T * (2.0 * c->C * (double)(row(c) + outs(c)) + map +
                H * scalar_flops(T, m_of(c), dv_of(c)));
}

const struct mixer mixer_linear = {
    .name     = "linear",
    .about    = "linear attention with a feature map",
    .system   = "L = (n_{t-1}/n_t) I, B = f(k)/n_t, C = f(q), n_t = f(q_t) . sum of f(k)",
    .position = "none",
    .opts     = opts,
    .check    = check,
    .params   = params,
    .angles   = angles,
    .sizes    = sizes,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .flops    = flops,
};
