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

static bool has_norm(const struct mixer_cfg *c) { return c->opt[QK_NORM] > 0; }
static bool has_sink(const struct mixer_cfg *c) { return c->opt[SINK] > 0; }
static int  sink_at(const struct mixer_cfg *c) { return has_norm(c) ? KN + 1 : MORE; }

static int params(const struct mixer_cfg *c, struct param *p)
{
    grouped_params(c, p);
    if (has_norm(c)) {
        p[QN] = (struct param){"qn", c->C / c->H, 0, INIT_ONE};
        p[KN] = (struct param){"kn", c->C / c->H, 0, INIT_ONE};
    }
    if (has_sink(c))
        p[sink_at(c)] = (struct param){"sink", c->H, 0, INIT_ZERO};
    return sink_at(c) + has_sink(c);
}

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct grouped *a = layout_acts(m, sizeof *a);

    *a = (struct grouped){
        .kind = ATTENTION_SOFTMAX, .window = (int)c->opt[WINDOW],
        .span = opt_or(c, WINDOW, c->context), .qn = has_norm(c) ? QN : -1,
        .sink = has_sink(c) ? sink_at(c) : -1,
    };
    grouped_layout(a, m, c);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct grouped *a = ctx->acts;

    grouped_forward(ctx, a, x);
    out_proj_forward(ctx, WO, y, a->o);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct grouped *a = ctx->acts;

    out_proj_backward(ctx, WO, a->o, dy);
    grouped_backward(ctx, a, dx, x);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    int w = ctx_window(&(struct ctx){.window = window}, (int)c->opt[WINDOW]);

    return grouped_flops(c, T, w);
}

static double state(const struct mixer_cfg *c)
{
    return grouped_state(c, opt_or(c, WINDOW, c->context));
}

const struct mixer mixer_softmax = {
    .name     = "softmax",
    .about    = "softmax attention, full or in a sliding window",
    .position = "rope",
    .opts     = opts,
    .params   = params,
    .angles   = grouped_angles,
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .flops    = flops,
    .instruments = &(struct instruments){
        .system = "infinite feature map: L = (n_{t-1}/n_t) I, B = f(k)/n_t, C = f(q), "
                  "n = sum of e^(q.k)",
        .state = state,
    },
};
