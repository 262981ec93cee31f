/* Gated DeltaNet: a decaying memory whose entries are replaced (arXiv:2412.06464).
 *
 *     q, k, v = silu(conv(W x))                q, k (H, e), v (H, expand_v e), e = C / H
 *     q, k <- rotated, then each head scaled to length 1
 *     beta = sigmoid(Wb x)  (H), times 2 with neg_eig
 *     g = -e^alog softplus(Wa x + dtb)  (H)
 *     u_t = beta_t (v_t - e^{g_t} S_{t-1}ᵀ k_t),  S_t = e^{g_t} S_{t-1} + k_t u_tᵀ
 *     o_t = S_tᵀ q_t / sqrt(e)
 *     y = Wo( rms(o) norm silu(Wg x) )         rms over each head, norm shared by heads
 *
 * With beta up to 2, I - beta k kᵀ has an eigenvalue down to -1: a state can change its
 * sign. Decode state: the last inputs of the convolution, then S.
 *
 * Published with expand_v = 2 and few heads of 256 channels; reduced here to expand_v = 1
 * and the model's heads.
 */
#include "model/kernels/ahead.h"
#include "model/kernels/vmath.h"
#include "model/mixer_heads.h"

#include <math.h>

enum { NEG_EIG, EXPAND_V };

static const struct opt opts[] = {
    [NEG_EIG]  = {"neg_eig", "beta up to 2: a state may change its sign", OPT_FLAG},
    [EXPAND_V] = {"expand_v", "width of a head's v, in widths of its k",
                  OPT_INT, 1, 1, 16},
    {0},
};

struct acts {
    struct act row, g, b, z;    // [q, k, v, g, b, z] of x; b and z (H)
    struct act qkv, q, k, v;    // after the convolution, as the core takes them
    real *shrink;               // (B, T, 2, H) what q and k were multiplied by to have
                                // length 1
    struct act beta;            // (H)
    struct heads_step step;     // of z; log a is g of the formulas
    struct short_conv conv;
    struct delta_heads core;
    struct heads_out out;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    C = c->C, H = c->H, e = C / H, dv = e * (int)c->opt[EXPAND_V],
                 n_v = H * dv, n_qkv = 2 * C + n_v;

    a->row = act_row(m, (struct act_part[]){
        {"wq", NULL, C}, {"wk", NULL, C}, {"wv", NULL, n_v}, {"wg", &a->g, n_v},
        {"wb", &a->b, H}, {"wa", &a->z, H}, {0}});
    a->conv = short_conv_layout(
        m, (struct taps[]){{"cq", C}, {"ck", C}, {"cv", n_v}, {0}}, NULL, a->row.ld,
        n_qkv, true);
    a->q = a->qkv = act_keep(m, "qkv", n_qkv);
    a->k = act_from(a->qkv, C);
    a->v = act_from(a->qkv, 2 * C);
    layout_rotates(m, H, e);
    a->shrink = layout_keep(m, "shrink", layout_tokens(m) * 2 * H);
    a->beta = act_keep(m, "beta", H);
    a->step = heads_step_layout(m, H, a->z);
    a->core = delta_heads_layout(m, a->q, a->k, a->v, a->step.log_a, a->beta,
                                 (struct delta){.H = H, .dk = e, .dv = dv});
    a->out.w = layout_vector(m, "norm", dv, INIT_ONE);
    a->out.wo = layout_out(m, n_v);
    heads_out_layout(&a->out, m, heads_norm(c, dv), GATE_SILU, a->core.o, a->g);
    m->paper_state = (double)e * n_v + 3 * n_qkv;
}

/* dtb: softplus of it is log-uniform in [1e-3, 1e-1]; e^alog: U(0, 16), at least 1e-3. */
static void init(const struct mixer_cfg *c, void *acts, struct rng *r)
{
    struct acts *a = acts;

    for (int h = 0; h < c->H; h++) {
        a->step.dtb.w[h] = param_step(r);
        a->step.alog.w[h] = (real)log(fmax(16 * rng_uniform(r), 1e-3));
    }
}

/* q and k of each head to length 1. */
static void lengths(const struct ctx *ctx, const struct acts *a)
{
    const long n = ctx_rows(ctx);
    const int  H = ctx->cfg->H, e = a->core.core.dk;

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++) {
        send_for_own(a->qkv.x + (i + AHEAD_ROWS) * a->qkv.ld, 2 * H * e);
        for (int j = 0; j < 2 * H; j++) {
            real *head = a->qkv.x + i * a->qkv.ld + (size_t)j * e;
            real  s = 1 / (real)sqrt(vdot(head, head, e) + (real)1e-6);

            a->shrink[i * 2 * H + j] = s;
            vscale(head, s, head, e);
        }
    }
}

/* beta and g. */
static void gates(const struct ctx *ctx, const struct acts *a)
{
    const int  H = ctx->cfg->H;
    const long n = ctx_rows(ctx);
    const real top = ctx->cfg->opt[NEG_EIG] > 0 ? 2 : 1;

    heads_step_forward(&a->step);
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < H; h++)
            a->beta.x[i * H + h] = top * vsigmoid(a->b.x[i * a->b.ld + h]);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    proj_forward(ctx, a->row, x);
    short_conv_forward(ctx, &a->conv, a->qkv.x, a->row.x);
    heads_rotate(ctx, a->q, a->k);
    lengths(ctx, a);
    gates(ctx, a);
    delta_heads_forward(ctx, &a->core);
    heads_out_forward(ctx, &a->out, y);
}

/* d <- s (d - z (z . d)) */
static inline void tangent(real *d, const real *z, real s, int e)
{
    real along = vdot(z, d, e);

    #pragma omp simd
    for (int j = 0; j < e; j++)
        d[j] = s * (d[j] - along * z[j]);
}

/* Back through length and rotation:  d <- s R^-1 (d - z (z . d)), s of shrink. The angles
 * take their gradient from z of length 1 and its d: s comes last. */
static void lengths_back(const struct ctx *ctx, const struct acts *a)
{
    const long   n = ctx_rows(ctx);
    const int    H = ctx->cfg->H, e = a->core.core.dk;
    const size_t ld = a->qkv.ld;
    const bool   turned = ctx->angles.cos;

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        send_for(a->qkv.x + (i + AHEAD_ROWS) * ld, 2 * H * e);
        send_for_own(a->qkv.dx + (i + AHEAD_ROWS) * ld, 2 * H * e);
        for (int j = 0; j < 2 * H; j++)
            tangent(a->qkv.dx + i * ld + (size_t)j * e,
                    a->qkv.x + i * ld + (size_t)j * e,
                    turned ? 1 : a->shrink[i * 2 * H + j], e);
    }
    if (!turned)
        return;
    heads_rotate_back(ctx, a->q, a->k);
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (int j = 0; j < 2 * H; j++) {
            real *d = a->qkv.dx + i * ld + (size_t)j * e;

            vscale(d, a->shrink[i * 2 * H + j], d, e);
        }
}

/* db = dbeta beta sigmoid(-b), and back through g. */
static void gates_back(const struct ctx *ctx, const struct acts *a)
{
    const int  H = ctx->cfg->H;
    const long n = ctx_rows(ctx);

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < H; h++) {
            size_t at = i * H + h, row = i * a->b.ld + h;

            a->b.dx[row] = a->beta.dx[at] * a->beta.x[at] * vsigmoid(-a->b.x[row]);
        }
    heads_step_backward(&a->step, NULL);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    heads_out_backward(ctx, &a->out, dy);
    delta_heads_backward(&a->core);
    gates_back(ctx, a);
    lengths_back(ctx, a);
    short_conv_backward(&a->conv, a->row.dx, a->qkv.dx, a->row.x);
    proj_backward(ctx, dx, 0, a->row, x);
}

/* The eigenvalues of e^g (I - beta k k'). */
static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;
    const int H = ctx->cfg->H, e = a->core.core.dk;

    range_logs(r, a->step.log_a.x, H, ctx_rows(ctx), H, 1);
    for (long i = 0; i < ctx_rows(ctx) * H; i++) {
        const real *k = a->k.x + i / H * a->qkv.ld + i % H * e;

        range_add(&r[i % H], exp((double)a->step.log_a.x[i]) *
                                 fabs(1 - (double)a->beta.x[i] * (double)vdot(k, k, e)));
    }
    return H;
}

const struct mixer mixer_deltanet = {
    .name     = "deltanet",
    .about    = "a decaying memory whose entries are replaced (Gated DeltaNet)",
    .position = "none",
    .opts     = opts,
    .layout   = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = e^g_t I x (I - beta_t k_t k_t'), B = beta_t I x k_t, "
                  "C = I x q_t / sqrt(dk)",
        .decay = decay,
    },
};
