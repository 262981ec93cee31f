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

enum { EXPAND_V };

static const struct opt opts[] = {
    [EXPAND_V] = {"expand_v", "width of a head's v, in widths of its k",
                  OPT_INT, 1, 1, 16},
    {0},
};

struct acts {
    struct act row, q, k, v, g; // q, k (H, dk), v, g (H, dv)
    real *decay;                // (H) logarithms
    struct scalar_heads core;
    struct heads_out out;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    H = c->H, dk = c->C / H, dv = dk * (int)c->opt[EXPAND_V];

    a->row = act_row(m, (struct act_part[]){
        {"wq", &a->q, H * dk}, {"wk", &a->k, H * dk}, {"wv", &a->v, H * dv},
        {"wg", &a->g, H * dv}, {0}});
    layout_rotates(m, H, dk);
    a->decay = layout_keep(m, "decay", H);
    a->core = scalar_heads_layout(m, a->q, a->k, a->v, (struct scalar){
        .H = H, .dk = dk, .dv = dv, .log_f = a->decay});
    a->out.w = layout_vector(m, "norm", dv, INIT_ONE);
    a->out.wo = layout_out(m, H * dv);
    heads_out_layout(&a->out, m, heads_norm(c, dv), GATE_SILU, a->core.o, a->g);
    m->paper_state = (double)H * dk * dv;
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    for (int h = 0; h < ctx->cfg->H; h++)
        a->decay[h] = (real)log1p(-exp2(-5 - h));
    heads_project(ctx, a->row, a->q, a->k, x);
    scalar_heads_forward(ctx, &a->core);
    heads_out_forward(ctx, &a->out, y);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    heads_out_backward(ctx, &a->out, dy);
    scalar_heads_backward(&a->core);
    heads_project_back(ctx, dx, 0, a->row, a->q, a->k, x);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;

    return decay_of_logs(ctx, r, a->decay, 0, 1);
}

const struct mixer mixer_retention = {
    .name     = "retention",
    .about    = "linear attention with a fixed decay per head (RetNet)",
    .position = "rope",
    .opts     = opts,
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = (1 - 2^-(5+h)) I, B = I x k_t, C = I x q_t / sqrt(dk)",
        .decay = decay,
    },
};
