/* InLine attention (arXiv:2412.06590), causal: linear attention normalised
 * by subtraction.
 *
 *     q, k, v = Wq x, Wk x, Wv x       (H, e), e = C / H; the position encoding rotates
 *                                      q, k, then the feature map is taken of both
 *     token s has the weight (1 + q_t . (k_s - km_t) / sqrt(e)) / t in token t, counted
 *     from 1; km, vm, xm are means over the tokens so far. Weights sum to one and may be
 *     negative.
 *     r_t = W2 gelu(W1 xm_t + b1) + b2 (C, local), W1, W2 by heads
 *     l_t = sum_i r_t[:, i] v_{t-i}
 *     y = Wo (o + l)
 *
 * By Welford's recurrence the covariance C_t of keys and values has
 * t C_t = sum_{s <= t} dk_s dv_sᵀ:
 *
 *     dk_s = k_s - km_{s-1},   dv_s = v_s - vm_s
 *     o_t = vm_t + (1 / (t sqrt(e))) sum_{s <= t} (q_t . dk_s) dv_s
 *
 * Plain linear attention of deviations (model/layers/means.h): nothing large is ever subtracted.
 * The local term is model/layers/local.h.
 */
#include "model/cores/scalar.h"
#include "model/kernels/product.h"
#include "model/layers/feature.h"
#include "model/layers/local.h"
#include "model/layers/means.h"
#include "model/mixer.h"
#include "model/mixer_heads.h"

#include <math.h>

enum { WQ, WK, WV, WO, W1, B1, W2, B2 };
enum { MAP, LOCAL };

static const struct opt opts[] = {
    [MAP]   = {"feature", "feature map of queries and keys",
               OPT_CHOICE, "id|elu1", 0, 0, 0},
    [LOCAL] = {"local", "tokens of the local term; 0: without", OPT_INT, NULL, 3, 0, 64},
    {0},
};

static bool   mapped(const struct mixer_cfg *c) { return c->opt[MAP] > 0; }
static int    width(const struct mixer_cfg *c) { return c->C / c->H; }
static int    taps(const struct mixer_cfg *c) { return (int)c->opt[LOCAL]; }
static size_t row(const struct mixer_cfg *c) { return 3 * (size_t)c->C; }

static int params(const struct mixer_cfg *c, struct param *p)
{
    int e = width(c), rows = c->C * taps(c);

    p[WQ] = (struct param){"wq", c->C, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", c->C, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", c->C, c->C, INIT_INPUT, .decay = true};
    p[WO] = (struct param){"wo", c->C, c->C, INIT_OUTPUT, .decay = true};
    if (!taps(c))
        return W1;
    p[W1] = (struct param){"w1", c->C, e, INIT_INPUT, .decay = true};
    p[B1] = (struct param){"b1", c->C, 0, INIT_ZERO};
    p[W2] = (struct param){"w2", rows, e, INIT_NORMAL, 0.02, .decay = true};
    p[B2] = (struct param){"b2", rows, 0, INIT_ZERO};
    return B2 + 1;
}

/* ---- memory ------------------------------------------------------------------------ */

struct acts {
    real *qkv, *dqkv;           // (B, T, 3 C), rotated
    real *o, *d_o;              // (B, T, C) o + l
    real *q, *k, *dq;           // (B, T, C) features; with a map
    real *dk, *dv;              // (B, T, C) deviations
    real *du, *ddk, *ddv;       // (B, T, C) gradients of the core's output and of the
                                // deviations
    real *xm, *dxm, *dhid;      // (B, T, C) with the local term
    struct local_kept kept;     // of it
    struct rows rows;
    struct feature map;
    struct local local;
    struct scalar core;
    real *saved, *scratch;      // of the core
    size_t S;                   // where its state is, in reals
    size_t k_sum, v_sum, x_sum; // where the sums (C) of means are, in reals
    size_t last;                // where the state of the local term is, in reals
};

static void carve_rows(struct acts *a, struct room *m, const struct mixer_cfg *c)
{
    const size_t n = room_rows(m) * c->C, map = mapped(c) ? n : 0,
                 local = taps(c) ? n : 0;

    a->qkv = room_keep(m, 3 * n);
    a->dqkv = room_back(m, 3 * n);
    a->o = room_keep(m, n);
    a->d_o = room_back(m, n);
    a->q = room_work(m, map);
    a->k = room_work(m, map);
    a->dq = room_back(m, map);
    a->dk = room_work(m, n);
    a->dv = room_work(m, n);
    a->du = room_back(m, n);
    a->ddk = room_back(m, n);
    a->ddv = room_back(m, n);
    a->xm = room_work(m, local);
    a->dxm = room_back(m, local);
    a->dhid = room_back(m, local);
    a->kept.pre = room_work(m, local);
    a->kept.hid = room_work(m, local);
    a->kept.r = room_work(m, local * taps(c));
}

static void carve_state(struct acts *a, struct room *m, const struct mixer_cfg *c)
{
    const size_t sums = c->C * sizeof(double);

    a->S = room_state(m, scalar_state(&a->core));
    a->k_sum = room_state_bytes(m, sums) / sizeof(real);
    a->v_sum = room_state_bytes(m, sums) / sizeof(real);
    a->x_sum = room_state_bytes(m, taps(c) ? sums : 0) / sizeof(real);
    a->last = room_state(m, taps(c) ? (taps(c) - 1) * c->C : 0);
}

static void carve(struct room *m, const struct mixer_cfg *c)
{
    struct acts *a = room_names(m, sizeof *a);
    const size_t C = c->C, ld = row(c);
    const int    e = width(c);

    carve_rows(a, m, c);
    a->rows = (struct rows){.w = WQ, .Hk = c->H, .k = C, .ld = ld};
    a->map = (struct feature){.map = FEATURE_ELU1, .B = m->B, .T = m->T,
                              .H = c->H, .dk = e, .m = e};
    if (taps(c))
        a->local = (struct local){
            .B = m->B, .T = m->T, .C = c->C, .H = c->H, .taps = taps(c), .ld = ld,
            .w1 = room_param(m, W1), .b1 = room_param(m, B1),
            .w2 = room_param(m, W2), .b2 = room_param(m, B2),
        };
    a->core = (struct scalar){
        .B = m->B, .T = m->T, .H = c->H, .dk = e, .dv = e, .scale = 1 / (real)sqrt(e),
        .q = mapped(c) ? a->q : a->qkv, .k = a->dk, .v = a->dv,
        .ld_q = mapped(c) ? C : ld, .ld_k = C, .ld_v = C, .ld_o = C,
    };
    a->saved = room_save(m, scalar_kept(&a->core));
    a->scratch = room_back(m, scalar_scratch(&a->core));
    carve_state(a, m, c);
}

static struct means means_of(const struct ctx *ctx)
{
    return (struct means){ctx->B, ctx->T, ctx->cfg->C, ctx->pos};
}

/* ---- forward and backward ---------------------------------------------------------- */

/* Everything between the projections and the core, and the taps of the local term. */
static void prepare(const struct ctx *ctx, const real *x, struct acts *a,
                    void *const *state)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t C = c->C, ld = row(c);
    const real  *k = mapped(c) ? a->k : a->qkv + C;
    struct means m = means_of(ctx);

    if (mapped(c)) {
        feature_forward(&a->map, a->q, NULL, a->qkv, ld);
        feature_forward(&a->map, a->k, NULL, a->qkv + C, ld);
    }
    means_forward(&m, MEANS_BEFORE, a->dk, k, mapped(c) ? C : ld, state, a->k_sum);
    means_forward(&m, MEANS_LESS, a->dv, a->qkv + 2 * C, ld, state, a->v_sum);
    if (taps(c)) {
        means_forward(&m, MEANS_OF, a->xm, x, C, state, a->x_sum);
        local_taps(&a->local, &a->kept, a->xm);
    }
}

/* o = vm + u / t + l, where o holds u and vm = v - dv;  y = Wo o. */
static void finish(const struct ctx *ctx, const struct acts *a,
                   void *const *state, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t C = c->C;
    const long   n = ctx_rows(ctx);

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        const real *v = a->qkv + i * row(c) + 2 * C, *dv = a->dv + i * C;
        long        seen = ctx->pos ? ctx->pos[i / ctx->T] : 0;
        real       *o = a->o + i * C, by = 1 / (real)(seen + i % ctx->T + 1);

        #pragma omp simd
        for (size_t j = 0; j < C; j++)
            o[j] = v[j] - dv[j] + by * o[j];
    }
    if (taps(c))
        local_apply(&a->local, &a->kept, a->o, a->qkv + 2 * C, state, a->last);
    product_forward(y, a->o, ctx->w[WO], n, c->C, c->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    rows_forward(ctx, &a->rows, a->qkv, x);
    prepare(ctx, x, a, NULL);
    scalar_forward(&a->core, a->o, a->saved);
    finish(ctx, a, NULL, y);
}

/* The local term's share of dx, and of dv in dqkv. */
static void local_back(const struct ctx *ctx, struct acts *a, real *dx)
{
    const size_t      C = ctx->cfg->C;
    real *const      *dw = ctx->dw;
    struct means      m = means_of(ctx);
    struct local_grad to = {.w1 = dw[W1], .b1 = dw[B1], .w2 = dw[W2], .b2 = dw[B2]};

    local_backward(&a->local, &to, &a->kept, a->dqkv + 2 * C, a->dxm, a->dhid,
                   a->d_o, a->xm, a->qkv + 2 * C);
    means_backward(&m, MEANS_OF, dx, C, true, a->dxm, NULL);
}

/* From d_o to the gradient of q's features and of the deviations:  du_t = d_o_t / t. */
static void attend_back(const struct ctx *ctx, const struct acts *a)
{
    const long   n = ctx_rows(ctx);
    const size_t C = ctx->cfg->C;
    struct scalar_grad to = {.dq = mapped(ctx->cfg) ? a->dq : a->dqkv, .dk = a->ddk,
                             .dv = a->ddv, .ld_dq = a->core.ld_q, .ld_dk = C, .ld_dv = C};

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        real by = 1 / (real)(i % ctx->T + 1);

        #pragma omp simd
        for (size_t j = 0; j < C; j++)
            a->du[i * C + j] = by * a->d_o[i * C + j];
    }
    scalar_backward(&a->core, &to, NULL, a->du, a->saved, a->scratch);
}

/* On to q, k and v, still rotated; dqkv holds the local term's dv. */
static void prepare_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t C = c->C, ld = row(c);
    struct means m = means_of(ctx);

    means_backward(&m, MEANS_LESS, a->dqkv + 2 * C, ld, taps(c) > 0, a->ddv, a->d_o);
    means_backward(&m, MEANS_BEFORE, mapped(c) ? a->ddk : a->dqkv + C,
                   mapped(c) ? C : ld, false, a->ddk, NULL);
    if (!mapped(c))
        return;
    feature_backward(&a->map, a->dqkv, ld, NULL, NULL, a->dq, a->q, a->qkv, ld);
    feature_backward(&a->map, a->dqkv + C, ld, NULL, NULL, a->ddk, a->k, a->qkv + C, ld);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const int    C = ctx->cfg->C;
    struct acts *a = ctx->acts;

    prepare(ctx, x, a, NULL);
    product_backward(a->d_o, 0, ctx->dw[WO], dy, a->o, ctx->w[WO], ctx_rows(ctx), C, C);
    if (taps(ctx->cfg))
        local_back(ctx, a, dx);
    attend_back(ctx, a);
    prepare_back(ctx, a);
    rows_backward(ctx, &a->rows, dx, a->dqkv, a->qkv, x);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    rows_forward(ctx, &a->rows, a->qkv, x);
    prepare(ctx, x, a, state);
    scalar_extend(&a->core, state, a->S, a->o);
    finish(ctx, a, state, y);
}

/* Projections, writing and reading the state, and the local term. */
static double flops(const struct mixer_cfg *c, int T, int window)
{
    double C = c->C, e = width(c), w = taps(c);

    (void)window;
    return T * (8 * C * C + c->H * scalar_flops(T, width(c), width(c)) +
                (w > 0 ? 2 * C * e * (1 + w) + 2 * w * C : 0));
}

static int decay(struct ctx *ctx, struct range *r)
{
    for (int h = 0; h < ctx->cfg->H; h++)
        for (int t = 1; t < ctx->T; t++)
            range_add(&r[h], t / (t + 1.0));
    return ctx->cfg->H;
}

const struct mixer mixer_inline = {
    .name     = "inline",
    .about    = "linear attention normalised by subtraction, with a local term",
    .system   = "L = ((t-1)/t) I, B = (k_t - mean k) (v_t - mean v) / t, C = q/sqrt(dk), "
                "D = mean v",
    .position = "none",
    .opts     = opts,
    .params   = params,
    .angles   = rows_angles,
    .carve    = carve,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
