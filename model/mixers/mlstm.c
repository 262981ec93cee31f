/* mLSTM: linear attention with exponential gates (xLSTM, arXiv:2405.04517; the layer of
 * xLSTM-7B, arXiv:2503.13427).
 *
 *     q, k = Wq x, Wk x (H, dk),   v, g = Wv x, Wg x (H, dv)
 *     i = cap(Wi x + bi),  f = cap(Wf x + bf)  (H),   cap(z) = 15 tanh(z / 15)
 *     S_t = sigmoid(f_t) S_{t-1} + e^{i_t} k_t v_tᵀ,   n_t likewise with k_t
 *     h_t = S_tᵀ q_t / max(|n_t . q_t|, 1)             both products over sqrt(dk)
 *     y = Wo( ln(h) norm sigmoid(g) )                  ln or rms over each head
 *
 * The denominator has no epsilon, so that the stabiliser of the core is a pure rescaling.
 */
#include "model/arena.h"
#include "model/core_scalar.h"
#include "model/gate.h"
#include "model/linear.h"
#include "model/mixer.h"
#include "model/norm.h"
#include "model/vmath.h"

#include <math.h>

enum { WQ, WK, WV, WG, WI, WF, BI, BF, NORM, WO, N_PARAMS };
enum { DK, DV, KIND };
enum { LN, RMS };
enum { CAP = 15 };

static const struct opt opts[] = {
    [DK]   = {"dk", "of q and k of a head; 0: width / heads / 2", OPT_INT, NULL, 0, 0, 4096},
    [DV]   = {"dv", "of v of a head; 0: width / heads", OPT_INT, NULL, 0, 0, 4096},
    [KIND] = {"norm", "the norm of a head's output", OPT_CHOICE, "ln|rms", LN, 0, 0},
    {0},
};

static int dk_of(const struct mixer_cfg *c)
{
    return c->opt[DK] > 0 ? (int)c->opt[DK] : c->C / c->H / 2;
}

static int dv_of(const struct mixer_cfg *c)
{
    return c->opt[DV] > 0 ? (int)c->opt[DV] : c->C / c->H;
}

/* Channels of q or k, and of v, g or o; a row is [q, k, v, g, i, f]. */
static int n_k(const struct mixer_cfg *c) { return c->H * dk_of(c); }
static int n_v(const struct mixer_cfg *c) { return c->H * dv_of(c); }
static int row(const struct mixer_cfg *c) { return 2 * (n_k(c) + n_v(c) + c->H); }
static int v_at(const struct mixer_cfg *c) { return 2 * n_k(c); }
static int g_at(const struct mixer_cfg *c) { return v_at(c) + n_v(c); }
static int i_at(const struct mixer_cfg *c) { return g_at(c) + n_v(c); }
static int f_at(const struct mixer_cfg *c) { return i_at(c) + c->H; }

static const char *check(const struct mixer_cfg *c)
{
    return dk_of(c) < 1 ? "width / heads is 1, too small to halve; set dk" : NULL;
}

static int params(const struct mixer_cfg *c, struct param *p)
{
    p[WQ] = (struct param){"wq", n_k(c), c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", n_k(c), c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", n_v(c), c->C, INIT_INPUT, .decay = true};
    p[WG] = (struct param){"wg", n_v(c), c->C, INIT_ZERO, .decay = true};
    p[WI] = (struct param){"wi", c->H, c->C, INIT_ZERO, .decay = true};
    p[WF] = (struct param){"wf", c->H, c->C, INIT_ZERO, .decay = true};
    p[BI] = (struct param){"bi", c->H, 0, INIT_CONST, -10};
    p[BF] = (struct param){"bf", c->H, 0, INIT_OWN};
    p[NORM] = (struct param){"norm", n_v(c), 0, INIT_ONE};
    p[WO] = (struct param){"wo", c->C, n_v(c), INIT_OUTPUT, .decay = true};
    return N_PARAMS;
}

/* Forget gates from 3 to 6: memories of 20 to 400 tokens. */
static void init(const struct mixer_cfg *c, real *const *w, struct rng *r)
{
    (void)r;
    for (int h = 0; h < c->H; h++)
        w[BF][h] = c->H > 1 ? 3 + (real)3 * h / (c->H - 1) : 3;
}

static void angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->H;
    *dk = dk_of(c);
}

struct acts {
    real *row;          // (B, T, row), i and f capped
    real *log_f;        // (B, T, H)
    real *o;            // (B, T, H, dv)
    real *gated;        // as o
    real *core;         // kept of the core
};

struct grads {
    real *drow;         // as row
    real *d_o, *normed; // as o
    real *partial;      // of the norm
    real *core;         // scratch of the core
};

static struct norm head_norm(const struct mixer_cfg *c)
{
    return (struct norm){c->H, dv_of(c), false, (real)1e-6};
}

static struct scalar shape(const struct mixer_cfg *c, int B, int T)
{
    return (struct scalar){.B = B, .T = T, .H = c->H, .dk = dk_of(c), .dv = dv_of(c),
                           .den = SCALAR_MAX, .scale = 1 / (real)sqrt(dk_of(c))};
}

static struct scalar core_of(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct scalar s = shape(c, ctx->B, ctx->T);

    s.q = a->row, s.k = a->row + n_k(c), s.v = a->row + v_at(c);
    s.ld_q = s.ld_k = s.ld_v = s.ld_i = row(c);
    s.ld_o = n_v(c);
    s.log_f = a->log_f, s.ld_f = c->H;
    s.log_i = a->row + i_at(c);
    return s;
}

static size_t carve(struct acts *a, void *base, const struct mixer_cfg *c, int B, int T,
                    bool train)
{
    struct arena  m = arena_over(base);
    struct scalar core = shape(c, B, T);
    size_t        n = (size_t)B * T;

    a->row = arena_reals(&m, n * row(c));
    a->log_f = arena_reals(&m, n * c->H);
    a->o = arena_reals(&m, n * n_v(c));
    a->gated = arena_reals(&m, n * n_v(c));
    a->core = arena_reals(&m, train ? scalar_kept(&core) : 0);
    return m.used;
}

static size_t carve_grads(struct grads *g, void *base, const struct mixer_cfg *c, int B,
                          int T)
{
    struct arena  m = arena_over(base);
    struct scalar core = shape(c, B, T);
    struct norm   o = head_norm(c);
    size_t        n = (size_t)B * T;

    g->drow = arena_reals(&m, n * row(c));
    g->d_o = arena_reals(&m, n * n_v(c));
    g->normed = arena_reals(&m, n * n_v(c));
    g->partial = arena_reals(&m, norm_partial(&o));
    g->core = arena_reals(&m, scalar_scratch(&core));
    return m.used;
}

static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct scalar core = shape(c, B, T);
    struct acts   a;
    struct grads  g;
    size_t        extend = carve(&a, NULL, c, B, T, false);
    size_t        back = carve_grads(&g, NULL, c, B, T);

    s->kept = carve(&a, NULL, c, B, T, true);
    s->scratch = back > extend ? back : extend;
    s->state = scalar_state(&core) * sizeof(real);
}

static inline real cap(real z)
{
    return CAP * vtanh(z / CAP);
}

/* Cap i and f in their rows, and log_f = log sigmoid(f). */
static void gates(struct ctx *ctx, struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = (long)ctx->B * ctx->T;

    #pragma omp parallel for schedule(static) if (n > 64)
    for (long t = 0; t < n; t++) {
        real *i = a->row + t * row(c) + i_at(c), *f = i + c->H;

        for (int h = 0; h < c->H; h++) {
            i[h] = cap(i[h] + ctx->w[BI][h]);
            f[h] = cap(f[h] + ctx->w[BF][h]);
            a->log_f[t * c->H + h] = vlsig(f[h]);
        }
    }
}

/* x to rows of rotated q and k, v, g and gates. */
static void project(struct ctx *ctx, const real *x, struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;

    linear_forward(a->row, x, ctx->w[WQ], (long)ctx->B * ctx->T, c->C, row(c));
    rotate(&ctx->angles, a->row, ctx->B, ctx->T, c->H, row(c));
    rotate(&ctx->angles, a->row + n_k(c), ctx->B, ctx->T, c->H, row(c));
    gates(ctx, a);
}

static void normalise(const struct ctx *ctx, real *y, const real *o)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long  n = (long)ctx->B * ctx->T;
    struct norm s = head_norm(c);

    (c->opt[KIND] == LN ? ln_forward : rms_forward)
        (&s, y, n_v(c), o, n_v(c), ctx->w[NORM], n);
}

/* y from o and g. */
static void finish(struct ctx *ctx, struct acts *a, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = (long)ctx->B * ctx->T;
    const int  e = n_v(c);

    normalise(ctx, a->gated, a->o);
    gate_forward(GATE_SIGMOID, a->gated, e, a->gated, e, a->row + g_at(c), row(c), n, e);
    linear_forward(y, a->gated, ctx->w[WO], n, e, c->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts   a;
    struct scalar core;

    carve(&a, ctx->kept, ctx->cfg, ctx->B, ctx->T, true);
    core = core_of(ctx, &a);
    project(ctx, x, &a);
    scalar_forward(&core, a.o, a.core);
    finish(ctx, &a, y);
}

/* From dy to the gradients of o and g. */
static void finish_back(struct ctx *ctx, const struct acts *a, struct grads *g,
                        const real *dy)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long  n = (long)ctx->B * ctx->T;
    const int   e = n_v(c);
    struct norm s = head_norm(c);

    linear_backward(g->d_o, 0, ctx->dw[WO], dy, a->gated, ctx->w[WO], n, e, c->C);
    normalise(ctx, g->normed, a->o);
    gate_backward(GATE_SIGMOID, g->d_o, g->drow + g_at(c), row(c), g->d_o, e, g->normed,
                  e, a->row + g_at(c), row(c), n, e);
    (c->opt[KIND] == LN ? ln_backward : rms_backward)
        (&s, g->d_o, e, 0, ctx->dw[NORM], g->d_o, e, a->o, e, ctx->w[NORM], n, g->partial);
}

/* drow holds di and dlog_f; back through log sigmoid, whose slope is sigmoid(-f), and cap,
 * whose slope is 1 - (z/15)². */
static void gates_back(struct ctx *ctx, const struct acts *a, struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = (long)ctx->B * ctx->T;

    for (int h = 0; h < c->H; h++) {
        double di = 0, df = 0;

        for (long t = 0; t < n; t++) {
            const real *i = a->row + t * row(c) + i_at(c) + h, *f = i + c->H;
            real       *gi = g->drow + t * row(c) + i_at(c) + h, *gf = gi + c->H;

            *gi *= 1 - *i * *i / (CAP * CAP);
            *gf *= vsigmoid(-*f) * (1 - *f * *f / (CAP * CAP));
            di += *gi;
            df += *gf;
        }
        ctx->dw[BI][h] += (real)di;
        ctx->dw[BF][h] += (real)df;
    }
}

static void core_back(struct ctx *ctx, const struct acts *a, struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t  ld = row(c);
    struct scalar core = core_of(ctx, a);
    struct scalar_grad d = {
        .dq = g->drow, .dk = g->drow + n_k(c), .dv = g->drow + v_at(c),
        .ld_dq = ld, .ld_dk = ld, .ld_dv = ld,
        .dlog_i = g->drow + i_at(c), .dlog_f = g->drow + f_at(c),
        .ld_di = ld, .ld_df = ld,
    };

    scalar_backward(&core, &d, a->o, g->d_o, a->core, g->core);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int    B = ctx->B, T = ctx->T;
    const size_t ld = row(c), k = n_k(c);
    struct acts  a;
    struct grads g;

    carve(&a, ctx->kept, c, B, T, true);
    carve_grads(&g, ctx->scratch, c, B, T);
    finish_back(ctx, &a, &g, dy);
    core_back(ctx, &a, &g);
    gates_back(ctx, &a, &g);
    rotate_back(&ctx->angles, a.row, g.drow, B, T, c->H, ld, ld);
    rotate_back(&ctx->angles, a.row + k, g.drow + k, B, T, c->H, ld, ld);
    linear_backward(dx, 1, ctx->dw[WQ], g.drow, x, ctx->w[WQ], (long)B * T, c->C, row(c));
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    struct acts   a;
    struct scalar core;

    carve(&a, ctx->scratch, ctx->cfg, ctx->B, ctx->T, false);
    core = core_of(ctx, &a);
    project(ctx, x, &a);
    scalar_extend(&core, state, 0, a.o);
    finish(ctx, &a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * (2.0 * c->C * (row(c) + n_v(c)) +
                        c->H * scalar_flops(T, dk_of(c), dv_of(c)));
}

const struct mixer mixer_mlstm = {
    .name     = "mlstm",
    .about    = "linear attention with exponential input and forget gates (xLSTM)",
    .system   = "L = sigmoid(f_t) I, B = e^{i_t} I x k_t, C = I x q_t / max(|n_t.q_t|, 1)",
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
    .flops    = flops,
};
