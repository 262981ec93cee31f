/* State-space duality: a linear state space with one decay per token and head (Mamba-2,
 * arXiv:2405.21060).
 *
 *     z, x, B, C, t = Win x                z, x (H, P), B, C (N) shared by heads, t (H)
 *     x, B, C <- silu(conv([x, B, C]))
 *     D = softplus(t + dtb),  log a = -e^alog D                   per head
 *     S_t = a_t S_{t-1} + B_t (D_t x_t)ᵀ   S (N, P), H P = expand times the width
 *     o_t = S_tᵀ C_t + dskip x_t
 *     y = Wo( rms(o silu(z)) norm )        rms over all channels
 */
#include "model/arena.h"
#include "model/conv.h"
#include "model/core_scalar.h"
#include "model/gate.h"
#include "model/linear.h"
#include "model/mixer.h"
#include "model/norm.h"
#include "model/vmath.h"

#include <math.h>
#include <string.h>

enum { WIN, CONV, CONVB, DTB, ALOG, DSKIP, NORM, WO, N_PARAMS };
enum { EXPAND, STATE };

static const struct opt opts[] = {
    [EXPAND] = {"expand", "inner width in widths", OPT_INT, NULL, 2, 1, 16},
    [STATE]  = {"state", "width N of B and C", OPT_INT, NULL, 64, 1, 4096},
    {0},
};

/* A row is [z, x, B, C, t]; the convolution sees [x, B, C]. */
static int inner(const struct mixer_cfg *c) { return (int)c->opt[EXPAND] * c->C; }
static int n_of(const struct mixer_cfg *c) { return (int)c->opt[STATE]; }
static int p_of(const struct mixer_cfg *c) { return inner(c) / c->H; }
static int xbc(const struct mixer_cfg *c) { return inner(c) + 2 * n_of(c); }
static int row(const struct mixer_cfg *c) { return inner(c) + xbc(c) + c->H; }
static int t_at(const struct mixer_cfg *c) { return inner(c) + xbc(c); }

static int params(const struct mixer_cfg *c, struct param *p)
{
    p[WIN] = (struct param){"win", row(c), c->C, INIT_INPUT, .decay = true};
    p[CONV] = (struct param){"conv", xbc(c), CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CONVB] = (struct param){"convb", xbc(c), 0, INIT_ZERO};
    p[DTB] = (struct param){"dtb", c->H, 0, INIT_OWN};
    p[ALOG] = (struct param){"alog", c->H, 0, INIT_OWN};
    p[DSKIP] = (struct param){"dskip", c->H, 0, INIT_ONE};
    p[NORM] = (struct param){"norm", inner(c), 0, INIT_ONE};
    p[WO] = (struct param){"wo", c->C, inner(c), INIT_OUTPUT, .decay = true};
    return N_PARAMS;
}

/* dtb: softplus of it is log-uniform in [1e-3, 1e-1]; alog = log U(1, 16). */
static void init(const struct mixer_cfg *c, real *const *w, struct rng *r)
{
    for (int h = 0; h < c->H; h++) {
        double step = 1e-3 * pow(100, rng_uniform(r));

        w[DTB][h] = (real)(step + log(-expm1(-step)));
        w[ALOG][h] = (real)log(1 + 15 * rng_uniform(r));
    }
}

struct acts {
    real *row;          // (B, T, row)
    real *xbc;          // (B, T, xbc) after convolution
    real *step;         // (B, T, H) D
    real *log_a;        // (B, T, H)
    real *v;            // (B, T, H, P) D x
    real *o, *u;        // (B, T, H, P); u after gate and norm
    real *core;         // kept of the core
};

struct grads {
    real *drow, *dxbc;  // as row, xbc
    real *dq, *dk;      // (B, T, H, N)
    real *dv, *d_o;     // as o; dv holds the gated o before
    real *dlog_a;       // (B, T, H)
    real *sums;         // (B, H, 3) of dtb, alog, dskip
    real *partial;      // of the norm
    real *core;         // scratch of the core
};

static struct norm norm_of(const struct mixer_cfg *c)
{
    return (struct norm){1, inner(c), false, (real)1e-5};
}

static struct scalar shape(const struct mixer_cfg *c, int B, int T)
{
    return (struct scalar){.B = B, .T = T, .H = c->H, .dk = n_of(c), .dv = p_of(c),
                           .shared = true, .scale = 1};
}

static struct scalar core_of(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct scalar s = shape(c, ctx->B, ctx->T);

    s.k = a->xbc + inner(c), s.q = s.k + n_of(c), s.v = a->v;
    s.ld_q = s.ld_k = xbc(c);
    s.ld_v = s.ld_o = inner(c);
    s.log_f = a->log_a, s.ld_f = c->H;
    return s;
}

static struct conv conv_of(const struct ctx *ctx, int B)
{
    const struct mixer_cfg *c = ctx->cfg;

    return (struct conv){.B = B, .T = ctx->T, .C = xbc(c), .ld_x = row(c), .ld_y = xbc(c),
                         .w = ctx->w[CONV], .b = ctx->w[CONVB], .silu = true};
}

static size_t carve(struct acts *a, void *base, const struct mixer_cfg *c, int B, int T,
                    bool train)
{
    struct arena  m = arena_over(base);
    struct scalar core = shape(c, B, T);
    size_t        n = (size_t)B * T;

    a->row = arena_reals(&m, n * row(c));
    a->xbc = arena_reals(&m, n * xbc(c));
    a->step = arena_reals(&m, n * c->H);
    a->log_a = arena_reals(&m, n * c->H);
    a->v = arena_reals(&m, n * inner(c));
    a->o = arena_reals(&m, n * inner(c));
    a->u = arena_reals(&m, n * inner(c));
    a->core = arena_reals(&m, train ? scalar_kept(&core) : 0);
    return m.used;
}

static size_t carve_grads(struct grads *g, void *base, const struct mixer_cfg *c, int B,
                          int T)
{
    struct arena  m = arena_over(base);
    struct scalar core = shape(c, B, T);
    struct norm   o = norm_of(c);
    size_t        n = (size_t)B * T;

    g->drow = arena_reals(&m, n * row(c));
    g->dxbc = arena_reals(&m, n * xbc(c));
    g->dq = arena_reals(&m, n * c->H * n_of(c));
    g->dk = arena_reals(&m, n * c->H * n_of(c));
    g->dv = arena_reals(&m, n * inner(c));
    g->d_o = arena_reals(&m, n * inner(c));
    g->dlog_a = arena_reals(&m, n * c->H);
    g->sums = arena_reals(&m, (size_t)B * c->H * 3);
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
    s->state = ((CONV_TAPS - 1) * (size_t)xbc(c) + scalar_state(&core)) * sizeof(real);
}

/* D, log a and v = D x. */
static void gates(struct ctx *ctx, struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = (long)ctx->B * ctx->T;
    const int  P = p_of(c);

    #pragma omp parallel for schedule(static) if (n > 32)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < c->H; h++) {
            const real *x = a->xbc + i * xbc(c) + (size_t)h * P;
            real       *v = a->v + i * inner(c) + (size_t)h * P;
            real        D = vsoftplus(a->row[i * row(c) + t_at(c) + h] + ctx->w[DTB][h]);

            a->step[i * c->H + h] = D;
            a->log_a[i * c->H + h] = -(real)exp(ctx->w[ALOG][h]) * D;
            #pragma omp simd
            for (int j = 0; j < P; j++)
                v[j] = D * x[j];
        }
}

static void skip(struct ctx *ctx, struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = (long)ctx->B * ctx->T;
    const int  P = p_of(c);

    #pragma omp parallel for schedule(static) if (n > 32)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < c->H; h++) {
            const real *x = a->xbc + i * xbc(c) + (size_t)h * P;
            real       *o = a->o + i * inner(c) + (size_t)h * P, by = ctx->w[DSKIP][h];

            #pragma omp simd
            for (int j = 0; j < P; j++)
                o[j] += by * x[j];
        }
}

/* y from S_tᵀ C_t in o. */
static void finish(struct ctx *ctx, struct acts *a, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long  n = (long)ctx->B * ctx->T;
    const int   e = inner(c);
    struct norm s = norm_of(c);

    skip(ctx, a);
    gate_forward(GATE_SILU, a->u, e, a->o, e, a->row, row(c), n, e);
    rms_forward(&s, a->u, e, a->u, e, ctx->w[NORM], n);
    linear_forward(y, a->u, ctx->w[WO], n, e, c->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct conv   conv = conv_of(ctx, ctx->B);
    struct acts   a;
    struct scalar core;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    core = core_of(ctx, &a);
    linear_forward(a.row, x, ctx->w[WIN], (long)ctx->B * ctx->T, c->C, row(c));
    conv_forward(&conv, a.xbc, a.row + inner(c));
    gates(ctx, &a);
    scalar_forward(&core, a.o, a.core);
    finish(ctx, &a, y);
}

/* From dy to the gradients of o and z. */
static void finish_back(struct ctx *ctx, const struct acts *a, struct grads *g,
                        const real *dy)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long  n = (long)ctx->B * ctx->T;
    const int   e = inner(c);
    real       *gated = g->dv;
    struct norm s = norm_of(c);

    linear_backward(g->d_o, 0, ctx->dw[WO], dy, a->u, ctx->w[WO], n, e, c->C);
    gate_forward(GATE_SILU, gated, e, a->o, e, a->row, row(c), n, e);
    rms_backward(&s, g->d_o, e, 0, ctx->dw[NORM], g->d_o, e, gated, e, ctx->w[NORM], n,
                 g->partial);
    gate_backward(GATE_SILU, g->d_o, g->drow, row(c), g->d_o, e, a->o, e, a->row, row(c), n,
                  e);
}

/* dB and dC: the sums over heads of dk and dq. */
static void heads_back(const struct ctx *ctx, struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = (long)ctx->B * ctx->T;
    const int  N = n_of(c);

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        real *dB = g->dxbc + i * xbc(c) + inner(c), *dC = dB + N;

        memset(dB, 0, 2 * (size_t)N * sizeof *dB);
        for (int h = 0; h < c->H; h++) {
            const real *dk = g->dk + (i * c->H + h) * N, *dq = g->dq + (i * c->H + h) * N;

            #pragma omp simd
            for (int j = 0; j < N; j++) {
                dB[j] += dk[j];
                dC[j] += dq[j];
            }
        }
    }
}

/* One token of one head: dx = D dv + dskip do; returns dv . x, and do . x in *skipped. */
static inline real token_back(real *dx, const real *dv, const real *d_o, const real *x,
                              real D, real dskip, int P, double *skipped)
{
    real through = 0, past = 0;

    #pragma omp simd reduction(+ : through, past)
    for (int j = 0; j < P; j++) {
        dx[j] = D * dv[j] + dskip * d_o[j];
        through += dv[j] * x[j];
        past += d_o[j] * x[j];
    }
    *skipped += past;
    return through;
}

/* dD = dv . x - e^alog dlog a,  dt = dD sigmoid(t + dtb) into its place in drow, and the sums
 * over the tokens of head h of sequence b. */
static void gate_back(const struct ctx *ctx, const struct acts *a, struct grads *g, int b,
                      int h)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int  P = p_of(c);
    const real rate = (real)exp(ctx->w[ALOG][h]);
    double     dtb = 0, dalog = 0, dskip = 0;
    real      *sums = g->sums + ((size_t)b * c->H + h) * 3;

    for (long i = (long)b * ctx->T; i < (long)(b + 1) * ctx->T; i++) {
        size_t in = i * inner(c) + (size_t)h * P, at = i * xbc(c) + (size_t)h * P;
        size_t t = i * c->H + h;
        real   dD = token_back(g->dxbc + at, g->dv + in, g->d_o + in, a->xbc + at,
                               a->step[t], ctx->w[DSKIP][h], P, &dskip);
        real   dt = (dD - rate * g->dlog_a[t]) *
                    vsigmoid(a->row[i * row(c) + t_at(c) + h] + ctx->w[DTB][h]);

        g->drow[i * row(c) + t_at(c) + h] = dt;
        dtb += dt;
        dalog += a->log_a[t] * g->dlog_a[t];
    }
    sums[0] = (real)dtb, sums[1] = (real)dalog, sums[2] = (real)dskip;
}

static void core_back(struct ctx *ctx, const struct acts *a, struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t  heads = (size_t)c->H * n_of(c);
    struct scalar core = core_of(ctx, a);
    struct scalar_grad d = {
        .dq = g->dq, .dk = g->dk, .dv = g->dv, .ld_dq = heads, .ld_dk = heads,
        .ld_dv = inner(c), .dlog_f = g->dlog_a, .ld_df = c->H,
    };

    scalar_backward(&core, &d, NULL, g->d_o, a->core, g->core);
    heads_back(ctx, g);
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < c->H; h++)
            gate_back(ctx, a, g, b, h);
    for (int i = 0; i < ctx->B * c->H; i++) {
        ctx->dw[DTB][i % c->H] += g->sums[3 * i];
        ctx->dw[ALOG][i % c->H] += g->sums[3 * i + 1];
        ctx->dw[DSKIP][i % c->H] += g->sums[3 * i + 2];
    }
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct conv  conv = conv_of(ctx, ctx->B);
    struct acts  a;
    struct grads g;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    carve_grads(&g, ctx->scratch, c, ctx->B, ctx->T);
    finish_back(ctx, &a, &g, dy);
    core_back(ctx, &a, &g);
    conv_backward(&conv, g.drow + inner(c), ctx->dw[CONV], ctx->dw[CONVB], g.dxbc,
                  a.row + inner(c));
    linear_backward(dx, 1, ctx->dw[WIN], g.drow, x, ctx->w[WIN], (long)ctx->B * ctx->T, c->C,
                    row(c));
}

/* State: the last inputs of the convolution, then the core's. */
static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct conv   conv = conv_of(ctx, 1);
    struct acts   a;
    struct scalar core;

    carve(&a, ctx->scratch, c, ctx->B, ctx->T, false);
    core = core_of(ctx, &a);
    linear_forward(a.row, x, ctx->w[WIN], (long)ctx->B * ctx->T, c->C, row(c));
    for (int b = 0; b < ctx->B; b++) {
        size_t i = (size_t)b * ctx->T;
        real  *past = state[b];

        conv_extend(&conv, &past, a.xbc + i * xbc(c), a.row + i * row(c) + inner(c));
    }
    gates(ctx, &a);
    scalar_extend(&core, state, (CONV_TAPS - 1) * (size_t)xbc(c), a.o);
    finish(ctx, &a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * (2.0 * c->C * (row(c) + inner(c)) +
                        c->H * scalar_flops(T, n_of(c), p_of(c)));
}

const struct mixer mixer_ssd = {
    .name     = "ssd",
    .about    = "state space with one decay per token and head (Mamba-2)",
    .system   = "L = e^{-e^alog D_t} I, B = D_t I x B_t, C = I x C_t, plus dskip I",
    .position = "none",
    .opts     = opts,
    .params   = params,
    .sizes    = sizes,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .flops    = flops,
};
