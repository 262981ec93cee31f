/* RG-LRU: a linear recurrence with a recurrence gate and an input gate (Griffin,
 * arXiv:2402.19427).
 *
 *     p, w = Wy x + by, Wx x + bx               p, w (e)
 *     u = conv(w)                               no activation
 *     r, i = sigmoid(Wa u + ba), sigmoid(Wi u + bi)      Wa, Wi: a diagonal block a head
 *     log a = -8 r softplus(lam)
 *     h_t = a h_{t-1} + sqrt(1 - a²) i u        the first enters unscaled: h_0 = i u
 *     y = Wo( gelu(p) h )
 *
 * The square root keeps the variance of h that of i u. 1 - a² is -expm1(2 log a).
 * Its derivative is infinite at a = 1 and is therefore always taken times log a,
 * a factor of both dr and dlam.
 */
#include "model/cores/scan.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "model/layers/bias.h"
#include "model/layers/conv.h"
#include "model/mixer.h"

#include <math.h>
#include <string.h>

enum { WY, WX, BY, BX, CONV, CONVB, WA, WI, BA, BI, LAM, WO, N_PARAMS };
enum { INNER };

static const struct opt opts[] = {
    [INNER] = {"inner", "channels of the recurrence; 0: width",
               OPT_INT, NULL, 0, 0, 1 << 20},
    {0},
};

static int inner(const struct mixer_cfg *c) { return opt_or(c, INNER, c->C); }
static int block(const struct mixer_cfg *c) { return inner(c) / c->H; }

static const char *check(const struct mixer_cfg *c)
{
    return inner(c) % c->H ? "inner (width unless set) must be a multiple of heads"
                           : NULL;
}

static int params(const struct mixer_cfg *c, struct param *p)
{
    const int    e = inner(c), s = block(c);
    const double std = 1 / sqrt(s);

    p[WY] = (struct param){"wy", e, c->C, INIT_INPUT, .decay = true};
    p[WX] = (struct param){"wx", e, c->C, INIT_INPUT, .decay = true};
    p[BY] = (struct param){"by", e, 0, INIT_ZERO};
    p[BX] = (struct param){"bx", e, 0, INIT_ZERO};
    p[CONV] = (struct param){"conv", e, CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CONVB] = (struct param){"convb", e, 0, INIT_ZERO};
    p[WA] = (struct param){"wa", e, s, INIT_NORMAL, std, .decay = true};
    p[WI] = (struct param){"wi", e, s, INIT_NORMAL, std, .decay = true};
    p[BA] = (struct param){"ba", e, 0, INIT_ZERO};
    p[BI] = (struct param){"bi", e, 0, INIT_ZERO};
    p[LAM] = (struct param){"lam", e, 0, INIT_OWN};
    p[WO] = (struct param){"wo", c->C, e, INIT_OUTPUT, .decay = true};
    return N_PARAMS;
}

/* lam: a = rho^{8 r} with rho² from U(0.9², 0.999²). */
static void init(const struct mixer_cfg *c, real *const *w, struct rng *r)
{
    for (int j = 0; j < inner(c); j++) {
        double square = 0.81 + (0.998001 - 0.81) * rng_uniform(r);

        w[LAM][j] = (real)log(expm1(-0.5 * log(square)));
    }
}

struct acts {
    real *row, *drow;           // (B, T, 2, e) p, w with bias
    real *u;                    // (B, T, e)
    real *z, *dz;               // (B, T, 2, e) of r and i, with bias
    real *h, *dh;               // (B, T, e); dh then holds du
    real *v;                    // (B, T, e) a until the scan, then gelu(p) h
    real *rate;                 // (e) 8 softplus(lam)
    real *a;                    // (B, T, e) in backward; then log a dlog a
    real *sum;                  // (e) of it
    struct conv conv;
    size_t past, S;             // where the states of conv and scan are
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    e = inner(c);
    const size_t n = layout_tokens(m) * e;

    a->row = layout_keep(m, "row", 2 * n);
    a->u = layout_keep(m, "u", n);
    a->z = layout_keep(m, "z", 2 * n);
    a->h = layout_keep(m, "h", n);
    a->v = layout_keep(m, "v", n);
    a->rate = layout_keep(m, "rate", e);
    a->drow = layout_grad(m, "drow", 2 * n);
    a->dz = layout_grad(m, "dz", 2 * n);
    a->dh = layout_grad(m, "dh", n);
    a->a = layout_grad(m, "a", n);
    a->sum = layout_grad(m, "sum", e);
    a->conv = (struct conv){.B = m->B, .T = m->T, .C = e, .ld_x = 2 * (size_t)e,
                            .ld_y = e, .w = layout_param(m, CONV),
                            .b = layout_param(m, CONVB)};
    a->past = layout_state(m, conv_state(&a->conv));
    a->S = layout_state(m, e);
}

/* row = [Wy; Wx] x + [by; bx], and the rates. */
static void project(const struct ctx *ctx, const real *x, const struct acts *a)
{
    const long n = ctx_rows(ctx);
    const int  e = inner(ctx->cfg);

    product_forward(a->row, x, ctx->w[WY], n, ctx->cfg->C, 2 * e);
    bias_forward(a->row, ctx->w[BY], n, 2 * e);
    for (int j = 0; j < e; j++)
        a->rate[j] = 8 * vsoftplus(ctx->w[LAM][j]);
}

/* z = [Wa u; Wi u] without bias: a product per tile of rows, block and gate. */
static void blocks_forward(const struct ctx *ctx, const struct acts *a)
{
    const long n = ctx_rows(ctx);
    const int  e = inner(ctx->cfg), s = block(ctx->cfg), tile = product_tile(n);

#pragma omp parallel for collapse(2) schedule(static) if (n > FEW_ROWS)
    for (long r = 0; r < n; r += tile)
        for (int k = 0; k < 2 * ctx->cfg->H; k++) {
            int    rows = (int)(n - r < tile ? n - r : tile);
            size_t from = (size_t)k * s % e;

            gemm_nt(a->z + 2 * r * e + (size_t)k * s, 2 * e, a->u + r * e + from, e,
                    ctx->w[WA] + (size_t)k * s * s, s, rows, s, s, 1, 0);
        }
}

/* du += dz [Wa; Wi],  dwa += dzᵀ u,  dwi likewise. */
static void blocks_backward(const struct ctx *ctx, const struct acts *a)
{
    const long n = ctx_rows(ctx);
    const int  e = inner(ctx->cfg), s = block(ctx->cfg), H = ctx->cfg->H,
              tile = product_tile(n);

#pragma omp parallel for collapse(2) schedule(static)
    for (long r = 0; r < n; r += tile)
        for (int h = 0; h < H; h++)
            for (int k = h; k < 2 * H; k += H)
                gemm_nn(a->dh + r * e + (size_t)h * s, e,
                        a->dz + 2 * r * e + (size_t)k * s, 2 * e,
                        ctx->w[WA] + (size_t)k * s * s, s,
                        (int)(n - r < tile ? n - r : tile), s, s, 1, 1);
    #pragma omp parallel for schedule(static)
    for (int k = 0; k < 2 * H; k++)
        gemm_tn(ctx->dw[WA] + (size_t)k * s * s, s, a->dz + (size_t)k * s, 2 * e,
                a->u + (size_t)k * s % e, e, s, s, (int)n, 1, 1);
}

/* sqrt(1 - a²), the scale of what enters; 1 at the first token. */
static inline real entering(real log_a, bool first)
{
    return first ? 1 : vsqrt(-vexpm1(2 * log_a));
}

/* z with its bias, a in v, and into h what enters the states. */
static struct scan gates(const struct ctx *ctx, const struct acts *a)
{
    const long  n = ctx_rows(ctx);
    const int   e = inner(ctx->cfg);
    const real *rate = a->rate;

    blocks_forward(ctx, a);
    bias_forward(a->z, ctx->w[BA], n, 2 * e);
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long r = 0; r < n; r++) {
        const real *z = a->z + 2 * r * e, *u = a->u + r * e;
        real       *v = a->v + r * e, *h = a->h + r * e;
        bool        first = r % ctx->T == 0 && (!ctx->pos || ctx->pos[r / ctx->T] == 0);

        for (int j = 0; j < e; j++) {
            real log_a = -rate[j] * vsigmoid(z[j]);

            v[j] = vexp(log_a);
            h[j] = entering(log_a, first) * vsigmoid(z[e + j]) * u[j];
        }
    }
    return (struct scan){ctx->B, ctx->T, e, a->v};
}

/* v = gelu(p) h,  y = Wo v */
static void finish(const struct ctx *ctx, const struct acts *a, real *y)
{
    const long n = ctx_rows(ctx);
    const int  e = inner(ctx->cfg);

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long r = 0; r < n; r++) {
        const real *p = a->row + 2 * r * e, *h = a->h + r * e;
        real       *v = a->v + r * e;

        for (int j = 0; j < e; j++)
            v[j] = vgelu(p[j]) * h[j];
    }
    product_forward(y, a->v, ctx->w[WO], n, e, ctx->cfg->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;
    struct scan  s;

    project(ctx, x, a);
    conv_forward(&a->conv, a->u, a->row + inner(ctx->cfg));
    s = gates(ctx, a);
    scan_forward(&s, a->h);
    finish(ctx, a, y);
}

/* One token: from dv, in dh, to dp and dh; and a again. */
static inline void finish_row(const real *p, const real *z, const real *h,
                              const real *rate, real *restrict dp, real *restrict dh,
                              real *restrict a, int e)
{
    for (int j = 0; j < e; j++) {
        dp[j] = dh[j] * h[j] * vgelu_slope(p[j]);
        dh[j] *= vgelu(p[j]);
        a[j] = vexp(-rate[j] * vsigmoid(z[j]));
    }
}

static void finish_back(const struct ctx *ctx, const struct acts *a)
{
    const int e = inner(ctx->cfg);

    #pragma omp parallel for schedule(static)
    for (long r = 0; r < ctx_rows(ctx); r++)
        finish_row(a->row + 2 * r * e, a->z + 2 * r * e, a->h + r * e, a->rate,
                   a->drow + 2 * r * e, a->dh + r * e, a->a + r * e, e);
}

/* One token, with s = sqrt(1 - a²):
 *
 *     flow = log a dlog a = log a (a da - a²/s i u db)   without a²/s at the first token
 *     dzr = flow (1 - r),  dzi = db s u i (1 - i),  du = db s i
 *
 * dzr enters holding da, db leaves holding du, a leaves holding flow. */
static inline void gate_row(const real *z, const real *u, const real *rate,
                            real *restrict a, real *restrict dzr, real *restrict dzi,
                            real *restrict db, int e, bool first)
{
    for (int j = 0; j < e; j++) {
        real r = vsigmoid(z[j]), i = vsigmoid(z[e + j]), d = db[j];
        real log_a = -rate[j] * r, s = entering(log_a, first);
        real slope = first || s <= 0 ? 0 : log_a * a[j] * a[j] / s;
        real flow = log_a * a[j] * dzr[j] - slope * i * u[j] * d;

        a[j] = flow;
        dzr[j] = flow * (1 - r);
        dzi[j] = d * s * u[j] * i * (1 - i);
        db[j] = d * s * i;
    }
}

/* dlam = sum of flow sigmoid(lam) / softplus(lam), a quotient that is 1
 * where both vanish. */
static void gates_back(const struct ctx *ctx, const struct acts *a)
{
    const long n = ctx_rows(ctx);
    const int  e = inner(ctx->cfg);

    #pragma omp parallel for schedule(static)
    for (long r = 0; r < n; r++) {
        real *dz = a->dz + 2 * r * e;

        gate_row(a->z + 2 * r * e, a->u + r * e, a->rate, a->a + r * e, dz, dz + e,
                 a->dh + r * e, e, r % ctx->T == 0);
    }
    bias_backward(ctx->dw[BA], a->dz, n, 2 * e);
    memset(a->sum, 0, e * sizeof *a->sum);
    bias_backward(a->sum, a->a, n, e);
    for (int j = 0; j < e; j++) {
        real lam = ctx->w[LAM][j];

        ctx->dw[LAM][j] += a->sum[j] * (lam < -40 ? 1 : vsigmoid(lam) / vsoftplus(lam));
    }
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const long   n = ctx_rows(ctx);
    const int    C = ctx->cfg->C, e = inner(ctx->cfg);
    struct acts *a = ctx->acts;
    struct scan  s = {ctx->B, ctx->T, e, a->a};

    product_backward(a->dh, 0, ctx->dw[WO], dy, a->v, ctx->w[WO], n, e, C);
    finish_back(ctx, a);
    scan_backward(&s, a->dh, a->dz, 2 * (size_t)e, a->h);
    gates_back(ctx, a);
    blocks_backward(ctx, a);
    conv_backward(&a->conv, a->drow + e, ctx->dw[CONV], ctx->dw[CONVB], a->dh,
                  a->row + e);
    bias_backward(ctx->dw[BY], a->drow, n, 2 * e);
    product_backward(dx, 1, ctx->dw[WY], a->drow, x, ctx->w[WY], n, C, 2 * e);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    struct acts *a = ctx->acts;
    struct scan  s;

    project(ctx, x, a);
    conv_extend(&a->conv, state, a->past, a->u, a->row + inner(ctx->cfg));
    s = gates(ctx, a);
    scan_extend(&s, state, a->S, a->h);
    finish(ctx, a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    const double e = inner(c);

    (void)window;
    return T * (6 * e * c->C + 4 * e * block(c) + 12 * e);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int   e = inner(c);
    const struct acts *a = ctx->acts;

    for (long i = 0; i < ctx_rows(ctx); i++)
        for (int j = 0; j < e; j++)
            range_add(&r[j / block(c)],
                      (double)vexp(-a->rate[j] * vsigmoid(a->z[2 * i * e + j])));
    return c->H;
}

const struct mixer mixer_rglru = {
    .name     = "rglru",
    .about    = "gated linear recurrence that preserves variance (RG-LRU of Griffin)",
    .system   = "L = diag(a_t), B = diag(sqrt(1 - a_t^2) i_t), C = I",
    .position = "none",
    .opts     = opts,
    .check    = check,
    .params   = params,
    .layout    = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
