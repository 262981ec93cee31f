/* Retention: linear attention with one fixed decay per head (RetNet, arXiv:2307.08621).
 *
 *     q, k, v, g = Wq x, Wk x, Wv x, Wg x      each (H, e), e = C / H; q and k rotated
 *     S_t = a S_{t-1} + k_t v_tᵀ               a = 1 - 2^-(5+h) for head h
 *     o_t = S_tᵀ q_t / sqrt(e)
 *     y = Wo( rms(o) norm silu(g) )            rms over each head, norm shared by heads
 *
 * The decay of head h forgets over 2^(5+h) tokens.
 */
#include "model/arena.h"
#include "model/core_scalar.h"
#include "model/gate.h"
#include "model/linear.h"
#include "model/mixer.h"
#include "model/norm.h"

#include <math.h>

enum { WQ, WK, WV, WG, NORM, WO, N_PARAMS };

static int width(const struct mixer_cfg *c) { return c->C / c->H; }

static int params(const struct mixer_cfg *c, struct param *p)
{
    p[WQ] = (struct param){"wq", c->C, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", c->C, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", c->C, c->C, INIT_INPUT, .decay = true};
    p[WG] = (struct param){"wg", c->C, c->C, INIT_INPUT, .decay = true};
    p[NORM] = (struct param){"norm", width(c), 0, INIT_ONE};
    p[WO] = (struct param){"wo", c->C, c->C, INIT_OUTPUT, .decay = true};
    return N_PARAMS;
}

static void angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->H;
    *dk = width(c);
}

struct acts {
    real *row;          // (B, T, 4, H, e): q, k, v, g
    real *o;            // (B, T, H, e)
    real *gated;        // as o
    real *decay;        // (H) logarithms
    real *core;         // kept of the core
};

static struct scalar shape(const struct mixer_cfg *c, int B, int T)
{
    return (struct scalar){.B = B, .T = T, .H = c->H, .dk = width(c), .dv = width(c),
                           .scale = 1 / (real)sqrt(width(c))};
}

static struct scalar core_of(const struct ctx *ctx, const struct acts *a)
{
    const size_t  C = ctx->cfg->C;
    struct scalar s = shape(ctx->cfg, ctx->B, ctx->T);

    s.q = a->row, s.k = a->row + C, s.v = a->row + 2 * C;
    s.ld_q = s.ld_k = s.ld_v = 4 * C;
    s.ld_o = C;
    s.log_f = a->decay;
    return s;
}

static size_t carve(struct acts *a, void *base, const struct mixer_cfg *c, int B, int T,
                    bool train)
{
    struct arena  m = arena_over(base);
    struct scalar core = shape(c, B, T);
    size_t        n = (size_t)B * T * c->C;

    a->row = arena_reals(&m, 4 * n);
    a->o = arena_reals(&m, n);
    a->gated = arena_reals(&m, n);
    a->decay = arena_reals(&m, c->H);
    a->core = arena_reals(&m, train ? scalar_kept(&core) : 0);
    return m.used;
}

struct grads {
    real *drow;         // as row
    real *d_o, *normed; // as o
    real *partial;      // of the norm
    real *core;         // scratch of the core
};

static struct norm head_norm(const struct mixer_cfg *c)
{
    return (struct norm){c->H, width(c), true, (real)1e-5};
}

static size_t carve_grads(struct grads *g, void *base, const struct mixer_cfg *c, int B,
                          int T)
{
    struct arena  m = arena_over(base);
    struct scalar core = shape(c, B, T);
    struct norm   o = head_norm(c);
    size_t        n = (size_t)B * T * c->C;

    g->drow = arena_reals(&m, 4 * n);
    g->d_o = arena_reals(&m, n);
    g->normed = arena_reals(&m, n);
    g->partial = arena_reals(&m, norm_partial(&o));
    g->core = arena_reals(&m, scalar_scratch(&core));
    return m.used;
}

static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct scalar core = shape(c, B, T);
    struct acts   a;
    struct grads  g;
    size_t        extend = carve(&a, NULL, c, B, T, false);
    size_t        back = carve_grads(&g, NULL, c, B, T);

    s->kept = carve(&a, NULL, c, B, T, true);
    s->scratch = back > extend ? back : extend;
    s->state = scalar_state(&core) * sizeof(real);
}

/* x to rows of rotated q and k, v and g. */
static void project(struct ctx *ctx, const real *x, struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t C = c->C, ld = 4 * C;

    linear_forward(a->row, x, ctx->w[WQ], (long)ctx->B * ctx->T, c->C, (int)ld);
    rotate(&ctx->angles, a->row, ctx->B, ctx->T, c->H, ld);
    rotate(&ctx->angles, a->row + C, ctx->B, ctx->T, c->H, ld);
    for (int h = 0; h < c->H; h++)
        a->decay[h] = (real)log1p(-exp2(-5 - h));
}

/* y from o and g. */
static void finish(struct ctx *ctx, struct acts *a, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    const size_t C = c->C;
    struct norm  o = head_norm(c);

    rms_forward(&o, a->gated, C, a->o, C, ctx->w[NORM], n);
    gate_forward(GATE_SILU, a->gated, C, a->gated, C, a->row + 3 * C, 4 * C, n, c->C);
    linear_forward(y, a->gated, ctx->w[WO], n, c->C, c->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts   a;
    struct scalar core;

    carve(&a, ctx->kept, ctx->cfg, ctx->B, ctx->T, true);
    core = core_of(ctx, &a);
    project(ctx, x, &a);
    scalar_forward(&core, a.o, a.core);
    finish(ctx, &a, y);
}

/* From dy to the gradients of o and g. */
static void finish_back(struct ctx *ctx, const struct acts *a, struct grads *g,
                        const real *dy)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    const size_t C = c->C, ld = 4 * C;
    struct norm  o = head_norm(c);

    linear_backward(g->d_o, 0, ctx->dw[WO], dy, a->gated, ctx->w[WO], n, c->C, c->C);
    rms_forward(&o, g->normed, C, a->o, C, ctx->w[NORM], n);
    gate_backward(GATE_SILU, g->d_o, g->drow + 3 * C, ld, g->d_o, C, g->normed, C,
                  a->row + 3 * C, ld, n, c->C);
    rms_backward(&o, g->d_o, C, 0, ctx->dw[NORM], g->d_o, C, a->o, C, ctx->w[NORM], n,
                 g->partial);
}

static void core_back(struct ctx *ctx, const struct acts *a, struct grads *g)
{
    const size_t  C = ctx->cfg->C, ld = 4 * C;
    struct scalar core = core_of(ctx, a);
    struct scalar_grad d = {
        .dq = g->drow, .dk = g->drow + C, .dv = g->drow + 2 * C,
        .ld_dq = ld, .ld_dk = ld, .ld_dv = ld,
    };

    scalar_backward(&core, &d, NULL, g->d_o, a->core, g->core);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    const size_t C = c->C, ld = 4 * C;
    struct acts  a;
    struct grads g;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    carve_grads(&g, ctx->scratch, c, ctx->B, ctx->T);
    finish_back(ctx, &a, &g, dy);
    core_back(ctx, &a, &g);
    rotate_back(&ctx->angles, a.row, g.drow, ctx->B, ctx->T, c->H, ld, ld);
    rotate_back(&ctx->angles, a.row + C, g.drow + C, ctx->B, ctx->T, c->H, ld, ld);
    linear_backward(dx, 1, ctx->dw[WQ], g.drow, x, ctx->w[WQ], n, c->C, (int)ld);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    struct acts   a;
    struct scalar core;

    carve(&a, ctx->scratch, ctx->cfg, ctx->B, ctx->T, false);
    core = core_of(ctx, &a);
    project(ctx, x, &a);
    scalar_extend(&core, state, 0, a.o);
    finish(ctx, &a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * (10.0 * c->C * c->C + c->H * scalar_flops(T, width(c), width(c)));
}

const struct mixer mixer_retention = {
    .name     = "retention",
    .about    = "linear attention with a fixed decay per head (RetNet)",
    .system   = "L = (1 - 2^-(5+h)) I, B = I x k_t, C = I x q_t / sqrt(dk)",
    .position = "rope",
    .params   = params,
    .angles   = angles,
    .sizes    = sizes,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .flops    = flops,
};
