/* Softmax attention (arXiv:1706.03762), full or in a sliding window, with grouped
 * keys and values.
 *
 *     q, k, v = Wq x, Wk x, Wv x       q (H, e), k and v (Hk, e), e = C / H
 *     q, k <- rms(q) qn, rms(k) kn     with qk_norm; then the encoding rotates both
 *     s_tu = q_t . k_u / sqrt(e)       visible iff 0 <= t - u < window (0: no limit)
 *     o_t = sum_u softmax(s_t)_u v_u   with sink, one more logit per head, of no value
 *     y = Wo o
 *
 * Key head h serves query heads h G .. h G + G - 1, G = H / Hk. The decode state is a kv
 * cache of the last `span` rotated keys and values: the window, or, without one, the
 * context.
 */
#include "model/mixer_grouped.h"

enum { WINDOW, QK_NORM, SINK };

static const struct opt opts[] = {
    [WINDOW]  = {"window", "tokens a query sees, itself included; 0: all",
                 OPT_SPAN, 0, 0, 1 << 30},
    [QK_NORM] = {"qk_norm", "RMSNorm of queries and keys", OPT_FLAG},
    [SINK]    = {"sink", "a logit per head that takes weight and has no value", OPT_FLAG},
    {0},
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct grouped *a = layout_acts(m, sizeof *a);

    *a = grouped_layout(m, c, ATTENTION_SOFTMAX, (int)c->opt[WINDOW],
                        opt_or(c, WINDOW, c->context));
    if (c->opt[QK_NORM] > 0)
        grouped_norm(a, m, c);
    if (c->opt[SINK] > 0)
        grouped_sink(a, m);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct grouped *a = ctx->acts;

    grouped_forward(ctx, a, x);
    out_proj_forward(ctx, a->wo, y, a->o);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct grouped *a = ctx->acts;

    out_proj_backward(ctx, a->wo, a->o, dy);
    grouped_backward(ctx, a, dx, x);
}

static void weights(const struct ctx *ctx, int b, int t, double *p)
{
    grouped_weights(ctx, ctx->acts, b, t, p);
}

const struct mixer mixer_softmax = {
    .name     = "softmax",
    .about    = "softmax attention, full or in a sliding window",
    .position = "rope",
    .opts     = opts,
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "infinite feature map: L = (n_{t-1}/n_t) I, B = f(k)/n_t, C = f(q), "
                  "n = sum of e^(q.k)",
        .weights = weights,
    },
};
