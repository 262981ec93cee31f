/* State-space duality: a linear state space with one decay per token and head (Mamba-2,
 * arXiv:2405.21060).
 *
 *     z, x, B, C, t = Win x                z, x (H, P), B, C (N) shared by heads, t (H)
 *     x, B, C <- silu(conv([x, B, C]))
 *     D = softplus(t + dtb),  log a = -e^alog D                   per head
 *     S_t = a_t S_{t-1} + B_t (D_t x_t)ᵀ   S (N, P), H P = expand times the width
 *     o_t = S_tᵀ C_t + dskip x_t
 *     y = Wo( rms(o silu(z)) norm )        rms over all channels
 *
 * Published with state = 128 and heads of P = 64; reduced here to state = 64 and the
 * model's heads.
 */
#include "model/cores/scalar.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "model/layers/conv.h"
#include "model/layers/gate.h"
#include "model/layers/norm.h"
#include "model/mixer.h"

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
        w[DTB][h] = param_step(r);
        w[ALOG][h] = (real)log(1 + 15 * rng_uniform(r));
    }
}

struct acts {
    real *row, *drow;           // (B, T, row)
    real *xbc, *dxbc;           // (B, T, xbc) after convolution
    real *step;                 // (B, T, H) D
    real *log_a, *dlog_a;       // (B, T, H)
    real *v, *dv;               // (B, T, H, P) D x; dv holds the gated o before
    real *o, *u, *d_o;          // (B, T, H, P); u after gate and norm
    real *dq, *dk;              // (B, T, H, N)
    real *sums;                 // (B, H, 3) of dtb, alog, dskip
    real *partial;              // of the norm
    struct norm norm;
    struct conv conv;
    struct scalar core;
    real *saved, *scratch;      // of the core
    size_t past, S;             // where the states of conv and core are
};

static void carve_back(struct acts *a, struct room *m, const struct mixer_cfg *c)
{
    const size_t n = room_rows(m), e = inner(c);

    a->drow = room_back(m, n * row(c));
    a->dxbc = room_back(m, n * xbc(c));
    a->dq = room_back(m, n * c->H * n_of(c));
    a->dk = room_back(m, n * c->H * n_of(c));
    a->dv = room_back(m, n * e);
    a->d_o = room_back(m, n * e);
    a->dlog_a = room_back(m, n * c->H);
    a->sums = room_back(m, (size_t)m->B * c->H * 3);
    a->partial = room_back(m, norm_partial(&a->norm));
    a->scratch = room_back(m, scalar_scratch(&a->core));
}

static void carve(struct room *m, const struct mixer_cfg *c)
{
    struct acts *a = room_names(m, sizeof *a);
    const size_t n = room_rows(m), e = inner(c);

    a->row = room_keep(m, n * row(c));
    a->xbc = room_keep(m, n * xbc(c));
    a->step = room_keep(m, n * c->H);
    a->log_a = room_keep(m, n * c->H);
    a->v = room_keep(m, n * e);
    a->o = room_keep(m, n * e);
    a->u = room_keep(m, n * e);
    a->norm = (struct norm){1, inner(c), false, (real)1e-5};
    a->conv = (struct conv){.B = m->B, .T = m->T, .C = xbc(c), .ld_x = row(c),
                            .ld_y = xbc(c), .w = room_param(m, CONV),
                            .b = room_param(m, CONVB), .silu = true};
    a->core = (struct scalar){
        .B = m->B, .T = m->T, .H = c->H, .dk = n_of(c), .dv = p_of(c), .scale = 1,
        .k = room_at(a->xbc, e), .q = room_at(a->xbc, e + n_of(c)), .v = a->v,
        .shared = true, .ld_q = xbc(c), .ld_k = xbc(c), .ld_v = e, .ld_o = e,
        .log_f = a->log_a, .ld_f = c->H,
    };
    a->saved = room_save(m, scalar_kept(&a->core));
    a->past = room_state(m, conv_state(&a->conv));
    a->S = room_state(m, scalar_state(&a->core));
    carve_back(a, m, c);
}

/* D, log a and v = D x. */
static void gates(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);
    const int  P = p_of(c);

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
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

static void skip(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);
    const int  P = p_of(c);

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
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
static void finish(const struct ctx *ctx, const struct acts *a, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long  n = ctx_rows(ctx);
    const int   e = inner(c);

    skip(ctx, a);
    gate_forward(GATE_SILU, a->u, e, a->o, e, a->row, row(c), n, e);
    rms_forward(&a->norm, a->u, e, a->u, e, ctx->w[NORM], n);
    product_forward(y, a->u, ctx->w[WO], n, e, c->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    product_forward(a->row, x, ctx->w[WIN], ctx_rows(ctx), c->C, row(c));
    conv_forward(&a->conv, a->xbc, a->row + inner(c));
    gates(ctx, a);
    scalar_forward(&a->core, a->o, a->saved);
    finish(ctx, a, y);
}

/* From dy to the gradients of o and z. */
static void finish_back(const struct ctx *ctx, const struct acts *a, const real *dy)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long  n = ctx_rows(ctx);
    const int   e = inner(c);
    real       *gated = a->dv;

    product_backward(a->d_o, 0, ctx->dw[WO], dy, a->u, ctx->w[WO], n, e, c->C);
    gate_forward(GATE_SILU, gated, e, a->o, e, a->row, row(c), n, e);
    rms_backward(&a->norm, a->d_o, e, 0, ctx->dw[NORM], a->d_o, e, gated, e,
                 ctx->w[NORM], n, a->partial);
    gate_backward(GATE_SILU, a->d_o, a->drow, row(c), a->d_o, e, a->o, e, a->row,
                  row(c), n, e);
}

/* dB and dC: the sums over heads of dk and dq. */
static void heads_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);
    const int  N = n_of(c);

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        real *dB = a->dxbc + i * xbc(c) + inner(c), *dC = dB + N;

        memset(dB, 0, 2 * (size_t)N * sizeof *dB);
        for (int h = 0; h < c->H; h++) {
            const real *dk = a->dk + (i * c->H + h) * N, *dq = a->dq + (i * c->H + h) * N;

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

/* dD = dv . x - e^alog dlog a,  dt = dD sigmoid(t + dtb) into its place in drow, and the
 * sums over the tokens of head h of sequence b. */
static void gate_back(const struct ctx *ctx, const struct acts *a, int b, int h)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int  P = p_of(c);
    const real rate = (real)exp(ctx->w[ALOG][h]);
    double     dtb = 0, dalog = 0, dskip = 0;
    real      *sums = a->sums + ((size_t)b * c->H + h) * 3;

    for (long i = (long)b * ctx->T; i < (long)(b + 1) * ctx->T; i++) {
        size_t in = i * inner(c) + (size_t)h * P, at = i * xbc(c) + (size_t)h * P;
        size_t t = i * c->H + h;
        real   dD = token_back(a->dxbc + at, a->dv + in, a->d_o + in, a->xbc + at,
                               a->step[t], ctx->w[DSKIP][h], P, &dskip);
        real   dt = (dD - rate * a->dlog_a[t]) *
                    vsigmoid(a->row[i * row(c) + t_at(c) + h] + ctx->w[DTB][h]);

        a->drow[i * row(c) + t_at(c) + h] = dt;
        dtb += dt;
        dalog += a->log_a[t] * a->dlog_a[t];
    }
    sums[0] = (real)dtb, sums[1] = (real)dalog, sums[2] = (real)dskip;
}

static void core_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t heads = (size_t)c->H * n_of(c);
    struct scalar_grad d = {
        .dq = a->dq, .dk = a->dk, .dv = a->dv, .ld_dq = heads, .ld_dk = heads,
        .ld_dv = inner(c), .dlog_f = a->dlog_a, .ld_df = c->H,
    };

    scalar_backward(&a->core, &d, NULL, a->d_o, a->saved, a->scratch);
    heads_back(ctx, a);
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < c->H; h++)
            gate_back(ctx, a, b, h);
    for (int i = 0; i < ctx->B * c->H; i++) {
        ctx->dw[DTB][i % c->H] += a->sums[3 * i];
        ctx->dw[ALOG][i % c->H] += a->sums[3 * i + 1];
        ctx->dw[DSKIP][i % c->H] += a->sums[3 * i + 2];
    }
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int    e = inner(c);
    struct acts *a = ctx->acts;

    finish_back(ctx, a, dy);
    core_back(ctx, a);
    conv_backward(&a->conv, a->drow + e, ctx->dw[CONV], ctx->dw[CONVB], a->dxbc,
                  a->row + e);
    product_backward(dx, 1, ctx->dw[WIN], a->drow, x, ctx->w[WIN], ctx_rows(ctx), c->C,
                     row(c));
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    product_forward(a->row, x, ctx->w[WIN], ctx_rows(ctx), c->C, row(c));
    conv_extend(&a->conv, state, a->past, a->xbc, a->row + inner(c));
    gates(ctx, a);
    scalar_extend(&a->core, state, a->S, a->o);
    finish(ctx, a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * (2.0 * c->C * (row(c) + inner(c)) + conv_flops(xbc(c)) +
                        c->H * scalar_flops(T, n_of(c), p_of(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct acts *a = ctx->acts;

    range_logs(r, a->log_a, c->H, ctx_rows(ctx), c->H, 1);
    return c->H;
}

const struct mixer mixer_ssd = {
    .name     = "ssd",
    .about    = "state space with one decay per token and head (Mamba-2)",
    .system   = "L = e^{-e^alog D_t} I, B = D_t I x B_t, C = I x C_t, plus dskip I",
    .position = "none",
    .opts     = opts,
    .params   = params,
    .carve    = carve,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
