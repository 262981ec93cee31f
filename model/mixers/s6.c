/* S6: a state space whose step, input and output depend on the token (Mamba, arXiv:2312.00752).
 *
 *     w, z = Win x                              w, z (e), e = expand C
 *     u = silu(conv(w))
 *     q, B, C = Wx u                            q (R), B and C (N)
 *     s = softplus(Wdt q + bdt)                 the step, (e)
 *     h_t[c, n] = e^{-s_c e^alog[c, n]} h_{t-1}[c, n] + s_c B_n u_c
 *     o_c = sum_n C_n h_t[c, n] + dskip_c u_c
 *     y = Wo( o silu(z) )
 */
#include "model/arena.h"
#include "model/bias.h"
#include "model/conv.h"
#include "model/core_scan.h"
#include "model/gate.h"
#include "model/linear.h"
#include "model/mixer.h"
#include "model/vmath.h"

#include <math.h>

enum { WIN, CONV, CONVB, WX, WDT, BDT, ALOG, DSKIP, WO, N_PARAMS };
enum { EXPAND, STATE, RANK };
enum { ROWS = 32 };             // up to these one thread is enough

static const struct opt opts[] = {
    [EXPAND] = {"expand", "inner width in widths", OPT_INT, NULL, 2, 1, 16},
    [STATE]  = {"state", "states N of a channel", OPT_INT, NULL, 16, 1, 1024},
    [RANK]   = {"rank", "of the map to the step; 0: width / 16", OPT_INT, NULL, 0, 0, 4096},
    {0},
};

static int inner(const struct mixer_cfg *c) { return (int)c->opt[EXPAND] * c->C; }
static int n_of(const struct mixer_cfg *c) { return (int)c->opt[STATE]; }

static int rank_of(const struct mixer_cfg *c)
{
    return c->opt[RANK] > 0 ? (int)c->opt[RANK] : (c->C + 15) / 16;
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
        double step = 1e-3 * pow(100, rng_uniform(r));

        w[BDT][j] = (real)(step + log(-expm1(-step)));
        for (int k = 0; k < N; k++)
            w[ALOG][(size_t)j * N + k] = (real)log(k + 1);
    }
}

struct acts {
    real *row;          // (B, T, 2, e) w, z
    real *u;            // (B, T, e)
    real *q;            // (B, T, R)
    real *bc;           // (B, T, 2, N)
    real *step;         // (B, T, e)
    real *o, *v;        // (B, T, e); v after the gate
    real *rate;         // (N, e) -e^alog
    real *core;         // kept of the core
};

struct grads {
    real *drow, *dq, *dbc;      // as row, q, bc
    real *d_o, *du, *dstep;     // (B, T, e)
    real *drate, *dskip;        // (B, N, e), (B, e)
    real *core;                 // scratch of the core
};

static struct selective shape(const struct mixer_cfg *c, int B, int T)
{
    return (struct selective){.B = B, .T = T, .C = inner(c), .N = n_of(c)};
}

static size_t carve(struct acts *a, void *base, const struct mixer_cfg *c, int B, int T, bool train)
{
    struct arena     m = arena_over(base);
    struct selective core = shape(c, B, T);
    size_t           n = (size_t)B * T, e = inner(c);

    a->row = arena_reals(&m, n * 2 * e);
    a->u = arena_reals(&m, n * e);
    a->q = arena_reals(&m, n * rank_of(c));
    a->bc = arena_reals(&m, n * 2 * n_of(c));
    a->step = arena_reals(&m, n * e);
    a->o = arena_reals(&m, n * e);
    a->v = arena_reals(&m, n * e);
    a->rate = arena_reals(&m, e * n_of(c));
    a->core = arena_reals(&m, train ? selective_kept(&core) : 0);
    return m.used;
}

static size_t carve_grads(struct grads *g, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena     m = arena_over(base);
    struct selective core = shape(c, B, T);
    size_t           n = (size_t)B * T, e = inner(c);

    g->drow = arena_reals(&m, n * 2 * e);
    g->dq = arena_reals(&m, n * rank_of(c));
    g->dbc = arena_reals(&m, n * 2 * n_of(c));
    g->d_o = arena_reals(&m, n * e);
    g->du = arena_reals(&m, n * e);
    g->dstep = arena_reals(&m, n * e);
    g->drate = arena_reals(&m, B * e * n_of(c));
    g->dskip = arena_reals(&m, B * e);
    g->core = arena_reals(&m, selective_scratch(&core));
    return m.used;
}

static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct selective core = shape(c, B, T);
    struct acts      a;
    struct grads     g;
    size_t           extend = carve(&a, NULL, c, B, T, false);
    size_t           back = carve_grads(&g, NULL, c, B, T);

    s->kept = carve(&a, NULL, c, B, T, true);
    s->scratch = back > extend ? back : extend;
    s->state = ((CONV_TAPS - 1) * (size_t)inner(c) + selective_state(&core)) * sizeof(real);
}

static struct conv conv_of(const struct ctx *ctx, int B)
{
    const int e = inner(ctx->cfg);

    return (struct conv){.B = B, .T = ctx->T, .C = e, .ld_x = 2 * (size_t)e, .ld_y = e,
                         .w = ctx->w[CONV], .b = ctx->w[CONVB], .silu = true};
}

static struct selective core_of(const struct ctx *ctx, const struct acts *a)
{
    struct selective s = shape(ctx->cfg, ctx->B, ctx->T);

    s.u = a->u, s.step = a->step;
    s.in = a->bc, s.out = a->bc + s.N, s.ld = 2 * (size_t)s.N;
    s.rate = a->rate, s.skip = ctx->w[DSKIP];
    return s;
}

/* Where B and C begin in wx. */
static size_t bc_at(const struct mixer_cfg *c) { return (size_t)rank_of(c) * inner(c); }

/* q, B and C, the steps and the rates, from u. */
static struct selective select_from(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long  n = (long)ctx->B * ctx->T;
    const int   e = inner(c), N = n_of(c);
    const real *bias = ctx->w[BDT];

    linear_forward(a->q, a->u, ctx->w[WX], n, e, rank_of(c));
    linear_forward(a->bc, a->u, ctx->w[WX] + bc_at(c), n, e, 2 * N);
    linear_forward(a->step, a->q, ctx->w[WDT], n, rank_of(c), e);
    #pragma omp parallel for schedule(static) if (n > ROWS)
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
    return core_of(ctx, a);
}

/* y = Wo( o silu(z) ) */
static void finish(const struct ctx *ctx, const struct acts *a, real *y)
{
    const long n = (long)ctx->B * ctx->T;
    const int  e = inner(ctx->cfg);

    gate_forward(GATE_SILU, a->v, e, a->o, e, a->row + e, 2 * (size_t)e, n, e);
    linear_forward(y, a->v, ctx->w[WO], n, e, ctx->cfg->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct conv      conv = conv_of(ctx, ctx->B);
    struct acts      a;
    struct selective core;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    linear_forward(a.row, x, ctx->w[WIN], (long)ctx->B * ctx->T, c->C, 2 * inner(c));
    conv_forward(&conv, a.u, a.row);
    core = select_from(ctx, &a);
    selective_forward(&core, a.o, a.core);
    finish(ctx, &a, y);
}

/* The core's sums over sequences: dalog = A dA, ddskip. */
static void sums_back(const struct ctx *ctx, const struct acts *a, const struct grads *g)
{
    const int e = inner(ctx->cfg), N = n_of(ctx->cfg);

    for (int b = 0; b < ctx->B; b++)
        for (int j = 0; j < e; j++) {
            ctx->dw[DSKIP][j] += g->dskip[(size_t)b * e + j];
            for (int k = 0; k < N; k++)
                ctx->dw[ALOG][(size_t)j * N + k] +=
                    a->rate[(size_t)k * e + j] * g->drate[((size_t)b * N + k) * e + j];
        }
}

/* Back through softplus, whose derivative is 1 - e^-s; and dbdt. */
static void step_back(const struct ctx *ctx, const struct acts *a, const struct grads *g)
{
    const long n = (long)ctx->B * ctx->T;
    const int  e = inner(ctx->cfg);

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n * e; i++)
        g->dstep[i] *= -vexpm1(-a->step[i]);
    bias_backward(ctx->dw[BDT], g->dstep, n, e);
}

static void core_back(const struct ctx *ctx, const struct acts *a, const struct grads *g)
{
    const size_t     N = n_of(ctx->cfg);
    struct selective core = core_of(ctx, a);
    struct selective_grad d = {
        .du = g->du, .dstep = g->dstep, .din = g->dbc, .dout = g->dbc + N, .ld = 2 * N,
        .drate = g->drate, .dskip = g->dskip,
    };

    selective_backward(&core, &d, g->d_o, a->core, g->core);
    sums_back(ctx, a, g);
    step_back(ctx, a, g);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    const int    e = inner(c), R = rank_of(c);
    struct conv  conv = conv_of(ctx, ctx->B);
    struct acts  a;
    struct grads g;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    carve_grads(&g, ctx->scratch, c, ctx->B, ctx->T);
    linear_backward(g.d_o, 0, ctx->dw[WO], dy, a.v, ctx->w[WO], n, e, c->C);
    gate_backward(GATE_SILU, g.d_o, g.drow + e, 2 * (size_t)e, g.d_o, e, a.o, e, a.row + e,
                  2 * (size_t)e, n, e);
    core_back(ctx, &a, &g);
    linear_backward(g.dq, 0, ctx->dw[WDT], g.dstep, a.q, ctx->w[WDT], n, R, e);
    linear_backward(g.du, 1, ctx->dw[WX], g.dq, a.u, ctx->w[WX], n, e, R);
    linear_backward(g.du, 1, ctx->dw[WX] + bc_at(c), g.dbc, a.u, ctx->w[WX] + bc_at(c), n, e,
                    2 * n_of(c));
    conv_backward(&conv, g.drow, ctx->dw[CONV], ctx->dw[CONVB], g.du, a.row);
    linear_backward(dx, 1, ctx->dw[WIN], g.drow, x, ctx->w[WIN], n, c->C, 2 * e);
}

/* State: the last inputs of the convolution (3, e), then h (N, e). */
static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int        e = inner(c);
    struct conv      conv = conv_of(ctx, 1);
    struct acts      a;
    struct selective core;

    carve(&a, ctx->scratch, c, ctx->B, ctx->T, false);
    linear_forward(a.row, x, ctx->w[WIN], (long)ctx->B * ctx->T, c->C, 2 * e);
    for (int b = 0; b < ctx->B; b++) {
        real  *past = state[b];
        size_t at = (size_t)b * ctx->T * e;

        conv_extend(&conv, &past, a.u + at, a.row + 2 * at);
    }
    core = select_from(ctx, &a);
    selective_extend(&core, state, (CONV_TAPS - 1) * (size_t)e, a.o);
    finish(ctx, &a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    const double e = inner(c), N = n_of(c);

    (void)window;
    return T * (6 * e * c->C + 4 * e * (rank_of(c) + N) + 7 * e * N);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int   e = inner(c);
    struct acts a;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    for (long i = 0; i < (long)ctx->B * ctx->T * e; i++)
        for (int k = 0; k < n_of(c); k++)
            range_add(r, exp((double)a.step[i] * (double)a.rate[(size_t)k * e + i % e]));
    return 1;
}

const struct mixer mixer_s6 = {
    .name     = "s6",
    .about    = "state space with a step, input and output of each token (S6 of Mamba)",
    .system   = "L = e^{s_t x A}, B = s_t,c B_t, C = I x C_t, plus dskip I",
    .position = "none",
    .opts     = opts,
    .params   = params,
    .sizes    = sizes,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
