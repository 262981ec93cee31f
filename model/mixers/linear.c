/* Linear attention with a feature map (arXiv:2006.16236).
 *
 *     q, k, v = Wq x, Wk x, Wv x       q, k (H, dk), v (H, dv); the encoding rotates q, k
 *     s_tu = phi(q_t) . phi(k_u),      u <= t
 *     s_tu <- s_tu a_{u+1} ... a_t     with a decay a (model/mixer_forget.h)
 *     o_t = sum_u s_tu v_u / (sum_u s_tu + eps)            normalise = 1
 *     o_t = rms(sum_u s_tu v_u / sqrt(dk)) norm            normalise = 0
 *     y = Wo o
 *
 *     phi(z), widths and layout in model/layers/feature.h:
 *     elu1        z + 1 where z >= 0, e^z elsewhere
 *     relu        max(z, 0)
 *     taylor      phi(q) . phi(k) = 1 + s + s²/2, s = q.k / sqrt(dk) (arXiv:2402.18668)
 *     hedgehog    softmax(W z + b), softmax(-W z - b), per head (arXiv:2402.04347)
 *     favor       m^(-1/2) exp(w_i.z' - |z'|²/2), z' = z / dk^(1/4), w drawn at random
 *                 (Performer, arXiv:2009.14794)
 *     cosformer   max(z, 0) sin a_t, max(z, 0) cos a_t, a_t = pi t / (2 max_len),
 *                 t from 1 (arXiv:2202.08791)
 *     id          z, with normalise = 0
 *
 * favor divides phi(q) by its largest entry, which cancels, and phi(k_u) by e^{top_u}.
 * The core puts e^{top_u - top_0} back as the weight of token u and keeps it in range
 * by a running maximum, which starts with the first token and sees no later one.
 * Features are computed anew for backward.
 *
 * As published: feature = elu1, normalise = 1, decay = none, under absolute positions,
 * which weft has none of. The preset linear takes what trains best.
 */
#include "model/layers/feature.h"
#include "model/mixer_forget.h"

#include <math.h>

enum { WQ, WK, WV, WO, FIRST };         // then those of the map, norm, decay
enum { HQ = FIRST, HQB, HK, HKB };
enum { PROJ = FIRST };
enum { FEATURE, NORMALISE, DK, DV, M, MAX_LEN, DECAY };
enum { TAYLOR_DK = 16 };

static const struct opt opts[] = {
    [FEATURE]   = {"feature", "the feature map",
                   OPT_CHOICE, FEATURE_MAPS, FEATURE_ELU1, 0, 0},
    [NORMALISE] = {"normalise", "weights sum to one; 0: RMSNorm of o",
                   OPT_FLAG, NULL, 1, 0, 1},
    [DK]        = {"dk", "key width; 0: width / heads (taylor: 16 at most)",
                   OPT_INT, NULL, 0, 0, 4096},
    [DV]        = {"dv", "value width; 0: width / heads", OPT_INT, NULL, 0, 0, 4096},
    [M]         = {"m", "random features of favor; 0: dk ln dk",
                   OPT_INT, NULL, 0, 0, 1 << 16},
    [MAX_LEN]   = {"max_len", "horizon of cosformer; 0: the context",
                   OPT_SPAN, NULL, 0, 0, 1 << 30},
    [DECAY]     = FORGET_OPT,
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

    return opt_or(c, DK, map_of(c) == FEATURE_TAYLOR && e > TAYLOR_DK ? TAYLOR_DK : e);
}

static int dv_of(const struct mixer_cfg *c) { return opt_or(c, DV, c->C / c->H); }

static int m_of(const struct mixer_cfg *c)
{
    int dk = dk_of(c), chosen = (int)lrint(dk * log(dk));

    if (c->opt[M] > 0)
        chosen = (int)c->opt[M];
    return feature_width(map_of(c), dk, chosen > dk || c->opt[M] > 0 ? chosen : dk);
}

/* Channels of q or k, and of v or o. */
static int n_k(const struct mixer_cfg *c) { return c->H * dk_of(c); }
static int n_v(const struct mixer_cfg *c) { return c->H * dv_of(c); }

static const char *check(const struct mixer_cfg *c)
{
    if (map_of(c) == FEATURE_ID && normalised(c))
        return "linear: weights of feature=id may sum to zero; add normalise=0";
    return NULL;
}

static int norm_at(const struct mixer_cfg *c)
{
    return map_of(c) == FEATURE_HEDGEHOG ? HKB + 1
         : map_of(c) == FEATURE_FAVOR    ? PROJ + 1
                                         : FIRST;
}

static enum forget_kind kind_of(const struct mixer_cfg *c)
{
    return (enum forget_kind)c->opt[DECAY];
}

static int forget_at(const struct mixer_cfg *c) { return norm_at(c) + !normalised(c); }

static int params(const struct mixer_cfg *c, struct param *p)
{
    int k = n_k(c), v = n_v(c), n = forget_at(c);

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
        p[norm_at(c)] = (struct param){"norm", dv_of(c), 0, INIT_ONE};
    return n + forget_params(kind_of(c), c, p + n);
}

static void angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->H;
    *dk = dk_of(c);
}

static void init(const struct mixer_cfg *c, real *const *w, struct rng *r)
{
    int dk = dk_of(c);

    forget_init(kind_of(c), c, w + forget_at(c));
    if (map_of(c) == FEATURE_HEDGEHOG)
        for (int i = 0; i < n_k(c) * dk; i++)
            w[HQ][i] = w[HK][i] = i / dk % dk == i % dk;
    if (map_of(c) == FEATURE_FAVOR)
        feature_draw(w[PROJ], m_of(c), dk, r);
}

/* ---- memory ------------------------------------------------------------------------ */

struct acts {
    struct act row, q, k, v;    // q, k (H, dk), v (H, dv), rotated
    struct act phi_q, phi_k;    // (H, m) features; of id: q and k
    real *top_q, *top;          // (B, T, H) of q and k, for favor
    struct act o;               // (H, dv) of the core
    struct act normed;          // as o, with normalise = 0; otherwise o
    real *partial;              // of the norm
    struct heads_in in;
    struct feature fq, fk;
    struct norm norm;
    struct scalar_heads core;
    struct forget forget;
    size_t first;               // where top_0 (H) of favor is in the state
};

/* The map of q (side 0) or k (side 1). */
static struct feature feature_of(const struct layout *m, const struct mixer_cfg *c,
                                 int side)
{
    struct feature f = {
        .map = map_of(c), .B = m->B, .T = m->T, .H = c->H, .dk = dk_of(c), .m = m_of(c),
        .horizon = opt_or(c, MAX_LEN, c->context),
    };

    if (f.map == FEATURE_HEDGEHOG)
        f.w = layout_param(m, side ? HK : HQ), f.b = layout_param(m, side ? HKB : HQB);
    if (f.map == FEATURE_FAVOR)
        f.w = layout_param(m, PROJ);
    return f;
}

/* What keeps the sum of weights off zero; favor's are positive, but may all underflow. */
static real eps_of(enum feature_map map)
{
    return map == FEATURE_TAYLOR ? 0 : (real)(map == FEATURE_FAVOR ? 1e-30 : 1e-6);
}

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t n = layout_tokens(m), features = (size_t)c->H * m_of(c);
    const bool   id = map_of(c) == FEATURE_ID;

    a->row = act_row(m, (struct act_part[]){{&a->q, n_k(c)}, {&a->k, n_k(c)},
                                            {&a->v, n_v(c)}, {0}});
    a->phi_q = id ? a->q : act_work(m, "phi_q", features);
    a->phi_k = id ? a->k : act_work(m, "phi_k", features);
    a->top_q = weighted(c) ? layout_work(m, "top_q", n * c->H) : NULL;
    a->top = weighted(c) ? layout_work(m, "top", n * c->H) : NULL;
    a->o = a->normed = act_keep(m, "o", n_v(c));
    if (!normalised(c))
        a->normed.x = layout_work(m, "normed", n * n_v(c));
    a->norm = (struct norm){c->H, dv_of(c), .shared = true, .eps = (real)c->eps};
    a->partial = normalised(c) ? NULL : layout_grad(m, "partial", norm_partial(&a->norm));
    a->in = (struct heads_in){.w = WQ, .Hk = c->H, .row = a->row, .k = a->k};
    a->fq = feature_of(m, c, 0);
    a->fk = feature_of(m, c, 1);
    a->core.core = (struct scalar){
        .H = c->H, .dk = m_of(c), .dv = dv_of(c),
        .den = normalised(c) ? SCALAR_SUM : SCALAR_PLAIN, .den_eps = eps_of(map_of(c)),
        .scale = normalised(c) ? 1 : 1 / (real)sqrt(dk_of(c)),
        .log_i = a->top, .ld_i = c->H,
    };
    scalar_heads_layout(&a->core, m, a->phi_q, a->phi_k, a->v);
    a->forget = (struct forget){.kind = kind_of(c), .w = forget_at(c)};
    forget_layout(&a->forget, m, &a->core);
    a->first = layout_state(m, weighted(c) ? c->H : 0);
}

/* ---- forward and backward ---------------------------------------------------------- */

/* top_t <- top_t - top_0, the sequence's first, which its state keeps. */
static void rebase(const struct ctx *ctx, const struct acts *a)
{
    const int H = ctx->cfg->H;
    real     *top = a->top;

    for (int b = 0; b < ctx->B; b++, top += (size_t)ctx->T * H)
        for (int h = 0; h < H; h++) {
            real *first = ctx->state ? (real *)ctx->state[b] + a->first + h : NULL, base;

            if (first && ctx->pos[b] == 0)
                *first = top[h];
            base = first ? *first : top[h];
            for (int t = 0; t < ctx->T; t++)
                top[(size_t)t * H + h] -= base;
        }
}

static void map_features(const struct ctx *ctx, struct acts *a)
{
    if (a->fq.map == FEATURE_ID)
        return;
    a->fq.pos = a->fk.pos = ctx->pos;
    feature_forward(&a->fq, a->phi_q.x, a->top_q, a->q.x, a->row.ld);
    feature_forward(&a->fk, a->phi_k.x, a->top, a->k.x, a->row.ld);
    if (a->top)
        rebase(ctx, a);
}

/* The core's output as Wo takes it, in a->normed. */
static void normalise(const struct ctx *ctx, const struct acts *a)
{
    if (!normalised(ctx->cfg))
        rms_forward(&a->norm, a->normed.x, a->o.ld, a->o.x, a->o.ld,
                    ctx->w[norm_at(ctx->cfg)], ctx_rows(ctx));
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    heads_in_forward(ctx, &a->in, x);
    forget_forward(ctx, &a->forget, x);
    map_features(ctx, a);
    scalar_heads_forward(ctx, &a->core, a->o.x);
    normalise(ctx, a);
    out_proj_forward(ctx, WO, y, a->normed);
}

static void normalise_back(const struct ctx *ctx, const struct acts *a)
{
    const int    norm = norm_at(ctx->cfg);
    const size_t e = a->o.ld;

    if (!normalised(ctx->cfg))
        rms_backward(&a->norm, a->o.dx, e, 0, ctx->dw[norm], a->o.dx, e, a->o.x, e,
                     ctx->w[norm], ctx_rows(ctx), a->partial);
}

/* From the gradient of the features to that of q and k, still rotated. */
static void map_back(const struct ctx *ctx, const struct acts *a)
{
    const size_t ld = a->row.ld;
    const bool   own = a->fq.map == FEATURE_HEDGEHOG;
    real *const *dw = ctx->dw;

    if (a->fq.map == FEATURE_ID)
        return;
    feature_backward(&a->fq, a->q.dx, ld, own ? dw[HQ] : NULL, own ? dw[HQB] : NULL,
                     a->phi_q.dx, a->phi_q.x, a->q.x, ld);
    feature_backward(&a->fk, a->k.dx, ld, own ? dw[HK] : NULL, own ? dw[HKB] : NULL,
                     a->phi_k.dx, a->phi_k.x, a->k.x, ld);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    map_features(ctx, a);
    normalise(ctx, a);
    out_proj_backward(ctx, WO, a->normed, dy);
    normalise_back(ctx, a);
    scalar_heads_backward(&a->core, a->o);
    map_back(ctx, a);
    heads_in_backward(ctx, &a->in, dx, x);
    forget_backward(ctx, &a->forget, dx, x);
}

/* Projections, writing and reading the state, and the products of hedgehog and favor. */
static double flops(const struct mixer_cfg *c, int T, int window)
{
    double H = c->H, dk = dk_of(c), m = m_of(c);
    double map = map_of(c) == FEATURE_HEDGEHOG ? 4 * H * dk * dk
               : map_of(c) == FEATURE_FAVOR    ? 4 * H * dk * m : 0;

    (void)window;
    return T * (4.0 * c->C * (n_k(c) + n_v(c)) + map +
                forget_flops(kind_of(c), c) + H * scalar_flops(T, m_of(c), dv_of(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    if (normalised(c)) {
        map_features(ctx, a);
        scalar_ratios(&a->core.core, a->core.kept, a->top_q, r);
    } else
        forget_range(ctx, &a->forget, r);
    return c->H;
}

static double state(const struct mixer_cfg *c)
{
    return (double)c->H * m_of(c) * (dv_of(c) + normalised(c));
}

const struct mixer mixer_linear = {
    .name     = "linear",
    .about    = "linear attention with a feature map",
    .position = "none",
    .opts     = opts,
    .check    = check,
    .params   = params,
    .angles   = angles,
    .layout   = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .flops    = flops,
    .instruments = &(struct instruments){
        .system = "L = (a n_{t-1}/n_t) I, B = f(k)/n_t, C = f(q), "
                  "n_t = f(q_t) . sum of f(k)",
        .state = state, .decay = decay,
    },
};
