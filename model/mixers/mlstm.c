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
#include "model/cores/scalar.h"
#include "model/kernels/vmath.h"
#include "model/mixer.h"
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
    real *row, *drow;           // (B, T, row), i and f capped
    real *log_f;                // (B, T, H)
    struct rows rows;
    struct leave out;
    struct scalar core;
    struct scalar_grad dcore;
    real *saved, *scratch;      // of the core
    size_t S;                   // where its state is
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t n = layout_tokens(m), ld = row(c);

    a->row = layout_keep(m, "row", n * ld);
    a->drow = layout_grad(m, "drow", n * ld);
    a->log_f = layout_keep(m, "log_f", n * c->H);
    a->rows = (struct rows){.w = WQ, .Hk = c->H, .k = n_k(c), .ld = ld};
    a->out = (struct leave){{c->H, dv_of(c), false, (real)1e-6},
                            .mean = c->opt[KIND] == LN, .act = GATE_SIGMOID, .w = NORM,
                            .wo = WO};
    leave_layout(&a->out, m);
    a->core = (struct scalar){
        .B = m->B, .T = m->T, .H = c->H, .dk = dk_of(c), .dv = dv_of(c),
        .den = SCALAR_MAX, .scale = 1 / (real)sqrt(dk_of(c)),
        .q = a->row, .k = layout_at(a->row, n_k(c)), .v = layout_at(a->row, v_at(c)),
        .log_i = layout_at(a->row, i_at(c)), .log_f = a->log_f,
        .ld_q = ld, .ld_k = ld, .ld_v = ld, .ld_i = ld, .ld_f = c->H, .ld_o = n_v(c),
    };
    a->dcore = (struct scalar_grad){
        .dq = a->drow, .dk = layout_at(a->drow, n_k(c)),
        .dv = layout_at(a->drow, v_at(c)),
        .dlog_i = layout_at(a->drow, i_at(c)), .dlog_f = layout_at(a->drow, f_at(c)),
        .ld_dq = ld, .ld_dk = ld, .ld_dv = ld, .ld_di = ld, .ld_df = ld,
    };
    a->saved = layout_save(m, "saved", scalar_kept(&a->core));
    a->scratch = layout_grad(m, "scratch", scalar_scratch(&a->core));
    a->S = layout_state(m, scalar_state(&a->core));
}

static inline real cap(real z)
{
    return CAP * vtanh(z / CAP);
}

/* Cap i and f in their rows, and log_f = log sigmoid(f). */
static void gates(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
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
static void project(const struct ctx *ctx, const real *x, const struct acts *a)
{
    rows_forward(ctx, &a->rows, a->row, x);
    gates(ctx, a);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    project(ctx, x, a);
    scalar_forward(&a->core, a->out.o, a->saved);
    leave_forward(ctx, &a->out, y, a->row + g_at(c), row(c));
}

/* drow holds di and dlog_f; back through log sigmoid, whose slope is sigmoid(-f), and
 * cap, whose slope is 1 - (z/15)². */
static void gates_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);

    for (int h = 0; h < c->H; h++) {
        double di = 0, df = 0;

        for (long t = 0; t < n; t++) {
            const real *i = a->row + t * row(c) + i_at(c) + h, *f = i + c->H;
            real       *gi = a->drow + t * row(c) + i_at(c) + h, *gf = gi + c->H;

            *gi *= 1 - *i * *i / (CAP * CAP);
            *gf *= vsigmoid(-*f) * (1 - *f * *f / (CAP * CAP));
            di += *gi;
            df += *gf;
        }
        ctx->dw[BI][h] += (real)di;
        ctx->dw[BF][h] += (real)df;
    }
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    leave_backward(ctx, &a->out, a->drow + g_at(c), dy, a->row + g_at(c), row(c));
    scalar_backward(&a->core, &a->dcore, a->out.o, a->out.d_o, a->saved, a->scratch);
    gates_back(ctx, a);
    rows_backward(ctx, &a->rows, dx, a->drow, a->row, x);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts *a = ctx->acts;

    project(ctx, x, a);
    scalar_extend(&a->core, state, a->S, a->out.o);
    leave_forward(ctx, &a->out, y, a->row + g_at(c), row(c));
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * (2.0 * c->C * (row(c) + n_v(c)) +
                        c->H * scalar_flops(T, dk_of(c), dv_of(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct acts *a = ctx->acts;

    range_logs(r, a->log_f, c->H, ctx_rows(ctx), c->H, 1);
    return c->H;
}

const struct mixer mixer_mlstm = {
    .name     = "mlstm",
    .about    = "linear attention with exponential input and forget gates (xLSTM)",
    .system   = "L = sigmoid(f_t) I, B = e^{i_t} I x k_t, "
                "C = I x q_t / max(|n_t.q_t|, 1)",
    .position = "none",
    .opts     = opts,
    .check    = check,
    .params   = params,
    .angles   = angles,
    .layout    = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
