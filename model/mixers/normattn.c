/* Normalised attention (arXiv:2405.15731, eq. 21): linear attention without a feature map, whose
 * normaliser is read from the token instead of summed over the keys.
 *
 *     q, k, v = Wq x, Wk x, Wv x       (H, e), e = C / H; the position encoding rotates q, k
 *     z = Wn x + bn                    (H)
 *     log n = softplus(z)              eta = softplus;   z for eta = exp
 *     o_t = (1 / n_t) sum_{u <= t} (q_t . k_u) v_u / sqrt(e)
 *     y = Wo o
 *
 * The sum is kept and divided, never the recurrence with n_{t-1} / n_t. With eta = exp, log n is
 * held within +-30.
 */
#include "model/arena.h"
#include "model/core_scalar.h"
#include "model/linear.h"
#include "model/mixer.h"
#include "model/vmath.h"

#include <math.h>

enum { WQ, WK, WV, WN, WO, BN, N_PARAMS };
enum { ETA };
enum { SOFTPLUS, EXP };
enum { LIMIT = 30 };

static const struct opt opts[] = {
    [ETA] = {"eta", "how the normaliser grows", OPT_CHOICE, "softplus|exp", SOFTPLUS, 0, 0},
    {0},
};

/* Channels of a row [q, k, v, z]. */
static size_t row(const struct mixer_cfg *c) { return 3 * (size_t)c->C + c->H; }

static int params(const struct mixer_cfg *c, struct param *p)
{
    enum init bias = c->opt[ETA] == EXP ? INIT_ZERO : INIT_OWN;

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

static void angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->H;
    *dk = c->C / c->H;
}

/* ---- memory ----------------------------------------------------------------------------------- */

static struct scalar core_of(const struct mixer_cfg *c, int B, int T, const real *rows)
{
    int    e = c->C / c->H;
    size_t ld = row(c), C = c->C;

    return (struct scalar){
        .B = B, .T = T, .H = c->H, .dk = e, .dv = e,
        .q = rows, .k = rows ? rows + C : NULL, .v = rows ? rows + 2 * C : NULL,
        .ld_q = ld, .ld_k = ld, .ld_v = ld, .ld_o = C,
        .den = SCALAR_PLAIN, .scale = 1 / (real)sqrt(e),
    };
}

struct kept {
    real *rows;         // (B, T, row), q and k rotated, z without bias
    real *o;            // (B, T, C) divided
    real *core;
};

static size_t carve_kept(struct kept *k, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena  a = arena_over(base);
    struct scalar s = core_of(c, B, T, NULL);
    size_t        n = (size_t)B * T;

    k->rows = arena_reals(&a, n * row(c));
    k->o = arena_reals(&a, n * c->C);
    k->core = arena_reals(&a, scalar_kept(&s));
    return a.used;
}

struct grads {
    real *drows, *d_o;  // as rows, o
    real *core;
};

static size_t carve_grads(struct grads *g, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena  a = arena_over(base);
    struct scalar s = core_of(c, B, T, NULL);
    size_t        n = (size_t)B * T;

    g->drows = arena_reals(&a, n * row(c));
    g->d_o = arena_reals(&a, n * c->C);
    g->core = arena_reals(&a, scalar_scratch(&s));
    return a.used;
}

static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct scalar core = core_of(c, B, T, NULL);
    struct kept   k;
    struct grads  g;
    size_t        back = carve_grads(&g, NULL, c, B, T);

    s->kept = carve_kept(&k, NULL, c, B, T);
    s->scratch = back > s->kept ? back : s->kept;
    s->state = scalar_state(&core) * sizeof(real);
}

/* ---- forward and backward --------------------------------------------------------------------- */

static void project(struct ctx *ctx, const real *x, struct kept *k)
{
    const struct mixer_cfg *c = ctx->cfg;
    size_t ld = row(c);

    linear_forward(k->rows, x, ctx->w[WQ], (long)ctx->B * ctx->T, c->C, (int)ld);
    rotate(&ctx->angles, k->rows, ctx->B, ctx->T, c->H, ld);
    rotate(&ctx->angles, k->rows + c->C, ctx->B, ctx->T, c->H, ld);
}

static double log_n(double z, bool exponential)
{
    if (exponential)
        return z < -LIMIT ? -LIMIT : z > LIMIT ? LIMIT : z;
    return fmax(z, 0) + log1p(exp(-fabs(z)));
}

static double log_n_slope(double z, bool exponential)
{
    if (exponential)
        return fabs(z) <= LIMIT;
    return 1 / (1 + exp(-z));
}

/* Divide the rows of o, or of its gradient, by n. */
static void divide(const struct ctx *ctx, const struct kept *k, real *o)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = (long)ctx->B * ctx->T;
    const int  e = c->C / c->H;

    #pragma omp parallel for schedule(static) if (n > 32)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < c->H; h++) {
            real  z = k->rows[i * row(c) + 3 * (size_t)c->C + h] + ctx->w[BN][h];
            real  by = (real)exp(-log_n(z, c->opt[ETA] == EXP)), *to = o + i * c->C + (size_t)h * e;

            for (int j = 0; j < e; j++)
                to[j] *= by;
        }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct kept   k;
    struct scalar s;

    carve_kept(&k, ctx->kept, c, ctx->B, ctx->T);
    project(ctx, x, &k);
    s = core_of(c, ctx->B, ctx->T, k.rows);
    scalar_forward(&s, k.o, k.core);
    divide(ctx, &k, k.o);
    linear_forward(y, k.o, ctx->w[WO], (long)ctx->B * ctx->T, c->C, c->C);
}

/* dz = -(d_o . o) dlog n/dz, into the rows. */
static void normaliser_back(const struct ctx *ctx, const struct kept *k, const struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = (long)ctx->B * ctx->T;
    const int  e = c->C / c->H;

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < c->H; h++) {
            size_t at = i * row(c) + 3 * (size_t)c->C + h, o = i * c->C + (size_t)h * e;
            real   z = k->rows[at] + ctx->w[BN][h], along = 0;

            #pragma omp simd reduction(+ : along)
            for (int j = 0; j < e; j++)
                along += g->d_o[o + j] * k->o[o + j];
            g->drows[at] = -along * (real)log_n_slope(z, c->opt[ETA] == EXP);
        }
    for (int h = 0; h < c->H; h++) {
        double sum = 0;

        for (long i = 0; i < n; i++)
            sum += g->drows[i * row(c) + 3 * (size_t)c->C + h];
        ctx->dw[BN][h] += (real)sum;
    }
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int    B = ctx->B, T = ctx->T;
    size_t       ld = row(c), C = c->C;
    struct kept  k;
    struct grads g;

    carve_kept(&k, ctx->kept, c, B, T);
    carve_grads(&g, ctx->scratch, c, B, T);
    struct scalar      s = core_of(c, B, T, k.rows);
    struct scalar_grad to = {.dq = g.drows, .dk = g.drows + C, .dv = g.drows + 2 * C,
                             .ld_dq = ld, .ld_dk = ld, .ld_dv = ld};

    linear_backward(g.d_o, 0, ctx->dw[WO], dy, k.o, ctx->w[WO], (long)B * T, c->C, c->C);
    normaliser_back(ctx, &k, &g);
    divide(ctx, &k, g.d_o);
    scalar_backward(&s, &to, NULL, g.d_o, k.core, g.core);
    rotate_back(&ctx->angles, k.rows, g.drows, B, T, c->H, ld, ld);
    rotate_back(&ctx->angles, k.rows + C, g.drows + C, B, T, c->H, ld, ld);
    linear_backward(dx, 1, ctx->dw[WQ], g.drows, x, ctx->w[WQ], (long)B * T, c->C, (int)ld);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct kept   k;
    struct scalar s;

    carve_kept(&k, ctx->scratch, c, ctx->B, ctx->T);
    project(ctx, x, &k);
    s = core_of(c, ctx->B, ctx->T, k.rows);
    scalar_extend(&s, state, 0, k.o);
    divide(ctx, &k, k.o);
    linear_forward(y, k.o, ctx->w[WO], (long)ctx->B * ctx->T, c->C, c->C);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    double C = c->C;
    int    e = c->C / c->H;

    (void)window;
    return T * (8 * C * C + 2 * C * c->H + c->H * scalar_flops(T, e, e));
}

const struct mixer mixer_normattn = {
    .name     = "normattn",
    .about    = "linear attention, normaliser read from the token",
    .system   = "L = (n_{t-1}/n_t) I, B = k/n_t, C = q/sqrt(dk), log n = softplus(wn.x + bn)",
    .position = "rope",
    .opts     = opts,
    .params   = params,
    .angles   = angles,
    .sizes    = sizes,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .flops    = flops,
};
