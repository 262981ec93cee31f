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
#include "model/kernels/vmath.h"
#include "model/layers/gate.h"
#include "model/layers/step.h"
#include "model/mixer_acts.h"

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
    struct act row, w, z;       // (2, e)
    struct act u;               // (e)
    struct act q;               // (R)
    struct act bc;              // (2, N)
    struct act step;            // (e)
    struct act o, v;            // (e); v after the gate, v.dx is o.dx
    real *rate;                 // (N, e) -e^alog
    struct short_conv conv;
    struct selective core;
    struct selective_grad dcore;
    real *kept, *scratch;       // of the core
    size_t state;               // where its state is
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t e = inner(c), N = n_of(c);

    a->row = act_row(m, (struct act_part[]){{&a->w, e}, {&a->z, e}, {0}});
    a->u = act_keep(m, "u", e);
    a->q = act_keep(m, "q", rank_of(c));
    a->bc = act_keep(m, "bc", 2 * N);
    a->step = act_keep(m, "step", e);
    a->o = act_keep(m, "o", e);
    a->v = (struct act){layout_keep(m, "v", layout_tokens(m) * e), a->o.dx, e};
    a->rate = layout_keep(m, "rate", e * N);
    a->conv = short_conv_layout(m, CONV, CONVB, (int)e, a->row.ld, e, true);
    a->core = (struct selective){
        .B = m->B, .T = m->T, .C = (int)e, .N = (int)N, .u = a->u.x, .step = a->step.x,
        .in = a->bc.x, .out = act_from(a->bc, N).x, .ld = 2 * N, .rate = a->rate,
        .skip = layout_param(m, DSKIP),
    };
    a->dcore = (struct selective_grad){
        .du = a->u.dx, .dstep = a->step.dx, .din = a->bc.dx,
        .dout = act_from(a->bc, N).dx, .ld = 2 * N,
        .drate = layout_grad(m, "drate", m->B * e * N),
        .dskip = layout_grad(m, "dskip", m->B * e),
    };
    a->kept = layout_save(m, "kept", selective_kept(&a->core));
    a->scratch = layout_grad(m, "scratch", selective_scratch(&a->core));
    a->state = layout_state(m, selective_state(&a->core));
}

/* Where B and C begin in wx. */
static size_t bc_at(const struct mixer_cfg *c) { return (size_t)rank_of(c) * inner(c); }

static struct step step_of(const struct ctx *ctx, const struct acts *a)
{
    return (struct step){ctx_rows(ctx), inner(ctx->cfg), a->step.ld, ctx->w[BDT], NULL};
}

/* q, B and C, the steps and the rates, from u. */
static void select_from(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct step step = step_of(ctx, a);
    const long        n = step.n;
    const int         e = inner(c), N = n_of(c);

    proj_forward(a->q.x, a->u.x, ctx->w[WX], n, e, rank_of(c));
    proj_forward(a->bc.x, a->u.x, ctx->w[WX] + bc_at(c), n, e, 2 * N);
    proj_forward(a->step.x, a->q.x, ctx->w[WDT], n, rank_of(c), e);
    step_forward(&step, a->step.x, NULL, a->step.x);
    for (int k = 0; k < N; k++) {
        #pragma omp simd
        for (int j = 0; j < e; j++)
            a->rate[(size_t)k * e + j] = -vexp(ctx->w[ALOG][(size_t)j * N + k]);
    }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const int    e = inner(ctx->cfg);
    struct acts *a = ctx->acts;

    in_proj_forward(ctx, WIN, a->row, x);
    short_conv_forward(ctx, &a->conv, a->u.x, a->w.x);
    select_from(ctx, a);
    if (ctx->state)
        selective_extend(&a->core, ctx->state, a->state, a->o.x);
    else
        selective_forward(&a->core, a->o.x, a->kept);
    gate_forward(GATE_SILU, a->v.x, e, a->o.x, e, a->z.x, a->z.ld, ctx_rows(ctx), e);
    out_proj_forward(ctx, WO, y, a->v);
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

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = ctx_rows(ctx);
    const int    e = inner(c), R = rank_of(c);
    const size_t bc = bc_at(c);
    struct acts *a = ctx->acts;
    const struct step step = step_of(ctx, a);

    out_proj_backward(ctx, WO, a->v, dy);
    gate_backward(GATE_SILU, a->o.dx, a->z.dx, a->z.ld, a->o.dx, e, a->o.x, e, a->z.x,
                  a->z.ld, n, e);
    selective_backward(&a->core, &a->dcore, a->o.dx, a->kept, a->scratch);
    sums_back(ctx, a);
    step_backward(&step, a->step.dx, ctx->dw[BDT], NULL, a->step.dx, NULL, a->step.x,
                  NULL);
    proj_backward(a->q.dx, 0, ctx->dw[WDT], a->step.dx, a->q.x, ctx->w[WDT], n, R, e);
    proj_backward(a->u.dx, 1, ctx->dw[WX], a->q.dx, a->u.x, ctx->w[WX], n, e, R);
    proj_backward(a->u.dx, 1, ctx->dw[WX] + bc, a->bc.dx, a->u.x, ctx->w[WX] + bc, n, e,
                  2 * n_of(c));
    short_conv_backward(ctx, &a->conv, a->w.dx, a->u.dx, a->w.x);
    in_proj_backward(ctx, WIN, dx, a->row, x);
}

/* A s, its exponential, a h, (s u) B, their sum, C h and its sum, for each of the `state`
 * numbers of each inner channel. */
static double elementwise(const struct mixer_cfg *c) { return 7.0 * inner(c) * n_of(c); }

static double flops(const struct mixer_cfg *c, int T, int window)
{
    const double e = inner(c), N = n_of(c);

    (void)window;
    return T * (6 * e * c->C + 4 * e * (rank_of(c) + N) + elementwise(c) +
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
                      exp((double)a->step.x[i] * (double)a->rate[(size_t)k * e + i % e]));
    return 1;
}

static double state(const struct mixer_cfg *c)
{
    return (double)n_of(c) * inner(c) + 3 * inner(c);
}

const struct mixer mixer_s6 = {
    .name     = "s6",
    .about    = "state space with a step, input and output of each token (S6 of Mamba)",
    .position = "none",
    .opts     = opts,
    .params   = params,
    .layout   = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .flops    = flops,
    .instruments = &(struct instruments){
        .system = "L = e^{s_t x A}, B = s_t,c B_t, C = I x C_t, plus dskip I",
        .state = state, .elementwise = elementwise, .decay = decay,
    },
};
