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
#include "model/kernels/vmath.h"
#include "model/layers/step.h"
#include "model/mixer_heads.h"

#include <math.h>
#include <string.h>

enum { WIN, CONV, CONVB, DTB, ALOG, DSKIP, NORM, WO, N_PARAMS };
enum { EXPAND, STATE };

static const struct opt opts[] = {
    [EXPAND] = {"expand", "inner width in widths", OPT_INT, NULL, 2, 1, 16},
    [STATE]  = {"state", "width N of B and C", OPT_INT, NULL, 64, 1, 4096},
    {0},
};

static int inner(const struct mixer_cfg *c) { return (int)c->opt[EXPAND] * c->C; }
static int n_of(const struct mixer_cfg *c) { return (int)c->opt[STATE]; }
static int p_of(const struct mixer_cfg *c) { return inner(c) / c->H; }
static int xbc(const struct mixer_cfg *c) { return inner(c) + 2 * n_of(c); }
static int row(const struct mixer_cfg *c) { return inner(c) + xbc(c) + c->H; }

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
    struct act row, z;          // [z, x, B, C, t] before the convolution of x, B, C
    struct act in, t;           // x, B, C and t of the row
    struct act xbc;             // after it
    struct act step, log_a;     // (H) D
    struct act v;               // (H, P) D x; v.dx holds the gated o before
    struct act o, u;            // (H, P); u after gate and norm, u.dx is o.dx
    struct act q, k;            // (H, N) the gradients of C and B, by heads
    real *dskip;                // (B, H)
    real *partial;              // of the norm
    struct norm norm;
    struct short_conv conv;
    struct scalar_heads core;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t n = layout_tokens(m), e = inner(c), N = n_of(c), heads = c->H * N;

    a->row = act_row(m, (struct act_part[]){{&a->z, e}, {&a->in, xbc(c)}, {&a->t, c->H},
                                            {0}});
    a->xbc = act_keep(m, "xbc", xbc(c));
    a->step = act_keep(m, "step", c->H);
    a->log_a = act_keep(m, "log_a", c->H);
    a->v = act_keep(m, "v", e);
    a->o = act_keep(m, "o", e);
    a->u = (struct act){layout_keep(m, "u", n * e), a->o.dx, e};
    a->k = act_from(a->xbc, e);
    a->q = act_from(a->xbc, e + N);
    a->dskip = layout_grad(m, "dskip", (size_t)m->B * c->H);
    a->norm = (struct norm){1, inner(c), .eps = (real)c->eps};
    a->partial = layout_grad(m, "partial", norm_partial(&a->norm));
    a->conv = short_conv_layout(m, CONV, CONVB, xbc(c), a->row.ld, a->xbc.ld, true);
    a->core.core = (struct scalar){.H = c->H, .dk = (int)N, .dv = p_of(c), .scale = 1,
                                   .shared = true, .log_f = a->log_a.x, .ld_f = c->H};
    scalar_heads_layout(&a->core, m, a->q, a->k, a->v);
    a->q.dx = layout_grad(m, "dq", n * heads);
    a->k.dx = layout_grad(m, "dk", n * heads);
    a->core.grad = (struct scalar_grad){
        .dq = a->q.dx, .dk = a->k.dx, .dv = a->v.dx, .ld_dq = heads, .ld_dk = heads,
        .ld_dv = e, .dlog_f = a->log_a.dx, .ld_df = c->H,
    };
}

static struct step step_of(const struct ctx *ctx, const struct acts *a)
{
    return (struct step){ctx_rows(ctx), ctx->cfg->H, a->t.ld, ctx->w[DTB], ctx->w[ALOG]};
}

/* D, log a and v = D x. */
static void gates(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct step step = step_of(ctx, a);
    const int         P = p_of(c);

    step_forward(&step, a->step.x, a->log_a.x, a->t.x);
    #pragma omp parallel for schedule(static) if (step.n > FEW_ROWS)
    for (long i = 0; i < step.n; i++)
        for (int h = 0; h < c->H; h++)
            vscale(a->v.x + i * a->v.ld + (size_t)h * P, a->step.x[i * c->H + h],
                   a->xbc.x + i * a->xbc.ld + (size_t)h * P, P);
}

/* o += dskip x */
static void skip(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);
    const int  P = p_of(c);

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < c->H; h++) {
            const real *x = a->xbc.x + i * a->xbc.ld + (size_t)h * P;
            real       *o = a->o.x + i * a->o.ld + (size_t)h * P, by = ctx->w[DSKIP][h];

            #pragma omp simd
            for (int j = 0; j < P; j++)
                o[j] += by * x[j];
        }
}

static void gate(const struct ctx *ctx, const struct acts *a, real *gated)
{
    const size_t e = a->o.ld;

    gate_forward(GATE_SILU, gated, e, a->o.x, e, a->z.x, a->z.ld, ctx_rows(ctx), (int)e);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    in_proj_forward(ctx, WIN, a->row, x);
    short_conv_forward(ctx, &a->conv, a->xbc.x, a->in.x);
    gates(ctx, a);
    scalar_heads_forward(ctx, &a->core, a->o.x);
    skip(ctx, a);
    gate(ctx, a, a->u.x);
    rms_forward(&a->norm, a->u.x, a->u.ld, a->u.x, a->u.ld, ctx->w[NORM], ctx_rows(ctx));
    out_proj_forward(ctx, WO, y, a->u);
}

/* From dy to the gradients of o and z. */
static void finish_back(const struct ctx *ctx, const struct acts *a, const real *dy)
{
    const long   n = ctx_rows(ctx);
    const size_t e = a->o.ld;
    real        *gated = a->v.dx, *d = a->o.dx;

    out_proj_backward(ctx, WO, a->u, dy);
    gate(ctx, a, gated);
    rms_backward(&a->norm, d, e, 0, ctx->dw[NORM], d, e, gated, e, ctx->w[NORM], n,
                 a->partial);
    gate_backward(GATE_SILU, d, a->z.dx, a->z.ld, d, e, a->o.x, e, a->z.x, a->z.ld, n,
                  (int)e);
}

/* dB and dC: the sums over heads of dk and dq. */
static void heads_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);
    const int  N = n_of(c);

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        real *dB = a->xbc.dx + i * xbc(c) + inner(c), *dC = dB + N;

        memset(dB, 0, 2 * (size_t)N * sizeof *dB);
        for (int h = 0; h < c->H; h++) {
            const real *dk = a->k.dx + (i * c->H + h) * N,
                       *dq = a->q.dx + (i * c->H + h) * N;

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

/* dx, dD and the sum of ddskip of head h of sequence b. */
static void head_back(const struct ctx *ctx, const struct acts *a, int b, int h)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int P = p_of(c);
    double    dskip = 0;

    for (long i = (long)b * ctx->T; i < (long)(b + 1) * ctx->T; i++) {
        size_t in = i * inner(c) + (size_t)h * P, at = i * xbc(c) + (size_t)h * P;
        size_t t = i * c->H + h;

        a->step.dx[t] = token_back(a->xbc.dx + at, a->v.dx + in, a->o.dx + in,
                                   a->xbc.x + at, a->step.x[t], ctx->w[DSKIP][h], P,
                                   &dskip);
    }
    a->dskip[(size_t)b * c->H + h] = (real)dskip;
}

static void core_back(const struct ctx *ctx, const struct acts *a)
{
    const int         H = ctx->cfg->H;
    const struct step step = step_of(ctx, a);

    scalar_heads_backward(&a->core, a->o);
    heads_back(ctx, a);
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < H; h++)
            head_back(ctx, a, b, h);
    add_partials(ctx, DSKIP, a->dskip, H);
    step_backward(&step, a->t.dx, ctx->dw[DTB], ctx->dw[ALOG], a->step.dx, a->log_a.dx,
                  a->step.x, a->log_a.x);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    finish_back(ctx, a, dy);
    core_back(ctx, a);
    short_conv_backward(ctx, &a->conv, a->in.dx, a->xbc.dx, a->in.x);
    in_proj_backward(ctx, WIN, dx, a->row, x);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * (2.0 * c->C * (row(c) + inner(c)) + conv_flops(xbc(c)) +
                        c->H * scalar_flops(T, n_of(c), p_of(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;

    return decay_of_logs(ctx, r, a->log_a.x, ctx->cfg->H, 1);
}

static double state(const struct mixer_cfg *c)
{
    return (double)n_of(c) * inner(c) + 3 * xbc(c);
}

const struct mixer mixer_ssd = {
    .name     = "ssd",
    .about    = "state space with one decay per token and head (Mamba-2)",
    .position = "none",
    .opts     = opts,
    .params   = params,
    .layout   = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .flops    = flops,
    .instruments = &(struct instruments){
        .system = "L = e^{-e^alog D_t} I, B = D_t I x B_t, C = I x C_t, plus dskip I",
        .state = state, .decay = decay,
    },
};
