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
 * Plain linear attention of deviations (model/layers/means.h): nothing large is ever
 * subtracted.
 * The local term is model/layers/dynconv.h.
 *
 * subtract = 0 is what the paper compares with: weights q_t . k_s / (sum_u q_t . k_u +
 * 1e-6), normalised by division, of features that are not negative.
 */
#include "model/layers/feature.h"
#include "model/layers/dynconv.h"
#include "model/layers/means.h"
#include "model/mixer_heads.h"

#include <math.h>
#include <string.h>

enum { MAP, LOCAL, SUBTRACT };

static const struct opt opts[] = {
    [MAP]   = {"feature", "feature map of queries and keys",
               OPT_CHOICE, .choices = "id|elu1"},
    [LOCAL] = {"local", "tokens of the local term; 0: without", OPT_INT, 3, 0, 64},
    [SUBTRACT] = {"subtract", "normalise by subtraction; 0: by division", OPT_FLAG, 1},
    {0},
};

static bool subtracts(const struct mixer_cfg *c) { return c->opt[SUBTRACT] > 0; }

static bool mapped(const struct mixer_cfg *c) { return c->opt[MAP] > 0; }
static int  taps(const struct mixer_cfg *c) { return (int)c->opt[LOCAL]; }

/* ---- memory ------------------------------------------------------------------------ */

struct acts {
    struct act row, q, k, v;    // (H, e), rotated
    struct act phi_q, phi_k;    // (H, e) features; without a map q and k
    struct act dk, dv;          // (H, e) deviations; without subtraction k and v
    struct act o;               // (H, e) o + l; with subtraction in the core's place
    struct act xm;              // (C) with the local term
    real *dhid;                 // as xm
    struct weight wo;
    struct dynconv_kept kept;   // of the local term
    struct feature map;
    struct dynconv local;
    struct dynconv_grad dlocal;
    struct scalar_heads core;
    size_t k_sum, v_sum, x_sum; // where the sums (C) of means are, in reals
    size_t last;                // where the state of the local term is, in reals
};

static void layout_local(struct acts *a, struct layout *m, const struct mixer_cfg *c)
{
    const size_t n = layout_tokens(m) * c->C;
    const int    C = c->C, e = C / c->H, rows = C * taps(c);
    struct weight w1, b1, w2, b2;

    w1 = layout_weight(m, (struct param){"w1", C, e, INIT_INPUT, .decay = true,
                                         .direct = true});
    b1 = layout_vector(m, "b1", C, INIT_ZERO);
    w2 = layout_weight(m, (struct param){"w2", rows, e, INIT_NORMAL, 0.02, .decay = true,
                                         .direct = true});
    b2 = layout_vector(m, "b2", rows, INIT_ZERO);
    layout_flops(m, 2.0 * C * e + 2.0 * rows * (e + 1));
    a->xm = act_work(m, "xm", C);
    a->dhid = layout_grad(m, "dhid", n);
    a->kept = (struct dynconv_kept){layout_work(m, "pre", n), layout_work(m, "hid", n),
                                    layout_work(m, "r", n * taps(c))};
    a->local = (struct dynconv){
        .B = m->B, .T = m->T, .C = C, .H = c->H, .taps = taps(c), .ld = a->v.ld,
        .w1 = w1.w, .b1 = b1.w, .w2 = w2.w, .b2 = b2.w,
    };
    a->dlocal = (struct dynconv_grad){w1.dw, b1.dw, w2.dw, b2.dw};
    a->x_sum = layout_state_doubles(m, C);
    a->last = layout_state(m, (size_t)(taps(c) - 1) * C);
}

static void layout_subtraction(struct acts *a, struct layout *m,
                               const struct mixer_cfg *c)
{
    const int C = c->C, H = c->H, e = C / H;

    a->dk = act_work(m, "dk", C);
    a->core = scalar_heads_layout(m, a->phi_q, a->dk, a->dv,
                                  (struct scalar){.H = H, .dk = e, .dv = e});
    a->o = a->core.o;
    a->core.o.dx = layout_grad(m, "du", layout_tokens(m) * C);
    a->k_sum = layout_state_doubles(m, C);
    a->v_sum = layout_state_doubles(m, C);
}

static void layout_division(struct acts *a, struct layout *m, const struct mixer_cfg *c)
{
    const int C = c->C, H = c->H, e = C / H;

    layout_require(m, mapped(c), "inline: weights of feature=id may sum to zero; "
                   "subtract=0 takes feature=elu1");
    a->dk = a->phi_k;
    a->core = scalar_heads_layout(m, a->phi_q, a->dk, a->dv, (struct scalar){
        .H = H, .dk = e, .dv = e, .den = SCALAR_SUM, .den_eps = (real)1e-6, .scale = 1});
    a->o = act_keep(m, "sum", C);
    a->core.o.dx = a->o.dx;
}

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    C = c->C, H = c->H, e = C / H;
    const double doubles = (double)sizeof(double) / sizeof(real);

    a->row = act_row(m, (struct act_part[]){
        {"wq", &a->q, C}, {"wk", &a->k, C}, {"wv", &a->v, C}, {0}});
    layout_rotates(m, H, e);
    a->wo = layout_out(m, C);
    a->map = (struct feature){.map = FEATURE_ELU1, .B = m->B, .T = m->T, .H = H, .dk = e,
                              .m = e};
    a->phi_q = mapped(c) ? act_work(m, "phi_q", C) : a->q;
    a->phi_k = mapped(c) ? act_work(m, "phi_k", C) : a->k;
    a->dv = act_work(m, "dv", C);
    if (subtracts(c))
        layout_subtraction(a, m, c);
    else
        layout_division(a, m, c);
    m->paper_state = C * (e + (subtracts(c) ? 2 * doubles : 1));
    if (taps(c)) {
        layout_local(a, m, c);
        m->paper_state += C * (doubles + taps(c) - 1);
    }
}

static struct means means_of(const struct ctx *ctx)
{
    return (struct means){ctx->B, ctx->T, ctx->cfg->C, ctx->pos};
}

/* ---- forward and backward ---------------------------------------------------------- */

/* The values without the gaps of their rows, for the core. */
static void copy_values(const struct ctx *ctx, const struct acts *a)
{
    const size_t C = ctx->cfg->C;

    for (long i = 0; i < ctx_rows(ctx); i++)
        memcpy(a->dv.x + i * C, a->v.x + i * a->v.ld, C * sizeof *a->dv.x);
}

/* Everything between the projections and the core, and the taps of the local term. */
static void prepare(const struct ctx *ctx, const real *x, struct acts *a)
{
    const size_t ld = a->row.ld;
    struct means m = means_of(ctx);

    if (mapped(ctx->cfg)) {
        feature_forward(&a->map, a->phi_q.x, NULL, a->q.x, ld);
        feature_forward(&a->map, a->phi_k.x, NULL, a->k.x, ld);
    }
    if (subtracts(ctx->cfg)) {
        means_forward(&m, MEANS_BEFORE, a->dk.x, a->phi_k.x, a->phi_k.ld, ctx->state,
                      a->k_sum);
        means_forward(&m, MEANS_LESS, a->dv.x, a->v.x, ld, ctx->state, a->v_sum);
    } else {
        copy_values(ctx, a);
    }
    if (taps(ctx->cfg)) {
        means_forward(&m, MEANS_OF, a->xm.x, x, a->xm.ld, ctx->state, a->x_sum);
        dynconv_taps(&a->local, &a->kept, a->xm.x);
    }
}

/* o = vm + u / t, where o holds u and vm = v - dv. */
static void add_mean(const struct ctx *ctx, const struct acts *a)
{
    const size_t C = ctx->cfg->C;

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < ctx_rows(ctx); i++) {
        const real *v = a->v.x + i * a->v.ld, *dv = a->dv.x + i * C;
        long        seen = ctx->pos ? ctx->pos[i / ctx->T] : 0;
        real       *o = a->o.x + i * C, by = 1 / (real)(seen + i % ctx->T + 1);

        #pragma omp simd
        for (size_t j = 0; j < C; j++)
            o[j] = v[j] - dv[j] + by * o[j];
    }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    heads_project(ctx, a->row, a->q, a->k, x);
    prepare(ctx, x, a);
    scalar_heads_forward(ctx, &a->core);
    if (subtracts(ctx->cfg))
        add_mean(ctx, a);
    else
        memcpy(a->o.x, a->core.o.x, ctx_rows(ctx) * ctx->cfg->C * sizeof *a->o.x);
    if (taps(ctx->cfg))
        dynconv_apply(&a->local, &a->kept, a->o.x, a->v.x, ctx->state, a->last);
    out_proj_forward(ctx, a->wo, y, a->o);
}

/* The local term's share of dx, and of dv. */
static void local_back(const struct ctx *ctx, struct acts *a, real *dx)
{
    struct means m = means_of(ctx);

    dynconv_backward(&a->local, &a->dlocal, &a->kept, a->v.dx, a->xm.dx, a->dhid,
                     a->o.dx, a->xm.x, a->v.x);
    means_backward(&m, MEANS_OF, dx, ctx->cfg->C, false, a->xm.dx, NULL);
}

/* From do to the gradients of q's features and of the deviations:  du_t = do_t / t,
 * without subtraction do_t. */
static void attend_back(const struct ctx *ctx, const struct acts *a)
{
    const size_t C = ctx->cfg->C;

    #pragma omp parallel for schedule(static)
    for (long i = 0; i < (subtracts(ctx->cfg) ? ctx_rows(ctx) : 0); i++) {
        real by = 1 / (real)(i % ctx->T + 1);

        #pragma omp simd
        for (size_t j = 0; j < C; j++)
            a->core.o.dx[i * C + j] = by * a->o.dx[i * C + j];
    }
    scalar_heads_backward(&a->core);
}

/* dv of the core to v.dx, which holds the local term's share. */
static void add_values_back(const struct ctx *ctx, const struct acts *a)
{
    const size_t C = ctx->cfg->C;
    const bool   keep = taps(ctx->cfg) > 0;

    for (long i = 0; i < ctx_rows(ctx); i++)
        for (size_t j = 0; j < C; j++)
            a->v.dx[i * a->v.ld + j] =
                a->dv.dx[i * C + j] + (keep ? a->v.dx[i * a->v.ld + j] : 0);
}

/* On to q, k and v, still rotated; v.dx holds the local term's share. */
static void prepare_back(const struct ctx *ctx, const struct acts *a)
{
    const size_t ld = a->row.ld;
    struct means m = means_of(ctx);

    if (subtracts(ctx->cfg)) {
        means_backward(&m, MEANS_LESS, a->v.dx, ld, taps(ctx->cfg) > 0, a->dv.dx,
                       a->o.dx);
        means_backward(&m, MEANS_BEFORE, a->phi_k.dx, a->phi_k.ld, false, a->dk.dx,
                       NULL);
    } else {
        add_values_back(ctx, a);
    }
    if (!mapped(ctx->cfg))
        return;
    feature_backward(&a->map, a->q.dx, ld, NULL, NULL, a->phi_q.dx, a->phi_q.x, a->q.x,
                     ld);
    feature_backward(&a->map, a->k.dx, ld, NULL, NULL, a->phi_k.dx, a->phi_k.x, a->k.x,
                     ld);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    prepare(ctx, x, a);
    out_proj_backward(ctx, a->wo, a->o, dy);
    if (taps(ctx->cfg))
        local_back(ctx, a, dx);
    attend_back(ctx, a);
    prepare_back(ctx, a);
    heads_project_back(ctx, dx, taps(ctx->cfg) > 0, a->row, a->q, a->k, x);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;
    const bool         divides = !subtracts(ctx->cfg);

    if (divides)
        scalar_ratios(&a->core.core, a->core.kept, NULL, r);
    for (int h = 0; !divides && h < ctx->cfg->H; h++)
        for (int t = 1; t < ctx->T; t++)
            range_add(&r[h], t / (t + 1.0));
    return ctx->cfg->H;
}

const struct mixer mixer_inline = {
    .name     = "inline",
    .about    = "linear attention normalised by subtraction, with a local term",
    .position = "none",
    .opts     = opts,
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = ((t-1)/t) I, B = (k_t - mean k) (v_t - mean v) / t, "
                  "C = q/sqrt(dk), D = mean v",
        .decay = decay,
    },
};
