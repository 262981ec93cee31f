/* qLSTM: the linear part of an LSTM, its gates from the input alone (arXiv:2405.15731).
 *
 *     p, w = Win x                              p, w (e), e = expand C
 *     u = conv(w)                               no activation
 *     [zf, zi, zo] = Wg u + bg
 *     f = sigmoid(zf), or sigmoid(-zf)^max(a, 0) when reversed
 *     h_t = f h_{t-1} + sigmoid(zi) u
 *     y = Wo( gelu(p) sigmoid(zo) h )
 */
#include "model/kernels/vmath.h"
#include "model/layers/bias.h"
#include "model/mixer_recurrence.h"

#include <math.h>
#include <string.h>

enum { EXPAND, REVERSED };

static const struct opt opts[] = {
    [EXPAND]   = {"expand", "inner width in widths", OPT_INT, 2, 1, 16},
    [REVERSED] = {"reversed", "forget by sigmoid(-z)^a, a learned", OPT_FLAG},
    {0},
};

struct acts {
    struct recurrence r;        // z is zf, zi, zo
    bool reversed;
    struct weight a;            // (1) when reversed
    real *da;                   // (e) sums over tokens of the gradient of a
};

/* Both forget gates are e^{-power softplus(sign z)}: sign is -1 and power 1
 * for sigmoid(z). */
struct forget_gate {
    real sign, power;
};

static struct forget_gate forget_of(const struct ctx *ctx)
{
    const struct acts *a = ctx->acts;

    if (!a->reversed)
        return (struct forget_gate){-1, 1};
    return (struct forget_gate){1, *a->a.w > 0 ? *a->a.w : 0};
}

static inline real forget(struct forget_gate o, real z)
{
    return vexp(-o.power * vsoftplus(o.sign * z));
}

/* [zf, zi, zo] = Wg u */
static void logits(const struct ctx *ctx, const struct recurrence *r)
{
    proj_forward(ctx, r->z, r->u.x);
}

static void logits_back(const struct ctx *ctx, const struct recurrence *r)
{
    proj_backward(ctx, r->u.dx, 1, r->z, r->u.x);
}

/* a = f,  b = sigmoid(zi) u */
static void input(const struct ctx *ctx, const struct recurrence_token *t)
{
    const struct forget_gate o = forget_of(ctx);
    const int   e = t->e;
    const real *z = t->z, *u = t->u;
    real       *a = t->a, *h = t->h;

    #pragma omp simd
    for (int j = 0; j < e; j++) {
        a[j] = forget(o, z[j]);
        h[j] = vsigmoid(z[e + j]) * u[j];
    }
}

/* v = gelu(p) sigmoid(zo) h */
static void output(const struct ctx *ctx, const struct recurrence_token *t)
{
    const int   e = t->e;
    const real *p = t->p, *zo = t->z + 2 * e, *h = t->h;
    real       *v = t->v;

    (void)ctx;
    #pragma omp simd
    for (int j = 0; j < e; j++)
        v[j] = vgelu(p[j]) * vsigmoid(zo[j]) * h[j];
}

static void output_back(const struct ctx *ctx, const struct recurrence_token *t)
{
    const struct forget_gate o = forget_of(ctx);
    const int   e = t->e;
    const real *p = t->p, *z = t->z, *h = t->h;
    real       *dp = t->dp, *dzo = t->dz + 2 * e, *dh = t->dh, *a = t->a;

    #pragma omp simd
    for (int j = 0; j < e; j++) {
        real out = vsigmoid(z[2 * e + j]), act = vgelu(p[j]), d = dh[j];

        dp[j] = d * out * h[j] * vgelu_slope(p[j]);
        dzo[j] = d * act * h[j] * out * (1 - out);
        dh[j] = d * act * out;
        a[j] = forget(o, z[j]);
    }
}

/* dzf = df df/dzf,  dzi = db u i (1 - i),  du = db i;  and where f was, df df/da, the
 * token's part of the gradient of the parameter a. */
static void input_back(const struct ctx *ctx, const struct recurrence_token *t)
{
    const struct forget_gate o = forget_of(ctx);
    const int   e = t->e;
    const real *z = t->z, *u = t->u;
    real       *f = t->a, *dzf = t->dz, *dzi = t->dz + e, *db = t->dh;

    #pragma omp simd
    for (int j = 0; j < e; j++) {
        real i = vsigmoid(z[e + j]), d = db[j], df = dzf[j] * f[j];

        dzf[j] = -df * o.power * o.sign * vsigmoid(o.sign * z[j]);
        dzi[j] = d * u[j] * i * (1 - i);
        db[j] = d * i;
        f[j] = -df * vsoftplus(o.sign * z[j]);
    }
}

static const struct recurrence_form form = {
    .logits = logits, .logits_back = logits_back, .input = input,
    .input_back = input_back, .output = output, .output_back = output_back,
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    C = c->C, e = (int)c->opt[EXPAND] * C;

    a->r.row = act_row(m, (struct act_part[]){
        {"win", NULL, 2 * e, INIT_NORMAL, 1 / sqrt(C)}, {0}});
    a->r.conv = short_conv_layout(m, (struct taps[]){{"conv", e}, {0}}, "convb", 2 * e, e,
                                  false);
    a->r.z = act_row_of(m, e, (struct act_part[]){
        {"wg", NULL, 3 * e, INIT_NORMAL, 1 / sqrt(e)}, {0}});
    a->r.bg = layout_vector(m, "bg", 3 * e, INIT_ZERO);
    a->r.wo = layout_out(m, e);
    a->reversed = c->opt[REVERSED] > 0;
    if (a->reversed)
        a->a = layout_vector(m, "a", 1, INIT_ONE);
    a->da = layout_grad(m, "da", e);
    recurrence_layout(&a->r, m, &form, e);
    m->paper_state = e + 3 * e;
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    recurrence_forward(ctx, &a->r, x, y);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;
    const int    e = a->r.e;

    recurrence_backward(ctx, &a->r, x, dy, dx);
    if (!a->reversed || forget_of(ctx).power <= 0)
        return;
    memset(a->da, 0, e * sizeof *a->da);
    bias_backward(a->da, a->r.a, ctx_rows(ctx), e);
    for (int j = 0; j < e; j++)
        *a->a.dw += a->da[j];
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct forget_gate o = forget_of(ctx);
    const struct acts *a = ctx->acts;
    const int e = a->r.e;

    for (long i = 0; i < ctx_rows(ctx); i++)
        for (int j = 0; j < e; j++)
            range_add(r, (double)forget(o, a->r.z.x[3 * i * e + j]));
    return 1;
}

const struct mixer mixer_qlstm = {
    .name     = "qlstm",
    .about    = "LSTM cell whose gates see only the input (qLSTM)",
    .opts     = opts,
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = diag(f_t), B = diag(sigmoid(zi_t)), C = diag(sigmoid(zo_t))",
        .decay = decay,
    },
};
