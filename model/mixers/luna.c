/* Linear attention with a learned feature map (LUNA, arXiv:2512.08061).
 *
 *     q, k, v = Wq x, Wk x, Wv x       (H, e), e = C / H; the encoding rotates q, k
 *     u = fw z + fb                    (m), for z = q and z = k of every head
 *     psi_l(u) = sum_j f2[l, j] relu(f1[g, j] u + f1b[g, j]) + f2b[l], and relu of it
 *     phi(z) = m^(-1/2) [psi_l(u_i)]   (channels, m)
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
#include "model/layers/bias.h"
#include "model/layers/piecewise.h"
#include "model/mixer_forget.h"

#include <math.h>
#include <string.h>

enum { M, CHANNELS, HIDDEN, SHARED, PSI, DECAY };
enum { BLOCKS = 16 };           // of tokens, in which the gradient of psi is summed
enum { TILE = 32 };             // tokens whose features a thread takes at once

static const struct opt opts[] = {
    [M]        = {"m", "numbers that psi is taken of, per head; 0: width / heads",
                  OPT_INT, 16, 0, 4096},
    [CHANNELS] = {"channels", "functions psi", OPT_INT, 4, 1, 256},
    [HIDDEN]   = {"hidden", "hidden units of psi", OPT_INT, 64, 1, 1024},
    [SHARED]   = {"shared", "one hidden layer for all psi", OPT_FLAG, 1},
    [PSI]      = {"psi", "what psi starts as", OPT_CHOICE, .choices = "random|exp"},
    [DECAY]    = FORGET_OPT,
    {0},
};

struct acts {
    struct act row, q, k, v;    // (H, e), rotated
    int m;                      // numbers u of a head
    struct act u;               // (2 H, m) of the queries, then of the keys
    struct act phi;             // (2 H, channels, m)
    struct weight fw, fb, wo;   // (m, e), (m)
    struct piecewise_net net, dnet;     // weights of psi, gradients
    real *dfw;                  // (2 H, m, e + 1) each head's share of fw's and fb's
    struct piecewise psi;
    double *sums;               // (BLOCKS) of pieces
    struct scalar_heads core;
    struct forget forget;
};

/* The map to u and the network of psi, which start at random or as exponentials. */
static void layout_psi(struct acts *a, struct layout *m, const struct mixer_cfg *c)
{
    const int e = c->C / c->H, n = (int)c->opt[HIDDEN], channels = (int)c->opt[CHANNELS],
              groups = c->opt[SHARED] > 0 ? 1 : channels;
    const bool as_exp = c->opt[PSI] > 0;
    const enum init start = as_exp ? INIT_OWN : INIT_NORMAL;
    struct weight f1, f1b, f2, f2b;

    a->fw = layout_weight(m, (struct param){"fw", a->m, e, start, 1 / sqrt(e),
                                            .decay = true, .direct = true});
    a->fb = layout_vector(m, "fb", a->m, INIT_ZERO);
    f1 = layout_weight(m, (struct param){"f1", groups, n, start, 1, .decay = true,
                                         .direct = true});
    f1b = layout_weight(m, (struct param){"f1b", groups, n, start, 1, .direct = true});
    f2 = layout_weight(m, (struct param){"f2", channels, n, start, 1 / sqrt(n),
                                         .decay = true, .direct = true});
    f2b = layout_weight(m, (struct param){"f2b", channels, 0,
                                          as_exp ? INIT_OWN : INIT_CONST, 0.1});
    a->net = (struct piecewise_net){f1.w, f1b.w, f2.w, f2b.w};
    a->dnet = (struct piecewise_net){f1.dw, f1b.dw, f2.dw, f2b.dw};
    a->psi = (struct piecewise){.groups = groups, .channels = channels, .hidden = n};
    piecewise_layout(&a->psi, layout_keep(m, "psi", piecewise_layout(&a->psi, NULL)));
    a->sums = layout_grad_bytes(m, "sums",
                                BLOCKS * piecewise_sums(&a->psi) * sizeof(double));
}

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    C = c->C, H = c->H, e = C / H, channels = (int)c->opt[CHANNELS];

    a->row = act_row(m, (struct act_part[]){
        {"wq", &a->q, C}, {"wk", &a->k, C}, {"wv", &a->v, C}, {0}});
    layout_rotates(m, H, e);
    a->wo = layout_out(m, C);
    a->m = opt_or(c, M, e);
    layout_psi(a, m, c);
    a->u = act_keep(m, "u", 2 * (size_t)H * a->m);
    a->phi = act_keep(m, "phi", a->u.ld * channels);
    a->dfw = layout_grad(m, "dfw", a->u.ld * (e + 1));
    layout_flops(m, 4.0 * H * a->m * (e + channels));       // u, psi read from its pieces
    a->core = scalar_heads_layout(m, a->phi, act_from(a->phi, a->phi.ld / 2), a->v,
                                  (struct scalar){.H = H, .dk = a->m * channels, .dv = e,
                                                  .den = SCALAR_SUM, .scale = 1,
                                                  .den_eps = (real)1e-6});
    a->forget = forget_layout(m, (enum forget_kind)c->opt[DECAY], &a->core);
    m->paper_state = (double)H * a->m * channels * (e + 1);
}

/* psi as exponentials. Unit j is relu(u - knot) below half and relu(-u - knot) from there
 * on; a channel uses the half on which it rises. */
static void init_exp(const struct acts *a)
{
    const int    n = a->psi.hidden, half = (n + 1) / 2;
    const double first = -3, step = 6.0 / half;

    for (int i = 0; i < a->psi.groups * n; i++) {
        a->net.f1[i] = i % n < half ? 1 : -1;
        a->net.f1b[i] = (real)-(first + step * (i % n % half));
    }
    for (int l = 0; l < a->psi.channels; l++) {
        double s = exp2(-(l / 2)), before = 0;
        real  *f2 = a->net.f2 + (size_t)l * n;

        memset(f2, 0, n * sizeof *f2);
        a->net.f2b[l] = (real)exp(s * first);
        for (int j = 0; j < half && j + l % 2 * half < n; j++) {
            double at = first + step * j;
            double slope = (exp(s * (at + step)) - exp(s * at)) / step;

            f2[j + l % 2 * half] = (real)(slope - before);
            before = slope;
        }
    }
}

static void init(const struct mixer_cfg *c, void *acts, struct rng *r)
{
    struct acts *a = acts;
    const int    e = c->C / c->H;

    (void)r;
    forget_init(&a->forget);
    if (!(c->opt[PSI] > 0))
        return;
    for (int i = 0; i < a->m * e; i++)
        a->fw.w[i] = i / e % e == i % e;
    init_exp(a);
}

/* ---- features ---------------------------------------------------------------------- */

/* u and phi of n tokens from row i on. */
static void map_rows(const struct ctx *ctx, const struct acts *a, long i, int n)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int  m = a->m, e = c->C / c->H;
    const real norm = (real)(1 / sqrt(m));
    real      *u = a->u.x + i * a->u.ld, *phi = a->phi.x + i * a->phi.ld;

    for (int h = 0; h < 2 * c->H; h++)
        gemm_nt(u + (size_t)h * m, a->u.ld, a->row.x + i * a->row.ld + (size_t)h * e,
                a->row.ld, a->fw.w, e, n, m, e, 1, 0);
    bias_forward(u, a->fb.w, (long)n * 2 * c->H, m);
    piecewise_read(&a->psi, phi, u, (long)n * 2 * c->H, m);
    #pragma omp simd
    for (size_t j = 0; j < n * a->phi.ld; j++)
        phi[j] = norm * (phi[j] < 0 ? 0 : phi[j]);
}

static void map_features(const struct ctx *ctx, struct acts *a)
{
    const long rows = ctx_rows(ctx);

    piecewise_build(&a->psi, &a->net);
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < rows; i += TILE)
        map_rows(ctx, a, i, rows - i < TILE ? (int)(rows - i) : TILE);
}

/* dphi to du, dq and dk of n tokens from row i on. */
static void map_rows_back(const struct ctx *ctx, const struct acts *a, double *sums,
                          long i, int n)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int   m = a->m, e = c->C / c->H;
    const real  norm = (real)(1 / sqrt(m));
    real       *du = a->u.dx + i * a->u.ld, *dphi = a->phi.dx + i * a->phi.ld;
    const real *phi = a->phi.x + i * a->phi.ld;

    #pragma omp simd
    for (size_t j = 0; j < n * a->phi.ld; j++)
        dphi[j] = phi[j] > 0 ? norm * dphi[j] : 0;
    piecewise_back(&a->psi, du, sums, dphi, a->u.x + i * a->u.ld, (long)n * 2 * c->H, m);
    for (int h = 0; h < 2 * c->H; h++)
        gemm_nn(a->row.dx + i * a->row.ld + (size_t)h * e, a->row.ld, du + (size_t)h * m,
                a->u.ld, a->fw.w, e, n, e, m, 1, 0);
}

/* fw and fb: each head's share, then their sum. */
static void projection_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int    m = a->m, e = c->C / c->H, n = ctx->B * ctx->T;
    const size_t share = (size_t)m * (e + 1);

    #pragma omp parallel for schedule(dynamic)
    for (int h = 0; h < 2 * c->H; h++) {
        const real *du = a->u.dx + (size_t)h * m;
        real       *dfw = a->dfw + h * share, *dfb = dfw + (size_t)m * e;

        gemm_tn(dfw, e, du, a->u.ld, a->row.x + (size_t)h * e, a->row.ld, m, e, n, 1, 0);
        memset(dfb, 0, m * sizeof *dfb);
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++)
                dfb[j] += du[i * a->u.ld + j];
    }
    for (int h = 0; h < 2 * c->H; h++) {
        const real *dfw = a->dfw + h * share;

        for (int j = 0; j < m * e; j++)
            a->fw.dw[j] += dfw[j];
        for (int j = 0; j < m; j++)
            a->fb.dw[j] += dfw[(size_t)m * e + j];
    }
}

static void map_back(const struct ctx *ctx, const struct acts *a)
{
    const long   rows = ctx_rows(ctx);
    const size_t per = piecewise_sums(&a->psi);

    memset(a->sums, 0, BLOCKS * per * sizeof *a->sums);
    #pragma omp parallel for schedule(static)
    for (int b = 0; b < BLOCKS; b++) {
        long from = rows * b / BLOCKS, to = rows * (b + 1) / BLOCKS;

        if (to > from)
            map_rows_back(ctx, a, a->sums + b * per, from, (int)(to - from));
    }
    for (size_t j = per; j < BLOCKS * per; j++)
        a->sums[j % per] += a->sums[j];
    piecewise_weights(&a->psi, &a->dnet, &a->net, a->sums);
    projection_back(ctx, a);
}

/* ---- the layer --------------------------------------------------------------------- */

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    heads_project(ctx, a->row, a->q, a->k, x);
    forget_forward(ctx, &a->forget, x);
    map_features(ctx, a);
    scalar_heads_forward(ctx, &a->core);
    out_proj_forward(ctx, a->wo, y, a->core.o);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    out_proj_backward(ctx, a->wo, a->core.o, dy);
    scalar_heads_backward(&a->core);
    map_back(ctx, a);
    heads_project_back(ctx, dx, 0, a->row, a->q, a->k, x);
    forget_backward(ctx, &a->forget, dx, x);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;

    scalar_ratios(&a->core.core, a->core.kept, NULL, r);
    return ctx->cfg->H;
}

const struct mixer mixer_luna = {
    .name     = "luna",
    .about    = "linear attention with a learned feature map",
    .position = "none",
    .opts     = opts,
    .layout   = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = (a n_{t-1}/n_t) I, B = f(k)/n_t, C = f(q), "
                  "n_t = f(q_t) . sum of f(k), f learned",
        .decay = decay,
    },
};
