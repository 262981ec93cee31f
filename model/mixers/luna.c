/* Linear attention with a learned feature map (LUNA, arXiv:2512.08061).
 *
 *     q, k, v = Wq x, Wk x, Wv x       (H, e), e = C / H; the position encoding rotates q, k
 *     u = fw z + fb                    (m), for z = q and z = k of every head
 *     psi_l(u) = sum_j f2[l, j] relu(f1[g, j] u + f1b[g, j]) + f2b[l], and relu of it
 *     phi(z) = m^(-1/2) [psi_l(u_i)]   (m, channels)
 *     o_t = sum_{s <= t} (phi(q_t) . phi(k_s)) v_s / (sum_s phi(q_t) . phi(k_s) + 1e-6);   y = Wo o
 *
 * g = 0 with shared = 1, else g = l. psi of a number is piecewise linear with a knot per hidden unit,
 * so it is read from a table of its pieces, exactly; backward sums the gradient of each piece and
 * hands the sums to the units that are active there (model/pieces.h).
 */
#include "model/arena.h"
#include "model/core_scalar.h"
#include "model/linear.h"
#include "model/mixer.h"
#include "model/pieces.h"

#include <math.h>
#include <string.h>

enum { WQ, WK, WV, WO, FW, FB, F1, F1B, F2, F2B, N_PARAMS };
enum { M, CHANNELS, HIDDEN, SHARED };
enum { BLOCKS = 16 };           // of tokens, in which the gradient of psi is summed

static const struct opt opts[] = {
    [M]        = {"m", "numbers that psi is taken of, per head", OPT_INT, NULL, 16, 1, 4096},
    [CHANNELS] = {"channels", "functions psi", OPT_INT, NULL, 4, 1, 256},
    [HIDDEN]   = {"hidden", "hidden units of psi", OPT_INT, NULL, 64, 1, 1024},
    [SHARED]   = {"shared", "one hidden layer for all psi", OPT_FLAG, NULL, 1, 0, 1},
    {0},
};

static int width(const struct mixer_cfg *c) { return c->C / c->H; }
static int m_of(const struct mixer_cfg *c) { return (int)c->opt[M]; }
static int channels(const struct mixer_cfg *c) { return (int)c->opt[CHANNELS]; }
static int hidden(const struct mixer_cfg *c) { return (int)c->opt[HIDDEN]; }
static int groups(const struct mixer_cfg *c) { return c->opt[SHARED] > 0 ? 1 : channels(c); }

/* Numbers u, and features, of a token: those of the queries, then those of the keys. */
static size_t us(const struct mixer_cfg *c) { return (size_t)2 * c->H * m_of(c); }
static size_t phis(const struct mixer_cfg *c) { return us(c) * channels(c); }
static size_t row(const struct mixer_cfg *c) { return 3 * (size_t)c->C; }

static int params(const struct mixer_cfg *c, struct param *p)
{
    int m = m_of(c), e = width(c), n = hidden(c);

    p[WQ] = (struct param){"wq", c->C, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", c->C, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", c->C, c->C, INIT_INPUT, .decay = true};
    p[WO] = (struct param){"wo", c->C, c->C, INIT_OUTPUT, .decay = true};
    p[FW] = (struct param){"fw", m, e, INIT_NORMAL, 1 / sqrt(e), .decay = true};
    p[FB] = (struct param){"fb", m, 0, INIT_ZERO};
    p[F1] = (struct param){"f1", groups(c), n, INIT_NORMAL, 1, .decay = true};
    p[F1B] = (struct param){"f1b", groups(c), n, INIT_NORMAL, 1};
    p[F2] = (struct param){"f2", channels(c), n, INIT_NORMAL, 1 / sqrt(n), .decay = true};
    p[F2B] = (struct param){"f2b", channels(c), 0, INIT_CONST, 0.1};
    return N_PARAMS;
}

static void angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->H;
    *dk = width(c);
}

/* ---- memory ----------------------------------------------------------------------------------- */

/* The core without its rows. */
static struct scalar shape(const struct mixer_cfg *c, int B, int T)
{
    return (struct scalar){
        .B = B, .T = T, .H = c->H, .dk = m_of(c) * channels(c), .dv = width(c),
        .den = SCALAR_SUM, .scale = 1, .den_eps = (real)1e-6,
    };
}

struct kept {
    real *qkv;          // (B, T, 3 C), rotated
    real *o;            // (B, T, C)
    real *core;
};

static size_t carve_kept(struct kept *k, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena  a = arena_over(base);
    struct scalar s = shape(c, B, T);
    size_t        n = (size_t)B * T;

    k->qkv = arena_reals(&a, n * row(c));
    k->o = arena_reals(&a, n * c->C);
    k->core = arena_reals(&a, scalar_kept(&s));
    return a.used;
}

struct work {
    struct pieces psi;
    real *u;            // (B, T, 2 H, m)
    real *phi;          // (B, T, 2 H, m, channels)
};

static size_t carve_work(struct work *w, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena a = arena_over(base);
    size_t       n = (size_t)B * T;

    w->psi = (struct pieces){.groups = groups(c), .channels = channels(c), .hidden = hidden(c)};
    pieces_carve(&w->psi, arena_reals(&a, pieces_carve(&w->psi, NULL)));
    w->u = arena_reals(&a, n * us(c));
    w->phi = arena_reals(&a, n * phis(c));
    return a.used;
}

struct grads {
    struct work w;
    real   *dqkv, *d_o;     // as qkv, o
    real   *du, *dphi;      // as u, phi
    real   *dfw;            // (2 H, m, e + 1) each head's share of fw's and fb's
    double *sums;           // (BLOCKS) of pieces
    real   *core;
};

static size_t carve_grads(struct grads *g, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena  a = arena_over(base);
    struct scalar s = shape(c, B, T);
    size_t        n = (size_t)B * T, work = carve_work(&g->w, NULL, c, B, T);

    carve_work(&g->w, arena_bytes(&a, work), c, B, T);
    g->dqkv = arena_reals(&a, n * row(c));
    g->d_o = arena_reals(&a, n * c->C);
    g->du = arena_reals(&a, n * us(c));
    g->dphi = arena_reals(&a, n * phis(c));
    g->dfw = arena_reals(&a, us(c) * (width(c) + 1));
    g->sums = arena_bytes(&a, BLOCKS * pieces_sums(&g->w.psi) * sizeof(double));
    g->core = arena_reals(&a, scalar_scratch(&s));
    return a.used;
}

/* Scratch of extend. */
struct extension {
    struct kept part;
    struct work w;
};

static size_t carve_extension(struct extension *x, void *base, const struct mixer_cfg *c, int B,
                              int T)
{
    struct arena a = arena_over(base);
    size_t       part = carve_kept(&x->part, NULL, c, B, T), work = carve_work(&x->w, NULL, c, B, T);

    carve_kept(&x->part, arena_bytes(&a, part), c, B, T);
    carve_work(&x->w, arena_bytes(&a, work), c, B, T);
    return a.used;
}

static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct kept      k;
    struct grads     g;
    struct extension x;
    struct scalar    core = shape(c, B, T);
    size_t           back = carve_grads(&g, NULL, c, B, T), ext = carve_extension(&x, NULL, c, B, T);

    s->kept = carve_kept(&k, NULL, c, B, T);
    s->scratch = back > ext ? back : ext;
    s->state = scalar_state(&core) * sizeof(real);
}

/* ---- features --------------------------------------------------------------------------------- */

static struct pieces_net net_of(real *const *w)
{
    return (struct pieces_net){.f1 = w[F1], .f1b = w[F1B], .f2 = w[F2], .f2b = w[F2B]};
}

/* u and phi of n tokens from row i on. */
static void map_rows(const struct ctx *ctx, const struct kept *k, const struct work *w, long i, int n)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int  m = m_of(c), e = width(c);
    const real norm = (real)(1 / sqrt(m));
    real      *u = w->u + i * us(c), *phi = w->phi + i * phis(c);

    for (int h = 0; h < 2 * c->H; h++)
        gemm_nt(u + (size_t)h * m, us(c), k->qkv + i * row(c) + (size_t)h * e, row(c), ctx->w[FW], e,
                n, m, e, 1, 0);
    for (size_t j = 0; j < n * us(c); j++)
        u[j] += ctx->w[FB][j % m];
    pieces_read(&w->psi, phi, u, (int)(n * us(c)));
    for (size_t j = 0; j < n * phis(c); j++)
        phi[j] = phi[j] < 0 ? 0 : norm * phi[j];
}

static void map_features(const struct ctx *ctx, const struct kept *k, struct work *w)
{
    struct pieces_net net = net_of((real *const *)ctx->w);
    const long        rows = (long)ctx->B * ctx->T;
    const int         tile = 32;

    pieces_build(&w->psi, &net);
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < rows; i += tile)
        map_rows(ctx, k, w, i, rows - i < tile ? (int)(rows - i) : tile);
}

/* dphi to du and dqkv of n tokens from row i on. */
static void map_rows_back(const struct ctx *ctx, const struct grads *g, double *sums, long i, int n)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int   m = m_of(c), e = width(c);
    const real  norm = (real)(1 / sqrt(m));
    real       *du = g->du + i * us(c), *dphi = g->dphi + i * phis(c);
    const real *phi = g->w.phi + i * phis(c);

    for (size_t j = 0; j < n * phis(c); j++)
        dphi[j] = phi[j] > 0 ? norm * dphi[j] : 0;
    pieces_back(&g->w.psi, du, sums, dphi, g->w.u + i * us(c), (int)(n * us(c)));
    for (int h = 0; h < 2 * c->H; h++)
        gemm_nn(g->dqkv + i * row(c) + (size_t)h * e, row(c), du + (size_t)h * m, us(c), ctx->w[FW],
                e, n, e, m, 1, 0);
}

/* fw and fb: each head's share, then their sum. */
static void projection_back(const struct ctx *ctx, const struct kept *k, const struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int    m = m_of(c), e = width(c), n = ctx->B * ctx->T;
    const size_t share = (size_t)m * (e + 1);

    #pragma omp parallel for schedule(dynamic)
    for (int h = 0; h < 2 * c->H; h++) {
        const real *du = g->du + (size_t)h * m;
        real       *dfw = g->dfw + h * share, *dfb = dfw + (size_t)m * e;

        gemm_tn(dfw, e, du, us(c), k->qkv + (size_t)h * e, row(c), m, e, n, 1, 0);
        memset(dfb, 0, m * sizeof *dfb);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++)
                dfb[j] += du[i * us(c) + j];
    }
    for (int h = 0; h < 2 * c->H; h++) {
        const real *dfw = g->dfw + h * share;

        for (int j = 0; j < m * e; j++)
            ctx->dw[FW][j] += dfw[j];
        for (int j = 0; j < m; j++)
            ctx->dw[FB][j] += dfw[(size_t)m * e + j];
    }
}

static void map_back(const struct ctx *ctx, const struct kept *k, const struct grads *g)
{
    const long        rows = (long)ctx->B * ctx->T;
    const size_t      per = pieces_sums(&g->w.psi);
    struct pieces_net net = net_of((real *const *)ctx->w), dnet = net_of(ctx->dw);

    memset(g->sums, 0, BLOCKS * per * sizeof *g->sums);
    #pragma omp parallel for schedule(static)
    for (int b = 0; b < BLOCKS; b++) {
        long from = rows * b / BLOCKS, to = rows * (b + 1) / BLOCKS;

        if (to > from)
            map_rows_back(ctx, g, g->sums + b * per, from, (int)(to - from));
    }
    for (size_t j = per; j < BLOCKS * per; j++)
        g->sums[j % per] += g->sums[j];
    pieces_weights(&g->w.psi, &dnet, &net, g->sums);
    projection_back(ctx, k, g);
}

/* ---- the layer -------------------------------------------------------------------------------- */

static void project(struct ctx *ctx, const real *x, struct kept *k)
{
    const struct mixer_cfg *c = ctx->cfg;
    size_t ld = row(c);

    linear_forward(k->qkv, x, ctx->w[WQ], (long)ctx->B * ctx->T, c->C, (int)ld);
    rotate(&ctx->angles, k->qkv, ctx->B, ctx->T, c->H, ld);
    rotate(&ctx->angles, k->qkv + c->C, ctx->B, ctx->T, c->H, ld);
}

static struct scalar core_of(const struct ctx *ctx, const struct kept *k, const struct work *w)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct scalar s = shape(c, ctx->B, ctx->T);

    s.q = w->phi, s.k = w->phi + phis(c) / 2, s.v = k->qkv + 2 * (size_t)c->C;
    s.ld_q = s.ld_k = phis(c);
    s.ld_v = row(c);
    s.ld_o = c->C;
    return s;
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct kept   k;
    struct work   w;
    struct scalar s;

    carve_kept(&k, ctx->kept, c, ctx->B, ctx->T);
    carve_work(&w, ctx->scratch, c, ctx->B, ctx->T);
    project(ctx, x, &k);
    map_features(ctx, &k, &w);
    s = core_of(ctx, &k, &w);
    scalar_forward(&s, k.o, k.core);
    linear_forward(y, k.o, ctx->w[WO], (long)ctx->B * ctx->T, c->C, c->C);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    size_t       ld = row(c), C = c->C;
    struct kept  k;
    struct grads g;

    carve_kept(&k, ctx->kept, c, ctx->B, ctx->T);
    carve_grads(&g, ctx->scratch, c, ctx->B, ctx->T);
    map_features(ctx, &k, &g.w);
    struct scalar      s = core_of(ctx, &k, &g.w);
    struct scalar_grad to = {.dq = g.dphi, .dk = g.dphi + phis(c) / 2, .dv = g.dqkv + 2 * C,
                             .ld_dq = phis(c), .ld_dk = phis(c), .ld_dv = ld};

    linear_backward(g.d_o, 0, ctx->dw[WO], dy, k.o, ctx->w[WO], n, c->C, c->C);
    scalar_backward(&s, &to, k.o, g.d_o, k.core, g.core);
    map_back(ctx, &k, &g);
    rotate_back(&ctx->angles, k.qkv, g.dqkv, ctx->B, ctx->T, c->H, ld, ld);
    rotate_back(&ctx->angles, k.qkv + C, g.dqkv + C, ctx->B, ctx->T, c->H, ld, ld);
    linear_backward(dx, 1, ctx->dw[WQ], g.dqkv, x, ctx->w[WQ], n, c->C, (int)ld);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct extension e;
    struct scalar    s;

    carve_extension(&e, ctx->scratch, c, ctx->B, ctx->T);
    project(ctx, x, &e.part);
    map_features(ctx, &e.part, &e.w);
    s = core_of(ctx, &e.part, &e.w);
    scalar_extend(&s, state, 0, e.part.o);
    linear_forward(y, e.part.o, ctx->w[WO], (long)ctx->B * ctx->T, c->C, c->C);
}

/* Projections, u, psi as the network it is, writing and reading the state. */
static double flops(const struct mixer_cfg *c, int T, int window)
{
    double C = c->C, m = m_of(c), e = width(c), L = channels(c);

    (void)window;
    return T * (8 * C * C + c->H * (4 * m * e + 4 * m * L +
                                    scalar_flops(T, m_of(c) * channels(c), width(c))));
}

const struct mixer mixer_luna = {
    .name     = "luna",
    .about    = "linear attention with a learned feature map",
    .system   = "L = (n_{t-1}/n_t) I, B = f(k)/n_t, C = f(q), n_t = f(q_t) . sum of f(k), f learned",
    .position = "none",
    .opts     = opts,
    .params   = params,
    .angles   = angles,
    .sizes    = sizes,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .flops    = flops,
};
