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

enum { DK, DV, RANK, CONV };
enum { TAU = 16 };

static const struct opt opts[] = {
    [DK]   = {"dk", "width of a head's q and k; 0: width / heads / 2",
              OPT_INT, 0, 0, 4096},
    [DV]   = {"dv", "width of a head's v; 0: width / heads", OPT_INT, 0, 0, 4096},
    [RANK] = {"rank", "rank of the decay's projection", OPT_INT, 16, 1, 4096},
    [CONV] = {"conv", "taps of a convolution of q, k and v; 0: none",
              OPT_CHOICE, .choices = "0|4"},
    {0},
};

struct acts {
    struct act row, r;          // [q, k, v, r] before convolution, the gate last
    struct act qkv, q, k, v;    // after it; without one of the row
    struct act low;             // (rank) Wa1 x
    struct act z, g;            // (H, e) logits, (H, dk); e is dk, or half where tied
    struct weight ba;           // (H, e)
    bool has_conv;
    struct short_conv conv;
    struct vector_heads core;
    struct heads_out out;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    C = c->C, H = c->H, dk = opt_or(c, DK, C / H / 2),
                 dv = opt_or(c, DV, C / H), k = H * dk, v = H * dv,
                 z = c->position == &position_none ? k : k / 2, rank = (int)c->opt[RANK];

    layout_require(m, C % (2 * H) == 0 || c->opt[DK] > 0,
                   "width must be a multiple of 2 heads, or dk be set");
    a->row = act_row(m, (struct act_part[]){
        {"wq", &a->qkv, k}, {"wk", NULL, k}, {"wv", NULL, v}, {"wg", &a->r, v}, {0}});
    a->out.wo = layout_out(m, v);
    a->low = act_row(m, (struct act_part[]){{"wa1", NULL, rank}, {0}});
    a->g = act_keep(m, "g", k);
    a->z = act_by(z < k ? act_work(m, "z", z) : act_onto(m, "z", a->g),
                  layout_matrix(m, "wa2", z, rank, INIT_INPUT), rank);
    a->ba = layout_summed(m, "ba", z, INIT_ZERO);
    a->out.w = layout_vector(m, "norm", dv, INIT_ONE);
    a->has_conv = c->opt[CONV] > 0;
    if (a->has_conv) {
        a->qkv = act_keep(m, "qkv", 2 * k + v);
        a->conv = short_conv_layout(
            m, (struct taps[]){{"cq", k}, {"ck", k}, {"cv", v}, {0}}, NULL, a->row.ld,
            a->qkv.ld, true);
    }
    a->q = a->qkv;
    a->k = act_from(a->qkv, k);
    a->v = act_from(a->qkv, 2 * k);
    layout_rotates(m, H, dk);
    a->core = vector_heads_layout(m, a->q, a->k, a->v, a->g,
                                  (struct vector){.H = H, .dk = dk, .dv = dv});
    heads_out_layout(&a->out, m, heads_norm(c, dv), GATE_SILU, a->core.o, a->r);
    m->paper_state = (double)dk * v + (a->has_conv ? 3 * (2 * k + v) : 0);
}

/* g from the logits z; those of a head, e of them, serve dk / e channels each. */
static void decays(const struct ctx *ctx, const struct acts *a)
{
    const long n = ctx_rows(ctx);
    const int  H = ctx->cfg->H, dk = (int)a->g.ld / H, e = (int)a->z.ld / H;

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < H; h++) {
            const real *z = a->z.x + i * a->z.ld + (size_t)h * e,
                       *ba = a->ba.w + (size_t)h * e;
            real       *g = a->g.x + i * a->g.ld + (size_t)h * dk;

            for (int j = 0; j < e; j++)
                g[j] = vlsig(z[j] + ba[j]) / TAU;
            if (e < dk)
                memcpy(g + e, g, e * sizeof *g);
        }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    proj_forward(ctx, a->row, x);
    proj_forward(ctx, a->low, x);
    proj_forward(ctx, a->z, a->low.x);
    decays(ctx, a);
    if (a->has_conv)
        short_conv_forward(ctx, &a->conv, a->qkv.x, a->row.x);
    heads_rotate(ctx, a->q, a->k);
    vector_heads_forward(ctx, &a->core);
    heads_out_forward(ctx, &a->out, y);
}

/* Of head h of sequence b:  dz = dg (1 - e^{16 g}) / 16, over both channels where
 * they are tied. */
static void decay_back(const struct ctx *ctx, const struct acts *a, int b, int h)
{
    const int    H = ctx->cfg->H, dk = (int)a->g.ld / H, e = (int)a->z.ld / H;
    const size_t at = (size_t)h * e;
    real        *dba = a->ba.part + b * a->z.ld + at;

    memset(dba, 0, e * sizeof *dba);
    for (long i = (long)b * ctx->T; i < (long)(b + 1) * ctx->T; i++) {
        const real *g = a->g.x + i * a->g.ld + (size_t)h * dk;
        const real *dg = a->g.dx + i * a->g.ld + (size_t)h * dk, *more = dg + dk - e;
        real       *dz = a->z.dx + i * a->z.ld + at;

        for (int j = 0; j < e; j++) {
            dz[j] = (dg[j] + (e < dk ? more[j] : 0)) * vexpm1(TAU * g[j]) / -TAU;
            dba[j] += dz[j];
        }
    }
}

static void decays_back(const struct ctx *ctx, const struct acts *a)
{
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < ctx->cfg->H; h++)
            decay_back(ctx, a, b, h);
    add_parts(ctx, a->ba, a->z.ld);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    heads_out_backward(ctx, &a->out, dy);
    vector_heads_backward(&a->core);
    heads_rotate_back(ctx, a->q, a->k);
    if (a->has_conv)
        short_conv_backward(&a->conv, a->row.dx, a->qkv.dx, a->row.x);
    decays_back(ctx, a);
    proj_backward(ctx, a->low.dx, 0, a->z, a->low.x);
    proj_backward(ctx, dx, 0, a->low, x);
    proj_backward(ctx, dx, 1, a->row, x);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;

    return decay_of_logs(ctx, r, a->g.x, a->g.ld, a->core.core.dk);
}

const struct mixer mixer_gla = {
    .name     = "gla",
    .about    = "linear attention with a decay per key channel and token (GLA)",
    .position = "none",
    .opts     = opts,
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = I x diag(sigmoid(z_t)^(1/16)), B = I x k_t, "
                  "C = I x q_t / sqrt(dk)",
        .decay = decay,
    },
};
