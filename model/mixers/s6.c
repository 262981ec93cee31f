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
#include "model/kernels/vmath.h"
#include "model/layers/gate.h"
#include "model/layers/step.h"
#include "model/mixer_cores.h"

#include <math.h>

enum { EXPAND, STATE, RANK };

static const struct opt opts[] = {
    [EXPAND] = {"expand", "inner width in widths", OPT_INT, 2, 1, 16},
    [STATE]  = {"state", "states N of a channel", OPT_INT, 16, 1, 1024},
    [RANK]   = {"rank", "of the map to the step; 0: width / 16", OPT_INT, 0, 0, 4096},
    {0},
};

struct acts {
    struct act row, w, z;       // (2, e)
    struct act u;               // (e)
    struct act q;               // (R)
    struct act bc;              // (2, N)
    struct act s;               // (e) the step
    struct act v;               // (e) after the gate
    real *rate;                 // (N, e) -e^alog
    struct weight bdt, alog, dskip, wo;     // (e), (e, N), (e)
    struct step step;
    struct short_conv conv;
    struct selective_channels core;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    e = (int)c->opt[EXPAND] * c->C, N = (int)c->opt[STATE],
                 R = opt_or(c, RANK, (c->C + 15) / 16);
    struct weight wx;

    a->row = act_row(m, (struct act_part[]){{"win", &a->w, e}, {NULL, &a->z, e}, {0}});
    a->u = act_keep(m, "u", e);
    a->conv = short_conv_layout(m, (struct taps[]){{"conv", e}, {0}}, "convb", a->row.ld,
                                e, true);
    wx = layout_matrix(m, "wx", R + 2 * N, e, INIT_INPUT);
    a->q = act_by(act_keep(m, "q", R), wx, e);
    a->bc = act_by(act_keep(m, "bc", 2 * N), weight_from(wx, (size_t)R * e), e);
    a->s = act_row_of(m, R, (struct act_part[]){
        {"wdt", NULL, e, INIT_UNIFORM, 1 / sqrt(R)}, {0}});
    a->bdt = layout_vector(m, "bdt", e, INIT_OWN);
    a->alog = layout_weight(m, (struct param){"alog", e, N, INIT_OWN, .direct = true});
    a->dskip = layout_vector(m, "dskip", e, INIT_ONE);
    a->wo = layout_out(m, e);
    a->step = (struct step){(long)layout_tokens(m), e, a->s.ld, a->bdt.w, NULL};
    a->rate = layout_keep(m, "rate", (size_t)e * N);
    a->core = selective_layout(m, a->u, a->s, a->bc, act_from(a->bc, N),
                               (struct selective){.C = e, .N = N, .rate = a->rate,
                                                  .skip = a->dskip.w});
    a->v = act_after(m, "v", a->core.o);
    m->paper_state = (double)N * e + 3 * e;
}

/* bdt: softplus of it is log-uniform in [1e-3, 1e-1]; alog = log(1 .. N). */
static void init(const struct mixer_cfg *c, void *acts, struct rng *r)
{
    const struct acts *a = acts;
    const int          e = a->core.core.C, N = a->core.core.N;

    (void)c;
    for (int j = 0; j < e; j++) {
        a->bdt.w[j] = param_step(r);
        for (int k = 0; k < N; k++)
            a->alog.w[(size_t)j * N + k] = (real)log(k + 1);
    }
}

/* q, B and C, the steps and the rates, from u. */
static void select_from(const struct ctx *ctx, const struct acts *a)
{
    const int e = a->core.core.C, N = a->core.core.N;

    proj_forward(ctx, a->q, a->u.x);
    proj_forward(ctx, a->bc, a->u.x);
    proj_forward(ctx, a->s, a->q.x);
    step_forward(&a->step, a->s.x, NULL, a->s.x);
    for (int k = 0; k < N; k++) {
        #pragma omp simd
        for (int j = 0; j < e; j++)
            a->rate[(size_t)k * e + j] = -vexp(a->alog.w[(size_t)j * N + k]);
    }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;
    const size_t e = a->v.ld;

    proj_forward(ctx, a->row, x);
    short_conv_forward(ctx, &a->conv, a->u.x, a->w.x);
    select_from(ctx, a);
    selective_channels_forward(ctx, &a->core);
    gate_forward(GATE_SILU, a->v.x, e, a->core.o.x, e, a->z.x, a->z.ld, ctx_rows(ctx),
                 (int)e);
    out_proj_forward(ctx, a->wo, y, a->v);
}

/* The core's sums over sequences: dalog = A dA, ddskip. */
static void sums_back(const struct ctx *ctx, const struct acts *a)
{
    const int e = a->core.core.C, N = a->core.core.N;

    #pragma omp parallel for schedule(static)
    for (int j = 0; j < e; j++)
        for (int b = 0; b < ctx->B; b++) {
            a->dskip.dw[j] += a->core.grad.dskip[(size_t)b * e + j];
            for (int k = 0; k < N; k++)
                a->alog.dw[(size_t)j * N + k] +=
                    a->rate[(size_t)k * e + j] *
                    a->core.grad.drate[((size_t)b * N + k) * e + j];
        }
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;
    struct act   o = a->core.o;

    out_proj_backward(ctx, a->wo, a->v, dy);
    gate_backward(GATE_SILU, o.dx, a->z.dx, a->z.ld, o.dx, o.ld, o.x, o.ld, a->z.x,
                  a->z.ld, ctx_rows(ctx), (int)o.ld);
    selective_channels_backward(&a->core);
    sums_back(ctx, a);
    step_backward(&a->step, a->s.dx, a->bdt.dw, NULL, a->s.dx, NULL, a->s.x, NULL);
    proj_backward(ctx, a->q.dx, 0, a->s, a->q.x);
    proj_backward(ctx, a->u.dx, 1, a->q, a->u.x);
    proj_backward(ctx, a->u.dx, 1, a->bc, a->u.x);
    short_conv_backward(&a->conv, a->w.dx, a->u.dx, a->w.x);
    proj_backward(ctx, dx, 0, a->row, x);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;
    const int e = a->core.core.C;

    for (long i = 0; i < ctx_rows(ctx) * e; i++)
        for (int k = 0; k < a->core.core.N; k++)
            range_add(r, exp((double)a->s.x[i] * (double)a->rate[(size_t)k * e + i % e]));
    return 1;
}

const struct mixer mixer_s6 = {
    .name     = "s6",
    .about    = "state space with a step, input and output of each token (S6 of Mamba)",
    .opts     = opts,
    .layout   = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = e^{s_t x A}, B = s_t,c B_t, C = I x C_t, plus dskip I",
        .decay = decay,
    },
};
