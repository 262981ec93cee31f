/* S6: a state space whose step, input and output depend on the token (Mamba,
 * arXiv:2312.00752).
 *
 *     w, z = Win x                              w, z (e), e = expand C
 *     u = silu(conv(w))
 *     q, B, C = Wx u                            q (R), B and C (N)
 *     s = softplus(Wdt q + bdt)                 the step, (e)
 *     h_t[c, n] = e^{-s_c e^alog[c, n]} h_{t-1}[c, n] + s_c B_n u_c
 *     o_c = sum_n C_n h_t[c, n] + dskip_c u_c
 *     y = Wo( o silu(z) )
 */
#include "model/cores/scan.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "model/layers/bias.h"
#include "model/layers/conv.h"
#include "model/layers/gate.h"
#include "model/mixer.h"

#include <math.h>

enum { WIN, CONV, CONVB, WX, WDT, BDT, ALOG, DSKIP, WO, N_PARAMS };
enum { EXPAND, STATE, RANK };

static const struct opt opts[] = {
    [EXPAND] = {"expand", "inner width in widths", OPT_INT, NULL, 2, 1, 16},
    [STATE]  = {"state", "states N of a channel", OPT_INT, NULL, 16, 1, 1024},
    [RANK]   = {"rank", "of the map to the step; 0: width / 16",
                OPT_INT, NULL, 0, 0, 4096},
    {0},
};

static int inner(const struct mixer_cfg *c) { return (int)c->opt[EXPAND] * c->C; }
static int n_of(const struct mixer_cfg *c) { return (int)c->opt[STATE]; }

static int rank_of(const struct mixer_cfg *c)
{
    return opt_or(c, RANK, (c->C + 15) / 16);
}

static int params(const struct mixer_cfg *c, struct param *p)
{
    const int e = inner(c), N = n_of(c), R = rank_of(c);

    p[WIN] = (struct param){"win", 2 * e, c->C, INIT_INPUT, .decay = true};
    p[CONV] = (struct param){"conv", e, CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CONVB] = (struct param){"convb", e, 0, INIT_ZERO};
    p[WX] = (struct param){"wx", R + 2 * N, e, INIT_INPUT, .decay = true};
    p[WDT] = (struct param){"wdt", e, R, INIT_UNIFORM, 1 / sqrt(R), .decay = true};
    p[BDT] = (struct param){"bdt", e, 0, INIT_OWN};
    p[ALOG] = (struct param){"alog", e, N, INIT_OWN};
    p[DSKIP] = (struct param){"dskip", e, 0, INIT_ONE};
    p[WO] = (struct param){"wo", c->C, e, INIT_OUTPUT, .decay = true};
    return N_PARAMS;
}

/* bdt: softplus of it is log-uniform in [1e-3, 1e-1]; alog = log(1 .. N). */
static void init(const struct mixer_cfg *c, real *const *w, struct rng *r)
{
    const int N = n_of(c);

    for (int j = 0; j < inner(c); j++) {
        w[BDT][j] = param_step(r);
        for (int k = 0; k < N; k++)
            w[ALOG][(size_t)j * N + k] = (real)log(k + 1);
    }
}

struct acts {
    real *row, *drow;           // (B, T, 2, e) w, z
    real *u, *du;               // (B, T, e)
    real *q, *dq;               // (B, T, R)
    real *bc, *dbc;             // (B, T, 2, N)
    real *step, *dstep;         // (B, T, e)
    real *o, *v, *d_o;          // (B, T, e); v after the gate
    real *rate;                 // (N, e) -e^alog
    struct conv conv;
    struct selective core;
    struct selective_grad dcore;
    real *saved, *scratch;      // of the core
    size_t past, S;             // where the states of conv and core are
};

static void lay_out_rows(struct acts *a, struct layout *m, const struct mixer_cfg *c)
{
    const size_t n = layout_tokens(m), e = inner(c);

    a->row = layout_keep(m, "row", n * 2 * e);
    a->u = layout_keep(m, "u", n * e);
    a->q = layout_keep(m, "q", n * rank_of(c));
    a->bc = layout_keep(m, "bc", n * 2 * n_of(c));
    a->step = layout_keep(m, "step", n * e);
    a->o = layout_keep(m, "o", n * e);
    a->v = layout_keep(m, "v", n * e);
    a->rate = layout_keep(m, "rate", e * n_of(c));
    a->drow = layout_grad(m, "drow", n * 2 * e);
    a->du = layout_grad(m, "du", n * e);
    a->dq = layout_grad(m, "dq", n * rank_of(c));
    a->dbc = layout_grad(m, "dbc", n * 2 * n_of(c));
    a->dstep = layout_grad(m, "dstep", n * e);
    a->d_o = layout_grad(m, "d_o", n * e);
}

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t e = inner(c), N = n_of(c);

    lay_out_rows(a, m, c);
    a->conv = (struct conv){.B = m->B, .T = m->T, .C = (int)e, .ld_x = 2 * e, .ld_y = e,
                            .w = layout_param(m, CONV), .b = layout_param(m, CONVB),
                            .silu = true};
    a->core = (struct selective){
        .B = m->B, .T = m->T, .C = (int)e, .N = (int)N, .u = a->u, .step = a->step,
        .in = a->bc, .out = layout_at(a->bc, N), .ld = 2 * N, .rate = a->rate,
        .skip = layout_param(m, DSKIP),
    };
    a->dcore = (struct selective_grad){
        .du = a->du, .dstep = a->dstep, .din = a->dbc, .dout = layout_at(a->dbc, N),
        .ld = 2 * N, .drate = layout_grad(m, "drate", m->B * e * N),
        .dskip = layout_grad(m, "dskip", m->B * e),
    };
    a->saved = layout_save(m, "saved", selective_kept(&a->core));
    a->scratch = layout_grad(m, "scratch", selective_scratch(&a->core));
    a->past = layout_state(m, conv_state(&a->conv));
    a->S = layout_state(m, selective_state(&a->core));
}

/* Where B and C begin in wx. */
static size_t bc_at(const struct mixer_cfg *c) { return (size_t)rank_of(c) * inner(c); }

/* q, B and C, the steps and the rates, from u. */
static void select_from(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long  n = ctx_rows(ctx);
    const int   e = inner(c), N = n_of(c);
    const real *bias = ctx->w[BDT];

    product_forward(a->q, a->u, ctx->w[WX], n, e, rank_of(c));
    product_forward(a->bc, a->u, ctx->w[WX] + bc_at(c), n, e, 2 * N);
    product_forward(a->step, a->q, ctx->w[WDT], n, rank_of(c), e);
#pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long r = 0; r < n; r++) {
        real *s = a->step + r * e;

        for (int j = 0; j < e; j++)
            s[j] = vsoftplus(s[j] + bias[j]);
    }
    for (int k = 0; k < N; k++) {
        #pragma omp simd
        for (int j = 0; j < e; j++)
            a->rate[(size_t)k * e + j] = -vexp(ctx->w[ALOG][(size_t)j * N + k]);
    }
}

/* y = Wo( o silu(z) ) */
static void finish(const struct ctx *ctx, const struct acts *a, real *y)
{
    const long n = ctx_rows(ctx);
    const int  e = inner(ctx->cfg);

    gate_forward(GATE_SILU, a->v, e, a->o, e, a->row + e, 2 * (size_t)e, n, e);
    product_forward(y, a->v, ctx->w[WO], n, e, ctx->cfg->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    product_forward(a->row, x, ctx->w[WIN], ctx_rows(ctx), ctx->cfg->C,
                    2 * inner(ctx->cfg));
    conv_forward(&a->conv, a->u, a->row);
    select_from(ctx, a);
    selective_forward(&a->core, a->o, a->saved);
    finish(ctx, a, y);
}

/* The core's sums over sequences: dalog = A dA, ddskip. */
static void sums_back(const struct ctx *ctx, const struct acts *a)
{
    const int e = inner(ctx->cfg), N = n_of(ctx->cfg);

    for (int b = 0; b < ctx->B; b++)
        for (int j = 0; j < e; j++) {
            ctx->dw[DSKIP][j] += a->dcore.dskip[(size_t)b * e + j];
            for (int k = 0; k < N; k++)
                ctx->dw[ALOG][(size_t)j * N + k] +=
                    a->rate[(size_t)k * e + j] *
                    a->dcore.drate[((size_t)b * N + k) * e + j];
        }
}

/* Back through softplus, whose derivative is 1 - e^-s; and dbdt. */
static void step_back(const struct ctx *ctx, const struct acts *a)
{
    const long n = ctx_rows(ctx);
    const int  e = inner(ctx->cfg);

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n * e; i++)
        a->dstep[i] *= -vexpm1(-a->step[i]);
    bias_backward(ctx->dw[BDT], a->dstep, n, e);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = ctx_rows(ctx);
    const int    e = inner(c), R = rank_of(c);
    const size_t ld = 2 * (size_t)e, bc = bc_at(c);
    struct acts *a = ctx->acts;

    product_backward(a->d_o, 0, ctx->dw[WO], dy, a->v, ctx->w[WO], n, e, c->C);
    gate_backward(GATE_SILU, a->d_o, a->drow + e, ld, a->d_o, e, a->o, e, a->row + e,
                  ld, n, e);
    selective_backward(&a->core, &a->dcore, a->d_o, a->saved, a->scratch);
    sums_back(ctx, a);
    step_back(ctx, a);
    product_backward(a->dq, 0, ctx->dw[WDT], a->dstep, a->q, ctx->w[WDT], n, R, e);
    product_backward(a->du, 1, ctx->dw[WX], a->dq, a->u, ctx->w[WX], n, e, R);
    product_backward(a->du, 1, ctx->dw[WX] + bc, a->dbc, a->u, ctx->w[WX] + bc, n, e,
                     2 * n_of(c));
    conv_backward(&a->conv, a->drow, ctx->dw[CONV], ctx->dw[CONVB], a->du, a->row);
    product_backward(dx, 1, ctx->dw[WIN], a->drow, x, ctx->w[WIN], n, c->C, 2 * e);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    product_forward(a->row, x, ctx->w[WIN], ctx_rows(ctx), ctx->cfg->C,
                    2 * inner(ctx->cfg));
    conv_extend(&a->conv, state, a->past, a->u, a->row);
    select_from(ctx, a);
    selective_extend(&a->core, state, a->S, a->o);
    finish(ctx, a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    const double e = inner(c), N = n_of(c);

    (void)window;
    return T * (6 * e * c->C + 4 * e * (rank_of(c) + N) + 7 * e * N +
                conv_flops(inner(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int   e = inner(c);
    const struct acts *a = ctx->acts;

    for (long i = 0; i < ctx_rows(ctx) * e; i++)
        for (int k = 0; k < n_of(c); k++)
            range_add(r,
                      exp((double)a->step[i] * (double)a->rate[(size_t)k * e + i % e]));
    return 1;
}

const struct mixer mixer_s6 = {
    .name     = "s6",
    .about    = "state space with a step, input and output of each token (S6 of Mamba)",
    .system   = "L = e^{s_t x A}, B = s_t,c B_t, C = I x C_t, plus dskip I",
    .position = "none",
    .opts     = opts,
    .params   = params,
    .layout    = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
