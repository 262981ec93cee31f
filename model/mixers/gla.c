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
#include "model/cores/vector.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "model/layers/conv.h"
#include "model/mixer.h"
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

/* Channels of q, k or g, of v, r or o, of [q, k, v], of a row [q, k, v, r], and
 * of the decays. */
static int n_k(const struct mixer_cfg *c) { return c->H * dk_of(c); }
static int n_v(const struct mixer_cfg *c) { return c->H * dv_of(c); }
static int n_qkv(const struct mixer_cfg *c) { return 2 * n_k(c) + n_v(c); }
static int n_row(const struct mixer_cfg *c) { return n_qkv(c) + n_v(c); }
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
    real *row, *drow;       // (B, T, row)
    real *qkv, *dqkv;       // (B, T, qkv) after convolution; without one it is the row
    real *low, *dlow;       // (B, T, rank) Wa1 x
    real *z, *dz;           // (B, T, z) logits; without tied decays z is g
    real *g, *dg;           // (B, T, H, dk)
    real *dba;              // (B, z)
    struct rows rows;       // of qkv
    struct conv conv;
    struct leave out;
    struct vector core;
    struct vector_grad dcore;
    real *saved, *scratch;  // of the core
    size_t past, S;         // where the states of conv and core are
};

static void lay_out_rows(struct acts *a, struct layout *m, const struct mixer_cfg *c)
{
    const size_t n = layout_tokens(m);
    const bool   conv = has_conv(c);

    a->row = layout_keep(m, "row", n * n_row(c));
    a->drow = layout_grad(m, "drow", n * n_row(c));
    a->qkv = conv ? layout_keep(m, "qkv", n * n_qkv(c)) : a->row;
    a->dqkv = conv ? layout_grad(m, "dqkv", n * n_qkv(c)) : a->drow;
    a->rows = (struct rows){.Hk = c->H, .k = n_k(c), .ld = conv ? n_qkv(c) : n_row(c)};
    a->low = layout_keep(m, "low", n * rank(c));
    a->dlow = layout_grad(m, "dlow", n * rank(c));
    a->g = layout_keep(m, "g", n * n_k(c));
    a->dg = layout_grad(m, "dg", n * n_k(c));
    a->z = tied(c) ? layout_work(m, "z", n * n_z(c)) : a->g;
    a->dz = layout_grad(m, "dz", n * n_z(c));
    a->dba = layout_grad(m, "dba", (size_t)m->B * n_z(c));
}

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t k = n_k(c);

    lay_out_rows(a, m, c);
    a->conv = (struct conv){.B = m->B, .T = m->T, .C = n_qkv(c), .ld_x = n_row(c),
                            .ld_y = n_qkv(c), .silu = true};
    if (has_conv(c))
        a->conv.w = layout_param(m, CQ);
    a->out = (struct leave){{c->H, dv_of(c), true, (real)1e-5}, .act = GATE_SILU,
                            .w = NORM, .wo = WO};
    leave_layout(&a->out, m);
    a->core = (struct vector){
        .B = m->B, .T = m->T, .H = c->H, .dk = dk_of(c), .dv = dv_of(c),
        .scale = 1 / (real)sqrt(dk_of(c)),
        .q = a->qkv, .k = layout_at(a->qkv, k), .v = layout_at(a->qkv, 2 * k), .g = a->g,
        .ld_q = a->rows.ld, .ld_k = a->rows.ld, .ld_v = a->rows.ld, .ld_g = k,
        .ld_o = n_v(c),
    };
    a->dcore = (struct vector_grad){
        .dq = a->dqkv, .dk = layout_at(a->dqkv, k), .dv = layout_at(a->dqkv, 2 * k),
        .dg = a->dg, .ld_dq = a->rows.ld, .ld_dk = a->rows.ld, .ld_dv = a->rows.ld,
        .ld_dg = k,
    };
    a->saved = layout_save(m, "saved", vector_kept(&a->core));
    a->scratch = layout_grad(m, "scratch", vector_scratch(&a->core));
    a->past = layout_state(m, has_conv(c) ? conv_state(&a->conv) : 0);
    a->S = layout_state(m, vector_state(&a->core));
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

/* x to rows and decays; what depends on earlier tokens is left to the caller. */
static void project(const struct ctx *ctx, const real *x, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);

    product_forward(a->row, x, ctx->w[WQ], n, c->C, n_row(c));
    product_forward(a->low, x, ctx->w[WA1], n, c->C, rank(c));
    product_forward(a->z, a->low, ctx->w[WA2], n, rank(c), n_z(c));
    decays(ctx, a->g, a->z, n);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    project(ctx, x, a);
    if (has_conv(c))
        conv_forward(&a->conv, a->qkv, a->row);
    rows_rotate(ctx, &a->rows, a->qkv);
    vector_forward(&a->core, a->out.o, a->saved);
    leave_forward(ctx, &a->out, y, a->row + n_qkv(c), n_row(c));
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
        const real *gi = a->g + i * n_k(c) + (size_t)h * dk;
        const real *dg = a->dg + i * n_k(c) + (size_t)h * dk, *more = dg + dk - e;
        real       *dz = a->dz + i * n_z(c) + at;

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
    const long n = ctx_rows(ctx);

    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < c->H; h++)
            decay_back(ctx, a, b, h);
    for (int i = 0; i < ctx->B * n_z(c); i++)
        ctx->dw[BA][i % n_z(c)] += a->dba[i];
    product_backward(a->dlow, 0, ctx->dw[WA2], a->dz, a->low, ctx->w[WA2], n, rank(c),
                     n_z(c));
    product_backward(dx, 1, ctx->dw[WA1], a->dlow, x, ctx->w[WA1], n, c->C, rank(c));
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t r = n_qkv(c), ld = n_row(c);
    struct acts *a = ctx->acts;

    leave_backward(ctx, &a->out, a->drow + r, dy, a->row + r, ld);
    vector_backward(&a->core, &a->dcore, a->out.d_o, a->saved, a->scratch);
    rows_rotate_back(ctx, &a->rows, a->dqkv, a->qkv);
    if (has_conv(c))
        conv_backward(&a->conv, a->drow, ctx->dw[CQ], NULL, a->dqkv, a->row);
    decays_back(ctx, x, a, dx);
    product_backward(dx, 1, ctx->dw[WQ], a->drow, x, ctx->w[WQ], ctx_rows(ctx), c->C,
                     n_row(c));
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    project(ctx, x, a);
    if (has_conv(c))
        conv_extend(&a->conv, state, a->past, a->qkv, a->row);
    rows_rotate(ctx, &a->rows, a->qkv);
    vector_extend(&a->core, state, a->S, a->out.o);
    leave_forward(ctx, &a->out, y, a->row + n_qkv(c), n_row(c));
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    double low = 2.0 * rank(c) * (c->C + n_z(c));
    double conv = has_conv(c) ? conv_flops(n_qkv(c)) : 0;

    (void)window;
    return T * (2.0 * c->C * (n_row(c) + n_v(c)) + low + conv +
                c->H * vector_flops(T, dk_of(c), dv_of(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct acts *a = ctx->acts;

    range_logs(r, a->g, n_k(c), ctx_rows(ctx), c->H, dk_of(c));
    return c->H;
}

const struct mixer mixer_gla = {
    .name     = "gla",
    .about    = "linear attention with a decay per key channel and token (GLA)",
    .system   = "L = I x diag(sigmoid(z_t)^(1/16)), B = I x k_t, C = I x q_t / sqrt(dk)",
    .position = "none",
    .opts     = opts,
    .check    = check,
    .params   = params,
    .angles   = angles,
    .layout    = layout,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
