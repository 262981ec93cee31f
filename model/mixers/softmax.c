/* Softmax attention (arXiv:1706.03762), full or in a sliding window, with grouped
 * keys and values.
 *
 *     q, k, v = Wq x, Wk x, Wv x       q (H, e), k and v (Hk, e), e = C / H
 *     q, k <- rms(q) qn, rms(k) kn     with qk_norm; then the encoding rotates both
 *     s_tu = q_t . k_u / sqrt(e)       visible iff 0 <= t - u < window (0: no limit)
 *     o_t = sum_u softmax(s_t)_u v_u   with sink, one more logit per head, of no value
 *     y = Wo o
 *
 * Key head h serves query heads h G .. h G + G - 1, G = H / Hk. The decode state is a
 * ring of the last `span` rotated keys and values: the window, or, without one, the
 * context.
 */
#include "model/cores/attention.h"
#include "model/cores/kv_cache.h"
#include "model/kernels/product.h"
#include "model/layers/norm.h"
#include "model/mixer.h"
#include "model/mixer_heads.h"

#include <math.h>
#include <string.h>

enum { WQ, WK, WV, WO, MORE };                  // then those of qk_norm, then sink
enum { QN = MORE, KN };
enum { WINDOW, QK_NORM, SINK };

static const struct opt opts[] = {
    [WINDOW]  = {"window", "tokens a query sees, itself included; 0: all",
                 OPT_SPAN, NULL, 0, 0, 1 << 30},
    [QK_NORM] = {"qk_norm", "RMSNorm of queries and keys", OPT_FLAG, NULL, 0, 0, 1},
    [SINK]    = {"sink", "a logit per head that takes weight and has no value",
                 OPT_FLAG, NULL, 0, 0, 1},
    {0},
};

static int  width(const struct mixer_cfg *c) { return c->C / c->H; }
static bool has_norm(const struct mixer_cfg *c) { return c->opt[QK_NORM] > 0; }
static bool has_sink(const struct mixer_cfg *c) { return c->opt[SINK] > 0; }

/* Channels of a row [q, k, v], and where k and v begin in it. */
static size_t row(const struct mixer_cfg *c)
{
    return (size_t)(c->H + 2 * c->Hk) * width(c);
}

static size_t k_at(const struct mixer_cfg *c) { return (size_t)c->H * width(c); }

static size_t v_at(const struct mixer_cfg *c)
{
    return (size_t)(c->H + c->Hk) * width(c);
}

static int span(const struct mixer_cfg *c) { return opt_or(c, WINDOW, c->context); }

static int sink_at(const struct mixer_cfg *c) { return has_norm(c) ? KN + 1 : MORE; }

static int params(const struct mixer_cfg *c, struct param *p)
{
    int e = width(c);

    p[WQ] = (struct param){"wq", c->H * e, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", c->Hk * e, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", c->Hk * e, c->C, INIT_INPUT, .decay = true};
    p[WO] = (struct param){"wo", c->C, c->H * e, INIT_OUTPUT, .decay = true};
    if (has_norm(c)) {
        p[QN] = (struct param){"qn", e, 0, INIT_ONE};
        p[KN] = (struct param){"kn", e, 0, INIT_ONE};
    }
    if (has_sink(c))
        p[sink_at(c)] = (struct param){"sink", c->H, 0, INIT_ZERO};
    return sink_at(c) + has_sink(c);
}

static void angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->Hk;
    *dk = width(c);
}

struct acts {
    real *qkv, *dqkv;           // (B, T, H + 2 Hk, e) after norm and rotation
    real *raw;                  // (B, T, H + Hk, e) q and k before them; with qk_norm
    real *o, *d_o;              // (B, T, H, e)
    real *lse;                  // (B, H, T) in training
    real *dsink;                // (B, H)
    real *partial;              // of the norms
    real *ring;                 // scratch of the ring in extend
    struct rows rows;
    struct norm norm_q, norm_k;
    struct attention core;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t n = layout_tokens(m), ld = row(c), k = k_at(c), v = v_at(c);

    a->qkv = layout_keep(m, "qkv", n * ld);
    a->dqkv = layout_grad(m, "dqkv", n * ld);
    a->raw = layout_keep(m, "raw", has_norm(c) ? n * v : 0);
    a->o = layout_keep(m, "o", n * k);
    a->d_o = layout_grad(m, "d_o", n * k);
    a->lse = layout_save(m, "lse", n * c->H);
    a->dsink = layout_grad(m, "dsink", (size_t)m->B * c->H);
    a->rows = (struct rows){.w = WQ, .Hk = c->Hk, .k = k, .ld = ld};
    a->norm_q = (struct norm){c->H, width(c), true, (real)1e-5};
    a->norm_k = (struct norm){c->Hk, width(c), true, (real)1e-5};
    a->partial = layout_grad(m, "partial", norm_partial(&a->norm_q));
    a->core = (struct attention){
        .kind = ATTENTION_SOFTMAX, .B = m->B, .T = m->T, .H = c->H, .Hk = c->Hk,
        .e = width(c), .scale = 1 / (real)sqrt((double)width(c)), .ld_q = ld, .ld_kv = ld,
        .q = a->qkv, .k = layout_at(a->qkv, k), .v = layout_at(a->qkv, v),
        .sink = has_sink(c) ? layout_param(m, sink_at(c)) : NULL,
    };
    a->ring = layout_stream(m, "ring", kv_cache_scratch(&a->core, span(c)));
    layout_state(m, kv_cache_state(&a->core, span(c)));
}

/* x to rows of normalised, rotated q and k, and v. */
static void project(const struct ctx *ctx, const real *x, struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = ctx_rows(ctx);
    const size_t ld = row(c), k = k_at(c), v = v_at(c);

    product_forward(a->qkv, x, ctx->w[WQ], n, c->C, (int)ld);
    if (has_norm(c)) {
        for (long i = 0; i < n; i++)
            memcpy(a->raw + i * v, a->qkv + i * ld, v * sizeof(real));
        rms_forward(&a->norm_q, a->qkv, ld, a->qkv, ld, ctx->w[QN], n);
        rms_forward(&a->norm_k, a->qkv + k, ld, a->qkv + k, ld, ctx->w[KN], n);
    }
    rows_rotate(ctx, &a->rows, a->qkv);
    a->core.window = ctx_window(ctx, (int)c->opt[WINDOW]);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    project(ctx, x, a);
    attention_forward(&a->core, a->o, a->lse);
    product_forward(y, a->o, ctx->w[WO], ctx_rows(ctx), (int)k_at(c), c->C);
}

/* Back through rotation and norm, from the gradient of the rows to that of x. */
static void project_back(const struct ctx *ctx, const real *x, const struct acts *a,
                         real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = ctx_rows(ctx);
    const size_t ld = row(c), k = k_at(c), v = v_at(c);
    real        *dq = a->dqkv, *dk = a->dqkv + k;

    rows_rotate_back(ctx, &a->rows, a->dqkv, a->qkv);
    if (has_norm(c)) {
        rms_backward(&a->norm_q, dq, ld, 0, ctx->dw[QN], dq, ld, a->raw, v,
                     ctx->w[QN], n, a->partial);
        rms_backward(&a->norm_k, dk, ld, 0, ctx->dw[KN], dk, ld, a->raw + k, v,
                     ctx->w[KN], n, a->partial);
    }
    product_backward(dx, 1, ctx->dw[WQ], a->dqkv, x, ctx->w[WQ], n, c->C, (int)ld);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t k = k_at(c);
    struct acts *a = ctx->acts;

    a->core.window = ctx_window(ctx, (int)c->opt[WINDOW]);
    product_backward(a->d_o, 0, ctx->dw[WO], dy, a->o, ctx->w[WO], ctx_rows(ctx), (int)k,
                     c->C);
    attention_backward(&a->core, a->o, a->lse, a->d_o, a->dqkv, a->dqkv + k,
                       a->dqkv + v_at(c), a->dsink);
    for (int i = 0; has_sink(c) && i < ctx->B * c->H; i++)
        ctx->dw[sink_at(c)][i % c->H] += a->dsink[i];
    project_back(ctx, x, a, dx);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    project(ctx, x, a);
    kv_cache_extend(&a->core, span(c), state, ctx->pos, a->o, a->ring);
    product_forward(y, a->o, ctx->w[WO], ctx_rows(ctx), (int)k_at(c), c->C);
}

/* Projections, and 4 e per visible pair and head. */
static double flops(const struct mixer_cfg *c, int T, int window)
{
    int w = ctx_window(&(struct ctx){.window = window}, (int)c->opt[WINDOW]);

    return 2.0 * T * c->C * ((double)row(c) + (double)k_at(c)) +
           4.0 * attention_pairs(T, w) * (double)k_at(c);
}

const struct mixer mixer_softmax = {
    .name     = "softmax",
    .about    = "softmax attention, full or in a sliding window",
    .system   = "infinite feature map: L = (n_{t-1}/n_t) I, B = f(k)/n_t, C = f(q), "
                "n = sum of e^(q.k)",
    .position = "rope",
    .opts     = opts,
    .params   = params,
    .angles   = angles,
    .layout    = layout,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .flops    = flops,
};
