/* qLSTM: the linear part of an LSTM, its gates from the input alone (arXiv:2405.15731).
 *
 *     p, w = Win x                              p, w (e), e = expand C
 *     u = conv(w)                               no activation
 *     [zf, zi, zo] = Wg u + bg
 *     f = sigmoid(zf), or sigmoid(-zf)^max(a, 0) when reversed
 *     h_t = f h_{t-1} + sigmoid(zi) u
 *     y = Wo( gelu(p) sigmoid(zo) h )
 */
#include "model/cores/scan.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "model/layers/bias.h"
#include "model/layers/conv.h"
#include "model/mixer.h"

#include <math.h>
#include <string.h>

enum { WIN, CONV, CONVB, WG, BG, WO, A, N_PARAMS };
enum { EXPAND, REVERSED };

static const struct opt opts[] = {
    [EXPAND]   = {"expand", "inner width in widths", OPT_INT, NULL, 2, 1, 16},
    [REVERSED] = {"reversed", "forget by sigmoid(-z)^a, a learned",
                  OPT_FLAG, NULL, 0, 0, 1},
    {0},
};

static int  inner(const struct mixer_cfg *c) { return (int)c->opt[EXPAND] * c->C; }
static bool reversed(const struct mixer_cfg *c) { return c->opt[REVERSED] > 0; }

static int params(const struct mixer_cfg *c, struct param *p)
{
    const int e = inner(c);

    p[WIN] = (struct param){"win", 2 * e, c->C, INIT_NORMAL, 1 / sqrt(c->C),
                            .decay = true};
    p[CONV] = (struct param){"conv", e, CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CONVB] = (struct param){"convb", e, 0, INIT_ZERO};
    p[WG] = (struct param){"wg", 3 * e, e, INIT_NORMAL, 1 / sqrt(e), .decay = true};
    p[BG] = (struct param){"bg", 3 * e, 0, INIT_ZERO};
    p[WO] = (struct param){"wo", c->C, e, INIT_OUTPUT, .decay = true};
    if (reversed(c))
        p[A] = (struct param){"a", 1, 0, INIT_ONE};
    return reversed(c) ? N_PARAMS : A;
}

struct acts {
    real *row, *drow;           // (B, T, 2, e) p, w
    real *u;                    // (B, T, e)
    real *z, *dz;               // (B, T, 3, e) with bias
    real *h, *dh;               // (B, T, e); dh then holds du
    real *v;                    // (B, T, e) f until the scan, then gelu(p) sigmoid(zo) h
    real *f;                    // (B, T, e) in backward; then the gradient of a
    real *da;                   // (e) sums of it
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
    a->z = layout_keep(m, "z", 3 * n);
    a->h = layout_keep(m, "h", n);
    a->v = layout_keep(m, "v", n);
    a->drow = layout_grad(m, "drow", 2 * n);
    a->dz = layout_grad(m, "dz", 3 * n);
    a->dh = layout_grad(m, "dh", n);
    a->f = layout_grad(m, "f", n);
    a->da = layout_grad(m, "da", e);
    a->conv = (struct conv){.B = m->B, .T = m->T, .C = e, .ld_x = 2 * (size_t)e,
                            .ld_y = e, .w = layout_param(m, CONV),
                            .b = layout_param(m, CONVB)};
    a->past = layout_state(m, conv_state(&a->conv));
    a->S = layout_state(m, e);
}

/* Both forget gates are e^{-power softplus(sign z)}: sign is -1 and power 1
 * for sigmoid(z). */
struct forget {
    real sign, power;
};

static struct forget forget_of(const struct ctx *ctx)
{
    if (!reversed(ctx->cfg))
        return (struct forget){-1, 1};
    return (struct forget){1, *ctx->w[A] > 0 ? *ctx->w[A] : 0};
}

static inline real forget(struct forget o, real z)
{
    return vexp(-o.power * vsoftplus(o.sign * z));
}

/* z with its bias, f in v, and into h what enters the states: sigmoid(zi) u. */
static struct scan gates(const struct ctx *ctx, const struct acts *a)
{
    const long n = ctx_rows(ctx);
    const int  e = inner(ctx->cfg);
    const struct forget o = forget_of(ctx);

    product_forward(a->z, a->u, ctx->w[WG], n, e, 3 * e);
    bias_forward(a->z, ctx->w[BG], n, 3 * e);
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long r = 0; r < n; r++) {
        const real *z = a->z + 3 * r * e, *u = a->u + r * e;
        real       *f = a->v + r * e, *h = a->h + r * e;

        for (int j = 0; j < e; j++) {
            f[j] = forget(o, z[j]);
            h[j] = vsigmoid(z[e + j]) * u[j];
        }
    }
    return (struct scan){ctx->B, ctx->T, e, a->v};
}

/* v = gelu(p) sigmoid(zo) h,  y = Wo v */
static void finish(const struct ctx *ctx, const struct acts *a, real *y)
{
    const long n = ctx_rows(ctx);
    const int  e = inner(ctx->cfg);

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long r = 0; r < n; r++) {
        const real *p = a->row + 2 * r * e, *zo = a->z + (3 * r + 2) * e,
                   *h = a->h + r * e;
        real       *v = a->v + r * e;

        for (int j = 0; j < e; j++)
            v[j] = vgelu(p[j]) * vsigmoid(zo[j]) * h[j];
    }
    product_forward(y, a->v, ctx->w[WO], n, e, ctx->cfg->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const int    e = inner(ctx->cfg);
    struct acts *a = ctx->acts;
    struct scan  s;

    product_forward(a->row, x, ctx->w[WIN], ctx_rows(ctx), ctx->cfg->C, 2 * e);
    conv_forward(&a->conv, a->u, a->row + e);
    s = gates(ctx, a);
    scan_forward(&s, a->h);
    finish(ctx, a, y);
}

/* One token: from dv, in dh, to dp, dzo and dh; and f again. */
static inline void finish_row(struct forget o, const real *p, const real *z,
                              const real *h, real *restrict dp, real *restrict dzo,
                              real *restrict dh, real *restrict f, int e)
{
    for (int j = 0; j < e; j++) {
        real out = vsigmoid(z[2 * e + j]), act = vgelu(p[j]), d = dh[j];

        dp[j] = d * out * h[j] * vgelu_slope(p[j]);
        dzo[j] = d * act * h[j] * out * (1 - out);
        dh[j] = d * act * out;
        f[j] = forget(o, z[j]);
    }
}

static void finish_back(const struct ctx *ctx, const struct acts *a)
{
    const int e = inner(ctx->cfg);
    const struct forget o = forget_of(ctx);

    #pragma omp parallel for schedule(static)
    for (long r = 0; r < ctx_rows(ctx); r++)
        finish_row(o, a->row + 2 * r * e, a->z + 3 * r * e, a->h + r * e,
                   a->drow + 2 * r * e, a->dz + (3 * r + 2) * e, a->dh + r * e,
                   a->f + r * e, e);
}

/* One token: dzf = da df/dzf, where da was; dzi = db u i (1 - i); du = db i, where db
 * was; and where f was, the part of the gradient of the parameter a, da df/da. */
static inline void gate_row(struct forget o, const real *z, const real *u,
                            real *restrict f, real *restrict dzf, real *restrict dzi,
                            real *restrict db, int e)
{
    for (int j = 0; j < e; j++) {
        real i = vsigmoid(z[e + j]), d = db[j], df = dzf[j] * f[j];

        dzf[j] = -df * o.power * o.sign * vsigmoid(o.sign * z[j]);
        dzi[j] = d * u[j] * i * (1 - i);
        db[j] = d * i;
        f[j] = -df * vsoftplus(o.sign * z[j]);
    }
}

static void gates_back(const struct ctx *ctx, const struct acts *a)
{
    const long n = ctx_rows(ctx);
    const int  e = inner(ctx->cfg);
    const struct forget o = forget_of(ctx);

    #pragma omp parallel for schedule(static)
    for (long r = 0; r < n; r++) {
        real *dz = a->dz + 3 * r * e;

        gate_row(o, a->z + 3 * r * e, a->u + r * e, a->f + r * e, dz, dz + e,
                 a->dh + r * e, e);
    }
    bias_backward(ctx->dw[BG], a->dz, n, 3 * e);
    if (!reversed(ctx->cfg) || o.power <= 0)
        return;
    memset(a->da, 0, e * sizeof *a->da);
    bias_backward(a->da, a->f, n, e);
    for (int j = 0; j < e; j++)
        *ctx->dw[A] += a->da[j];
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const long   n = ctx_rows(ctx);
    const int    C = ctx->cfg->C, e = inner(ctx->cfg);
    struct acts *a = ctx->acts;
    struct scan  s = {ctx->B, ctx->T, e, a->f};

    product_backward(a->dh, 0, ctx->dw[WO], dy, a->v, ctx->w[WO], n, e, C);
    finish_back(ctx, a);
    scan_backward(&s, a->dh, a->dz, 3 * (size_t)e, a->h);
    gates_back(ctx, a);
    product_backward(a->dh, 1, ctx->dw[WG], a->dz, a->u, ctx->w[WG], n, e, 3 * e);
    conv_backward(&a->conv, a->drow + e, ctx->dw[CONV], ctx->dw[CONVB], a->dh,
                  a->row + e);
    product_backward(dx, 1, ctx->dw[WIN], a->drow, x, ctx->w[WIN], n, C, 2 * e);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const int    e = inner(ctx->cfg);
    struct acts *a = ctx->acts;
    struct scan  s;

    product_forward(a->row, x, ctx->w[WIN], ctx_rows(ctx), ctx->cfg->C, 2 * e);
    conv_extend(&a->conv, state, a->past, a->u, a->row + e);
    s = gates(ctx, a);
    scan_extend(&s, state, a->S, a->h);
    finish(ctx, a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    const double e = inner(c);

    (void)window;
    return T * (6 * e * c->C + 6 * e * e + conv_flops(inner(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct forget o = forget_of(ctx);
    const int   e = inner(ctx->cfg);
    const struct acts *a = ctx->acts;

    for (long i = 0; i < ctx_rows(ctx); i++)
        for (int j = 0; j < e; j++)
            range_add(r, (double)forget(o, a->z[3 * i * e + j]));
    return 1;
}

const struct mixer mixer_qlstm = {
    .name     = "qlstm",
    .about    = "LSTM cell whose gates see only the input (qLSTM)",
    .system   = "L = diag(f_t), B = diag(sigmoid(zi_t)), C = diag(sigmoid(zo_t))",
    .position = "none",
    .opts     = opts,
    .params   = params,
    .layout    = layout,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
