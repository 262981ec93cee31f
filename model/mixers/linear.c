/* Linear attention with a feature map (arXiv:2006.16236).
 *
 *     q, k, v = Wq x, Wk x, Wv x       q, k (H, dk), v (H, dv); the encoding rotates q, k
 *     s_tu = phi(q_t) . phi(k_u),      u <= t
 *     s_tu <- s_tu a_{u+1} ... a_t     with a decay a (model/forget.h)
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
#include "model/cores/scalar.h"
#include "model/kernels/product.h"
#include "model/layers/feature.h"
#include "model/layers/norm.h"
#include "model/mixer.h"
#include "model/mixer_forget.h"
#include "model/mixer_heads.h"

#include <math.h>
#include <string.h>

enum { WQ, WK, WV, WO, FIRST }; // then those of the map, norm, decay
enum { HQ = FIRST, HQB, HK, HKB };
enum { PROJ = FIRST };
enum { FEATURE, NORMALISE, DK, DV, M, MAX_LEN, DECAY };
enum { TAYLOR_DK = 16 };

static const struct opt opts[] = {
    [FEATURE] = {"feature", "the feature map", OPT_CHOICE, FEATURE_MAPS, FEATURE_ELU1, 0,
                 0},
    [NORMALISE] = {"normalise", "weights sum to one; 0: RMSNorm of o", OPT_FLAG, NULL, 1,
                   0, 1},
    [DK] = {"dk", "key width; 0: width / heads (taylor: 16 at most)", OPT_INT, NULL, 0, 0,
            4096},
    [DV] = {"dv", "value width; 0: width / heads", OPT_INT, NULL, 0, 0, 4096},
    [M] = {"m", "random features of favor; 0: dk ln dk", OPT_INT, NULL, 0, 0, 1 << 16},
    [MAX_LEN] = {"max_len", "horizon of cosformer; 0: the context", OPT_SPAN, NULL, 0, 0,
                 1 << 30},
    [DECAY] = FORGET_OPT,
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
    return map_of(c) == FEATURE_HEDGEHOG ? HKB + 1
         : map_of(c) == FEATURE_FAVOR    ? PROJ + 1
                                         : FIRST;
}

static enum forget_kind kind_of(const struct mixer_cfg *c)
{
    return (enum forget_kind)c->opt[DECAY];
}

static int forget_at(const struct mixer_cfg *c)
{
    return norm_at(c) + !normalised(c);
}

static int params(const struct mixer_cfg *c, struct param *p)
{
    int k = (int)k_at(c), v = (int)outs(c), n = forget_at(c);

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

    if (map_of(c) == FEATURE_HEDGEHOG)
        for (size_t i = 0; i < k_at(c) * dk; i++)
            w[HQ][i] = w[HK][i] = i / dk % dk == i % dk;
    if (map_of(c) == FEATURE_FAVOR)
        feature_draw(w[PROJ], m_of(c), dk, r);
    forget_init(kind_of(c), c, w + forget_at(c));
}

/* ---- memory ------------------------------------------------------------------------ */

struct acts {
    real *qkv, *dqkv;           // (B, T, row), rotated
    real *q, *k, *dq, *dk;      // (B, T, H, m) features; of id: q and k of qkv
    real *top_q, *top;          // (B, T, H) of q and k, for favor
    real *o, *d_o;              // (B, T, H, dv) of the core
    real *normed;               // as o, with normalise = 0; otherwise o
    real *partial;              // of the norm
    struct rows rows;
    struct feature fq, fk;
    struct norm norm;
    struct forget  forget;
    struct scalar core;
    real *saved, *scratch;      // of the core
    size_t S, first;            // where its state is, and top_0 (H) of favor
};

static void carve_rows(struct acts *a, struct room *m, const struct mixer_cfg *c)
{
    const size_t n = room_rows(m), features = n * c->H * m_of(c), k = k_at(c);
    const bool   id = map_of(c) == FEATURE_ID;

    a->qkv = room_keep(m, n * row(c));
    a->dqkv = room_back(m, n * row(c));
    a->q = id ? a->qkv : room_work(m, features);
    a->k = id ? room_at(a->qkv, k) : room_work(m, features);
    a->dq = id ? a->dqkv : room_back(m, features);
    a->dk = id ? room_at(a->dqkv, k) : room_back(m, features);
    a->top_q = weighted(c) ? room_work(m, n * c->H) : NULL;
    a->top = weighted(c) ? room_work(m, n * c->H) : NULL;
    a->o = room_keep(m, n * outs(c));
    a->d_o = room_back(m, n * outs(c));
    a->norm = (struct norm){c->H, dv_of(c), true, (real)1e-5};
    a->normed = normalised(c) ? a->o : room_work(m, n * outs(c));
    a->partial = normalised(c) ? NULL : room_back(m, norm_partial(&a->norm));
}

/* The map of q (side 0) or k (side 1). */
static struct feature feature_of(const struct room *m, const struct mixer_cfg *c,
                                 int side)
{
    struct feature f = {
        .map = map_of(c), .B = m->B, .T = m->T, .H = c->H, .dk = dk_of(c), .m = m_of(c),
        .horizon = opt_or(c, MAX_LEN, c->context),
    };

    if (f.map == FEATURE_HEDGEHOG)
        f.w = room_param(m, side ? HK : HQ), f.b = room_param(m, side ? HKB : HQB);
    if (f.map == FEATURE_FAVOR)
        f.w = room_param(m, PROJ);
    return f;
}

/* What keeps the sum of weights off zero; favor's are positive, but may all underflow. */
static real eps_of(enum feature_map map)
{
    return map == FEATURE_TAYLOR ? 0 : (real)(map == FEATURE_FAVOR ? 1e-30 : 1e-6);
}

static void carve(struct room *m, const struct mixer_cfg *c)
{
    struct acts *a = room_names(m, sizeof *a);
    const size_t ld = map_of(c) == FEATURE_ID ? row(c) : (size_t)c->H * m_of(c);

    carve_rows(a, m, c);
    a->rows = (struct rows){.w = WQ, .Hk = c->H, .k = k_at(c), .ld = row(c)};
    a->fq = feature_of(m, c, 0);
    a->fk = feature_of(m, c, 1);
    a->core = (struct scalar){
        .B = m->B, .T = m->T, .H = c->H, .dk = m_of(c), .dv = dv_of(c),
        .den = normalised(c) ? SCALAR_SUM : SCALAR_PLAIN, .den_eps = eps_of(map_of(c)),
        .scale = normalised(c) ? 1 : 1 / (real)sqrt(dk_of(c)),
        .q = a->q, .k = a->k, .v = room_at(a->qkv, v_at(c)), .log_i = a->top,
        .ld_q = ld, .ld_k = ld, .ld_v = row(c), .ld_i = c->H, .ld_o = outs(c),
    };
    a->forget = (struct forget){.kind = kind_of(c), .w = forget_at(c)};
    forget_carve(&a->forget, m, &a->core);
    a->saved = room_save(m, scalar_kept(&a->core));
    a->scratch = room_back(m, scalar_scratch(&a->core));
    a->S = room_state(m, scalar_state(&a->core));
    a->first = room_state(m, weighted(c) ? c->H : 0);
}

/* ---- forward and backward ---------------------------------------------------------- */

/* top_t <- top_t - top_0, the one of the sequence's first token, which
 * state[b] + at keeps. */
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

static void map_features(const struct ctx *ctx, struct acts *a, void *const *state)
{
    const struct mixer_cfg *c = ctx->cfg;

    if (map_of(c) == FEATURE_ID)
        return;
    a->fq.pos = a->fk.pos = ctx->pos;
    feature_forward(&a->fq, a->q, a->top_q, a->qkv, row(c));
    feature_forward(&a->fk, a->k, a->top, a->qkv + k_at(c), row(c));
    if (weighted(c))
        rebase(ctx, a->top, state, a->first);
}

/* The core's output as Wo takes it, in a->normed. */
static void normalise(const struct ctx *ctx, const struct acts *a)
{
    const size_t e = outs(ctx->cfg);

    if (!normalised(ctx->cfg))
        rms_forward(&a->norm, a->normed, e, a->o, e, ctx->w[norm_at(ctx->cfg)],
                    ctx_rows(ctx));
}

static void finish(const struct ctx *ctx, const struct acts *a, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;

    normalise(ctx, a);
    product_forward(y, a->normed, ctx->w[WO], ctx_rows(ctx), (int)outs(c), c->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    rows_forward(ctx, &a->rows, a->qkv, x);
    forget_forward(ctx, &a->forget, x);
    map_features(ctx, a, NULL);
    scalar_forward(&a->core, a->o, a->saved);
    finish(ctx, a, y);
}

/* From the gradient of the features to that of q and k. */
static void map_back(const struct ctx *ctx, const struct acts *a)
{
    const size_t ld = row(ctx->cfg), k = k_at(ctx->cfg);
    const bool   own = a->fq.map == FEATURE_HEDGEHOG;
    real *const *dw = ctx->dw;

    if (a->fq.map == FEATURE_ID)
        return;
    feature_backward(&a->fq, a->dqkv, ld, own ? dw[HQ] : NULL, own ? dw[HQB] : NULL,
                     a->dq, a->q, a->qkv, ld);
    feature_backward(&a->fk, a->dqkv + k, ld, own ? dw[HK] : NULL,
                     own ? dw[HKB] : NULL, a->dk, a->k, a->qkv + k, ld);
}

/* Through norm, core and map: d_o to dqkv, with q and k still rotated. */
static void attend_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t e = outs(c);
    const int    norm = norm_at(c);
    struct scalar_grad      to = {
             .dq = a->dq,
             .dk = a->dk,
             .dv = a->dqkv + v_at(c),
             .ld_dq = a->core.ld_q,
             .ld_dk = a->core.ld_k,
             .ld_dv = row(c),
             .dlog_f = a->forget.dlog_f,
             .ld_df = c->H,
    };

    if (!normalised(c))
        rms_backward(&a->norm, a->d_o, e, 0, ctx->dw[norm], a->d_o, e, a->o, e,
                     ctx->w[norm], ctx_rows(ctx), a->partial);
    scalar_backward(&a->core, &to, normalised(c) ? a->o : NULL, a->d_o, a->saved,
                    a->scratch);
    map_back(ctx, a);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    map_features(ctx, a, NULL);
    normalise(ctx, a);
    product_backward(a->d_o, 0, ctx->dw[WO], dy, a->normed, ctx->w[WO], ctx_rows(ctx),
                     (int)outs(c), c->C);
    attend_back(ctx, a);
    rows_backward(ctx, &a->rows, dx, a->dqkv, a->qkv, x);
    forget_backward(ctx, &a->forget, dx, x);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    rows_forward(ctx, &a->rows, a->qkv, x);
    forget_forward(ctx, &a->forget, x);
    map_features(ctx, a, state);
    scalar_extend(&a->core, state, a->S, a->o);
    finish(ctx, a, y);
}

/* Projections, writing and reading the state, and the products of hedgehog and favor. */
static double flops(const struct mixer_cfg *c, int T, int window)
{
    double H = c->H, dk = dk_of(c), m = m_of(c);
    double map = map_of(c) == FEATURE_HEDGEHOG ? 4 * H * dk * dk
               : map_of(c) == FEATURE_FAVOR    ? 4 * H * dk * m : 0;

    (void)window;
    return T * (2.0 * c->C * (double)(row(c) + outs(c)) + map +
                forget_flops(kind_of(c), c) + H * scalar_flops(T, m_of(c), dv_of(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    if (normalised(c)) {
        map_features(ctx, a, NULL);
        scalar_ratios(&a->core, a->saved, a->top_q, r);
    } else {
        forget_range(ctx, &a->forget, r);
    }
    return c->H;
}

const struct mixer mixer_linear = {
    .name = "linear",
    .about = "linear attention with a feature map",
    .system = "L = (a n_{t-1}/n_t) I, B = f(k)/n_t, C = f(q), "
              "n_t = f(q_t) . sum of f(k)",
    .position = "none",
    .opts = opts,
    .check = check,
    .params = params,
    .angles = angles,
    .carve = carve,
    .init = init,
    .forward = forward,
    .backward = backward,
    .extend = extend,
    .decay = decay,
    .flops = flops,
};
