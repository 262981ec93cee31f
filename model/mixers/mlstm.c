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
#include "model/kernels/vmath.h"
#include "model/mixer_heads.h"

#include <math.h>

enum { WQ, WK, WV, WG, WI, WF, BI, BF, NORM, WO, N_PARAMS };
enum { DK, DV, KIND };
enum { LN, RMS };
enum { CAP = 15 };

static const struct opt opts[] = {
    [DK]   = {"dk", "of q and k of a head; 0: width / heads / 2",
              OPT_INT, NULL, 0, 0, 4096},
    [DV]   = {"dv", "of v of a head; 0: width / heads", OPT_INT, NULL, 0, 0, 4096},
    [KIND] = {"norm", "the norm of a head's output", OPT_CHOICE, "ln|rms", LN, 0, 0},
    {0},
};

static int dk_of(const struct mixer_cfg *c) { return opt_or(c, DK, c->C / c->H / 2); }
static int dv_of(const struct mixer_cfg *c) { return opt_or(c, DV, c->C / c->H); }

/* Channels of q or k, and of v, g or o. */
static int n_k(const struct mixer_cfg *c) { return c->H * dk_of(c); }
static int n_v(const struct mixer_cfg *c) { return c->H * dv_of(c); }

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
    struct act row, q, k, v, g; // q, k (H, dk), v, g (H, dv)
    struct act i, f;            // (H) the rest of the row, capped
    struct act log_f;           // (H)
    struct heads_in in;
    struct scalar_heads core;
    struct heads_out out;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);

    a->row = act_row(m, (struct act_part[]){
        {&a->q, n_k(c)}, {&a->k, n_k(c)}, {&a->v, n_v(c)}, {&a->g, n_v(c)}, {&a->i, c->H},
        {&a->f, c->H}, {0}});
    a->log_f = act_keep(m, "log_f", c->H);
    a->in = (struct heads_in){.w = WQ, .Hk = c->H, .row = a->row, .k = a->k};
    a->core.core = (struct scalar){
        .H = c->H, .dk = dk_of(c), .dv = dv_of(c), .den = SCALAR_MAX,
        .scale = 1 / (real)sqrt(dk_of(c)), .log_i = a->i.x, .ld_i = a->i.ld,
        .log_f = a->log_f.x, .ld_f = a->log_f.ld,
    };
    scalar_heads_layout(&a->core, m, a->q, a->k, a->v);
    a->core.grad.dlog_i = a->i.dx, a->core.grad.ld_di = a->i.ld;
    a->core.grad.dlog_f = a->log_f.dx, a->core.grad.ld_df = a->log_f.ld;
    a->out = (struct heads_out){{c->H, dv_of(c), .eps = (real)1e-6},
                                .mean = c->opt[KIND] == LN, .act = GATE_SIGMOID,
                                .w = NORM, .wo = WO, .g = a->g};
    heads_out_layout(&a->out, m);
}

static inline real cap(real z)
{
    return CAP * vtanh(z / CAP);
}

/* Cap i and f in their rows, and log_f = log sigmoid(f). */
static void gates(const struct ctx *ctx, const struct acts *a)
{
    const long n = ctx_rows(ctx);
    const int  H = ctx->cfg->H;

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long t = 0; t < n; t++) {
        real *i = a->i.x + t * a->row.ld, *f = a->f.x + t * a->row.ld;

        for (int h = 0; h < H; h++) {
            i[h] = cap(i[h] + ctx->w[BI][h]);
            f[h] = cap(f[h] + ctx->w[BF][h]);
            a->log_f.x[t * H + h] = vlsig(f[h]);
        }
    }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    heads_in_forward(ctx, &a->in, x);
    gates(ctx, a);
    scalar_heads_forward(ctx, &a->core, a->out.o.x);
    heads_out_forward(ctx, &a->out, y);
}

/* Back through log sigmoid, whose slope is sigmoid(-f), and cap, whose slope
 * is 1 - (z/15)². */
static void gates_back(const struct ctx *ctx, const struct acts *a)
{
    const size_t ld = a->row.ld;
    const int    H = ctx->cfg->H;

    for (int h = 0; h < H; h++) {
        double di = 0, df = 0;

        for (long t = 0; t < ctx_rows(ctx); t++) {
            real i = a->i.x[t * ld + h], f = a->f.x[t * ld + h];
            real *gi = a->i.dx + t * ld + h, *gf = a->f.dx + t * ld + h;

            *gi *= 1 - i * i / (CAP * CAP);
            *gf = a->log_f.dx[t * H + h] * (vsigmoid(-f) * (1 - f * f / (CAP * CAP)));
            di += *gi;
            df += *gf;
        }
        ctx->dw[BI][h] += (real)di;
        ctx->dw[BF][h] += (real)df;
    }
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    heads_out_backward(ctx, &a->out, dy);
    scalar_heads_backward(&a->core, a->out.o);
    gates_back(ctx, a);
    heads_in_backward(ctx, &a->in, dx, x);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * (2.0 * c->C * (2 * n_k(c) + 3 * n_v(c) + 2 * c->H) +
                        c->H * scalar_flops(T, dk_of(c), dv_of(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;

    return decay_of_logs(ctx, r, a->log_f.x, ctx->cfg->H, 1);
}

static double state(const struct mixer_cfg *c)
{
    return (double)c->H * (dk_of(c) * (dv_of(c) + 1) + 1);
}

const struct mixer mixer_mlstm = {
    .name     = "mlstm",
    .about    = "linear attention with exponential input and forget gates (xLSTM)",
    .position = "none",
    .opts     = opts,
    .check    = check,
    .params   = params,
    .angles   = angles,
    .layout   = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .flops    = flops,
    .instruments = &(struct instruments){
        .system = "L = sigmoid(f_t) I, B = e^{i_t} I x k_t, "
                  "C = I x q_t / max(|n_t.q_t|, 1)",
        .state = state, .decay = decay,
    },
};
