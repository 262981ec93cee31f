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
#include "model/mixer_heads.h"

#include <math.h>
#include <string.h>

enum { EXPAND, STATE };

static const struct opt opts[] = {
    [EXPAND] = {"expand", "inner width in widths", OPT_INT, 2, 1, 16},
    [STATE]  = {"state", "width N of B and C", OPT_INT, 64, 1, 4096},
    {0},
};

struct acts {
    struct act row, z;          // [z, x, B, C, t] before the convolution of x, B, C
    struct act in, t;           // x, B, C and t of the row
    struct act xbc;             // after it
    struct act k, q;            // B and C; their gradients (H, N) by heads
    struct heads_step step;     // of t; its s is D
    struct act v;               // (H, P) D x
    struct act u;               // (H, P) after gate and norm
    struct weight dskip, wo;    // dskip (H)
    struct norm norm;           // of the gated o, over all channels
    struct weight wn;           // its weight
    real  *partial;             // and its scratch
    struct short_conv conv;
    struct scalar_heads core;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    H = c->H, e = (int)c->opt[EXPAND] * c->C, N = (int)c->opt[STATE],
                 xbc = e + 2 * N;

    a->row = act_row(m, (struct act_part[]){
        {"win", &a->z, e}, {NULL, &a->in, xbc}, {NULL, &a->t, H}, {0}});
    a->xbc = act_keep(m, "xbc", xbc);
    a->conv = short_conv_layout(m, (struct taps[]){{"conv", xbc}, {0}}, "convb",
                                a->row.ld, xbc, true);
    a->step = heads_step_layout(m, H, a->t);
    a->v = act_keep(m, "v", e);
    a->k = act_from(a->xbc, e);
    a->k.dx = layout_grad(m, "dk", layout_tokens(m) * H * N);
    a->q = act_from(a->xbc, e + N);
    a->q.dx = layout_grad(m, "dq", layout_tokens(m) * H * N);
    a->core = scalar_heads_layout(m, a->q, a->k, a->v, (struct scalar){
        .H = H, .dk = N, .dv = e / H, .scale = 1, .shared = true});
    a->core.grad.ld_dq = a->core.grad.ld_dk = (size_t)H * N;
    scalar_heads_forget(&a->core, a->step.log_a);
    a->dskip = layout_summed(m, "dskip", H, INIT_ONE);
    a->norm = (struct norm){1, e, .eps = (real)c->eps};
    a->wn = layout_vector(m, "norm", e, INIT_ONE);
    a->partial = layout_grad(m, "partial", rms_gated_partial(&a->norm));
    a->u = act_after(m, "u", a->core.o);
    a->wo = layout_out(m, e);
    m->paper_state = (double)N * e + 3 * xbc;
}

/* dtb: softplus of it is log-uniform in [1e-3, 1e-1]; alog = log U(1, 16). */
static void init(const struct mixer_cfg *c, void *acts, struct rng *r)
{
    struct acts *a = acts;

    for (int h = 0; h < c->H; h++) {
        a->step.dtb.w[h] = param_step(r);
        a->step.alog.w[h] = (real)log(1 + 15 * rng_uniform(r));
    }
}

/* D, log a and v = D x. */
static void gates(const struct ctx *ctx, const struct acts *a)
{
    const long n = ctx_rows(ctx);
    const int  H = ctx->cfg->H, P = a->core.core.dv;

    heads_step_forward(&a->step);
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < H; h++)
            vscale(a->v.x + i * a->v.ld + (size_t)h * P, a->step.s.x[i * H + h],
                   a->xbc.x + i * a->xbc.ld + (size_t)h * P, P);
}

/* o += dskip x, of one token. */
static void skip(const struct ctx *ctx, const struct acts *a, long i)
{
    const int P = a->core.core.dv;

    for (int h = 0; h < ctx->cfg->H; h++)
        vaxpy(a->core.o.x + i * a->core.o.ld + (size_t)h * P, a->dskip.w[h],
              a->xbc.x + i * a->xbc.ld + (size_t)h * P, P);
}

/* u from o, z and x, some rows at a time while they are in the cache. */
static void finish(const struct ctx *ctx, const struct acts *a)
{
    const struct act o = a->core.o;
    const long n = ctx_rows(ctx);

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long t = 0; t < n; t += FEW_ROWS) {
        long rows = n - t < FEW_ROWS ? n - t : FEW_ROWS;

        for (long i = t; i < t + rows; i++)
            skip(ctx, a, i);
        rms_gated_forward(&a->norm, a->u.x + t * a->u.ld, a->u.ld, o.x + t * o.ld, o.ld,
                          a->z.x + t * a->z.ld, a->z.ld, a->wn.w, rows);
    }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    proj_forward(ctx, a->row, x);
    short_conv_forward(ctx, &a->conv, a->xbc.x, a->in.x);
    gates(ctx, a);
    scalar_heads_forward(ctx, &a->core);
    finish(ctx, a);
    out_proj_forward(ctx, a->wo, y, a->u);
}

/* From dy to the gradients of o and z. */
static void finish_back(const struct ctx *ctx, const struct acts *a, const real *dy)
{
    const struct act o = a->core.o;

    out_proj_backward(ctx, a->wo, a->u, dy);
    rms_gated_backward(&a->norm, o.dx, a->z.dx, a->z.ld, a->wn.dw, a->u.dx, o.ld, o.x,
                       o.ld, a->z.x, a->z.ld, a->wn.w, ctx_rows(ctx), a->partial);
}

/* dB and dC: the sums over heads of dk and dq. */
static void heads_back(const struct ctx *ctx, const struct acts *a)
{
    const long n = ctx_rows(ctx);
    const int  H = ctx->cfg->H, N = a->core.core.dk;

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        real *dB = a->xbc.dx + i * a->xbc.ld + a->v.ld, *dC = dB + N;

        memset(dB, 0, 2 * (size_t)N * sizeof *dB);
        for (int h = 0; h < H; h++) {
            const real *dk = a->k.dx + (i * H + h) * N, *dq = a->q.dx + (i * H + h) * N;

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
    const int H = ctx->cfg->H, P = a->core.core.dv;
    double    dskip = 0;

    for (long i = (long)b * ctx->T; i < (long)(b + 1) * ctx->T; i++) {
        size_t in = i * a->v.ld + (size_t)h * P, at = i * a->xbc.ld + (size_t)h * P;
        size_t t = i * H + h;

        a->step.s.dx[t] = token_back(a->xbc.dx + at, a->v.dx + in, a->core.o.dx + in,
                                     a->xbc.x + at, a->step.s.x[t], a->dskip.w[h], P,
                                     &dskip);
    }
    a->dskip.part[(size_t)b * H + h] = (real)dskip;
}

static void core_back(const struct ctx *ctx, const struct acts *a)
{
    const int H = ctx->cfg->H;

    scalar_heads_backward(&a->core);
    heads_back(ctx, a);
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < H; h++)
            head_back(ctx, a, b, h);
    add_parts(ctx, a->dskip, H);
    heads_step_backward(&a->step, a->step.s.dx);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    finish_back(ctx, a, dy);
    core_back(ctx, a);
    short_conv_backward(&a->conv, a->in.dx, a->xbc.dx, a->in.x);
    proj_backward(ctx, dx, 0, a->row, x);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;

    return decay_of_logs(ctx, r, a->step.log_a.x, ctx->cfg->H, 1);
}

const struct mixer mixer_ssd = {
    .name     = "ssd",
    .about    = "state space with one decay per token and head (Mamba-2)",
    .opts     = opts,
    .layout   = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = e^{-e^alog D_t} I, B = D_t I x B_t, C = I x C_t, plus dskip I",
        .decay = decay,
    },
};
