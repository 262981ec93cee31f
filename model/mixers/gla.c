/* Gated linear attention: a decay for every key channel and token (GLA,
 * arXiv:2312.06635).
 *
 *     q, k = Wq x, Wk x (H, dk),   v, r = Wv x, Wg x (H, dv)
 *     q, k, v <- silu(conv(.))                  with conv; then q and k are rotated
 *     g = log sigmoid(Wa2 Wa1 x + ba) / 16      (H, dk)
 *     S_t = diag(e^{g_t}) S_{t-1} + k_t v_tᵀ
 *     o_t = S_tᵀ q_t / sqrt(dk)
 *     y = Wo( rms(o) norm silu(r) )             rms over each head, norm shared by heads
 *
 * A rotation commutes with the decay only if the channels of a pair (j, j + dk/2) share
 * it. With a position encoding there are therefore half as many decays.
 */
#include "model/kernels/vmath.h"
#include "model/mixer_heads.h"

#include <math.h>
#include <string.h>

enum { WQ, WK, WV, WG, WO, WA1, WA2, BA, NORM, CQ, CK, CV };
enum { DK, DV, RANK, CONV };
enum { TAU = 16 };

static const struct opt opts[] = {
    [DK]   = {"dk", "width of a head's q and k; 0: width / heads / 2",
              OPT_INT, NULL, 0, 0, 4096},
    [DV]   = {"dv", "width of a head's v; 0: width / heads", OPT_INT, NULL, 0, 0, 4096},
    [RANK] = {"rank", "rank of the decay's projection", OPT_INT, NULL, 16, 1, 4096},
    [CONV] = {"conv", "taps of a convolution of q, k and v; 0: none",
              OPT_CHOICE, "0|4", 0, 0, 0},
    {0},
};

static int dk_of(const struct mixer_cfg *c) { return opt_or(c, DK, c->C / c->H / 2); }
static int dv_of(const struct mixer_cfg *c) { return opt_or(c, DV, c->C / c->H); }

static bool has_conv(const struct mixer_cfg *c) { return c->opt[CONV] > 0; }
static bool tied(const struct mixer_cfg *c) { return c->position != &position_none; }

/* Channels of q, k or g, of v, r or o, of [q, k, v], and of the decays. */
static int n_k(const struct mixer_cfg *c) { return c->H * dk_of(c); }
static int n_v(const struct mixer_cfg *c) { return c->H * dv_of(c); }
static int n_qkv(const struct mixer_cfg *c) { return 2 * n_k(c) + n_v(c); }
static int n_z(const struct mixer_cfg *c) { return tied(c) ? n_k(c) / 2 : n_k(c); }
static int rank(const struct mixer_cfg *c) { return (int)c->opt[RANK]; }

static const char *check(const struct mixer_cfg *c)
{
    return c->C % (2 * c->H) && !(c->opt[DK] > 0)
               ? "width must be a multiple of 2 heads, or dk be set"
               : NULL;
}

static int params(const struct mixer_cfg *c, struct param *p)
{
    p[WQ] = (struct param){"wq", n_k(c), c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", n_k(c), c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", n_v(c), c->C, INIT_INPUT, .decay = true};
    p[WG] = (struct param){"wg", n_v(c), c->C, INIT_INPUT, .decay = true};
    p[WO] = (struct param){"wo", c->C, n_v(c), INIT_OUTPUT, .decay = true};
    p[WA1] = (struct param){"wa1", rank(c), c->C, INIT_INPUT, .decay = true};
    p[WA2] = (struct param){"wa2", n_z(c), rank(c), INIT_INPUT, .decay = true};
    p[BA] = (struct param){"ba", n_z(c), 0, INIT_ZERO};
    p[NORM] = (struct param){"norm", dv_of(c), 0, INIT_ONE};
    if (!has_conv(c))
        return CQ;
    p[CQ] = (struct param){"cq", n_k(c), CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CK] = (struct param){"ck", n_k(c), CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CV] = (struct param){"cv", n_v(c), CONV_TAPS, INIT_UNIFORM, 0.5};
    return CV + 1;
}

static void angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->H;
    *dk = dk_of(c);
}

struct acts {
    struct act row, r;          // (qkv + H dv) before convolution, the gate last
    struct act qkv;             // after it; without one the row
    struct act low;             // (rank) Wa1 x
    struct act z, g;            // (z) logits, (H, dk); z.x is g.x unless decays are tied
    real *dba;                  // (B, z)
    struct heads_in in;         // of qkv
    struct short_conv conv;
    struct vector_heads core;
    struct heads_out out;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t n = layout_tokens(m), k = n_k(c);
    struct act   qkv;

    a->row = act_row(m, (struct act_part[]){{&qkv, n_qkv(c)}, {&a->r, n_v(c)}, {0}});
    a->qkv = has_conv(c) ? act_keep(m, "qkv", n_qkv(c)) : qkv;
    a->low = act_keep(m, "low", rank(c));
    a->g = act_keep(m, "g", k);
    a->z = (struct act){tied(c) ? layout_work(m, "z", n * n_z(c)) : a->g.x,
                        layout_grad(m, "dz", n * n_z(c)), n_z(c)};
    a->dba = layout_grad(m, "dba", (size_t)m->B * n_z(c));
    a->in = (struct heads_in){.w = WQ, .Hk = c->H, .row = a->qkv,
                              .k = act_from(a->qkv, k)};
    if (has_conv(c))
        a->conv = short_conv_layout(m, CQ, -1, n_qkv(c), a->row.ld, a->qkv.ld, true);
    a->core.core = (struct vector){.H = c->H, .dk = dk_of(c), .dv = dv_of(c),
                                   .scale = 1 / (real)sqrt(dk_of(c))};
    vector_heads_layout(&a->core, m, a->qkv, a->in.k, act_from(a->qkv, 2 * k), a->g);
    a->out = (struct heads_out){{c->H, dv_of(c), .shared = true, .eps = (real)c->eps},
                                .act = GATE_SILU, .w = NORM, .wo = WO, .g = a->r};
    heads_out_layout(&a->out, m);
}

/* g from the logits of n rows; those of a head, of width e, serve dk / e channels
 * each. */
static void decays(const struct ctx *ctx, real *g, const real *z, long n)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int dk = dk_of(c), e = n_z(c) / c->H;

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < c->H; h++) {
            const real *zi = z + i * n_z(c) + (size_t)h * e,
                       *ba = ctx->w[BA] + (size_t)h * e;
            real       *gi = g + i * n_k(c) + (size_t)h * dk;

            for (int j = 0; j < e; j++)
                gi[j] = vlsig(zi[j] + ba[j]) / TAU;
            if (e < dk)
                memcpy(gi + e, gi, e * sizeof *gi);
        }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);
    struct acts *a = ctx->acts;

    in_proj_forward(ctx, WQ, a->row, x);
    in_proj_forward(ctx, WA1, a->low, x);
    proj_forward(a->z.x, a->low.x, ctx->w[WA2], n, rank(c), n_z(c));
    decays(ctx, a->g.x, a->z.x, n);
    if (has_conv(c))
        short_conv_forward(ctx, &a->conv, a->qkv.x, a->row.x);
    heads_rotate(ctx, &a->in);
    vector_heads_forward(ctx, &a->core, a->out.o.x);
    heads_out_forward(ctx, &a->out, y);
}

/* Of head h of sequence b:  dz = dg (1 - e^{16 g}) / 16, over both channels where
 * they are tied. */
static void decay_back(const struct ctx *ctx, const struct acts *a, int b, int h)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int    e = n_z(c) / c->H, dk = dk_of(c);
    const size_t at = (size_t)h * e;
    real        *dba = a->dba + (size_t)b * n_z(c) + at;

    memset(dba, 0, e * sizeof *dba);
    for (long i = (long)b * ctx->T; i < (long)(b + 1) * ctx->T; i++) {
        const real *gi = a->g.x + i * n_k(c) + (size_t)h * dk;
        const real *dg = a->g.dx + i * n_k(c) + (size_t)h * dk, *more = dg + dk - e;
        real       *dz = a->z.dx + i * n_z(c) + at;

        for (int j = 0; j < e; j++) {
            dz[j] = (dg[j] + (e < dk ? more[j] : 0)) * vexpm1(TAU * gi[j]) / -TAU;
            dba[j] += dz[j];
        }
    }
}

static void decays_back(const struct ctx *ctx, const real *x, const struct acts *a,
                        real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;

    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < c->H; h++)
            decay_back(ctx, a, b, h);
    add_partials(ctx, BA, a->dba, n_z(c));
    proj_backward(a->low.dx, 0, ctx->dw[WA2], a->z.dx, a->low.x, ctx->w[WA2],
                  ctx_rows(ctx), rank(c), n_z(c));
    in_proj_backward(ctx, WA1, dx, a->low, x);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    heads_out_backward(ctx, &a->out, dy);
    vector_heads_backward(&a->core, a->out.o);
    heads_rotate_back(ctx, &a->in);
    if (has_conv(ctx->cfg))
        short_conv_backward(ctx, &a->conv, a->row.dx, a->qkv.dx, a->row.x);
    decays_back(ctx, x, a, dx);
    in_proj_backward(ctx, WQ, dx, a->row, x);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    double low = 2.0 * rank(c) * (c->C + n_z(c));
    double conv = has_conv(c) ? conv_flops(n_qkv(c)) : 0;

    (void)window;
    return T * (2.0 * c->C * (n_qkv(c) + 2 * n_v(c)) + low + conv +
                c->H * vector_flops(T, dk_of(c), dv_of(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;

    return decay_of_logs(ctx, r, a->g.x, a->g.ld, dk_of(ctx->cfg));
}

static double state(const struct mixer_cfg *c)
{
    return (double)dk_of(c) * n_v(c) + (has_conv(c) ? 3 * n_qkv(c) : 0);
}

const struct mixer mixer_gla = {
    .name     = "gla",
    .about    = "linear attention with a decay per key channel and token (GLA)",
    .position = "none",
    .opts     = opts,
    .check    = check,
    .params   = params,
    .angles   = angles,
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .flops    = flops,
    .instruments = &(struct instruments){
        .system = "L = I x diag(sigmoid(z_t)^(1/16)), B = I x k_t, "
                  "C = I x q_t / sqrt(dk)",
        .state = state, .decay = decay,
    },
};
