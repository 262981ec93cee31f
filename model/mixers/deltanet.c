/* Gated DeltaNet: a decaying memory whose entries are replaced (arXiv:2412.06464).
 *
 *     q, k, v = silu(conv(W x))                each (H, e), e = C / H; W and conv of its own
 *     q, k <- rotated, then each head scaled to length 1
 *     beta = sigmoid(Wb x)  (H), times 2 with neg_eig
 *     g = -e^alog softplus(Wa x + dtb)  (H)
 *     u_t = beta_t (v_t - e^{g_t} S_{t-1}ᵀ k_t),  S_t = e^{g_t} S_{t-1} + k_t u_tᵀ
 *     o_t = S_tᵀ q_t / sqrt(e)
 *     y = Wo( rms(o) norm silu(Wg x) )         rms over each head, norm shared by heads
 *
 * With beta up to 2, I - beta k kᵀ has an eigenvalue down to -1: a state can change its sign.
 * Decode state: the last inputs of the convolution, then S.
 */
#include "model/arena.h"
#include "model/conv.h"
#include "model/core_delta.h"
#include "model/gate.h"
#include "model/linear.h"
#include "model/mixer.h"
#include "model/norm.h"
#include "model/unit.h"
#include "model/vmath.h"

#include <math.h>

enum { WQ, WK, WV, WG, WB, WA, CQ, CK, CV, DTB, ALOG, NORM, WO, N_PARAMS };
enum { NEG_EIG };

static const struct opt opts[] = {
    [NEG_EIG] = {"neg_eig", "beta up to 2: a state may change its sign", OPT_FLAG, NULL, 0, 0, 1},
    {0},
};

/* A row is [q, k, v, g, b, a]; the convolution sees [q, k, v]. */
static int  width(const struct mixer_cfg *c) { return c->C / c->H; }
static int  row(const struct mixer_cfg *c) { return 4 * c->C + 2 * c->H; }
static int  qkv(const struct mixer_cfg *c) { return 3 * c->C; }
static int  b_at(const struct mixer_cfg *c) { return 4 * c->C; }
static int  a_at(const struct mixer_cfg *c) { return 4 * c->C + c->H; }
static real top(const struct mixer_cfg *c) { return c->opt[NEG_EIG] > 0 ? 2 : 1; }

static const char *check(const struct mixer_cfg *c)
{
    return c->C % c->H ? "width must be a multiple of heads" : NULL;
}

static int params(const struct mixer_cfg *c, struct param *p)
{
    p[WQ] = (struct param){"wq", c->C, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", c->C, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", c->C, c->C, INIT_INPUT, .decay = true};
    p[WG] = (struct param){"wg", c->C, c->C, INIT_INPUT, .decay = true};
    p[WB] = (struct param){"wb", c->H, c->C, INIT_INPUT, .decay = true};
    p[WA] = (struct param){"wa", c->H, c->C, INIT_INPUT, .decay = true};
    p[CQ] = (struct param){"cq", c->C, CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CK] = (struct param){"ck", c->C, CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CV] = (struct param){"cv", c->C, CONV_TAPS, INIT_UNIFORM, 0.5};
    p[DTB] = (struct param){"dtb", c->H, 0, INIT_OWN};
    p[ALOG] = (struct param){"alog", c->H, 0, INIT_OWN};
    p[NORM] = (struct param){"norm", width(c), 0, INIT_ONE};
    p[WO] = (struct param){"wo", c->C, c->C, INIT_OUTPUT, .decay = true};
    return N_PARAMS;
}

/* dtb: softplus of it is log-uniform in [1e-3, 1e-1]; e^alog: U(0, 16), at least 1e-3. */
static void init(const struct mixer_cfg *c, real *const *w, struct rng *r)
{
    for (int h = 0; h < c->H; h++) {
        double step = 1e-3 * pow(100, rng_uniform(r));

        w[DTB][h] = (real)(step + log(-expm1(-step)));
        w[ALOG][h] = (real)log(fmax(16 * rng_uniform(r), 1e-3));
    }
}

static void angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->H;
    *dk = width(c);
}

struct acts {
    real *row;          // (B, T, row)
    real *qkv;          // (B, T, 3, H, e) as the core takes them
    real *shrink;       // (B, T, 2, H) what q and k were multiplied by to have length 1
    real *beta, *log_a; // (B, T, H)
    real *o, *gated;    // (B, T, H, e)
    real *core;         // kept of the core, or its scratch in extend
};

struct grads {
    real *drow, *dqkv;  // as row, qkv
    real *dbeta;        // (B, T, H)
    real *dlog_a;       // (B, T, H)
    real *d_o, *normed; // as o
    real *sums;         // (B, H, 2) of dtb, alog
    real *partial;      // of the norm
    real *core;         // scratch of the core
};

static struct norm head_norm(const struct mixer_cfg *c)
{
    return (struct norm){c->H, width(c), true, (real)1e-5};
}

static struct delta shape(const struct mixer_cfg *c, int B, int T)
{
    return (struct delta){.B = B, .T = T, .H = c->H, .dk = width(c), .dv = width(c),
                          .ld = qkv(c), .ld_o = c->C, .scale = 1 / (real)sqrt(width(c))};
}

static struct delta core_of(const struct ctx *ctx, const struct acts *a)
{
    struct delta s = shape(ctx->cfg, ctx->B, ctx->T);

    s.q = a->qkv, s.k = s.q + ctx->cfg->C, s.v = s.k + ctx->cfg->C;
    s.log_a = a->log_a, s.beta = a->beta;
    return s;
}

static struct conv conv_of(const struct ctx *ctx, int B)
{
    const struct mixer_cfg *c = ctx->cfg;

    return (struct conv){.B = B, .T = ctx->T, .C = qkv(c), .ld_x = row(c), .ld_y = qkv(c),
                         .w = ctx->w[CQ], .silu = true};
}

static size_t carve(struct acts *a, void *base, const struct mixer_cfg *c, int B, int T,
                    bool train)
{
    struct arena m = arena_over(base);
    struct delta core = shape(c, B, T);
    size_t       n = (size_t)B * T;

    a->row = arena_reals(&m, n * row(c));
    a->qkv = arena_reals(&m, n * qkv(c));
    a->shrink = arena_reals(&m, n * 2 * c->H);
    a->beta = arena_reals(&m, n * c->H);
    a->log_a = arena_reals(&m, n * c->H);
    a->o = arena_reals(&m, n * c->C);
    a->gated = arena_reals(&m, n * c->C);
    a->core = arena_reals(&m, train ? delta_kept(&core) : delta_scratch(&core, false));
    return m.used;
}

static size_t carve_grads(struct grads *g, void *base, const struct mixer_cfg *c, int B,
                          int T)
{
    struct arena m = arena_over(base);
    struct delta core = shape(c, B, T);
    struct norm  o = head_norm(c);
    size_t       n = (size_t)B * T;

    g->drow = arena_reals(&m, n * row(c));
    g->dqkv = arena_reals(&m, n * qkv(c));
    g->dbeta = arena_reals(&m, n * c->H);
    g->dlog_a = arena_reals(&m, n * c->H);
    g->d_o = arena_reals(&m, n * c->C);
    g->normed = arena_reals(&m, n * c->C);
    g->sums = arena_reals(&m, (size_t)B * c->H * 2);
    g->partial = arena_reals(&m, norm_partial(&o));
    g->core = arena_reals(&m, delta_scratch(&core, true));
    return m.used;
}

static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct delta core = shape(c, B, T);
    struct acts  a;
    struct grads g;
    size_t       extend = carve(&a, NULL, c, B, T, false);
    size_t       back = carve_grads(&g, NULL, c, B, T);

    s->kept = carve(&a, NULL, c, B, T, true);
    s->scratch = back > extend ? back : extend;
    s->state = ((CONV_TAPS - 1) * (size_t)qkv(c) + delta_state(&core)) * sizeof(real);
}

static inline void scale(real *z, real s, int e)
{
    #pragma omp simd
    for (int j = 0; j < e; j++)
        z[j] *= s;
}

/* What the core takes, from rows of which qkv is the convolution. */
static void prepare(struct ctx *ctx, struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = (long)ctx->B * ctx->T;
    const int  H = c->H, e = width(c);

    rotate(&ctx->angles, a->qkv, ctx->B, ctx->T, H, qkv(c));
    rotate(&ctx->angles, a->qkv + c->C, ctx->B, ctx->T, H, qkv(c));
    #pragma omp parallel for schedule(static) if (n > 32)
    for (long i = 0; i < n; i++) {
        const real *z = a->row + i * row(c);

        for (int j = 0; j < 2 * H; j++) {
            real *head = a->qkv + i * qkv(c) + (size_t)j * e;
            real  s = 1 / (real)sqrt(unit_dot(head, head, e) + (real)1e-6);

            a->shrink[i * 2 * H + j] = s;
            scale(head, s, e);
        }
        for (int h = 0; h < H; h++) {
            real rate = (real)exp(ctx->w[ALOG][h]);

            a->beta[i * H + h] = top(c) * vsigmoid(z[b_at(c) + h]);
            a->log_a[i * H + h] = -rate * vsoftplus(z[a_at(c) + h] + ctx->w[DTB][h]);
        }
    }
}

/* y from o and g. */
static void finish(struct ctx *ctx, struct acts *a, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    const size_t C = c->C;
    struct norm  o = head_norm(c);

    rms_forward(&o, a->gated, C, a->o, C, ctx->w[NORM], n);
    gate_forward(GATE_SILU, a->gated, C, a->gated, C, a->row + qkv(c), row(c), n, c->C);
    linear_forward(y, a->gated, ctx->w[WO], n, c->C, c->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct conv  conv = conv_of(ctx, ctx->B);
    struct acts  a;
    struct delta core;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    core = core_of(ctx, &a);
    linear_forward(a.row, x, ctx->w[WQ], (long)ctx->B * ctx->T, c->C, row(c));
    conv_forward(&conv, a.qkv, a.row);
    prepare(ctx, &a);
    delta_forward(&core, a.o, a.core, ctx->scratch);
    finish(ctx, &a, y);
}

/* From dy to the gradients of o and g. */
static void finish_back(struct ctx *ctx, const struct acts *a, struct grads *g,
                        const real *dy)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    const size_t C = c->C, ld = row(c), at = qkv(c);
    struct norm  o = head_norm(c);

    linear_backward(g->d_o, 0, ctx->dw[WO], dy, a->gated, ctx->w[WO], n, c->C, c->C);
    rms_forward(&o, g->normed, C, a->o, C, ctx->w[NORM], n);
    gate_backward(GATE_SILU, g->d_o, g->drow + at, ld, g->d_o, C, g->normed, C, a->row + at,
                  ld, n, c->C);
    rms_backward(&o, g->d_o, C, 0, ctx->dw[NORM], g->d_o, C, a->o, C, ctx->w[NORM], n,
                 g->partial);
}

/* d <- d - z (z . d) */
static inline void tangent(real *d, const real *z, int e)
{
    real along = unit_dot(z, d, e);

    #pragma omp simd
    for (int j = 0; j < e; j++)
        d[j] -= along * z[j];
}

/* Back through length and rotation:  d <- s R^-1 (d - z (z . d)), s of shrink. The angles take
 * their gradient from z of length 1 and its d: s comes last. */
static void length_back(struct ctx *ctx, const struct acts *a, struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    const int    H = c->H, e = width(c);
    const size_t C = c->C, ld = qkv(c);

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (int j = 0; j < 2 * H; j++)
            tangent(g->dqkv + i * ld + (size_t)j * e, a->qkv + i * ld + (size_t)j * e, e);
    rotate_back(&ctx->angles, a->qkv, g->dqkv, ctx->B, ctx->T, H, ld, ld);
    rotate_back(&ctx->angles, a->qkv + C, g->dqkv + C, ctx->B, ctx->T, H, ld, ld);
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (int j = 0; j < 2 * H; j++)
            scale(g->dqkv + i * ld + (size_t)j * e, a->shrink[i * 2 * H + j], e);
}

/* db = dbeta beta sigmoid(-b),  da = -e^alog dg sigmoid(a + dtb)  of head h of sequence b, and
 * the sums over its tokens. */
static void gates_back(const struct ctx *ctx, const struct acts *a, struct grads *g, int b,
                       int h)
{
    const struct mixer_cfg *c = ctx->cfg;
    const real rate = (real)exp(ctx->w[ALOG][h]);
    double     dtb = 0, dalog = 0;

    for (long i = (long)b * ctx->T; i < (long)(b + 1) * ctx->T; i++) {
        const real *z = a->row + i * row(c);
        size_t      at = i * c->H + h;
        real       *dz = g->drow + i * row(c), dg = g->dlog_a[at];
        real        da = -rate * dg * vsigmoid(z[a_at(c) + h] + ctx->w[DTB][h]);

        dz[b_at(c) + h] = g->dbeta[at] * a->beta[at] * vsigmoid(-z[b_at(c) + h]);
        dz[a_at(c) + h] = da;
        dtb += da;
        dalog += a->log_a[at] * dg;
    }
    g->sums[2 * (b * c->H + h)] = (real)dtb;
    g->sums[2 * (b * c->H + h) + 1] = (real)dalog;
}

static void core_back(struct ctx *ctx, const struct acts *a, struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct delta core = core_of(ctx, a);
    real        *dq = g->dqkv, *dk = dq + c->C, *dv = dk + c->C;
    struct delta_grad d = {dq, dk, dv, g->dlog_a, g->dbeta};

    delta_backward(&core, &d, g->d_o, a->core, g->core);
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < c->H; h++)
            gates_back(ctx, a, g, b, h);
    for (int i = 0; i < ctx->B * c->H; i++) {
        ctx->dw[DTB][i % c->H] += g->sums[2 * i];
        ctx->dw[ALOG][i % c->H] += g->sums[2 * i + 1];
    }
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    struct conv  conv = conv_of(ctx, ctx->B);
    struct acts  a;
    struct grads g;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    carve_grads(&g, ctx->scratch, c, ctx->B, ctx->T);
    finish_back(ctx, &a, &g, dy);
    core_back(ctx, &a, &g);
    length_back(ctx, &a, &g);
    conv_backward(&conv, g.drow, ctx->dw[CQ], NULL, g.dqkv, a.row);
    linear_backward(dx, 1, ctx->dw[WQ], g.drow, x, ctx->w[WQ], n, c->C, row(c));
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct conv  conv = conv_of(ctx, 1);
    struct acts  a;
    struct delta core;

    carve(&a, ctx->scratch, c, ctx->B, ctx->T, false);
    core = core_of(ctx, &a);
    linear_forward(a.row, x, ctx->w[WQ], (long)ctx->B * ctx->T, c->C, row(c));
    for (int b = 0; b < ctx->B; b++) {
        size_t i = (size_t)b * ctx->T;
        real  *past = state[b];

        conv_extend(&conv, &past, a.qkv + i * qkv(c), a.row + i * row(c));
    }
    prepare(ctx, &a);
    delta_extend(&core, state, (CONV_TAPS - 1) * (size_t)qkv(c), a.o, a.core);
    finish(ctx, &a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * c->C * (10.0 * c->C + 4.0 * c->H + 7.0 * width(c));
}

/* The eigenvalues of e^g (I - beta k k'). */
static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int   H = c->H, e = width(c);
    struct acts a;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    range_logs(r, a.log_a, H, (long)ctx->B * ctx->T, H, 1);
    for (long i = 0; i < (long)ctx->B * ctx->T * H; i++) {
        const real *k = a.qkv + i / H * qkv(c) + c->C + i % H * e;

        range_add(&r[i % H], exp((double)a.log_a[i]) *
                                 fabs(1 - (double)a.beta[i] * (double)unit_dot(k, k, e)));
    }
    return H;
}

const struct mixer mixer_deltanet = {
    .name     = "deltanet",
    .about    = "a decaying memory whose entries are replaced (Gated DeltaNet)",
    .system   = "L = e^g_t I x (I - beta_t k_t k_t'), B = beta_t I x k_t, C = I x q_t / sqrt(dk)",
    .position = "none",
    .opts     = opts,
    .check    = check,
    .params   = params,
    .angles   = angles,
    .sizes    = sizes,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
