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
#include "model/cores/scalar.h"
#include "model/mixer.h"
#include "model/mixer_heads.h"

#include <math.h>

enum { WQ, WK, WV, WG, NORM, WO, N_PARAMS };
enum { EXPAND_V };

static const struct opt opts[] = {
    [EXPAND_V] = {"expand_v", "width of a head's v, in widths of its k", OPT_INT, NULL, 1,
                  1, 16},
    {0},
};

static int width(const struct mixer_cfg *c) { return c->C / c->H; }
static int values(const struct mixer_cfg *c)
{
    return c->C * (int)c->opt[EXPAND_V];
}

/* A row is [q, k, v, g]. */
static int g_at(const struct mixer_cfg *c)
{
    return 2 * c->C + values(c);
}
static int row(const struct mixer_cfg *c)
{
    return g_at(c) + values(c);
}

static int params(const struct mixer_cfg *c, struct param *p)
{
    p[WQ] = (struct param){"wq", c->C, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", c->C, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", values(c), c->C, INIT_INPUT, .decay = true};
    p[WG] = (struct param){"wg", values(c), c->C, INIT_INPUT, .decay = true};
    p[NORM] = (struct param){"norm", values(c) / c->H, 0, INIT_ONE};
    p[WO] = (struct param){"wo", c->C, values(c), INIT_OUTPUT, .decay = true};
    return N_PARAMS;
}

struct acts {
    real              *row, *drow;           // (B, T, row)
    real *decay;                // (H) logarithms
    struct rows rows;
    struct leave out;
    struct scalar core;
    struct scalar_grad dcore;
    real *saved, *scratch;      // of the core
    size_t S;                   // where its state is
};

static void carve(struct room *m, const struct mixer_cfg *c)
{
    struct acts *a = room_names(m, sizeof *a);
    const size_t C = c->C, ld = row(c);
    const int    e = width(c), dv = values(c) / c->H;

    a->row = room_keep(m, room_rows(m) * ld);
    a->drow = room_back(m, room_rows(m) * ld);
    a->decay = room_keep(m, c->H);
    a->rows = (struct rows){.w = WQ, .Hk = c->H, .k = C, .ld = ld};
    a->out = (struct leave){
        {c->H, dv, true, (real)1e-5}, .act = GATE_SILU, .w = NORM, .wo = WO};
    leave_carve(&a->out, m);
    a->core = (struct scalar){
        .B = m->B,
        .T = m->T,
        .H = c->H,
        .dk = e,
        .dv = dv,
        .scale = 1 / (real)sqrt(e),
        .q = a->row,
        .k = room_at(a->row, C),
        .v = room_at(a->row, 2 * C),
        .ld_q = ld,
        .ld_k = ld,
        .ld_v = ld,
        .ld_o = values(c),
        .log_f = a->decay,
    };
    a->dcore = (struct scalar_grad){
        .dq = a->drow, .dk = room_at(a->drow, C), .dv = room_at(a->drow, 2 * C),
        .ld_dq = ld, .ld_dk = ld, .ld_dv = ld,
    };
    a->saved = room_save(m, scalar_kept(&a->core));
    a->scratch = room_back(m, scalar_scratch(&a->core));
    a->S = room_state(m, scalar_state(&a->core));
}

/* x to rows of rotated q and k, v and g. */
static void project(const struct ctx *ctx, const real *x, const struct acts *a)
{
    rows_forward(ctx, &a->rows, a->row, x);
    for (int h = 0; h < ctx->cfg->H; h++)
        a->decay[h] = (real)log1p(-exp2(-5 - h));
}

static void finish(const struct ctx *ctx, const struct acts *a, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;

    leave_forward(ctx, &a->out, y, a->row + g_at(c), row(c));
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    project(ctx, x, a);
    scalar_forward(&a->core, a->out.o, a->saved);
    finish(ctx, a, y);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts            *a = ctx->acts;

    leave_backward(ctx, &a->out, a->drow + g_at(c), dy, a->row + g_at(c), row(c));
    scalar_backward(&a->core, &a->dcore, NULL, a->out.d_o, a->saved, a->scratch);
    rows_backward(ctx, &a->rows, dx, a->drow, a->row, x);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    project(ctx, x, a);
    scalar_extend(&a->core, state, a->S, a->out.o);
    finish(ctx, a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * (2.0 * c->C * (row(c) + values(c)) +
                        c->H * scalar_flops(T, width(c), values(c) / c->H));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct acts *a = ctx->acts;

    range_logs(r, a->decay, c->H, 1, c->H, 1);
    return c->H;
}

const struct mixer mixer_retention = {
    .name = "retention",
    .about = "linear attention with a fixed decay per head (RetNet)",
    .system = "L = (1 - 2^-(5+h)) I, B = I x k_t, C = I x q_t / sqrt(dk)",
    .position = "rope",
    .opts = opts,
    .params = params,
    .angles = rows_angles,
    .carve = carve,
    .forward = forward,
    .backward = backward,
    .extend = extend,
    .decay = decay,
    .flops = flops,
};
