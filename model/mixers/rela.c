/* Rectified linear attention with a gated norm (ReLA-g, arXiv:2104.07012).
 *
 *     q, k, v = Wq x, Wk x, Wv x           q (H, e), k, v (Hk, e), e = C/H; q, k rotated
 *     A_tu = max(q_t . k_u / sqrt(e), 0)   u <= t
 *     z_t = sum_u A_tu v_u                 all heads side by side: (C)
 *     y = Wo [ norm rms(z) sigmoid(gate z) ]
 *
 * The norm spans all heads; the gate sees z before it. Key head h serves query heads
 * h G .. h G + G - 1, G = H / Hk. The decode state is a ring of the last `context`
 * rotated keys and values.
 */

#include "model/cores/attention.h"
#include "model/cores/kv_cache.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "model/mixer_heads.h"

enum { WQ, WK, WV, WO, NORM, GATE, N_PARAMS };

static int width(const struct mixer_cfg *c) { return c->C / c->H; }

/* Channels of a row [q, k, v], and where k and v begin in it. */
static size_t row(const struct mixer_cfg *c)
{
    return (size_t)(c->H + 2 * c->Hk) * width(c);
}

static size_t k_at(const struct mixer_cfg *c) { return c->C; }

static size_t v_at(const struct mixer_cfg *c)
{
    return (size_t)(c->H + c->Hk) * width(c);
}

static int params(const struct mixer_cfg *c, struct param *p)
{
    int kv = c->Hk * width(c);

    p[WQ] = (struct param){"wq", c->C, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", kv, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", kv, c->C, INIT_INPUT, .decay = true};
    p[WO] = (struct param){"wo", c->C, c->C, INIT_OUTPUT, .decay = true};
    p[NORM] = (struct param){"norm", c->C, 0, INIT_ONE};
    p[GATE] = (struct param){"gate", c->C, 0, INIT_NORMAL, 0.02};
    return N_PARAMS;
}

static void angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->Hk;
    *dk = width(c);
}

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
static void gated_norm_back(real *d, const real *z, const real *w, const real *g,
                            real *dw, real *dg, long n, int C, real *partial)
{
    #pragma omp parallel for schedule(static)
    for (int block = 0; block < BLOCKS; block++) {
        real *sum = partial + (size_t)block * 2 * C;

        for (int j = 0; j < 2 * C; j++)
            sum[j] = 0;
        for (long i = n * block / BLOCKS; i < n * (block + 1) / BLOCKS; i++)
            gated_norm_row(d + i * C, z + i * C, w, g, sum, sum + C, C);
    }
    for (int block = 0; block < BLOCKS; block++)
        for (int j = 0; j < C; j++) {
            dw[j] += partial[(size_t)block * 2 * C + j];
            dg[j] += partial[(size_t)block * 2 * C + C + j];
        }
}

/* ---- the layer --------------------------------------------------------------------- */

struct acts {
    real *qkv, *dqkv;           // (B, T, H + 2 Hk, e) after rotation
    real *z, *gated, *dz;       // (B, T, C)
    real *partial;              // of the norm
    real *ring;                 // scratch of the ring in extend
    struct rows rows;
    struct attention core;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t n = layout_tokens(m), ld = row(c);

    a->qkv = layout_keep(m, "qkv", n * ld);
    a->dqkv = layout_grad(m, "dqkv", n * ld);
    a->z = layout_keep(m, "z", n * c->C);
    a->gated = layout_keep(m, "gated", n * c->C);
    a->dz = layout_grad(m, "dz", n * c->C);
    a->partial = layout_grad(m, "partial", (size_t)BLOCKS * 2 * c->C);
    a->rows = (struct rows){.w = WQ, .Hk = c->Hk, .k = k_at(c), .ld = ld};
    a->core = (struct attention){
        .kind = ATTENTION_RELU, .B = m->B, .T = m->T, .H = c->H, .Hk = c->Hk,
        .e = width(c), .scale = 1 / (real)sqrt((double)width(c)), .ld_q = ld, .ld_kv = ld,
        .q = a->qkv, .k = layout_at(a->qkv, k_at(c)), .v = layout_at(a->qkv, v_at(c)),
    };
    a->ring = layout_stream(m, "ring", kv_cache_scratch(&a->core, c->context));
    layout_state(m, kv_cache_state(&a->core, c->context));
}

/* y from z. */
static void finish(const struct ctx *ctx, const struct acts *a, real *y)
{
    const int  C = ctx->cfg->C;
    const long n = ctx_rows(ctx);

    gated_norm(a->gated, a->z, ctx->w[NORM], ctx->w[GATE], n, C);
    product_forward(y, a->gated, ctx->w[WO], n, C, C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    rows_forward(ctx, &a->rows, a->qkv, x);
    attention_forward(&a->core, a->z, NULL);
    finish(ctx, a, y);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = ctx_rows(ctx);
    struct acts *a = ctx->acts;

    product_backward(a->dz, 0, ctx->dw[WO], dy, a->gated, ctx->w[WO], n, c->C, c->C);
    gated_norm_back(a->dz, a->z, ctx->w[NORM], ctx->w[GATE], ctx->dw[NORM],
                    ctx->dw[GATE], n, c->C, a->partial);
    attention_backward(&a->core, NULL, NULL, a->dz, a->dqkv, a->dqkv + k_at(c),
                       a->dqkv + v_at(c), NULL);
    rows_backward(ctx, &a->rows, dx, a->dqkv, a->qkv, x);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    rows_forward(ctx, &a->rows, a->qkv, x);
    kv_cache_extend(&a->core, ctx->cfg->context, state, ctx->pos, a->z, a->ring);
    finish(ctx, a, y);
}

/* Costs the scores of one forward pass. */
static void zeros(const struct ctx *ctx, struct zeros *sum)
{
    const struct acts *a = ctx->acts;
    const double       heads = (double)ctx->B * ctx->cfg->H;
    long               pairs, rows;

    attention_zeros(&a->core, &pairs, &rows);
    sum->pairs += heads * attention_pairs(ctx->T, 0);
    sum->zeros += (double)pairs;
    sum->rows += heads * ctx->T;
    sum->nulls += (double)rows;
}

/* Projections, and 4 e per visible pair and head. */
static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return 2.0 * T * c->C * ((double)row(c) + c->C) + 4.0 * attention_pairs(T, 0) * c->C;
}

const struct mixer mixer_rela = {
    .name     = "rela",
    .about    = "rectified attention: weights max(q.k, 0), then a gated norm (ReLA)",
    .system   = "infinite feature map: L = I, B = g(k), C = f(q), "
                "f(q).g(k) = max(q.k, 0)",
    .position = "rope",
    .params   = params,
    .angles   = angles,
    .layout    = layout,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .zeros    = zeros,
    .flops    = flops,
};
