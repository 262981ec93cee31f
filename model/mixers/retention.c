/* Retention: linear attention with one fixed decay per head (RetNet, arXiv:2307.08621).
 *
 *     q, k, v, g = Wq x, Wk x, Wv x, Wg x      q, k (H, e), e = C / H, rotated
 *     S_t = a S_{t-1} + k_t v_tᵀ               a = 1 - 2^-(5+h) for head h
 *     o_t = S_tᵀ q_t / sqrt(e)
 *     y = Wo( rms(o) norm silu(g) )            rms over each head, norm shared by heads
 *
 * The decay of head h forgets over 2^(5+h) tokens. v and g are expand_v e wide: 2 as
 * published, reduced here to 1.
 */
#include "model/mixer_heads.h"

#include <math.h>

enum { WQ, WK, WV, WG, NORM, WO, N_PARAMS };
enum { EXPAND_V };

static const struct opt opts[] = {
    [EXPAND_V] = {"expand_v", "width of a head's v, in widths of its k",
                  OPT_INT, NULL, 1, 1, 16},
    {0},
};

/* Width of a head's q or k, and of its v or g; channels of v or g. */
static int dk_of(const struct mixer_cfg *c) { return c->C / c->H; }
static int dv_of(const struct mixer_cfg *c) { return dk_of(c) * (int)c->opt[EXPAND_V]; }
static int n_v(const struct mixer_cfg *c) { return c->H * dv_of(c); }

static int params(const struct mixer_cfg *c, struct param *p)
{
    p[WQ] = (struct param){"wq", c->C, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", c->C, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", n_v(c), c->C, INIT_INPUT, .decay = true};
    p[WG] = (struct param){"wg", n_v(c), c->C, INIT_INPUT, .decay = true};
    p[NORM] = (struct param){"norm", dv_of(c), 0, INIT_ONE};
    p[WO] = (struct param){"wo", c->C, n_v(c), INIT_OUTPUT, .decay = true};
    return N_PARAMS;
}

struct acts {
    struct act row, q, k, v, g;
    real *decay;                // (H) logarithms
    struct heads_in in;
    struct scalar_heads core;
    struct heads_out out;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    dk = dk_of(c), dv = dv_of(c);

    a->row = act_row(m, (struct act_part[]){{&a->q, c->C}, {&a->k, c->C}, {&a->v, n_v(c)},
                                            {&a->g, n_v(c)}, {0}});
    a->decay = layout_keep(m, "decay", c->H);
    a->in = (struct heads_in){.w = WQ, .Hk = c->H, .row = a->row, .k = a->k};
    a->core.core = (struct scalar){.H = c->H, .dk = dk, .dv = dv,
                                   .scale = 1 / (real)sqrt(dk), .log_f = a->decay};
    scalar_heads_layout(&a->core, m, a->q, a->k, a->v);
    a->out = (struct heads_out){{c->H, dv, .shared = true, .eps = (real)c->eps},
                                .act = GATE_SILU, .w = NORM, .wo = WO, .g = a->g};
    heads_out_layout(&a->out, m);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    for (int h = 0; h < ctx->cfg->H; h++)
        a->decay[h] = (real)log1p(-exp2(-5 - h));
    heads_in_forward(ctx, &a->in, x);
    scalar_heads_forward(ctx, &a->core, a->out.o.x);
    heads_out_forward(ctx, &a->out, y);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    heads_out_backward(ctx, &a->out, dy);
    scalar_heads_backward(&a->core, a->out.o);
    heads_in_backward(ctx, &a->in, dx, x);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * (2.0 * c->C * (2 * c->C + 3 * n_v(c)) +
                        c->H * scalar_flops(T, dk_of(c), dv_of(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;

    return decay_of_logs(ctx, r, a->decay, 0, 1);
}

static double state(const struct mixer_cfg *c) { return (double)dk_of(c) * n_v(c); }

const struct mixer mixer_retention = {
    .name     = "retention",
    .about    = "linear attention with a fixed decay per head (RetNet)",
    .position = "rope",
    .opts     = opts,
    .params   = params,
    .angles   = heads_angles,
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .flops    = flops,
    .instruments = &(struct instruments){
        .system = "L = (1 - 2^-(5+h)) I, B = I x k_t, C = I x q_t / sqrt(dk)",
        .state = state, .decay = decay,
    },
};
