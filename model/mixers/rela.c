/* Rectified linear attention with a gated norm (ReLA-g, arXiv:2104.07012).
 *
 *     q, k, v = Wq x, Wk x, Wv x           q (H, e), k, v (Hk, e), e = C/H; q, k rotated
 *     A_tu = max(q_t . k_u / sqrt(e), 0)   u <= t
 *     z_t = sum_u A_tu v_u                 all heads side by side: (C)
 *     y = Wo [ norm rms(z) sigmoid(gate z) ]
 *
 * The norm spans all heads; the gate sees z before it. Key head h serves query heads
 * h G .. h G + G - 1, G = H / Hk. The decode state is a kv cache of the last `context`
 * rotated keys and values.
 */
#include "model/kernels/vmath.h"
#include "model/mixer_grouped.h"

/* ---- the gated norm -------------------------------------------------------------------
 *
 *     y = w rho z s      rho = 1 / sqrt(mean(z²) + eps),  s = sigmoid(g z)
 */
enum { BLOCKS = 16 };           // of rows, fixed, whatever the number of threads

static const double eps = 1e-6;

static inline real inverse_rms(const real *z, int C)
{
    return 1 / (real)sqrt(vdot(z, z, C) / C + eps);
}

static void gated_norm(real *y, const real *z, const real *w, const real *g,
                       long n, int C)
{
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++) {
        const real *zi = z + i * C, rho = inverse_rms(zi, C);

        #pragma omp simd
        for (int j = 0; j < C; j++)
            y[i * C + j] = w[j] * rho * zi[j] * vsigmoid(g[j] * zi[j]);
    }
}

/* With a = dy w s and b = dy w rho z s (1 - s):
 *
 *     dz = rho a - rho³ z mean(a z) + g b      dw += dy rho z s      dg += b z
 *
 * d holds dy and becomes dz. */
static inline void gated_norm_row(real *d, const real *z, const real *w, const real *g,
                                  real *dw, real *dg, int C)
{
    real rho = inverse_rms(z, C), along = 0;

    #pragma omp simd reduction(+ : along)
    for (int j = 0; j < C; j++) {
        real s = vsigmoid(g[j] * z[j]), a = d[j] * w[j] * s, b = a * rho * z[j] * (1 - s);

        dw[j] += d[j] * rho * z[j] * s;
        dg[j] += b * z[j];
        along += a * z[j];
        d[j] = rho * a + g[j] * b;
    }
    along *= rho * rho * rho / C;
    #pragma omp simd
    for (int j = 0; j < C; j++)
        d[j] -= along * z[j];
}

/* Over n rows; partial (BLOCKS, 2, C) is scratch. */
static void gated_norm_back(real *d, const real *z, struct weight w, struct weight g,
                            long n, int C, real *partial)
{
    #pragma omp parallel for schedule(static)
    for (int block = 0; block < BLOCKS; block++) {
        real *sum = partial + (size_t)block * 2 * C;

        for (int j = 0; j < 2 * C; j++)
            sum[j] = 0;
        for (long i = n * block / BLOCKS; i < n * (block + 1) / BLOCKS; i++)
            gated_norm_row(d + i * C, z + i * C, w.w, g.w, sum, sum + C, C);
    }
    for (int block = 0; block < BLOCKS; block++)
        for (int j = 0; j < C; j++) {
            w.dw[j] += partial[(size_t)block * 2 * C + j];
            g.dw[j] += partial[(size_t)block * 2 * C + C + j];
        }
}

/* ---- the layer --------------------------------------------------------------------- */

struct acts {
    struct grouped z;           // z is its o
    struct act gated;           // (C), its gradient that of z
    struct weight norm, gate;   // (C)
    real *partial;              // of the gated norm
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);

    a->z = grouped_layout(m, c, ATTENTION_RELU, 0, c->context);
    a->norm = layout_vector(m, "norm", c->C, INIT_ONE);
    a->gate = layout_weight(m, (struct param){"gate", c->C, 0, INIT_NORMAL, 0.02});
    a->gated = act_after(m, "gated", a->z.o);
    a->partial = layout_grad(m, "partial", (size_t)BLOCKS * 2 * c->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    grouped_forward(ctx, &a->z, x);
    gated_norm(a->gated.x, a->z.o.x, a->norm.w, a->gate.w, ctx_rows(ctx), ctx->cfg->C);
    out_proj_forward(ctx, a->z.wo, y, a->gated);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    out_proj_backward(ctx, a->z.wo, a->gated, dy);
    gated_norm_back(a->gated.dx, a->z.o.x, a->norm, a->gate, ctx_rows(ctx), ctx->cfg->C,
                    a->partial);
    grouped_backward(ctx, &a->z, dx, x);
}

/* Costs the scores of one forward pass. */
static void zeros(const struct ctx *ctx, struct zeros *sum)
{
    const struct acts *a = ctx->acts;
    const double       heads = (double)ctx->B * ctx->cfg->H;
    long               pairs, rows;

    attention_zeros(&a->z.core, &pairs, &rows);
    sum->pairs += heads * attention_pairs(ctx->T, 0);
    sum->zeros += (double)pairs;
    sum->rows += heads * ctx->T;
    sum->nulls += (double)rows;
}

static void weights(const struct ctx *ctx, int b, int t, double *p)
{
    const struct acts *a = ctx->acts;

    grouped_weights(ctx, &a->z, b, t, p);
}

const struct mixer mixer_rela = {
    .name     = "rela",
    .about    = "rectified attention: weights max(q.k, 0), then a gated norm (ReLA)",
    .position = "rope",
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "infinite feature map: L = I, B = g(k), C = f(q), "
                  "f(q).g(k) = max(q.k, 0)",
        .zeros = zeros, .weights = weights,
    },
};
