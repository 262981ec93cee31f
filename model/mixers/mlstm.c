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

enum { DK, DV, KIND };
enum { LN, RMS };
enum { CAP = 15 };

static const struct opt opts[] = {
    [DK]   = {"dk", "of q and k of a head; 0: width / heads / 2", OPT_INT, 0, 0, 4096},
    [DV]   = {"dv", "of v of a head; 0: width / heads", OPT_INT, 0, 0, 4096},
    [KIND] = {"norm", "the norm of a head's output", OPT_CHOICE, LN, .choices = "ln|rms"},
    {0},
};

struct acts {
    struct act row, q, k, v, g; // q, k (H, dk), v, g (H, dv)
    struct act i, f;            // (H) the rest of the row, capped
    struct act log_f;           // (H)
    struct weight bi, bf;       // (H)
    struct scalar_heads core;
    struct heads_out out;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    H = c->H, dk = opt_or(c, DK, c->C / H / 2), dv = opt_or(c, DV, c->C / H);

    layout_require(m, dk > 0, "width / heads is 1, too small to halve; set dk");
    a->row = act_row(m, (struct act_part[]){
        {"wq", &a->q, H * dk}, {"wk", &a->k, H * dk}, {"wv", &a->v, H * dv},
        {"wg", &a->g, H * dv, INIT_ZERO}, {"wi", &a->i, H, INIT_ZERO},
        {"wf", &a->f, H, INIT_ZERO}, {0}});
    layout_rotates(m, H, dk);
    a->bi = layout_weight(m, (struct param){"bi", H, 0, INIT_CONST, -10});
    a->bf = layout_vector(m, "bf", H, INIT_OWN);
    a->log_f = act_keep(m, "log_f", H);
    a->core = scalar_heads_layout(m, a->q, a->k, a->v, (struct scalar){
        .H = H, .dk = dk, .dv = dv, .den = SCALAR_MAX});
    scalar_heads_input(&a->core, a->i);
    scalar_heads_forget(&a->core, a->log_f);
    a->out.w = layout_vector(m, "norm", H * dv, INIT_ONE);
    a->out.wo = layout_out(m, H * dv);
    heads_out_layout(&a->out, m, (struct norm){
        H, dv, .eps = (real)1e-6, .centre = c->opt[KIND] == LN}, GATE_SIGMOID,
        a->core.o, a->g);
    m->paper_state = (double)H * (dk * (dv + 1) + 1);
}

/* Forget gates from 3 to 6: memories of 20 to 400 tokens. */
static void init(const struct mixer_cfg *c, void *acts, struct rng *r)
{
    struct acts *a = acts;

    (void)r;
    for (int h = 0; h < c->H; h++)
        a->bf.w[h] = c->H > 1 ? 3 + (real)3 * h / (c->H - 1) : 3;
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
            i[h] = cap(i[h] + a->bi.w[h]);
            f[h] = cap(f[h] + a->bf.w[h]);
            a->log_f.x[t * H + h] = vlsig(f[h]);
        }
    }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    heads_project(ctx, a->row, a->q, a->k, x);
    gates(ctx, a);
    scalar_heads_forward(ctx, &a->core);
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
        a->bi.dw[h] += (real)di;
        a->bf.dw[h] += (real)df;
    }
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    heads_out_backward(ctx, &a->out, dy);
    scalar_heads_backward(&a->core);
    gates_back(ctx, a);
    heads_project_back(ctx, dx, 0, a->row, a->q, a->k, x);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;

    return decay_of_logs(ctx, r, a->log_f.x, ctx->cfg->H, 1);
}

const struct mixer mixer_mlstm = {
    .name     = "mlstm",
    .about    = "linear attention with exponential input and forget gates (xLSTM)",
    .position = "none",
    .opts     = opts,
    .layout   = layout,
    .init     = init,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = sigmoid(f_t) I, B = e^{i_t} I x k_t, "
                  "C = I x q_t / max(|n_t.q_t|, 1)",
        .decay = decay,
    },
};
