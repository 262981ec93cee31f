/* Rectified linear attention with a gated norm (ReLA-g, arXiv:2104.07012).
 *
 *     q, k, v = Wq x, Wk x, Wv x           q (H, e), k and v (Hk, e), e = C / H; q and k rotated
 *     A_tu = max(q_t . k_u / sqrt(e), 0)   u <= t
 *     z_t = sum_u A_tu v_u                 all heads side by side: (C)
 *     y = Wo [ norm rms(z) sigmoid(gate z) ]
 *
 * The norm spans all heads; the gate sees z before it. Key head h serves query heads h G ..
 * h G + G - 1, G = H / Hk. The decode state is a ring of the last `context` rotated keys and
 * values.
 */
#include "model/mixers/rela.h"

#include "model/arena.h"
#include "model/attention.h"
#include "model/linear.h"
#include "model/ring.h"
#include "model/vmath.h"

enum { WQ, WK, WV, WO, NORM, GATE, N_PARAMS };

static int width(const struct mixer_cfg *c) { return c->C / c->H; }

/* Channels of a row [q, k, v], and where k and v begin in it. */
static size_t row(const struct mixer_cfg *c) { return (size_t)(c->H + 2 * c->Hk) * width(c); }
static size_t k_at(const struct mixer_cfg *c) { return c->C; }
static size_t v_at(const struct mixer_cfg *c) { return (size_t)(c->H + c->Hk) * width(c); }

static const char *check(const struct mixer_cfg *c)
{
    if (c->C % c->H)
        return "width must be a multiple of heads";
    return c->H % c->Hk ? "heads must be a multiple of kv_heads" : NULL;
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

/* ---- the gated norm -------------------------------------------------------------------------
 *
 *     y = w rho z s      rho = 1 / sqrt(mean(z²) + eps),  s = sigmoid(g z)
 */
enum { BLOCKS = 16, ROWS = 32 };        // fixed blocks of rows; rows that one thread does alone

static const double eps = 1e-6;

static inline real inverse_rms(const real *z, int C)
{
    return 1 / (real)sqrt(vdot(z, z, C) / C + eps);
}

static void gated_norm(real *y, const real *z, const real *w, const real *g, long n, int C)
{
    #pragma omp parallel for schedule(static) if (n > ROWS)
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
static inline void gated_norm_row(real *d, const real *z, const real *w, const real *g, real *dw,
                                  real *dg, int C)
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
static void gated_norm_back(real *d, const real *z, const real *w, const real *g, real *dw,
                            real *dg, long n, int C, real *partial)
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

/* ---- memory --------------------------------------------------------------------------------- */

struct acts {
    real *qkv;          // (B, T, H + 2 Hk, e) after rotation
    real *z, *gated;    // (B, T, C)
    real *ring;         // scratch of the ring in extend
};

static struct attention shape(const struct mixer_cfg *c, int B, int T)
{
    return (struct attention){.kind = ATTENTION_RELU, .B = B, .T = T, .H = c->H, .Hk = c->Hk,
                              .e = width(c), .scale = 1 / (real)sqrt((double)width(c))};
}

static struct attention core_of(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct attention core = shape(c, ctx->B, ctx->T);

    core.q = a->qkv, core.k = a->qkv + k_at(c), core.v = a->qkv + v_at(c);
    core.ld_q = core.ld_kv = row(c);
    return core;
}

static size_t carve(struct acts *a, void *base, const struct mixer_cfg *c, int B, int T, bool train)
{
    struct arena     m = arena_over(base);
    struct attention core = shape(c, B, T);
    size_t           n = (size_t)B * T;

    a->qkv = arena_reals(&m, n * row(c));
    a->z = arena_reals(&m, n * c->C);
    a->gated = arena_reals(&m, n * c->C);
    a->ring = arena_reals(&m, train ? 0 : ring_scratch(&core, c->context));
    return m.used;
}

struct grads {
    real *dqkv;         // as qkv
    real *dz;           // as z
    real *partial;      // of the norm
};

static size_t carve_grads(struct grads *g, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena m = arena_over(base);
    size_t       n = (size_t)B * T;

    g->dqkv = arena_reals(&m, n * row(c));
    g->dz = arena_reals(&m, n * c->C);
    g->partial = arena_reals(&m, (size_t)BLOCKS * 2 * c->C);
    return m.used;
}

static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct attention core = shape(c, B, T);
    struct acts      a;
    struct grads     g;
    size_t           back = carve_grads(&g, NULL, c, B, T), ext = carve(&a, NULL, c, B, T, false);

    s->kept = carve(&a, NULL, c, B, T, true);
    s->scratch = back > ext ? back : ext;
    s->state = ring_state(&core, c->context) * sizeof(real);
}

/* ---- the layer ------------------------------------------------------------------------------ */

/* x to rows of rotated q and k, and v. */
static void project(struct ctx *ctx, const real *x, struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t ld = row(c);

    linear_forward(a->qkv, x, ctx->w[WQ], (long)ctx->B * ctx->T, c->C, (int)ld);
    rotate(&ctx->angles, a->qkv, ctx->B, ctx->T, c->H, ld);
    rotate(&ctx->angles, a->qkv + k_at(c), ctx->B, ctx->T, c->Hk, ld);
}

/* y from z. */
static void finish(struct ctx *ctx, struct acts *a, real *y)
{
    const int  C = ctx->cfg->C;
    const long n = (long)ctx->B * ctx->T;

    gated_norm(a->gated, a->z, ctx->w[NORM], ctx->w[GATE], n, C);
    linear_forward(y, a->gated, ctx->w[WO], n, C, C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts      a;
    struct attention core;

    carve(&a, ctx->kept, ctx->cfg, ctx->B, ctx->T, true);
    core = core_of(ctx, &a);
    project(ctx, x, &a);
    attention_forward(&core, a.z, NULL);
    finish(ctx, &a, y);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    const size_t ld = row(c), k = k_at(c), v = v_at(c);
    struct acts      a;
    struct grads     g;
    struct attention core;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    carve_grads(&g, ctx->scratch, c, ctx->B, ctx->T);
    core = core_of(ctx, &a);
    linear_backward(g.dz, 0, ctx->dw[WO], dy, a.gated, ctx->w[WO], n, c->C, c->C);
    gated_norm_back(g.dz, a.z, ctx->w[NORM], ctx->w[GATE], ctx->dw[NORM], ctx->dw[GATE], n, c->C,
                    g.partial);
    attention_backward(&core, NULL, NULL, g.dz, g.dqkv, g.dqkv + k, g.dqkv + v, NULL);
    rotate_back(&ctx->angles, a.qkv, g.dqkv, ctx->B, ctx->T, c->H, ld, ld);
    rotate_back(&ctx->angles, a.qkv + k, g.dqkv + k, ctx->B, ctx->T, c->Hk, ld, ld);
    linear_backward(dx, 1, ctx->dw[WQ], g.dqkv, x, ctx->w[WQ], n, c->C, (int)ld);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    struct acts      a;
    struct attention core;

    carve(&a, ctx->scratch, ctx->cfg, ctx->B, ctx->T, false);
    core = core_of(ctx, &a);
    project(ctx, x, &a);
    ring_extend(&core, ctx->cfg->context, state, ctx->pos, a.z, a.ring);
    finish(ctx, &a, y);
}

/* What a mixer keeps is the end of what mixer_forward keeps. */
void rela_sparsity(const struct ctx *ctx, double *sparsity, double *nulls)
{
    const struct mixer_cfg *c = ctx->cfg;
    double           heads = (double)ctx->B * c->H;
    struct sizes     all, own;
    struct acts      a;
    struct attention core;
    long             pairs, rows;

    mixer_sizes(c, ctx->B, ctx->T, &all);
    sizes(c, ctx->B, ctx->T, &own);
    carve(&a, (char *)ctx->kept + all.kept - own.kept, c, ctx->B, ctx->T, true);
    core = core_of(ctx, &a);
    attention_zeros(&core, &pairs, &rows);
    *sparsity = (double)pairs / (heads * attention_pairs(ctx->T, 0));
    *nulls = (double)rows / (heads * ctx->T);
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
    .system   = "infinite feature map: L = I, B = g(k), C = f(q), f(q).g(k) = max(q.k, 0)",
    .position = "rope",
    .check    = check,
    .params   = params,
    .angles   = angles,
    .sizes    = sizes,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .flops    = flops,
};
