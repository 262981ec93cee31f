/* Selective RoPE: rotations by angles that the input winds up (arXiv:2511.17388).
 *
 *     xh = x in A chunks of C/A, each divided by sqrt(|chunk|² + 1e-6)
 *     w = sr_b sr_a xh                                  low rank
 *     w_hj = s_h (W_hj / |W_hj|) . xh_h                 full (rank = 0)
 *     z = act(conv(w)) + e^bias,  z_h *= sigmoid(Wg xh + bg)_h
 *                                                 skip_conv: w_t - w_{t-1} for conv(w)
 *     theta_{t,j} = theta_{t-1,j} + f_j z_{t,j}                  j < n = dk/2
 *     f_j = max base^(-j/n)                                       temps=rope
 *           max tan(c j / (n - 1)) / tan(c),  c = 0.9999 pi/2     temps=rfa
 *
 * The second temperatures are those of random Fourier features of softmax's kernel: pair
 * 0 does not turn, the last one by far the most. The published copying runs have them,
 * with max=0.25 and skip_conv.
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

enum { BASE, RANK, ACT, GATE, BIAS, SKIP_CONV, TEMPS, MAX };

static const real EPS = (real)1e-6;

static const struct opt opts[] = {
    [BASE] = {"base", "pair j turns by base^(-2j/dk) of its increment",
              OPT_REAL, 5e5, 1, 1e12},
    [RANK] = {"rank", "of the projection to angles; 0: full, unit rows",
              OPT_INT, 0, 0, 4096},
    [ACT]  = {"act", "of the convolved increments",
              OPT_CHOICE, .choices = "silu|none|turn|half"},
    [GATE] = {"gate", "a gate per head scales the increments", OPT_FLAG, 1},
    [BIAS] = {"bias", "a positive increment that all tokens share", OPT_FLAG},
    [SKIP_CONV] = {"skip_conv", "no convolution: increments of the projection", OPT_FLAG},
    [TEMPS] = {"temps", "of the pairs: powers of base, or tangents",
               OPT_CHOICE, .choices = "rope|rfa"},
    [MAX]  = {"max", "the largest of them", OPT_REAL, 1, 1e-6, 1e6},
    {0},
};

enum { SILU, NO_ACT, TURN, HALF };              // values of ACT
enum { AS_ROPE, RFA };                          // values of TEMPS
static const real PI = (real)3.14159265358979323846;

static bool has_gate(const struct mixer_cfg *c) { return c->position_opt[GATE] > 0; }
static bool has_bias(const struct mixer_cfg *c) { return c->position_opt[BIAS] > 0; }
static bool skips(const struct mixer_cfg *c) { return c->position_opt[SKIP_CONV] > 0; }

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

    mixer_angles(c, &s.A, &dk);
    s.g = c->C / s.A;
    s.half = dk / 2;
    s.P = s.A * s.half;
    s.rank = (int)c->position_opt[RANK];
    return s;
}

/* ---- memory ------------------------------------------------------------------------ */

struct acts {
    struct shape s;
    struct act xh;              // (A, g)
    struct act low;             // (rank) sr_a xh
    struct act w;               // (P) before the convolution
    real    *z;                 // (B, T, P) after it
    struct act gate;            // (A), of its logits the gradient
    struct weight full, scale;  // (P, g), (A) of the full form
    struct weight bias, bg;     // (P), (A)
    real    *cos, *sin;         // (B, T, P)
    real    *u, *du;            // (P, g) rows s W / |W| of the full form
    double  *freq;              // (half) f
    double  *eb;                // (P) e^bias, or 0
    double  *run;               // (B, P) theta of forward; sums of backward
    double **theta;             // (B) of each sequence
    struct phase_grad phase;
    struct conv conv;
    struct weight taps;         // (P, CONV_TAPS); of skip_conv no parameter
    size_t   theta_at, past;    // where the states of theta and conv are, in reals
};

static void lay_out_back(struct acts *a, struct layout *m)
{
    const struct shape *s = &a->s;
    const size_t        heads = (size_t)s->B * s->A;

    a->du = layout_grad(m, "du", s->rank ? 0 : (size_t)s->P * s->g);
    a->phase.sum = a->run;
    a->phase.dz = layout_grad(m, "dz", s->n * s->P);
    a->phase.dlogit = a->gate.dx;
    a->phase.dmore = layout_grad_bytes(m, "dmore", heads * s->half * sizeof(double));
    a->phase.dlogits = layout_grad_bytes(m, "dlogits", heads * sizeof(double));
}

static void lay_out_weights(struct acts *a, struct layout *m, const struct mixer_cfg *c)
{
    const struct shape *s = &a->s;
    struct param taps = {"sr_conv", s->P, CONV_TAPS, INIT_NORMAL, 0.02};
    struct param gate = {"sr_wg", s->A, s->C, INIT_NORMAL, 0.02, .decay = true};

    if (s->rank) {
        a->low.w = layout_matrix(m, "sr_a", s->rank, s->C, INIT_INPUT);
        a->w.w = layout_matrix(m, "sr_b", s->P, s->rank, INIT_INPUT);
    } else {
        a->full = layout_weight(m, (struct param){"sr_w", s->P, s->g, INIT_INPUT,
                                                  .direct = true});
        a->scale = layout_vector(m, "sr_s", s->A, INIT_ONE);
        layout_flops(m, 2.0 * s->P * s->g);
    }
    if (skips(c)) {
        a->taps.w = layout_work(m, "taps", param_size(&taps));
        a->taps.dw = layout_grad(m, "dtaps", param_size(&taps));
    } else
        a->taps = layout_weight(m, taps);
    if (has_bias(c))
        a->bias = layout_vector(m, "sr_bias", s->P, INIT_ZERO);
    if (!has_gate(c))
        return;
    a->gate.w = layout_weight(m, gate);
    a->bg = layout_vector(m, "sr_bg", s->A, INIT_ZERO);
    layout_flops(m, 2.0 * s->A * s->C);
}

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts        *a = layout_acts(m, sizeof *a);
    const struct shape *s = &a->s;

    a->s = shape_of(c, m->B, m->T);
    a->xh = act_keep(m, "xh", s->C);
    a->low = act_by(act_keep(m, "low", s->rank), (struct weight){0}, s->C);
    a->w = act_by(act_keep(m, "w", s->P), (struct weight){0}, s->rank);
    a->gate = act_by(act_keep(m, "gate", s->A), (struct weight){0}, s->C);
    lay_out_weights(a, m, c);
    a->z = layout_keep(m, "z", s->n * s->P);
    a->cos = layout_keep(m, "cos", s->n * s->P);
    a->sin = layout_keep(m, "sin", s->n * s->P);
    a->u = layout_work(m, "u", s->rank ? 0 : (size_t)s->P * s->g);
    a->freq = layout_work_bytes(m, "freq", s->half * sizeof *a->freq);
    a->eb = layout_work_bytes(m, "eb", s->P * sizeof *a->eb);
    a->run = layout_work_bytes(m, "run", (size_t)s->B * s->P * sizeof *a->run);
    a->theta = layout_work_bytes(m, "theta", s->B * sizeof *a->theta);
    a->conv = (struct conv){
        .B = s->B, .T = s->T, .C = s->P, .ld_x = s->P, .ld_y = s->P, .w = a->taps.w,
        .silu = c->position_opt[ACT] == SILU,
    };
    a->theta_at = layout_state_doubles(m, s->P);
    a->past = layout_state(m, conv_state(&a->conv));
    lay_out_back(a, m);
    layout_flops(m, 22.0 * s->P);   // convolution and sum 8, rotation 12, sine and cosine
}

/* ---- from x to angles -------------------------------------------------------------- */

/* f_j of n pairs. */
static double temperature(const struct mixer_cfg *c, int j, int n)
{
    const double most = c->position_opt[MAX], corner = 0.9999 * M_PI / 2;

    if (c->position_opt[TEMPS] == RFA)
        return n > 1 ? most * tan(corner * j / (n - 1)) / tan(corner) : most;
    return most * pow(c->position_opt[BASE], -(double)j / n);
}

static void prepare(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct shape     *s = &a->s;

    for (int j = 0; j < s->half; j++)
        a->freq[j] = temperature(c, j, s->half);
    for (int p = 0; p < s->P; p++)
        a->eb[p] = has_bias(c) ? exp((double)a->bias.w[p]) : 0;
    for (int i = 0; skips(c) && i < s->P * CONV_TAPS; i++)
        a->taps.w[i] = i % CONV_TAPS == CONV_TAPS - 1   ? 1
                       : i % CONV_TAPS == CONV_TAPS - 2 ? -1 : 0;
    for (int p = 0; !s->rank && p < s->P; p++)
        unit(a->u + (size_t)p * s->g, a->full.w + (size_t)p * s->g, s->g, 0,
             a->scale.w[p / s->half]);
}

/* w = u xh, head by head. */
static void project_full(const struct acts *a)
{
    const struct shape *s = &a->s;
    const long          tile = product_tile(s->n);

    #pragma omp parallel for collapse(2) schedule(static) if (s->n > tile)
    for (long i = 0; i < s->n; i += tile)
        for (int h = 0; h < s->A; h++)
            gemm_nt(a->w.x + i * s->P + h * s->half, s->P,
                    a->xh.x + i * s->C + h * s->g, s->C,
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
        unit(a->xh.x + i * s->g, x + i * s->g, s->g, EPS, 1);
    if (s->rank) {
        proj_forward(ctx, a->low, a->xh.x);
        proj_forward(ctx, a->w, a->low.x);
    } else {
        project_full(a);
    }
    if (!has_gate(c))
        return;
    proj_forward(ctx, a->gate, a->xh.x);
    for (long i = 0; i < s->n * s->A; i++)
        a->gate.x[i] = vsigmoid(a->gate.x[i] + a->bg.w[i % s->A]);
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
        .more = a->eb, .z = a->z, .gate = has_gate(ctx->cfg) ? a->gate.x : NULL,
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
    conv_forward(&a->conv, a->z, a->w.x);
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
    conv_extend(&a->conv, state, a->past, a->z, a->w.x);
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
                gemm_nn(a->xh.dx + i * s->C + h * s->g, s->C,
                        a->w.dx + i * s->P + h * s->half, s->P, a->u + h * head, s->g,
                        (int)(s->n - i < tile ? s->n - i : tile), s->g, s->half, 1, 0);
        #pragma omp for schedule(dynamic)
        for (int h = 0; h < s->A; h++)
            gemm_tn(a->du + h * head, s->g, a->w.dx + h * s->half, s->P,
                    a->xh.x + h * s->g, s->C, s->half, s->g, (int)s->n, 1, 0);
    }
}

/* With v = W / |W|, u = s v:  ds_h += sum_j v_hj . du_hj,  dW += (s / |W|)
 * (du - v (v . du)). */
static void full_weights(const struct acts *a)
{
    const struct shape *s = &a->s;

    for (int p = 0; p < s->P; p++) {
        size_t at = (size_t)p * s->g;
        int    h = p / s->half;

        a->scale.dw[h] += unit_back(a->full.dw + at, a->du + at, a->full.w + at, s->g, 0,
                                    a->scale.w[h]);
    }
}

/* From dw to dxh and the gradients of the projections. */
static void project_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct shape     *s = &a->s;

    if (s->rank) {
        proj_backward(ctx, a->low.dx, 0, a->w, a->low.x);
        proj_backward(ctx, a->xh.dx, 0, a->low, a->xh.x);
    } else {
        full_back(a);
        full_weights(a);
    }
    if (has_gate(c))
        proj_backward(ctx, a->xh.dx, 1, a->gate, a->xh.x);
}

/* Over the batch, in order:  dbias = e^bias sum dz,  dbg = sum dlogit. */
static void sum_biases(const struct ctx *ctx, const struct acts *a)
{
    const struct shape *s = &a->s;

    for (int i = 0; has_bias(ctx->cfg) && i < s->B * s->P; i++)
        a->bias.dw[i % s->P] += (real)(a->eb[i % s->P] * a->phase.dmore[i]);
    for (int i = 0; has_gate(ctx->cfg) && i < s->B * s->A; i++)
        a->bg.dw[i % s->A] += (real)a->phase.dlogits[i];
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
    conv_backward(&a->conv, a->w.dx, a->taps.dw, NULL, a->phase.dz, a->w.x);
    project_back(ctx, a);
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < s->n * s->A; i++)
        unit_back(dx + i * s->g, a->xh.dx + i * s->g, x + i * s->g, s->g, EPS, 1);
}

const struct position position_srope = {
    .name     = "srope",
    .about    = "selective rotary: angles grow by what the tokens say",
    .opts     = opts,
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
};
