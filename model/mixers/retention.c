/* Retention: linear attention with one fixed decay per head (RetNet, arXiv:2307.08621).
 *
 *     q, k, v, g = Wq x, Wk x, Wv x, Wg x      each (H, e), e = C / H; q and k rotated
 *     S_t = a S_{t-1} + k_t v_tᵀ               a = 1 - 2^-(5+h) for head h
 *     o_t = S_tᵀ q_t / sqrt(e)
 *     y = Wo( rms(o) norm silu(g) )            rms over each head, norm shared by heads
 *
 * The decay of head h forgets over 2^(5+h) tokens.
 */
#include "model/mixer_heads.h"

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

struct acts {
    struct act row, q, k, v, g; // (4, H, e)
    real *decay;                // (H) logarithms
    struct heads_in in;
    struct scalar_heads core;
    struct heads_out out;
};

static void carve(struct room *m, const struct mixer_cfg *c)
{
    struct acts *a = room_names(m, sizeof *a);
    const size_t C = c->C;
    const int    e = width(c);

    a->row = act_row(m, (struct act_part[]){{&a->q, C}, {&a->k, C}, {&a->v, C},
                                            {&a->g, C}, {0}});
    a->decay = room_keep(m, c->H);
    a->in = (struct heads_in){.w = WQ, .Hk = c->H, .row = a->row, .k = a->k};
    a->core.core = (struct scalar){.H = c->H, .dk = e, .dv = e,
                                   .scale = 1 / (real)sqrt(e), .log_f = a->decay};
    scalar_heads_layout(&a->core, m, a->q, a->k, a->v);
    a->out = (struct heads_out){{c->H, e, true, (real)1e-5}, .act = GATE_SILU, .w = NORM,
                                .wo = WO, .g = a->g};
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
    return (double)T * (10.0 * c->C * c->C + c->H * scalar_flops(T, width(c), width(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct acts *a = ctx->acts;

    range_logs(r, a->decay, c->H, 1, c->H, 1);
    return c->H;
}

const struct mixer mixer_retention = {
    .name     = "retention",
    .about    = "linear attention with a fixed decay per head (RetNet)",
    .system   = "L = (1 - 2^-(5+h)) I, B = I x k_t, C = I x q_t / sqrt(dk)",
    .position = "rope",
    .params   = params,
    .angles   = heads_angles,
    .carve    = carve,
    .forward  = forward,
    .backward = backward,
    .decay    = decay,
    .flops    = flops,
};
