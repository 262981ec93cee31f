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
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "model/layers/bias.h"
#include "model/mixer_recurrence.h"

#include <math.h>
#include <string.h>

enum { INNER };

static const struct opt opts[] = {
    [INNER] = {"inner", "channels of the recurrence; 0: width", OPT_INT, 0, 0, 1 << 20},
    {0},
};

struct acts {
    struct recurrence r;        // z is that of r, then that of i
    struct weight lam;          // (e)
    real *rate;                 // (e) 8 softplus(lam)
    real *sum;                  // (e) over tokens of log a dlog a
};

/* z = [Wa u; Wi u] without bias: a product per tile of rows, block and gate. */
static void logits(const struct ctx *ctx, const struct recurrence *a)
{
    const long n = ctx_rows(ctx);
    const int  e = a->e, s = a->z.in, tile = product_tile(n);

    #pragma omp parallel for collapse(2) schedule(static) if (n > FEW_ROWS)
    for (long r = 0; r < n; r += tile)
        for (int k = 0; k < 2 * ctx->cfg->H; k++) {
            int    rows = (int)(n - r < tile ? n - r : tile);
            size_t from = (size_t)k * s % e;

            gemm_nt(a->z.x + 2 * r * e + (size_t)k * s, 2 * e, a->u.x + r * e + from, e,
                    a->z.w.w + (size_t)k * s * s, s, rows, s, s, 1, 0);
        }
}

/* du += dz [Wa; Wi],  dwa += dzᵀ u,  dwi likewise. */
static void logits_back(const struct ctx *ctx, const struct recurrence *a)
{
    const long n = ctx_rows(ctx);
    const int  e = a->e, s = a->z.in, H = ctx->cfg->H, tile = product_tile(n);

    #pragma omp parallel for collapse(2) schedule(static)
    for (long r = 0; r < n; r += tile)
        for (int h = 0; h < H; h++)
            for (int k = h; k < 2 * H; k += H)
                gemm_nn(a->u.dx + r * e + (size_t)h * s, e,
                        a->z.dx + 2 * r * e + (size_t)k * s, 2 * e,
                        a->z.w.w + (size_t)k * s * s, s,
                        (int)(n - r < tile ? n - r : tile), s, s, 1, 1);
    #pragma omp parallel for schedule(static)
    for (int k = 0; k < 2 * H; k++)
        gemm_tn(a->z.w.dw + (size_t)k * s * s, s, a->z.dx + (size_t)k * s, 2 * e,
                a->u.x + (size_t)k * s % e, e, s, s, (int)n, 1, 1);
}

/* sqrt(1 - a²), the scale of what enters; at the first token 1, which no other exceeds.
 * Without branches, to be vectorised: least is 1 at the first token, 0 at the others. */
static inline real entering(real log_a, real least)
{
    real s = vsqrt(-vexpm1(2 * log_a));

    return s > least ? s : least;
}

static const real *rates(const struct ctx *ctx)
{
    return ((const struct acts *)ctx->acts)->rate;
}

/* a, and b = sqrt(1 - a²) i u */
static void input(const struct ctx *ctx, const struct recurrence_token *t)
{
    const int   e = t->e;
    const real  least = t->first ? 1 : 0;
    const real *z = t->z, *u = t->u, *rate = rates(ctx);
    real       *a = t->a, *h = t->h;

    #pragma omp simd
    for (int j = 0; j < e; j++) {
        real log_a = -rate[j] * vsigmoid(z[j]);

        a[j] = vexp(log_a);
        h[j] = entering(log_a, least) * vsigmoid(z[e + j]) * u[j];
    }
}

/* v = gelu(p) h */
static void output(const struct ctx *ctx, const struct recurrence_token *t)
{
    const int   e = t->e;
    const real *p = t->p, *h = t->h;
    real       *v = t->v;

    (void)ctx;
    #pragma omp simd
    for (int j = 0; j < e; j++)
        v[j] = vgelu(p[j]) * h[j];
}

static void output_back(const struct ctx *ctx, const struct recurrence_token *t)
{
    const int   e = t->e;
    const real *p = t->p, *z = t->z, *h = t->h, *rate = rates(ctx);
    real       *dp = t->dp, *dh = t->dh, *a = t->a;

    #pragma omp simd
    for (int j = 0; j < e; j++) {
        dp[j] = dh[j] * h[j] * vgelu_slope(p[j]);
        dh[j] *= vgelu(p[j]);
        a[j] = vexp(-rate[j] * vsigmoid(z[j]));
    }
}

/* With s = sqrt(1 - a²):
 *
 *     flow = log a dlog a = log a (a da - a²/s i u db)   without a²/s at the first token
 *     dzr = flow (1 - r),  dzi = db s u i (1 - i),  du = db s i
 *
 * a leaves holding flow. */
static void input_back(const struct ctx *ctx, const struct recurrence_token *t)
{
    const int   e = t->e;
    const real  least = t->first ? 1 : 0;
    const real *z = t->z, *u = t->u, *rate = rates(ctx);
    real       *a = t->a, *dzr = t->dz, *dzi = t->dz + e, *db = t->dh;

    #pragma omp simd
    for (int j = 0; j < e; j++) {
        real r = vsigmoid(z[j]), i = vsigmoid(z[e + j]), d = db[j];
        real log_a = -rate[j] * r, s = entering(log_a, least);
        real slope = least > 0 || s <= 0 ? 0 : log_a * a[j] * a[j] / s;
        real flow = log_a * a[j] * dzr[j] - slope * i * u[j] * d;

        a[j] = flow;
        dzr[j] = flow * (1 - r);
        dzi[j] = d * s * u[j] * i * (1 - i);
        db[j] = d * s * i;
    }
}

static const struct recurrence_form form = {
    .logits = logits, .logits_back = logits_back, .input = input,
    .input_back = input_back, .output = output, .output_back = output_back,
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    e = opt_or(c, INNER, c->C), s = e / c->H;

    layout_require(m, e % c->H == 0,
                   "inner (width unless set) must be a multiple of heads");
    a->r.row = act_row(m, (struct act_part[]){{"wy", NULL, e}, {"wx", NULL, e}, {0}});
    a->r.bin = layout_vector(m, "by", e, INIT_ZERO);
    layout_vector(m, "bx", e, INIT_ZERO);
    a->r.conv = short_conv_layout(m, (struct taps[]){{"conv", e}, {0}}, "convb", 2 * e, e,
                                  false);
    a->r.z = act_row_of(m, s, (struct act_part[]){
        {"wa", NULL, e, INIT_NORMAL, 1 / sqrt(s), .direct = true},
        {"wi", NULL, e, INIT_NORMAL, 1 / sqrt(s), .direct = true}, {0}});
    a->r.bg = layout_vector(m, "ba", e, INIT_ZERO);
    layout_vector(m, "bi", e, INIT_ZERO);
    a->lam = layout_vector(m, "lam", e, INIT_OWN);
    a->r.wo = layout_out(m, e);
    a->rate = layout_keep(m, "rate", e);
    a->sum = layout_grad(m, "sum", e);
    recurrence_layout(&a->r, m, &form, e);
    layout_flops(m, 4.0 * e);
    m->paper_state = e + 3 * e;
}

/* lam: a = rho^{8 r} with rho² from U(0.9², 0.999²). */
static void init(const struct mixer_cfg *c, void *acts, struct rng *r)
{
    struct acts *a = acts;

    (void)c;
    for (int j = 0; j < a->r.e; j++) {
        double square = 0.81 + (0.998001 - 0.81) * rng_uniform(r);

        a->lam.w[j] = (real)log(expm1(-0.5 * log(square)));
    }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    for (int j = 0; j < a->r.e; j++)
        a->rate[j] = 8 * vsoftplus(a->lam.w[j]);
    recurrence_forward(ctx, &a->r, x, y);
}

/* dlam = sum of flow sigmoid(lam) / softplus(lam), a quotient that is 1
 * where both vanish. */
static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;
    const int    e = a->r.e;

    recurrence_backward(ctx, &a->r, x, dy, dx);
    memset(a->sum, 0, e * sizeof *a->sum);
    bias_backward(a->sum, a->r.a, ctx_rows(ctx), e);
    for (int j = 0; j < e; j++) {
        real lam = a->lam.w[j];

        a->lam.dw[j] += a->sum[j] * (lam < -40 ? 1 : vsigmoid(lam) / vsoftplus(lam));
    }
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;
    const int e = a->r.e, s = a->r.z.in;

    for (long i = 0; i < ctx_rows(ctx); i++)
        for (int j = 0; j < e; j++)
            range_add(&r[j / s],
                      (double)vexp(-a->rate[j] * vsigmoid(a->r.z.x[2 * i * e + j])));
    return ctx->cfg->H;
}

const struct mixer mixer_rglru = {
    .name     = "rglru",
    .about    = "gated linear recurrence that preserves variance (RG-LRU of Griffin)",
    .opts     = opts,
    .layout   = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = diag(a_t), B = diag(sqrt(1 - a_t^2) i_t), C = I",
        .decay = decay,
    },
};
