/* Selective RoPE: rotations by angles that the input winds up (arXiv:2511.17388).
 *
 *     xh = x in A chunks of C/A, each divided by sqrt(|chunk|² + 1e-6)
 *     w = sr_b sr_a xh                                  low rank
 *     w_hj = s_h (W_hj / |W_hj|) . xh_h                 full (rank = 0)
 *     z = act(conv(w)) + e^bias,  z_h *= sigmoid(Wg xh + bg)_h
 *                                                 skip_conv: w_t - w_{t-1} for conv(w)
 *     theta_{t,j} = theta_{t-1,j} + base^(-2j/dk) z_{t,j}        j < dk/2
 *
 * There are A heads of angles, one for each key head. Increments 1 are RoPE, increments 0
 * no encoding at all. Two acts are weft's own, so that turns that are learned do not
 * drift: turn, pi tanh, saturates at half a turn either way; half, pi sigmoid, at none
 * and at half a turn, the two that parity needs.
 */
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "model/layers/conv.h"
#include "model/layers/unit.h"
#include "model/layers/phase.h"
#include "model/mixer_acts.h"

#include <math.h>
#include <string.h>

enum { SR_A, SR_B, MORE };              // then those of conv, of bias, of gate
enum { SR_W = SR_A, SR_S = SR_B };
enum { SR_CONV = MORE };
enum { BASE, RANK, ACT, GATE, BIAS, SKIP_CONV };

static const real EPS = (real)1e-6;

static const struct opt opts[] = {
    [BASE] = {"base", "pair j turns by base^(-2j/dk) of its increment",
              OPT_REAL, NULL, 5e5, 1, 1e12},
    [RANK] = {"rank", "of the projection to angles; 0: full, unit rows",
              OPT_INT, NULL, 0, 0, 4096},
    [ACT]  = {"act", "of the convolved increments", OPT_CHOICE,
              "silu|none|turn|half", 0, 0, 0},
    [GATE] = {"gate", "a gate per head scales the increments", OPT_FLAG, NULL, 1, 0, 1},
    [BIAS] = {"bias", "a positive increment that all tokens share",
              OPT_FLAG, NULL, 0, 0, 1},
    [SKIP_CONV] = {"skip_conv", "no convolution: increments of the projection",
                   OPT_FLAG, NULL, 0, 0, 1},
    {0},
};

enum { SILU, NO_ACT, TURN, HALF };              // values of ACT
static const real PI = (real)3.14159265358979323846;

static bool has_gate(const struct mixer_cfg *c) { return c->position_opt[GATE] > 0; }
static bool has_bias(const struct mixer_cfg *c) { return c->position_opt[BIAS] > 0; }

static bool skips(const struct mixer_cfg *c) { return c->position_opt[SKIP_CONV] > 0; }

static int bias_at(const struct mixer_cfg *c) { return MORE + !skips(c); }
static int wg_at(const struct mixer_cfg *c) { return bias_at(c) + has_bias(c); }
static int bg_at(const struct mixer_cfg *c) { return wg_at(c) + 1; }

struct shape {
    int  B, T, C;
    int  A, g;          // heads of angles, and the width of a chunk of x: C = A g
    int  half, P;       // angles of a head, of all heads
    int  rank;          // 0: full
    long n;             // B T
};

static struct shape shape_of(const struct mixer_cfg *c, int B, int T)
{
    struct shape s = {.B = B, .T = T, .C = c->C, .n = (long)B * T};
    int          dk;

    c->mixer->angles(c, &s.A, &dk);
    s.g = c->C / s.A;
    s.half = dk / 2;
    s.P = s.A * s.half;
    s.rank = (int)c->position_opt[RANK];
    return s;
}

static int params(const struct mixer_cfg *c, struct param *p)
{
    struct shape s = shape_of(c, 0, 0);

    if (s.rank) {
        p[SR_A] = (struct param){"sr_a", s.rank, s.C, INIT_INPUT, .decay = true};
        p[SR_B] = (struct param){"sr_b", s.P, s.rank, INIT_INPUT, .decay = true};
    } else {
        p[SR_W] = (struct param){"sr_w", s.P, s.g, INIT_INPUT};
        p[SR_S] = (struct param){"sr_s", s.A, 0, INIT_ONE};
    }
    if (!skips(c))
        p[SR_CONV] = (struct param){"sr_conv", s.P, CONV_TAPS, INIT_NORMAL, 0.02};
    if (has_bias(c))
        p[bias_at(c)] = (struct param){"sr_bias", s.P, 0, INIT_ZERO};
    if (!has_gate(c))
        return wg_at(c);
    p[wg_at(c)] = (struct param){"sr_wg", s.A, s.C, INIT_NORMAL, 0.02, .decay = true};
    p[bg_at(c)] = (struct param){"sr_bg", s.A, 0, INIT_ZERO};
    return bg_at(c) + 1;
}

/* ---- memory ------------------------------------------------------------------------ */

struct acts {
    struct shape s;
    real    *xh, *dxh;          // (B, T, A, g)
    real    *low, *dlow;        // (B, T, rank) sr_a xh
    real    *w, *z, *dw;        // (B, T, P) before and after convolution
    real    *gate;              // (B, T, A)
    real    *cos, *sin;         // (B, T, P)
    real    *u, *du;            // (P, g) rows s W / |W| of the full form
    real    *taps, *dtaps;      // (P, 4) of skip_conv, and what is not asked for
    double  *freq;              // (half) base^(-2j/dk)
    double  *eb;                // (P) e^bias, or 0
    double  *run;               // (B, P) theta of forward; sums of backward
    double **theta;             // (B) of each sequence
    struct phase_grad phase;
    struct conv conv;
    size_t   theta_at, past;    // where the states of theta and conv are, in reals
};

static void lay_out_back(struct acts *a, struct layout *m, const struct mixer_cfg *c)
{
    const struct shape *s = &a->s;
    const size_t        heads = (size_t)s->B * s->A;

    a->dw = layout_grad(m, "dw", s->n * s->P);
    a->dlow = layout_grad(m, "dlow", s->n * s->rank);
    a->dxh = layout_grad(m, "dxh", s->n * s->C);
    a->du = layout_grad(m, "du", s->rank ? 0 : (size_t)s->P * s->g);
    a->dtaps = layout_grad(m, "dtaps", skips(c) ? (size_t)s->P * CONV_TAPS : 0);
    a->phase.sum = a->run;
    a->phase.dz = layout_grad(m, "dz", s->n * s->P);
    a->phase.dlogit = layout_grad(m, "dlogit", s->n * s->A);
    a->phase.dmore = layout_grad_bytes(m, "dmore", heads * s->half * sizeof(double));
    a->phase.dlogits = layout_grad_bytes(m, "dlogits", heads * sizeof(double));
}

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts        *a = layout_acts(m, sizeof *a);
    const struct shape *s = &a->s;

    a->s = shape_of(c, m->B, m->T);
    a->xh = layout_keep(m, "xh", s->n * s->C);
    a->low = layout_keep(m, "low", s->n * s->rank);
    a->w = layout_keep(m, "w", s->n * s->P);
    a->z = layout_keep(m, "z", s->n * s->P);
    a->gate = layout_keep(m, "gate", s->n * s->A);
    a->cos = layout_keep(m, "cos", s->n * s->P);
    a->sin = layout_keep(m, "sin", s->n * s->P);
    a->u = layout_work(m, "u", s->rank ? 0 : (size_t)s->P * s->g);
    a->freq = layout_work_bytes(m, "freq", s->half * sizeof *a->freq);
    a->eb = layout_work_bytes(m, "eb", s->P * sizeof *a->eb);
    a->run = layout_work_bytes(m, "run", (size_t)s->B * s->P * sizeof *a->run);
    a->theta = layout_work_bytes(m, "theta", s->B * sizeof *a->theta);
    a->taps = skips(c) ? layout_work(m, "taps", (size_t)s->P * CONV_TAPS) : NULL;
    a->conv = (struct conv){
        .B = s->B, .T = s->T, .C = s->P, .ld_x = s->P, .ld_y = s->P,
        .w = skips(c) ? a->taps : layout_param(m, SR_CONV),
        .silu = c->position_opt[ACT] == SILU,
    };
    a->theta_at = layout_state_doubles(m, s->P);
    a->past = layout_state(m, conv_state(&a->conv));
    lay_out_back(a, m, c);
}

/* ---- from x to angles -------------------------------------------------------------- */

static void prepare(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct shape     *s = &a->s;

    for (int j = 0; j < s->half; j++)
        a->freq[j] = pow(c->position_opt[BASE], -(double)j / s->half);
    for (int p = 0; p < s->P; p++)
        a->eb[p] = has_bias(c) ? exp((double)ctx->w[bias_at(c)][p]) : 0;
    for (int i = 0; skips(c) && i < s->P * CONV_TAPS; i++)
        a->taps[i] = i % CONV_TAPS == CONV_TAPS - 1   ? 1
                     : i % CONV_TAPS == CONV_TAPS - 2 ? -1 : 0;
    for (int p = 0; !s->rank && p < s->P; p++)
        unit(a->u + (size_t)p * s->g, ctx->w[SR_W] + (size_t)p * s->g, s->g, 0,
             ctx->w[SR_S][p / s->half]);
}

/* w = u xh, head by head. */
static void project_full(const struct acts *a)
{
    const struct shape *s = &a->s;
    const long          tile = product_tile(s->n);

    #pragma omp parallel for collapse(2) schedule(static) if (s->n > tile)
    for (long i = 0; i < s->n; i += tile)
        for (int h = 0; h < s->A; h++)
            gemm_nt(a->w + i * s->P + h * s->half, s->P,
                    a->xh + i * s->C + h * s->g, s->C,
                    a->u + (size_t)h * s->half * s->g, s->g,
                    (int)(s->n - i < tile ? s->n - i : tile), s->half, s->g, 1, 0);
}

/* x to the inputs of the convolution, and to the gates. */
static void project(const struct ctx *ctx, const struct acts *a, const real *x)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct shape     *s = &a->s;

    #pragma omp parallel for schedule(static) if (s->n > FEW_ROWS)
    for (long i = 0; i < s->n * s->A; i++)
        unit(a->xh + i * s->g, x + i * s->g, s->g, EPS, 1);
    if (s->rank) {
        proj_forward(a->low, a->xh, ctx->w[SR_A], s->n, s->C, s->rank);
        proj_forward(a->w, a->low, ctx->w[SR_B], s->n, s->rank, s->P);
    } else {
        project_full(a);
    }
    if (!has_gate(c))
        return;
    proj_forward(a->gate, a->xh, ctx->w[wg_at(c)], s->n, s->C, s->A);
    for (long i = 0; i < s->n * s->A; i++)
        a->gate[i] = vsigmoid(a->gate[i] + ctx->w[bg_at(c)][i % s->A]);
}

/* act = turn or half, of all that was convolved: pi tanh(z), pi sigmoid(z). */
static void saturate(const struct ctx *ctx, const struct acts *a)
{
    const int act = (int)ctx->cfg->position_opt[ACT];

    for (long i = 0; act == TURN && i < a->s.n * a->s.P; i++)
        a->z[i] = PI * vtanh(a->z[i]);
    for (long i = 0; act == HALF && i < a->s.n * a->s.P; i++)
        a->z[i] = PI * vsigmoid(a->z[i]);
}

/* dz (1 - (z / pi)²) pi, dz (1 - z / pi) z. */
static void saturate_back(const struct ctx *ctx, const struct acts *a)
{
    const int act = (int)ctx->cfg->position_opt[ACT];

    for (long i = 0; act == TURN && i < a->s.n * a->s.P; i++)
        a->phase.dz[i] *= PI - a->z[i] * a->z[i] / PI;
    for (long i = 0; act == HALF && i < a->s.n * a->s.P; i++)
        a->phase.dz[i] *= a->z[i] * (1 - a->z[i] / PI);
}

static struct phase phase_of(const struct ctx *ctx, const struct acts *a)
{
    const struct shape *s = &a->s;

    return (struct phase){
        .B = s->B, .T = s->T, .heads = s->A, .half = s->half, .freq = a->freq,
        .more = a->eb, .z = a->z, .gate = has_gate(ctx->cfg) ? a->gate : NULL,
    };
}

static void set_angles(struct ctx *ctx, const struct acts *a)
{
    const struct shape *s = &a->s;
    struct phase        o = phase_of(ctx, a);

    phase_forward(&o, a->theta, a->cos, a->sin);
    ctx->angles = (struct angles){
        .heads = s->A, .dk = 2 * s->half, .b = (size_t)s->T * s->P, .t = s->P,
        .h = s->half, .cos = a->cos, .sin = a->sin,
    };
}

static void forward(struct ctx *ctx, const real *x)
{
    struct acts *a = ctx->acts;

    memset(a->run, 0, (size_t)ctx->B * a->s.P * sizeof *a->run);
    for (int b = 0; b < ctx->B; b++)
        a->theta[b] = a->run + (size_t)b * a->s.P;
    prepare(ctx, a);
    project(ctx, a, x);
    conv_forward(&a->conv, a->z, a->w);
    saturate(ctx, a);
    set_angles(ctx, a);
}

static void extend(struct ctx *ctx, void *const *state, const real *x)
{
    struct acts *a = ctx->acts;

    for (int b = 0; b < ctx->B; b++)
        a->theta[b] = (double *)((real *)state[b] + a->theta_at);
    prepare(ctx, a);
    project(ctx, a, x);
    conv_extend(&a->conv, state, a->past, a->z, a->w);
    saturate(ctx, a);
    set_angles(ctx, a);
}

/* ---- back -------------------------------------------------------------------------- */

/* dxh = dw u,  du = dwᵀ xh, head by head. */
static void full_back(const struct acts *a)
{
    const struct shape *s = &a->s;
    const long          tile = product_tile(s->n);
    const size_t        head = (size_t)s->half * s->g;

    #pragma omp parallel
    {
        #pragma omp for collapse(2) schedule(static) nowait
        for (long i = 0; i < s->n; i += tile)
            for (int h = 0; h < s->A; h++)
                gemm_nn(a->dxh + i * s->C + h * s->g, s->C,
                        a->dw + i * s->P + h * s->half, s->P, a->u + h * head, s->g,
                        (int)(s->n - i < tile ? s->n - i : tile), s->g, s->half, 1, 0);
        #pragma omp for schedule(dynamic)
        for (int h = 0; h < s->A; h++)
            gemm_tn(a->du + h * head, s->g, a->dw + h * s->half, s->P,
                    a->xh + h * s->g, s->C, s->half, s->g, (int)s->n, 1, 0);
    }
}

/* With v = W / |W|, u = s v:  ds_h += sum_j v_hj . du_hj,  dW += (s / |W|)
 * (du - v (v . du)). */
static void full_weights(const struct ctx *ctx, const struct shape *s, const real *du)
{
    for (int p = 0; p < s->P; p++) {
        size_t at = (size_t)p * s->g;
        int    h = p / s->half;

        ctx->dw[SR_S][h] += unit_back(ctx->dw[SR_W] + at, du + at,
                                      ctx->w[SR_W] + at, s->g, 0, ctx->w[SR_S][h]);
    }
}

/* From dw to dxh and the gradients of the projections. */
static void project_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct shape     *s = &a->s;

    if (s->rank) {
        proj_backward(a->dlow, 0, ctx->dw[SR_B], a->dw, a->low, ctx->w[SR_B], s->n,
                      s->rank, s->P);
        proj_backward(a->dxh, 0, ctx->dw[SR_A], a->dlow, a->xh, ctx->w[SR_A], s->n, s->C,
                      s->rank);
    } else {
        full_back(a);
        full_weights(ctx, s, a->du);
    }
    if (has_gate(c))
        proj_backward(a->dxh, 1, ctx->dw[wg_at(c)], a->phase.dlogit, a->xh,
                      ctx->w[wg_at(c)], s->n, s->C, s->A);
}

/* Over the batch, in order:  dbias = e^bias sum dz,  dbg = sum dlogit. */
static void sum_biases(const struct ctx *ctx, const struct acts *a)
{
    const struct shape *s = &a->s;

    for (int i = 0; has_bias(ctx->cfg) && i < s->B * s->P; i++)
        ctx->dw[bias_at(ctx->cfg)][i % s->P] +=
            (real)(a->eb[i % s->P] * a->phase.dmore[i]);
    for (int i = 0; has_gate(ctx->cfg) && i < s->B * s->A; i++)
        ctx->dw[bg_at(ctx->cfg)][i % s->A] += (real)a->phase.dlogits[i];
}

static void backward(struct ctx *ctx, const real *x, real *dx)
{
    struct acts        *a = ctx->acts;
    const struct shape *s = &a->s;
    struct phase        o;

    prepare(ctx, a);
    o = phase_of(ctx, a);
    phase_backward(&o, &a->phase, ctx->angles.dtheta);
    sum_biases(ctx, a);
    saturate_back(ctx, a);
    conv_backward(&a->conv, a->dw, skips(ctx->cfg) ? a->dtaps : ctx->dw[SR_CONV],
                  NULL, a->phase.dz, a->w);
    project_back(ctx, a);
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < s->n * s->A; i++)
        unit_back(dx + i * s->g, a->dxh + i * s->g, x + i * s->g, s->g, EPS, 1);
}

/* Convolution and sum 8 P, rotation 12 P, a sine and a cosine of each angle. */
static double flops(const struct mixer_cfg *c, int T)
{
    struct shape s = shape_of(c, 1, T);
    double       P = s.P, C = s.C, angles = s.rank ? 2 * s.rank * (C + P)
                                                   : 2 * C * s.half;

    return T * (angles + (has_gate(c) ? 2 * C * s.A : 0) + 22 * P);
}

const struct position position_srope = {
    .name     = "srope",
    .about    = "selective rotary: angles grow by what the tokens say",
    .opts     = opts,
    .params   = params,
    .layout    = layout,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .flops    = flops,
};
