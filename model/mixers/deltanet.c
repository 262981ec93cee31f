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
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "model/layers/conv.h"
#include "model/layers/unit.h"
#include "model/mixer.h"
#include "model/mixer_heads.h"

#include <math.h>

enum { WQ, WK, WV, WG, WB, WA, CQ, CK, CV, DTB, ALOG, NORM, WO, N_PARAMS };
enum { NEG_EIG, EXPAND_V };

static const struct opt opts[] = {
    [NEG_EIG] = {"neg_eig", "beta up to 2: a state may change its sign", OPT_FLAG, NULL,
                 0, 0, 1},
    [EXPAND_V] = {"expand_v", "width of a head's v, in widths of its k", OPT_INT, NULL, 1,
                  1, 16},
    {0},
};

/* A row is [q, k, v, g, b, a]; the convolution sees [q, k, v]. */
static int  width(const struct mixer_cfg *c) { return c->C / c->H; }
static int  values(const struct mixer_cfg *c)
{
    return c->C * (int)c->opt[EXPAND_V];
}
static int qkv(const struct mixer_cfg *c)
{
    return 2 * c->C + values(c);
}
static int b_at(const struct mixer_cfg *c)
{
    return qkv(c) + values(c);
}
static int a_at(const struct mixer_cfg *c)
{
    return b_at(c) + c->H;
}
static int row(const struct mixer_cfg *c)
{
    return a_at(c) + c->H;
}
static real top(const struct mixer_cfg *c) { return c->opt[NEG_EIG] > 0 ? 2 : 1; }

static int params(const struct mixer_cfg *c, struct param *p)
{
    p[WQ] = (struct param){"wq", c->C, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", c->C, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", values(c), c->C, INIT_INPUT, .decay = true};
    p[WG] = (struct param){"wg", values(c), c->C, INIT_INPUT, .decay = true};
    p[WB] = (struct param){"wb", c->H, c->C, INIT_INPUT, .decay = true};
    p[WA] = (struct param){"wa", c->H, c->C, INIT_INPUT, .decay = true};
    p[CQ] = (struct param){"cq", c->C, CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CK] = (struct param){"ck", c->C, CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CV] = (struct param){"cv", values(c), CONV_TAPS, INIT_UNIFORM, 0.5};
    p[DTB] = (struct param){"dtb", c->H, 0, INIT_OWN};
    p[ALOG] = (struct param){"alog", c->H, 0, INIT_OWN};
    p[NORM] = (struct param){"norm", values(c) / c->H, 0, INIT_ONE};
    p[WO] = (struct param){"wo", c->C, values(c), INIT_OUTPUT, .decay = true};
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
    real *row, *drow;           // (B, T, row)
    real *qkv, *dqkv;           // (B, T, qkv) as the core takes them
    real *shrink;               // (B, T, 2, H) what q and k were multiplied by to have
                                // length 1
    real *beta, *log_a;         // (B, T, H)
    real *dbeta, *dlog_a;
    real *sums;                 // (B, H, 2) of dtb, alog
    struct rows rows;           // of qkv
    struct conv conv;
    struct leave out;
    struct delta core;
    struct delta_grad dcore;
    real *saved, *scratch;      // of the core
    size_t past, S;             // where the states of conv and core are
};

static void carve(struct room *m, const struct mixer_cfg *c)
{
    struct acts *a = room_names(m, sizeof *a);
    const size_t n = room_rows(m), C = c->C;
    const int    e = width(c), dv = values(c) / c->H;

    a->row = room_keep(m, n * row(c));
    a->drow = room_back(m, n * row(c));
    a->qkv = room_keep(m, n * qkv(c));
    a->dqkv = room_back(m, n * qkv(c));
    a->rows = (struct rows){.Hk = c->H, .k = C, .ld = qkv(c)};
    a->shrink = room_keep(m, n * 2 * c->H);
    a->beta = room_keep(m, n * c->H);
    a->log_a = room_keep(m, n * c->H);
    a->dbeta = room_back(m, n * c->H);
    a->dlog_a = room_back(m, n * c->H);
    a->sums = room_back(m, (size_t)m->B * c->H * 2);
    a->conv = (struct conv){.B = m->B, .T = m->T, .C = qkv(c), .ld_x = row(c),
                            .ld_y = qkv(c), .w = room_param(m, CQ), .silu = true};
    a->out = (struct leave){
        {c->H, dv, true, (real)1e-5}, .act = GATE_SILU, .w = NORM, .wo = WO};
    leave_carve(&a->out, m);
    a->core = (struct delta){
        .B = m->B,
        .T = m->T,
        .H = c->H,
        .dk = e,
        .dv = dv,
        .scale = 1 / (real)sqrt(e),
        .q = a->qkv,
        .k = room_at(a->qkv, C),
        .v = room_at(a->qkv, 2 * C),
        .ld = qkv(c),
        .ld_o = values(c),
        .log_a = a->log_a,
        .beta = a->beta,
    };
    a->dcore = (struct delta_grad){a->dqkv, room_at(a->dqkv, C), room_at(a->dqkv, 2 * C),
                                   a->dlog_a, a->dbeta};
    a->saved = room_save(m, delta_kept(&a->core));
    a->scratch = room_work(m, delta_scratch(&a->core, m->call == BACKWARD));
    a->past = room_state(m, conv_state(&a->conv));
    a->S = room_state(m, delta_state(&a->core));
}

/* What the core takes, from rows of which qkv is the convolution. */
static void prepare(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);
    const int  H = c->H, e = width(c);

    rows_rotate(ctx, &a->rows, a->qkv);
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++) {
        const real *z = a->row + i * row(c);

        for (int j = 0; j < 2 * H; j++) {
            real *head = a->qkv + i * qkv(c) + (size_t)j * e;
            real  s = 1 / (real)sqrt(vdot(head, head, e) + (real)1e-6);

            a->shrink[i * 2 * H + j] = s;
            vscale(head, s, head, e);
        }
        for (int h = 0; h < H; h++) {
            real rate = (real)exp(ctx->w[ALOG][h]);

            a->beta[i * H + h] = top(c) * vsigmoid(z[b_at(c) + h]);
            a->log_a[i * H + h] = -rate * vsoftplus(z[a_at(c) + h] + ctx->w[DTB][h]);
        }
    }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    product_forward(a->row, x, ctx->w[WQ], ctx_rows(ctx), c->C, row(c));
    conv_forward(&a->conv, a->qkv, a->row);
    prepare(ctx, a);
    delta_forward(&a->core, a->out.o, a->saved, a->scratch);
    leave_forward(ctx, &a->out, y, a->row + qkv(c), row(c));
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
static void length_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = ctx_rows(ctx);
    const int    H = c->H, e = width(c);
    const size_t ld = qkv(c);

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (int j = 0; j < 2 * H; j++)
            tangent(a->dqkv + i * ld + (size_t)j * e, a->qkv + i * ld + (size_t)j * e, e);
    rows_rotate_back(ctx, &a->rows, a->dqkv, a->qkv);
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (int j = 0; j < 2 * H; j++) {
            real *d = a->dqkv + i * ld + (size_t)j * e;

            vscale(d, a->shrink[i * 2 * H + j], d, e);
        }
}

/* db = dbeta beta sigmoid(-b),  da = -e^alog dg sigmoid(a + dtb)  of head h of
 * sequence b, and the sums over its tokens. */
static void head_back(const struct ctx *ctx, const struct acts *a, int b, int h)
{
    const struct mixer_cfg *c = ctx->cfg;
    const real rate = (real)exp(ctx->w[ALOG][h]);
    double     dtb = 0, dalog = 0;

    for (long i = (long)b * ctx->T; i < (long)(b + 1) * ctx->T; i++) {
        const real *z = a->row + i * row(c);
        size_t      at = i * c->H + h;
        real       *dz = a->drow + i * row(c), dg = a->dlog_a[at];
        real        da = -rate * dg * vsigmoid(z[a_at(c) + h] + ctx->w[DTB][h]);

        dz[b_at(c) + h] = a->dbeta[at] * a->beta[at] * vsigmoid(-z[b_at(c) + h]);
        dz[a_at(c) + h] = da;
        dtb += da;
        dalog += a->log_a[at] * dg;
    }
    a->sums[2 * (b * c->H + h)] = (real)dtb;
    a->sums[2 * (b * c->H + h) + 1] = (real)dalog;
}

static void gates_back(const struct ctx *ctx, const struct acts *a)
{
    const int H = ctx->cfg->H;

    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < H; h++)
            head_back(ctx, a, b, h);
    for (int i = 0; i < ctx->B * H; i++) {
        ctx->dw[DTB][i % H] += a->sums[2 * i];
        ctx->dw[ALOG][i % H] += a->sums[2 * i + 1];
    }
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t at = qkv(c), ld = row(c);
    struct acts *a = ctx->acts;

    leave_backward(ctx, &a->out, a->drow + at, dy, a->row + at, ld);
    delta_backward(&a->core, &a->dcore, a->out.d_o, a->saved, a->scratch);
    gates_back(ctx, a);
    length_back(ctx, a);
    conv_backward(&a->conv, a->drow, ctx->dw[CQ], NULL, a->dqkv, a->row);
    product_backward(dx, 1, ctx->dw[WQ], a->drow, x, ctx->w[WQ], ctx_rows(ctx), c->C,
                     row(c));
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    product_forward(a->row, x, ctx->w[WQ], ctx_rows(ctx), c->C, row(c));
    conv_extend(&a->conv, state, a->past, a->qkv, a->row);
    prepare(ctx, a);
    delta_extend(&a->core, state, a->S, a->out.o, a->scratch);
    leave_forward(ctx, &a->out, y, a->row + qkv(c), row(c));
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * (2.0 * c->C * (row(c) + values(c)) + conv_flops(qkv(c)) +
                        c->H * delta_flops(T, width(c), values(c) / c->H));
}

/* The eigenvalues of e^g (I - beta k k'). */
static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct acts *a = ctx->acts;
    const int H = c->H, e = width(c);

    range_logs(r, a->log_a, H, ctx_rows(ctx), H, 1);
    for (long i = 0; i < ctx_rows(ctx) * H; i++) {
        const real *k = a->qkv + i / H * qkv(c) + c->C + i % H * e;

        range_add(&r[i % H], exp((double)a->log_a[i]) *
                                 fabs(1 - (double)a->beta[i] * (double)vdot(k, k, e)));
    }
    return H;
}

const struct mixer mixer_deltanet = {
    .name     = "deltanet",
    .about    = "a decaying memory whose entries are replaced (Gated DeltaNet)",
    .system   = "L = e^g_t I x (I - beta_t k_t k_t'), B = beta_t I x k_t, "
                "C = I x q_t / sqrt(dk)",
    .position = "none",
    .opts     = opts,
    .params   = params,
    .angles   = rows_angles,
    .carve    = carve,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
