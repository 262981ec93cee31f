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
#include "model/cores/delta.h"
#include "model/kernels/vmath.h"
#include "model/layers/step.h"
#include "model/mixer_heads.h"

#include <math.h>

enum { WQ, WK, WV, WG, WB, WA, CQ, CK, CV, DTB, ALOG, NORM, WO, N_PARAMS };
enum { NEG_EIG, EXPAND_V };

static const struct opt opts[] = {
    [NEG_EIG]  = {"neg_eig", "beta up to 2: a state may change its sign",
                  OPT_FLAG, NULL, 0, 0, 1},
    [EXPAND_V] = {"expand_v", "width of a head's v, in widths of its k",
                  OPT_INT, NULL, 1, 1, 16},
    {0},
};

/* Width of a head's q or k, and of its v, g or o; channels of v, and of [q, k, v]. */
static int  width(const struct mixer_cfg *c) { return c->C / c->H; }
static int  dv_of(const struct mixer_cfg *c) { return width(c) * (int)c->opt[EXPAND_V]; }
static int  n_v(const struct mixer_cfg *c) { return c->H * dv_of(c); }
static int  n_qkv(const struct mixer_cfg *c) { return 2 * c->C + n_v(c); }
static real top(const struct mixer_cfg *c) { return c->opt[NEG_EIG] > 0 ? 2 : 1; }

static int params(const struct mixer_cfg *c, struct param *p)
{
    p[WQ] = (struct param){"wq", c->C, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", c->C, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", n_v(c), c->C, INIT_INPUT, .decay = true};
    p[WG] = (struct param){"wg", n_v(c), c->C, INIT_INPUT, .decay = true};
    p[WB] = (struct param){"wb", c->H, c->C, INIT_INPUT, .decay = true};
    p[WA] = (struct param){"wa", c->H, c->C, INIT_INPUT, .decay = true};
    p[CQ] = (struct param){"cq", c->C, CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CK] = (struct param){"ck", c->C, CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CV] = (struct param){"cv", n_v(c), CONV_TAPS, INIT_UNIFORM, 0.5};
    p[DTB] = (struct param){"dtb", c->H, 0, INIT_OWN};
    p[ALOG] = (struct param){"alog", c->H, 0, INIT_OWN};
    p[NORM] = (struct param){"norm", dv_of(c), 0, INIT_ONE};
    p[WO] = (struct param){"wo", c->C, n_v(c), INIT_OUTPUT, .decay = true};
    return N_PARAMS;
}

/* dtb: softplus of it is log-uniform in [1e-3, 1e-1]; e^alog: U(0, 16), at least 1e-3. */
static void init(const struct mixer_cfg *c, real *const *w, struct rng *r)
{
    for (int h = 0; h < c->H; h++) {
        w[DTB][h] = param_step(r);
        w[ALOG][h] = (real)log(fmax(16 * rng_uniform(r), 1e-3));
    }
}

struct acts {
    struct act row, g;          // [q, k, v, g, b, a] before the convolution of q, k, v
    struct act b, z;            // (H) the rest of the row; z of the step
    struct act qkv;             // after it, as the core takes them
    real *shrink;               // (B, T, 2, H) what q and k were multiplied by to have
                                // length 1
    struct act beta, log_a;     // (H)
    real *step;                 // as log_a
    struct heads_in in;         // of qkv
    struct short_conv conv;
    struct heads_out out;
    struct delta core;
    struct delta_grad dcore;
    real *kept, *scratch;       // of the core
    size_t state;               // where its state is
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t C = c->C, H = c->H;
    const int    e = width(c), dv = dv_of(c);
    struct act   qkv;

    a->row = act_row(m, (struct act_part[]){{&qkv, n_qkv(c)}, {&a->g, n_v(c)}, {&a->b, H},
                                            {&a->z, H}, {0}});
    a->qkv = act_keep(m, "qkv", n_qkv(c));
    a->shrink = layout_keep(m, "shrink", layout_tokens(m) * 2 * H);
    a->beta = act_keep(m, "beta", H);
    a->log_a = act_keep(m, "log_a", H);
    a->step = layout_keep(m, "step", layout_tokens(m) * H);
    a->in = (struct heads_in){.Hk = c->H, .row = a->qkv, .k = act_from(a->qkv, C)};
    a->conv = short_conv_layout(m, CQ, -1, n_qkv(c), a->row.ld, a->qkv.ld, true);
    a->out = (struct heads_out){{c->H, dv, .shared = true, .eps = (real)c->eps},
                                .act = GATE_SILU, .w = NORM, .wo = WO, .g = a->g};
    heads_out_layout(&a->out, m);
    a->core = (struct delta){
        .B = m->B, .T = m->T, .H = c->H, .dk = e, .dv = dv, .scale = 1 / (real)sqrt(e),
        .q = a->qkv.x, .k = a->in.k.x, .v = act_from(a->qkv, 2 * C).x, .ld = a->qkv.ld,
        .ld_o = n_v(c), .log_a = a->log_a.x, .beta = a->beta.x,
    };
    a->dcore = (struct delta_grad){a->qkv.dx, a->in.k.dx, act_from(a->qkv, 2 * C).dx,
                                   a->log_a.dx, a->beta.dx};
    a->kept = layout_save(m, "kept", delta_kept(&a->core));
    a->scratch = layout_work(m, "scratch", delta_scratch(&a->core, pass_trains(m->mode)));
    a->state = layout_state(m, delta_state(&a->core));
}

/* q and k of each head to length 1. */
static void lengths(const struct ctx *ctx, const struct acts *a)
{
    const long n = ctx_rows(ctx);
    const int  H = ctx->cfg->H, e = width(ctx->cfg);

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        for (int j = 0; j < 2 * H; j++) {
            real *head = a->qkv.x + i * a->qkv.ld + (size_t)j * e;
            real  s = 1 / (real)sqrt(vdot(head, head, e) + (real)1e-6);

            a->shrink[i * 2 * H + j] = s;
            vscale(head, s, head, e);
        }
}

static struct step step_of(const struct ctx *ctx, const struct acts *a)
{
    return (struct step){ctx_rows(ctx), ctx->cfg->H, a->z.ld, ctx->w[DTB], ctx->w[ALOG]};
}

/* beta and g. */
static void gates(const struct ctx *ctx, const struct acts *a)
{
    const struct step step = step_of(ctx, a);
    const int         H = ctx->cfg->H;

    step_forward(&step, a->step, a->log_a.x, a->z.x);
    for (long i = 0; i < step.n; i++)
        for (int h = 0; h < H; h++)
            a->beta.x[i * H + h] = top(ctx->cfg) * vsigmoid(a->b.x[i * a->b.ld + h]);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    in_proj_forward(ctx, WQ, a->row, x);
    short_conv_forward(ctx, &a->conv, a->qkv.x, a->row.x);
    heads_rotate(ctx, &a->in);
    lengths(ctx, a);
    gates(ctx, a);
    if (ctx->state)
        delta_extend(&a->core, ctx->state, a->state, a->out.o.x, a->scratch);
    else
        delta_forward(&a->core, a->out.o.x, a->kept, a->scratch);
    heads_out_forward(ctx, &a->out, y);
}

/* d <- d - z (z . d) */
static inline void tangent(real *d, const real *z, int e)
{
    real along = vdot(z, d, e);

    #pragma omp simd
    for (int j = 0; j < e; j++)
        d[j] -= along * z[j];
}

/* Back through length and rotation:  d <- s R^-1 (d - z (z . d)), s of shrink. The angles
 * take their gradient from z of length 1 and its d: s comes last. */
static void lengths_back(const struct ctx *ctx, const struct acts *a)
{
    const long   n = ctx_rows(ctx);
    const int    H = ctx->cfg->H, e = width(ctx->cfg);
    const size_t ld = a->qkv.ld;

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (int j = 0; j < 2 * H; j++)
            tangent(a->qkv.dx + i * ld + (size_t)j * e,
                    a->qkv.x + i * ld + (size_t)j * e, e);
    heads_rotate_back(ctx, &a->in);
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
    const struct step step = step_of(ctx, a);
    const int         H = ctx->cfg->H;

    for (long i = 0; i < step.n; i++)
        for (int h = 0; h < H; h++) {
            size_t at = i * H + h, row = i * a->b.ld + h;

            a->b.dx[row] = a->beta.dx[at] * a->beta.x[at] * vsigmoid(-a->b.x[row]);
        }
    step_backward(&step, a->z.dx, ctx->dw[DTB], ctx->dw[ALOG], NULL, a->log_a.dx, a->step,
                  a->log_a.x);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    heads_out_backward(ctx, &a->out, dy);
    delta_backward(&a->core, &a->dcore, a->out.o.dx, a->kept, a->scratch);
    gates_back(ctx, a);
    lengths_back(ctx, a);
    short_conv_backward(ctx, &a->conv, a->row.dx, a->qkv.dx, a->row.x);
    in_proj_backward(ctx, WQ, dx, a->row, x);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * (2.0 * c->C * (n_qkv(c) + 2 * n_v(c) + 2 * c->H) +
                        conv_flops(n_qkv(c)) +
                        c->H * delta_flops(T, width(c), dv_of(c)));
}

/* The eigenvalues of e^g (I - beta k k'). */
static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct acts *a = ctx->acts;
    const int H = c->H, e = width(c);

    range_logs(r, a->log_a.x, H, ctx_rows(ctx), H, 1);
    for (long i = 0; i < ctx_rows(ctx) * H; i++) {
        const real *k = a->in.k.x + i / H * a->qkv.ld + i % H * e;

        range_add(&r[i % H], exp((double)a->log_a.x[i]) *
                                 fabs(1 - (double)a->beta.x[i] * (double)vdot(k, k, e)));
    }
    return H;
}

static double state(const struct mixer_cfg *c)
{
    return (double)width(c) * n_v(c) + 3 * n_qkv(c);
}

const struct mixer mixer_deltanet = {
    .name     = "deltanet",
    .about    = "a decaying memory whose entries are replaced (Gated DeltaNet)",
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
        .system = "L = e^g_t I x (I - beta_t k_t k_t'), B = beta_t I x k_t, "
                  "C = I x q_t / sqrt(dk)",
        .state = state, .decay = decay,
    },
};
