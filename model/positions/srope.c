/* Selective RoPE: rotations by angles that the input winds up (arXiv:2511.17388).
 *
 *     xh = x in A chunks of C/A, each divided by sqrt(|chunk|² + 1e-6)
 *     w = sr_b sr_a xh                                  low rank
 *     w_hj = s_h (W_hj / |W_hj|) . xh_h                 full (rank = 0)
 *     z = act(conv(w)) + e^bias,  z_h *= sigmoid(Wg xh + bg)_h
 *     theta_{t,j} = theta_{t-1,j} + base^(-2j/dk) z_{t,j}        j < dk/2
 *
 * There are A heads of angles, one for each key head. Increments 1 are RoPE, increments 0 no
 * encoding at all.
 */
#include "model/arena.h"
#include "model/conv.h"
#include "model/linear.h"
#include "model/mixer.h"
#include "model/unit.h"
#include "model/vmath.h"
#include "model/winding.h"

#include <math.h>
#include <string.h>

enum { SR_A, SR_B, SR_W = SR_A, SR_S = SR_B, SR_CONV, SR_MORE };
enum { BASE, RANK, ACT, GATE, BIAS };

static const real EPS = (real)1e-6;

static const struct opt opts[] = {
    [BASE] = {"base", "pair j turns by base^(-2j/dk) of its increment", OPT_REAL, NULL, 5e5, 1, 1e12},
    [RANK] = {"rank", "of the projection to angles; 0: full, unit rows", OPT_INT, NULL, 0, 0, 4096},
    [ACT]  = {"act", "of the convolved increments", OPT_CHOICE, "silu|none", 0, 0, 0},
    [GATE] = {"gate", "a gate per head scales the increments", OPT_FLAG, NULL, 1, 0, 1},
    [BIAS] = {"bias", "a positive increment that all tokens share", OPT_FLAG, NULL, 0, 0, 1},
    {0},
};

static bool has_gate(const struct mixer_cfg *c) { return c->position_opt[GATE] > 0; }
static bool has_bias(const struct mixer_cfg *c) { return c->position_opt[BIAS] > 0; }

/* Indices of the optional parameters. */
static int bias_at(void) { return SR_MORE; }
static int wg_at(const struct mixer_cfg *c) { return SR_MORE + has_bias(c); }
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
    int          n = SR_MORE;

    if (s.rank) {
        p[SR_A] = (struct param){"sr_a", s.rank, s.C, INIT_INPUT, .decay = true};
        p[SR_B] = (struct param){"sr_b", s.P, s.rank, INIT_INPUT, .decay = true};
    } else {
        p[SR_W] = (struct param){"sr_w", s.P, s.g, INIT_INPUT};
        p[SR_S] = (struct param){"sr_s", s.A, 0, INIT_ONE};
    }
    p[SR_CONV] = (struct param){"sr_conv", s.P, CONV_TAPS, INIT_NORMAL, 0.02};
    if (has_bias(c))
        p[n++] = (struct param){"sr_bias", s.P, 0, INIT_ZERO};
    if (has_gate(c)) {
        p[n++] = (struct param){"sr_wg", s.A, s.C, INIT_NORMAL, 0.02, .decay = true};
        p[n++] = (struct param){"sr_bg", s.A, 0, INIT_ZERO};
    }
    return n;
}

/* ---- memory -------------------------------------------------------------------------------- */

struct acts {
    real *xh;           // (B, T, A, g)
    real *low;          // (B, T, rank) sr_a xh
    real *w, *z;        // (B, T, P) before and after convolution
    real *gate;         // (B, T, A)
    real *cos, *sin;    // (B, T, P)
};

static size_t carve_acts(struct acts *a, void *base, const struct shape *s)
{
    struct arena m = arena_over(base);

    a->xh = arena_reals(&m, s->n * s->C);
    a->low = arena_reals(&m, s->n * s->rank);
    a->w = arena_reals(&m, s->n * s->P);
    a->z = arena_reals(&m, s->n * s->P);
    a->gate = arena_reals(&m, s->n * s->A);
    a->cos = arena_reals(&m, s->n * s->P);
    a->sin = arena_reals(&m, s->n * s->P);
    return m.used;
}

/* What follows from the parameters, and where the sequences stand. */
struct tools {
    real    *u;         // (P, g) rows s W / |W| of the full form
    double  *freq;      // (half) base^(-2j/dk)
    double  *eb;        // (P) e^bias, or 0
    double  *run;       // (B, P) theta of forward; sums of backward
    double **theta;     // (B) of each sequence
    real   **past;      // (B) the last inputs of its convolution
};

static size_t carve_tools(struct tools *t, void *base, const struct shape *s)
{
    struct arena m = arena_over(base);

    t->u = arena_reals(&m, s->rank ? 0 : (size_t)s->P * s->g);
    t->freq = arena_bytes(&m, s->half * sizeof *t->freq);
    t->eb = arena_bytes(&m, s->P * sizeof *t->eb);
    t->run = arena_bytes(&m, (size_t)s->B * s->P * sizeof *t->run);
    t->theta = arena_bytes(&m, s->B * sizeof *t->theta);
    t->past = arena_bytes(&m, s->B * sizeof *t->past);
    return m.used;
}

struct grads {
    real *dw;                   // as w
    real *dlow, *dxh;           // as low, xh
    real *du;                   // as u
    struct winding_grads wind;
};

/* Scratch of backward. */
static size_t carve_grads(struct grads *g, struct tools *t, void *base, const struct shape *s)
{
    struct arena m = arena_over(base);
    size_t       tools = carve_tools(t, NULL, s), heads = (size_t)s->B * s->A;

    carve_tools(t, arena_bytes(&m, tools), s);
    g->dw = arena_reals(&m, s->n * s->P);
    g->dlow = arena_reals(&m, s->n * s->rank);
    g->dxh = arena_reals(&m, s->n * s->C);
    g->du = arena_reals(&m, s->rank ? 0 : (size_t)s->P * s->g);
    g->wind.sum = t->run;
    g->wind.dz = arena_reals(&m, s->n * s->P);
    g->wind.dlogit = arena_reals(&m, s->n * s->A);
    g->wind.dmore = arena_bytes(&m, heads * s->half * sizeof(double));
    g->wind.dlogits = arena_bytes(&m, heads * sizeof(double));
    return m.used;
}

/* Scratch of extend. */
static size_t carve_extension(struct acts *a, struct tools *t, void *base, const struct shape *s)
{
    struct arena m = arena_over(base);
    size_t       acts = carve_acts(a, NULL, s), tools = carve_tools(t, NULL, s);

    carve_acts(a, arena_bytes(&m, acts), s);
    carve_tools(t, arena_bytes(&m, tools), s);
    return m.used;
}

/* The state of a sequence: theta (P), then the past of the convolution (3, P). */
static size_t carve_state(double **theta, real **past, void *base, const struct shape *s)
{
    struct arena m = arena_over(base);

    *theta = arena_bytes(&m, s->P * sizeof **theta);
    *past = arena_reals(&m, (size_t)(CONV_TAPS - 1) * s->P);
    return m.used;
}

static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *out)
{
    struct shape s = shape_of(c, B, T);
    struct acts  a;
    struct tools t;
    struct grads g;
    double      *theta;
    real        *past;
    size_t       back = carve_grads(&g, &t, NULL, &s), ext = carve_extension(&a, &t, NULL, &s);

    out->kept = carve_acts(&a, NULL, &s);
    out->scratch = back > ext ? back : ext;
    out->state = carve_state(&theta, &past, NULL, &s);
}

/* ---- from x to angles ---------------------------------------------------------------------- */

static void prepare(const struct ctx *ctx, const struct shape *s, const struct tools *t)
{
    const struct mixer_cfg *c = ctx->cfg;

    for (int j = 0; j < s->half; j++)
        t->freq[j] = pow(c->position_opt[BASE], -(double)j / s->half);
    for (int p = 0; p < s->P; p++)
        t->eb[p] = has_bias(c) ? exp((double)ctx->w[bias_at()][p]) : 0;
    for (int p = 0; !s->rank && p < s->P; p++)
        unit(t->u + (size_t)p * s->g, ctx->w[SR_W] + (size_t)p * s->g, s->g, 0,
             ctx->w[SR_S][p / s->half]);
}

/* w = u xh, head by head. */
static void project_full(const struct shape *s, real *w, const real *xh, const real *u)
{
    const long tile = linear_tile(s->n);

    #pragma omp parallel for collapse(2) schedule(static) if (s->n > tile)
    for (long i = 0; i < s->n; i += tile)
        for (int h = 0; h < s->A; h++)
            gemm_nt(w + i * s->P + h * s->half, s->P, xh + i * s->C + h * s->g, s->C,
                    u + (size_t)h * s->half * s->g, s->g,
                    (int)(s->n - i < tile ? s->n - i : tile), s->half, s->g, 1, 0);
}

/* x to the inputs of the convolution, and to the gates. */
static void project(const struct ctx *ctx, const struct shape *s, const struct acts *a,
                    const struct tools *t, const real *x)
{
    const struct mixer_cfg *c = ctx->cfg;

    #pragma omp parallel for schedule(static) if (s->n > 32)
    for (long i = 0; i < s->n * s->A; i++)
        unit(a->xh + i * s->g, x + i * s->g, s->g, EPS, 1);
    if (s->rank) {
        linear_forward(a->low, a->xh, ctx->w[SR_A], s->n, s->C, s->rank);
        linear_forward(a->w, a->low, ctx->w[SR_B], s->n, s->rank, s->P);
    } else {
        project_full(s, a->w, a->xh, t->u);
    }
    if (!has_gate(c))
        return;
    linear_forward(a->gate, a->xh, ctx->w[wg_at(c)], s->n, s->C, s->A);
    for (long i = 0; i < s->n * s->A; i++)
        a->gate[i] = vsigmoid(a->gate[i] + ctx->w[bg_at(c)][i % s->A]);
}

static struct conv conv_of(const struct ctx *ctx, const struct shape *s)
{
    return (struct conv){
        .B = s->B, .T = s->T, .C = s->P, .ld_x = s->P, .ld_y = s->P, .w = ctx->w[SR_CONV],
        .silu = ctx->cfg->position_opt[ACT] == 0,
    };
}

static struct winding winding_of(const struct ctx *ctx, const struct shape *s,
                                 const struct acts *a, const struct tools *t)
{
    return (struct winding){
        .B = s->B, .T = s->T, .heads = s->A, .half = s->half, .freq = t->freq, .more = t->eb,
        .z = a->z, .gate = has_gate(ctx->cfg) ? a->gate : NULL,
    };
}

static void wind(struct ctx *ctx, const struct shape *s, const struct acts *a,
                 const struct tools *t)
{
    struct winding o = winding_of(ctx, s, a, t);

    winding_forward(&o, t->theta, a->cos, a->sin);
    ctx->angles = (struct angles){
        .heads = s->A, .dk = 2 * s->half, .b = (size_t)s->T * s->P, .t = s->P, .h = s->half,
        .cos = a->cos, .sin = a->sin,
    };
}

static void forward(struct ctx *ctx, const real *x)
{
    struct shape s = shape_of(ctx->cfg, ctx->B, ctx->T);
    struct conv  o = conv_of(ctx, &s);
    struct acts  a;
    struct tools t;

    carve_acts(&a, ctx->kept, &s);
    carve_tools(&t, ctx->scratch, &s);
    memset(t.run, 0, (size_t)s.B * s.P * sizeof *t.run);
    for (int b = 0; b < s.B; b++)
        t.theta[b] = t.run + (size_t)b * s.P;
    prepare(ctx, &s, &t);
    project(ctx, &s, &a, &t, x);
    conv_forward(&o, a.z, a.w);
    wind(ctx, &s, &a, &t);
}

static void extend(struct ctx *ctx, void *const *state, const real *x)
{
    struct shape s = shape_of(ctx->cfg, ctx->B, ctx->T);
    struct conv  o = conv_of(ctx, &s);
    struct acts  a;
    struct tools t;

    carve_extension(&a, &t, ctx->scratch, &s);
    for (int b = 0; b < s.B; b++)
        carve_state(&t.theta[b], &t.past[b], state[b], &s);
    prepare(ctx, &s, &t);
    project(ctx, &s, &a, &t, x);
    conv_extend(&o, t.past, a.z, a.w);
    wind(ctx, &s, &a, &t);
}

/* ---- back ---------------------------------------------------------------------------------- */

/* dxh = dw u,  du = dwᵀ xh, head by head. */
static void full_back(const struct shape *s, const struct grads *g, const real *u, const real *xh)
{
    const long   tile = linear_tile(s->n);
    const size_t head = (size_t)s->half * s->g;

    #pragma omp parallel
    {
        #pragma omp for collapse(2) schedule(static) nowait
        for (long i = 0; i < s->n; i += tile)
            for (int h = 0; h < s->A; h++)
                gemm_nn(g->dxh + i * s->C + h * s->g, s->C, g->dw + i * s->P + h * s->half, s->P,
                        u + h * head, s->g, (int)(s->n - i < tile ? s->n - i : tile), s->g,
                        s->half, 1, 0);
        #pragma omp for schedule(dynamic)
        for (int h = 0; h < s->A; h++)
            gemm_tn(g->du + h * head, s->g, g->dw + h * s->half, s->P, xh + h * s->g, s->C,
                    s->half, s->g, (int)s->n, 1, 0);
    }
}

/* With v = W / |W|, u = s v:  ds_h += sum_j v_hj . du_hj,  dW += (s / |W|) (du - v (v . du)). */
static void full_weights(const struct ctx *ctx, const struct shape *s, const real *du)
{
    for (int p = 0; p < s->P; p++) {
        size_t at = (size_t)p * s->g;
        int    h = p / s->half;

        ctx->dw[SR_S][h] += unit_back(ctx->dw[SR_W] + at, du + at, ctx->w[SR_W] + at, s->g, 0,
                                      ctx->w[SR_S][h]);
    }
}

/* From dw to dxh and the gradients of the projections. */
static void project_back(const struct ctx *ctx, const struct shape *s, const struct acts *a,
                         const struct tools *t, const struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;

    if (s->rank) {
        linear_backward(g->dlow, 0, ctx->dw[SR_B], g->dw, a->low, ctx->w[SR_B], s->n, s->rank,
                        s->P);
        linear_backward(g->dxh, 0, ctx->dw[SR_A], g->dlow, a->xh, ctx->w[SR_A], s->n, s->C,
                        s->rank);
    } else {
        full_back(s, g, t->u, a->xh);
        full_weights(ctx, s, g->du);
    }
    if (has_gate(c))
        linear_backward(g->dxh, 1, ctx->dw[wg_at(c)], g->wind.dlogit, a->xh, ctx->w[wg_at(c)],
                        s->n, s->C, s->A);
}

/* Over the batch, in order:  dbias = e^bias sum dz,  dbg = sum dlogit. */
static void sum_biases(const struct ctx *ctx, const struct shape *s, const struct tools *t,
                       const struct winding_grads *g)
{
    for (int i = 0; has_bias(ctx->cfg) && i < s->B * s->P; i++)
        ctx->dw[bias_at()][i % s->P] += (real)(t->eb[i % s->P] * g->dmore[i]);
    for (int i = 0; has_gate(ctx->cfg) && i < s->B * s->A; i++)
        ctx->dw[bg_at(ctx->cfg)][i % s->A] += (real)g->dlogits[i];
}

static void backward(struct ctx *ctx, const real *x, real *dx)
{
    struct shape   s = shape_of(ctx->cfg, ctx->B, ctx->T);
    struct conv    o = conv_of(ctx, &s);
    struct acts    a;
    struct tools   t;
    struct grads   g;
    struct winding wound;

    carve_acts(&a, ctx->kept, &s);
    carve_grads(&g, &t, ctx->scratch, &s);
    prepare(ctx, &s, &t);
    wound = winding_of(ctx, &s, &a, &t);
    winding_backward(&wound, &g.wind, ctx->angles.dtheta);
    sum_biases(ctx, &s, &t, &g.wind);
    conv_backward(&o, g.dw, ctx->dw[SR_CONV], NULL, g.wind.dz, a.w);
    project_back(ctx, &s, &a, &t, &g);
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < s.n * s.A; i++)
        unit_back(dx + i * s.g, g.dxh + i * s.g, x + i * s.g, s.g, EPS, 1);
}

/* Convolution and sum 8 P, rotation 12 P, a sine and a cosine of each angle. */
static double flops(const struct mixer_cfg *c, int T)
{
    struct shape s = shape_of(c, 1, T);
    double       P = s.P, C = s.C, angles = s.rank ? 2 * s.rank * (C + P) : 2 * C * s.half;

    return T * (angles + (has_gate(c) ? 2 * C * s.A : 0) + 22 * P);
}

const struct position position_srope = {
    .name     = "srope",
    .about    = "selective rotary: angles grow by what the tokens say",
    .opts     = opts,
    .params   = params,
    .sizes    = sizes,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .flops    = flops,
};
