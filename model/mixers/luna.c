/* Linear attention with a learned feature map (LUNA, arXiv:2512.08061).
 *
 *     q, k, v = Wq x, Wk x, Wv x       (H, e), e = C / H; the encoding rotates q, k
 *     u = fw z + fb                    (m), for z = q and z = k of every head
 *     psi_l(u) = sum_j f2[l, j] relu(f1[g, j] u + f1b[g, j]) + f2b[l], and relu of it
 *     phi(z) = m^(-1/2) [psi_l(u_i)]   (m, channels)
 *     w_ts = phi(q_t) . phi(k_s)       times a_{s+1} ... a_t with a decay a
 *                                      (model/mixer_forget.h)
 *     o_t = sum_{s <= t} w_ts v_s / (sum_s w_ts + 1e-6)
 *     y = Wo o
 *
 * As published: decay = none, psi = random, under absolute positions, which weft has
 * none of. psi then starts as a random network, of which some channels are 0 for every u
 * and stay so. psi = exp starts it as e^u, e^-u, e^{u/2}, e^{-u/2}, ... by chords from
 * -3 to 3, and fw as the identity: no feature is 0. The preset luna takes what
 * trains best.
 *
 * g = 0 with shared = 1, else g = l. psi of a number is piecewise linear with a knot per
 * hidden unit, so it is read from a table of its pieces, exactly; backward sums the
 * gradient of each piece and hands the sums to the units that are active there
 * (model/layers/piecewise.h).
 */
#include "model/kernels/product.h"
#include "model/layers/piecewise.h"
#include "model/mixer_forget.h"

#include <math.h>
#include <string.h>

enum { WQ, WK, WV, WO, FW, FB, F1, F1B, F2, F2B, FORGET };
enum { M, CHANNELS, HIDDEN, SHARED, PSI, DECAY };
enum { BLOCKS = 16 };           // of tokens, in which the gradient of psi is summed
enum { TILE = 32 };             // tokens whose features a thread takes at once

static const struct opt opts[] = {
    [M]        = {"m", "numbers that psi is taken of, per head; 0: width / heads",
                  OPT_INT, NULL, 16, 0, 4096},
    [CHANNELS] = {"channels", "functions psi", OPT_INT, NULL, 4, 1, 256},
    [HIDDEN]   = {"hidden", "hidden units of psi", OPT_INT, NULL, 64, 1, 1024},
    [SHARED]   = {"shared", "one hidden layer for all psi", OPT_FLAG, NULL, 1, 0, 1},
    [PSI]      = {"psi", "what psi starts as", OPT_CHOICE, "random|exp", 0, 0, 0},
    [DECAY]    = FORGET_OPT,
    {0},
};

static int  width(const struct mixer_cfg *c) { return c->C / c->H; }
static int  m_of(const struct mixer_cfg *c) { return opt_or(c, M, width(c)); }
static int  channels(const struct mixer_cfg *c) { return (int)c->opt[CHANNELS]; }
static int  hidden(const struct mixer_cfg *c) { return (int)c->opt[HIDDEN]; }
static bool starts_exp(const struct mixer_cfg *c) { return c->opt[PSI] > 0; }

static enum forget_kind kind_of(const struct mixer_cfg *c)
{
    return (enum forget_kind)c->opt[DECAY];
}

static int groups(const struct mixer_cfg *c)
{
    return c->opt[SHARED] > 0 ? 1 : channels(c);
}

/* Numbers u, and features, of a token: those of the queries, then those of the keys. */
static size_t us(const struct mixer_cfg *c) { return (size_t)2 * c->H * m_of(c); }
static size_t phis(const struct mixer_cfg *c) { return us(c) * channels(c); }

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
    for (int i = FW; starts_exp(c) && i <= F2B; i++)
        p[i].init = i == FB ? INIT_ZERO : INIT_OWN;
    return FORGET + forget_params(kind_of(c), c, p + FORGET);
}

/* psi as exponentials. Unit j is relu(u - knot) below half and relu(-u - knot) from there
 * on; a channel uses the half on which it rises. */
static void init_exp(const struct mixer_cfg *c, real *const *w)
{
    const int    n = hidden(c), half = (n + 1) / 2;
    const double first = -3, step = 6.0 / half;

    for (int i = 0; i < groups(c) * n; i++) {
        w[F1][i] = i % n < half ? 1 : -1;
        w[F1B][i] = (real)-(first + step * (i % n % half));
    }
    for (int l = 0; l < channels(c); l++) {
        double s = exp2(-(l / 2)), before = 0;

        memset(w[F2] + (size_t)l * n, 0, n * sizeof *w[F2]);
        w[F2B][l] = (real)exp(s * first);
        for (int j = 0; j < half && j + l % 2 * half < n; j++) {
            double at = first + step * j;
            double slope = (exp(s * (at + step)) - exp(s * at)) / step;

            w[F2][(size_t)l * n + j + l % 2 * half] = (real)(slope - before);
            before = slope;
        }
    }
}

static void init(const struct mixer_cfg *c, real *const *w, struct rng *r)
{
    const int e = width(c);

    (void)r;
    forget_init(kind_of(c), c, w + FORGET);
    if (!starts_exp(c))
        return;
    for (int i = 0; i < m_of(c) * e; i++)
        w[FW][i] = i / e % e == i % e;
    init_exp(c, w);
}

struct acts {
    struct act row, q, k, v;    // (H, e), rotated
    struct act o;               // (H, e)
    struct piecewise psi;
    struct act u;               // (2 H, m)
    struct act phi;             // (2 H, m, channels)
    real *dfw;                  // (2 H, m, e + 1) each head's share of fw's and fb's
    double *sums;               // (BLOCKS) of pieces
    struct heads_in in;
    struct scalar_heads core;
    struct forget forget;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t C = c->C;

    a->row = act_row(m, (struct act_part[]){{&a->q, C}, {&a->k, C}, {&a->v, C}, {0}});
    a->o = act_keep(m, "o", C);
    a->psi = (struct piecewise){.groups = groups(c), .channels = channels(c),
                                .hidden = hidden(c)};
    piecewise_layout(&a->psi, layout_work(m, "psi", piecewise_layout(&a->psi, NULL)));
    a->u = act_work(m, "u", us(c));
    a->phi = act_work(m, "phi", phis(c));
    a->dfw = layout_grad(m, "dfw", us(c) * (width(c) + 1));
    a->sums = layout_grad_bytes(m, "sums",
                                BLOCKS * piecewise_sums(&a->psi) * sizeof(double));
    a->in = (struct heads_in){.w = WQ, .Hk = c->H, .row = a->row, .k = a->k};
    a->core.core = (struct scalar){.H = c->H, .dk = m_of(c) * channels(c),
                                   .dv = width(c), .den = SCALAR_SUM, .scale = 1,
                                   .den_eps = (real)1e-6};
    scalar_heads_layout(&a->core, m, a->phi, act_from(a->phi, phis(c) / 2), a->v);
    a->forget = (struct forget){.kind = kind_of(c), .w = FORGET};
    forget_layout(&a->forget, m, &a->core);
}

/* ---- features ---------------------------------------------------------------------- */

static struct piecewise_net net_of(real *const *w)
{
    return (struct piecewise_net){.f1 = w[F1], .f1b = w[F1B], .f2 = w[F2], .f2b = w[F2B]};
}

/* u and phi of n tokens from row i on. */
static void map_rows(const struct ctx *ctx, const struct acts *a, long i, int n)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int  m = m_of(c), e = width(c);
    const real norm = (real)(1 / sqrt(m));
    real      *u = a->u.x + i * us(c), *phi = a->phi.x + i * phis(c);

    for (int h = 0; h < 2 * c->H; h++)
        gemm_nt(u + (size_t)h * m, us(c), a->row.x + i * a->row.ld + (size_t)h * e,
                a->row.ld, ctx->w[FW], e, n, m, e, 1, 0);
    for (size_t j = 0; j < n * us(c); j++)
        u[j] += ctx->w[FB][j % m];
    piecewise_read(&a->psi, phi, u, (int)(n * us(c)));
    for (size_t j = 0; j < n * phis(c); j++)
        phi[j] = phi[j] < 0 ? 0 : norm * phi[j];
}

static void map_features(const struct ctx *ctx, struct acts *a)
{
    struct piecewise_net net = net_of((real *const *)ctx->w);
    const long           rows = ctx_rows(ctx);

    piecewise_build(&a->psi, &net);
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < rows; i += TILE)
        map_rows(ctx, a, i, rows - i < TILE ? (int)(rows - i) : TILE);
}

/* dphi to du, dq and dk of n tokens from row i on. */
static void map_rows_back(const struct ctx *ctx, const struct acts *a, double *sums,
                          long i, int n)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int   m = m_of(c), e = width(c);
    const real  norm = (real)(1 / sqrt(m));
    real       *du = a->u.dx + i * us(c), *dphi = a->phi.dx + i * phis(c);
    const real *phi = a->phi.x + i * phis(c);

    for (size_t j = 0; j < n * phis(c); j++)
        dphi[j] = phi[j] > 0 ? norm * dphi[j] : 0;
    piecewise_back(&a->psi, du, sums, dphi, a->u.x + i * us(c), (int)(n * us(c)));
    for (int h = 0; h < 2 * c->H; h++)
        gemm_nn(a->row.dx + i * a->row.ld + (size_t)h * e, a->row.ld, du + (size_t)h * m,
                us(c), ctx->w[FW], e, n, e, m, 1, 0);
}

/* fw and fb: each head's share, then their sum. */
static void projection_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int    m = m_of(c), e = width(c), n = ctx->B * ctx->T;
    const size_t share = (size_t)m * (e + 1);

    #pragma omp parallel for schedule(dynamic)
    for (int h = 0; h < 2 * c->H; h++) {
        const real *du = a->u.dx + (size_t)h * m;
        real       *dfw = a->dfw + h * share, *dfb = dfw + (size_t)m * e;

        gemm_tn(dfw, e, du, us(c), a->row.x + (size_t)h * e, a->row.ld, m, e, n, 1, 0);
        memset(dfb, 0, m * sizeof *dfb);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++)
                dfb[j] += du[i * us(c) + j];
    }
    for (int h = 0; h < 2 * c->H; h++) {
        const real *dfw = a->dfw + h * share;

        for (int j = 0; j < m * e; j++)
            ctx->dw[FW][j] += dfw[j];
        for (int j = 0; j < m; j++)
            ctx->dw[FB][j] += dfw[(size_t)m * e + j];
    }
}

static void map_back(const struct ctx *ctx, const struct acts *a)
{
    const long           rows = ctx_rows(ctx);
    const size_t         per = piecewise_sums(&a->psi);
    struct piecewise_net net = net_of((real *const *)ctx->w), dnet = net_of(ctx->dw);

    memset(a->sums, 0, BLOCKS * per * sizeof *a->sums);
    #pragma omp parallel for schedule(static)
    for (int b = 0; b < BLOCKS; b++) {
        long from = rows * b / BLOCKS, to = rows * (b + 1) / BLOCKS;

        if (to > from)
            map_rows_back(ctx, a, a->sums + b * per, from, (int)(to - from));
    }
    for (size_t j = per; j < BLOCKS * per; j++)
        a->sums[j % per] += a->sums[j];
    piecewise_weights(&a->psi, &dnet, &net, a->sums);
    projection_back(ctx, a);
}

/* ---- the layer --------------------------------------------------------------------- */

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    heads_in_forward(ctx, &a->in, x);
    forget_forward(ctx, &a->forget, x);
    map_features(ctx, a);
    scalar_heads_forward(ctx, &a->core, a->o.x);
    out_proj_forward(ctx, WO, y, a->o);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    map_features(ctx, a);
    out_proj_backward(ctx, WO, a->o, dy);
    scalar_heads_backward(&a->core, a->o);
    map_back(ctx, a);
    heads_in_backward(ctx, &a->in, dx, x);
    forget_backward(ctx, &a->forget, dx, x);
}

/* Projections, u, psi read from its pieces, writing and reading the state. */
static double flops(const struct mixer_cfg *c, int T, int window)
{
    double C = c->C, m = m_of(c), e = width(c);

    (void)window;
    return T * (8 * C * C + forget_flops(kind_of(c), c) +
                c->H * (4 * m * e + 4 * m * channels(c) +
                        scalar_flops(T, m_of(c) * channels(c), width(c))));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;

    scalar_ratios(&a->core.core, a->core.kept, NULL, r);
    return ctx->cfg->H;
}

static double state(const struct mixer_cfg *c)
{
    return (double)c->H * m_of(c) * channels(c) * (width(c) + 1);
}

const struct mixer mixer_luna = {
    .name     = "luna",
    .about    = "linear attention with a learned feature map",
    .position = "none",
    .opts     = opts,
    .params   = params,
    .angles   = heads_angles,
    .layout   = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .flops    = flops,
    .instruments = &(struct instruments){
        .system = "L = (a n_{t-1}/n_t) I, B = f(k)/n_t, C = f(q), "
                  "n_t = f(q_t) . sum of f(k), f learned",
        .state = state, .decay = decay,
    },
};
