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

enum { FEATURE, NORMALISE, DK, DV, M, MAX_LEN, DECAY };
enum { TAYLOR_DK = 16 };

static const struct opt opts[] = {
    [FEATURE]   = {"feature", "the feature map",
                   OPT_CHOICE, FEATURE_ELU1, .choices = FEATURE_MAPS},
    [NORMALISE] = {"normalise", "weights sum to one; 0: RMSNorm of o", OPT_FLAG, 1},
    [DK]        = {"dk", "key width; 0: width / heads (taylor: 16 at most)",
                   OPT_INT, 0, 0, 4096},
    [DV]        = {"dv", "value width; 0: width / heads", OPT_INT, 0, 0, 4096},
    [M]         = {"m", "random features of favor; 0: dk ln dk", OPT_INT, 0, 0, 1 << 16},
    [MAX_LEN]   = {"max_len", "horizon of cosformer; 0: the context",
                   OPT_SPAN, 0, 0, 1 << 30},
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

/* ---- memory ------------------------------------------------------------------------ */

/* q or k. */
struct side {
    struct act z, phi;          // (H, dk) rotated, (H, m) its features; of id: z
    real *top;                  // (B, T, H) for favor
    struct weight w, b;         // (H, dk, dk), (H, dk) of hedgehog
    struct feature map;
};

struct acts {
    struct act row, v;          // v (H, dv)
    struct side q, k;
    struct act normed;          // the core's o with normalise = 0 normed; otherwise it
    struct weight wo, proj;     // proj (m, dk) of favor
    struct rms norm;            // with normalise = 0
    struct scalar_heads core;
    struct forget forget;
    size_t first;               // where top_0 (H) of favor is in the state
};

/* What keeps the sum of weights off zero; favor's are positive, but may all underflow. */
static real eps_of(enum feature_map map)
{
    return map == FEATURE_TAYLOR ? 0 : (real)(map == FEATURE_FAVOR ? 1e-30 : 1e-6);
}

/* Features of a head: of favor m, or dk ln dk; of the other maps by dk. */
static int m_of(const struct mixer_cfg *c, int dk)
{
    int chosen = (int)lrint(dk * log(dk));

    return feature_width(map_of(c), dk, opt_or(c, M, chosen > dk ? chosen : dk));
}

/* The features of s->z (H, dk), with weights of these names. */
static void layout_side(struct side *s, struct layout *m, const struct mixer_cfg *c,
                        int dk, const char *w, const char *b)
{
    const int H = c->H, n = m_of(c, dk);

    s->map = (struct feature){.map = map_of(c), .B = m->B, .T = m->T, .H = H, .dk = dk,
                              .m = n, .horizon = opt_or(c, MAX_LEN, c->context)};
    s->phi = s->map.map == FEATURE_ID ? s->z : act_work(m, "phi", (size_t)H * n);
    if (weighted(c))
        s->top = layout_work(m, "top", layout_tokens(m) * H);
    if (s->map.map == FEATURE_FAVOR)
        layout_flops(m, 2.0 * H * dk * n);
    if (s->map.map != FEATURE_HEDGEHOG)
        return;
    s->w = layout_weight(m, (struct param){w, H * dk, dk, INIT_OWN, .direct = true});
    s->b = layout_vector(m, b, H * dk, INIT_ZERO);
    s->map.w = s->w.w, s->map.b = s->b.w;
    layout_flops(m, 2.0 * H * dk * dk);
}

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    H = c->H, e = c->C / H, dv = opt_or(c, DV, e),
                 short_e = map_of(c) == FEATURE_TAYLOR && e > TAYLOR_DK ? TAYLOR_DK : e,
                 dk = opt_or(c, DK, short_e), n = m_of(c, dk);

    layout_require(m, map_of(c) != FEATURE_ID || !normalised(c),
                   "linear: weights of feature=id may sum to zero; add normalise=0");
    a->row = act_row(m, (struct act_part[]){
        {"wq", &a->q.z, H * dk}, {"wk", &a->k.z, H * dk}, {"wv", &a->v, H * dv}, {0}});
    layout_rotates(m, H, dk);
    a->wo = layout_out(m, H * dv);
    layout_side(&a->q, m, c, dk, "hq", "hqb");
    layout_side(&a->k, m, c, dk, "hk", "hkb");
    if (map_of(c) == FEATURE_FAVOR) {
        a->proj = layout_weight(m, (struct param){"proj", n, dk, INIT_OWN,
                                                  .buffer = true});
        a->q.map.w = a->k.map.w = a->proj.w;
    }
    a->core = scalar_heads_layout(m, a->q.phi, a->k.phi, a->v, (struct scalar){
        .H = H, .dk = n, .dv = dv, .den = normalised(c) ? SCALAR_SUM : SCALAR_PLAIN,
        .den_eps = eps_of(map_of(c)), .scale = normalised(c) ? 1 : 1 / (real)sqrt(dk),
        .log_i = a->k.top, .ld_i = H});
    a->normed = a->core.o;
    if (!normalised(c)) {
        a->norm = rms_layout(m, "norm", heads_norm(c, dv));
        a->normed.x = layout_work(m, "normed", layout_tokens(m) * a->normed.ld);
    }
    a->forget = forget_layout(m, (enum forget_kind)c->opt[DECAY], &a->core);
    a->first = layout_state(m, weighted(c) ? H : 0);
    m->paper_state = (double)H * n * (dv + normalised(c));
}

static void init(const struct mixer_cfg *c, void *acts, struct rng *r)
{
    struct acts *a = acts;
    const int    dk = a->q.map.dk;

    forget_init(&a->forget);
    if (map_of(c) == FEATURE_HEDGEHOG)
        for (int i = 0; i < c->H * dk * dk; i++)
            a->q.w.w[i] = a->k.w.w[i] = i / dk % dk == i % dk;
    if (map_of(c) == FEATURE_FAVOR)
        feature_draw(a->proj.w, a->q.map.m, dk, r);
}

/* ---- forward and backward ---------------------------------------------------------- */

/* top_t <- top_t - top_0, the sequence's first, which its state keeps. */
static void rebase(const struct ctx *ctx, const struct acts *a)
{
    const int H = ctx->cfg->H;
    real     *top = a->k.top;

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
    if (a->q.map.map == FEATURE_ID)
        return;
    a->q.map.pos = a->k.map.pos = ctx->pos;
    feature_forward(&a->q.map, a->q.phi.x, a->q.top, a->q.z.x, a->q.z.ld);
    feature_forward(&a->k.map, a->k.phi.x, a->k.top, a->k.z.x, a->k.z.ld);
    if (a->k.top)
        rebase(ctx, a);
}

/* The core's output as Wo takes it, in a->normed. */
static void normalise(const struct ctx *ctx, const struct acts *a)
{
    if (!normalised(ctx->cfg))
        rms_act_forward(ctx, &a->norm, a->normed, a->core.o);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    heads_project(ctx, a->row, a->q.z, a->k.z, x);
    forget_forward(ctx, &a->forget, x);
    map_features(ctx, a);
    scalar_heads_forward(ctx, &a->core);
    normalise(ctx, a);
    out_proj_forward(ctx, a->wo, y, a->normed);
}

/* From the gradient of the features to that of q or k, still rotated. */
static void map_back(const struct side *s)
{
    if (s->map.map != FEATURE_ID)
        feature_backward(&s->map, s->z.dx, s->z.ld, s->w.dw, s->b.dw, s->phi.dx, s->phi.x,
                         s->z.x, s->z.ld);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    map_features(ctx, a);
    normalise(ctx, a);
    out_proj_backward(ctx, a->wo, a->normed, dy);
    if (!normalised(ctx->cfg))
        rms_act_backward(ctx, &a->norm, a->normed, a->core.o);
    scalar_heads_backward(&a->core);
    map_back(&a->q);
    map_back(&a->k);
    heads_project_back(ctx, dx, 0, a->row, a->q.z, a->k.z, x);
    forget_backward(ctx, &a->forget, dx, x);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    if (normalised(c)) {
        map_features(ctx, a);
        scalar_ratios(&a->core.core, a->core.kept, a->q.top, r);
    } else
        forget_range(ctx, &a->forget, r);
    return c->H;
}

const struct mixer mixer_linear = {
    .name     = "linear",
    .about    = "linear attention with a feature map",
    .position = "none",
    .opts     = opts,
    .layout   = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = (a n_{t-1}/n_t) I, B = f(k)/n_t, C = f(q), "
                  "n_t = f(q_t) . sum of f(k)",
        .decay = decay,
    },
};
