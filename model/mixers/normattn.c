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
 * log n is held within +-30. The preset normattn trains at half the rate of the others.
 */
#include "model/kernels/vmath.h"
#include "model/mixer_heads.h"

#include <math.h>

enum { ETA };
enum { SOFTPLUS, EXP, SIGMOID };
enum { LIMIT = 30 };

static const struct opt opts[] = {
    [ETA] = {"eta", "how the normaliser grows",
             OPT_CHOICE, SOFTPLUS, .choices = "softplus|exp|sigmoid"},
    {0},
};

struct acts {
    struct act row, q, k, v;    // (H, e)
    struct act z;               // (H) the rest of the row, without bias
    struct weight wo, bn;       // bn (H)
    struct scalar_heads core;   // its o is divided
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    C = c->C, H = c->H, e = C / H;

    a->row = act_row(m, (struct act_part[]){
        {"wq", &a->q, C}, {"wk", &a->k, C}, {"wv", &a->v, C}, {"wn", &a->z, H}, {0}});
    layout_rotates(m, H, e);
    a->wo = layout_out(m, C);
    a->bn = layout_vector(m, "bn", H, c->opt[ETA] == SOFTPLUS ? INIT_OWN : INIT_ZERO);
    a->core = scalar_heads_layout(m, a->q, a->k, a->v,
                                  (struct scalar){.H = H, .dk = e, .dv = e});
    m->paper_state = (double)C * e;
}

/* From 4 to 9 over the heads. */
static void init(const struct mixer_cfg *c, void *acts, struct rng *r)
{
    struct acts *a = acts;

    (void)r;
    for (int h = 0; h < c->H && c->opt[ETA] == SOFTPLUS; h++)
        a->bn.w[h] = (real)(4 + (c->H > 1 ? 5.0 * h / (c->H - 1) : 0));
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
            real  z = a->z.x[i * a->z.ld + h] + a->bn.w[h];
            real  by = (real)exp(-log_n(z, (int)c->opt[ETA])),
                  *to = o + i * c->C + (size_t)h * e;

            for (int j = 0; j < e; j++)
                to[j] *= by;
        }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    heads_project(ctx, a->row, a->q, a->k, x);
    scalar_heads_forward(ctx, &a->core);
    divide(ctx, a, a->core.o.x);
    out_proj_forward(ctx, a->wo, y, a->core.o);
}

/* dz = -(do . o) dlog n/dz */
static void normaliser_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);
    const int  e = c->C / c->H;

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < c->H; h++) {
            size_t at = i * a->z.ld + h, o = i * c->C + (size_t)h * e;
            real   z = a->z.x[at] + a->bn.w[h];
            real   along = vdot(a->core.o.dx + o, a->core.o.x + o, e);

            a->z.dx[at] = -along * (real)log_n_slope(z, (int)c->opt[ETA]);
        }
    for (int h = 0; h < c->H; h++) {
        double sum = 0;

        for (long i = 0; i < n; i++)
            sum += a->z.dx[i * a->z.ld + h];
        a->bn.dw[h] += (real)sum;
    }
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    out_proj_backward(ctx, a->wo, a->core.o, dy);
    normaliser_back(ctx, a);
    divide(ctx, a, a->core.o.dx);
    scalar_heads_backward(&a->core);
    heads_project_back(ctx, dx, 0, a->row, a->q, a->k, x);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct acts *a = ctx->acts;
    const int eta = (int)c->opt[ETA];

    for (long i = 0; i < ctx_rows(ctx); i++)
        for (int h = 0; i % ctx->T && h < c->H; h++) {
            const real *z = a->z.x + i * a->z.ld + h, bias = a->bn.w[h];

            range_add(&r[h], exp(log_n(*(z - a->z.ld) + bias, eta) -
                                 log_n(*z + bias, eta)));
        }
    return c->H;
}

const struct mixer mixer_normattn = {
    .name     = "normattn",
    .about    = "linear attention, normaliser read from the token",
    .position = "rope",
    .opts     = opts,
    .layout   = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = (n_{t-1}/n_t) I, B = k/n_t, C = q/sqrt(dk), "
                  "log n = softplus(wn.x + bn)",
        .decay = decay,
    },
};
