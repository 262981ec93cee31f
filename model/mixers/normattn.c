/* Normalised attention (arXiv:2405.15731, eq. 21): linear attention without a feature
 * map, whose normaliser is read from the token instead of summed over the keys.
 *
 *     q, k, v = Wq x, Wk x, Wv x       (H, e), e = C / H; the encoding rotates q, k
 *     z = Wn x + bn                    (H)
 *     log n = softplus(z)              z with eta = exp, log sigmoid(z) with sigmoid
 *     o_t = (1 / n_t) sum_{u <= t} (q_t . k_u) v_u / sqrt(e)
 *     y = Wo o
 *
 * The sum is kept and divided, never the recurrence with n_{t-1} / n_t. With eta = exp,
 * log n is held within +-30.
 */
#include "model/cores/scalar.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "model/mixer.h"
#include "model/mixer_heads.h"

#include <math.h>

enum { WQ, WK, WV, WN, WO, BN, N_PARAMS };
enum { ETA };
enum { SOFTPLUS, EXP, SIGMOID };
enum { LIMIT = 30 };

static const struct opt opts[] = {
    [ETA] = {"eta", "how the normaliser grows",
             OPT_CHOICE, "softplus|exp|sigmoid", SOFTPLUS, 0, 0},
    {0},
};

/* Channels of a row [q, k, v, z]. */
static size_t row(const struct mixer_cfg *c) { return 3 * (size_t)c->C + c->H; }

static int params(const struct mixer_cfg *c, struct param *p)
{
    enum init bias = c->opt[ETA] == SOFTPLUS ? INIT_OWN : INIT_ZERO;

    p[WQ] = (struct param){"wq", c->C, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", c->C, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", c->C, c->C, INIT_INPUT, .decay = true};
    p[WN] = (struct param){"wn", c->H, c->C, INIT_INPUT, .decay = true};
    p[WO] = (struct param){"wo", c->C, c->C, INIT_OUTPUT, .decay = true};
    p[BN] = (struct param){"bn", c->H, 0, bias};
    return N_PARAMS;
}

/* From 4 to 9 over the heads. */
static void init(const struct mixer_cfg *c, real *const *w, struct rng *r)
{
    (void)r;
    for (int h = 0; h < c->H && c->opt[ETA] == SOFTPLUS; h++)
        w[BN][h] = (real)(4 + (c->H > 1 ? 5.0 * h / (c->H - 1) : 0));
}

struct acts {
    real *row, *drow;           // (B, T, row), q and k rotated, z without bias
    real *o, *d_o;              // (B, T, C) divided
    struct rows rows;
    struct scalar core;
    struct scalar_grad dcore;
    real *saved, *scratch;      // of the core
    size_t S;                   // where its state is
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t n = layout_tokens(m), ld = row(c), C = c->C;
    const int    e = c->C / c->H;

    a->row = layout_keep(m, "row", n * ld);
    a->drow = layout_grad(m, "drow", n * ld);
    a->o = layout_keep(m, "o", n * C);
    a->d_o = layout_grad(m, "d_o", n * C);
    a->rows = (struct rows){.w = WQ, .Hk = c->H, .k = C, .ld = ld};
    a->core = (struct scalar){
        .B = m->B, .T = m->T, .H = c->H, .dk = e, .dv = e, .scale = 1 / (real)sqrt(e),
        .q = a->row, .k = layout_at(a->row, C), .v = layout_at(a->row, 2 * C),
        .ld_q = ld, .ld_k = ld, .ld_v = ld, .ld_o = C,
    };
    a->dcore = (struct scalar_grad){
        .dq = a->drow, .dk = layout_at(a->drow, C), .dv = layout_at(a->drow, 2 * C),
        .ld_dq = ld, .ld_dk = ld, .ld_dv = ld,
    };
    a->saved = layout_save(m, "saved", scalar_kept(&a->core));
    a->scratch = layout_grad(m, "scratch", scalar_scratch(&a->core));
    a->S = layout_state(m, scalar_state(&a->core));
}

static double softplus(double z) { return fmax(z, 0) + log1p(exp(-fabs(z))); }
static double sigmoid(double z) { return 1 / (1 + exp(-z)); }

static double log_n(double z, int eta)
{
    if (eta == EXP)
        return z < -LIMIT ? -LIMIT : z > LIMIT ? LIMIT : z;
    return eta == SIGMOID ? -softplus(-z) : softplus(z);
}

static double log_n_slope(double z, int eta)
{
    if (eta == EXP)
        return fabs(z) <= LIMIT;
    return sigmoid(eta == SIGMOID ? -z : z);
}

/* Divide the rows of o, or of its gradient, by n. */
static void divide(const struct ctx *ctx, const struct acts *a, real *o)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);
    const int  e = c->C / c->H;

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < c->H; h++) {
            real  z = a->row[i * row(c) + 3 * (size_t)c->C + h] + ctx->w[BN][h];
            real  by = (real)exp(-log_n(z, (int)c->opt[ETA])),
                  *to = o + i * c->C + (size_t)h * e;

            for (int j = 0; j < e; j++)
                to[j] *= by;
        }
}

/* y = Wo o, with o still to be divided. */
static void finish(const struct ctx *ctx, const struct acts *a, real *y)
{
    divide(ctx, a, a->o);
    product_forward(y, a->o, ctx->w[WO], ctx_rows(ctx), ctx->cfg->C, ctx->cfg->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    rows_forward(ctx, &a->rows, a->row, x);
    scalar_forward(&a->core, a->o, a->saved);
    finish(ctx, a, y);
}

/* dz = -(d_o . o) dlog n/dz, into the rows. */
static void normaliser_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);
    const int  e = c->C / c->H;

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < c->H; h++) {
            size_t at = i * row(c) + 3 * (size_t)c->C + h, o = i * c->C + (size_t)h * e;
            real   z = a->row[at] + ctx->w[BN][h], along = vdot(a->d_o + o, a->o + o, e);

            a->drow[at] = -along * (real)log_n_slope(z, (int)c->opt[ETA]);
        }
    for (int h = 0; h < c->H; h++) {
        double sum = 0;

        for (long i = 0; i < n; i++)
            sum += a->drow[i * row(c) + 3 * (size_t)c->C + h];
        ctx->dw[BN][h] += (real)sum;
    }
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const int    C = ctx->cfg->C;
    struct acts *a = ctx->acts;

    product_backward(a->d_o, 0, ctx->dw[WO], dy, a->o, ctx->w[WO], ctx_rows(ctx), C, C);
    normaliser_back(ctx, a);
    divide(ctx, a, a->d_o);
    scalar_backward(&a->core, &a->dcore, NULL, a->d_o, a->saved, a->scratch);
    rows_backward(ctx, &a->rows, dx, a->drow, a->row, x);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    rows_forward(ctx, &a->rows, a->row, x);
    scalar_extend(&a->core, state, a->S, a->o);
    finish(ctx, a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    double C = c->C;
    int    e = c->C / c->H;

    (void)window;
    return T * (8 * C * C + 2 * C * c->H + c->H * scalar_flops(T, e, e));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct acts *a = ctx->acts;
    const int eta = (int)c->opt[ETA];

    for (long i = 0; i < ctx_rows(ctx); i++)
        for (int h = 0; i % ctx->T && h < c->H; h++) {
            const real *z = a->row + i * row(c) + 3 * (size_t)c->C + h,
                       *before = z - row(c);
            const real  bias = ctx->w[BN][h];

            range_add(&r[h], exp(log_n(*before + bias, eta) - log_n(*z + bias, eta)));
        }
    return c->H;
}

const struct mixer mixer_normattn = {
    .name     = "normattn",
    .about    = "linear attention, normaliser read from the token",
    .system   = "L = (n_{t-1}/n_t) I, B = k/n_t, C = q/sqrt(dk), "
                "log n = softplus(wn.x + bn)",
    .position = "rope",
    .opts     = opts,
    .params   = params,
    .angles   = rows_angles,
    .layout    = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
