/* Gated linear attention: a decay for every key channel and token (GLA, arXiv:2312.06635).
 *
 *     q, k = Wq x, Wk x (H, dk),   v, r = Wv x, Wg x (H, dv)
 *     q, k, v <- silu(conv(.))                         with conv; then q and k are rotated
 *     g = log sigmoid(Wa2 Wa1 x + ba) / 16             (H, dk)
 *     S_t = diag(e^{g_t}) S_{t-1} + k_t v_tᵀ
 *     o_t = S_tᵀ q_t / sqrt(dk)
 *     y = Wo( rms(o) norm silu(r) )                    rms over each head, norm shared by heads
 *
 * A rotation commutes with the decay only if the channels of a pair (j, j + dk/2) share it. With a
 * position encoding there are therefore half as many decays.
 */
#include "model/arena.h"
#include "model/conv.h"
#include "model/core_vector.h"
#include "model/gate.h"
#include "model/linear.h"
#include "model/mixer.h"
#include "model/norm.h"
#include "model/vmath.h"

#include <math.h>
#include <string.h>

enum { WQ, WK, WV, WG, WO, WA1, WA2, BA, NORM, CQ, CK, CV };
enum { DK, DV, RANK, CONV };
enum { TAU = 16 };

static const struct opt opts[] = {
    [DK]   = {"dk", "width of a head's q and k; 0: width / heads / 2", OPT_INT, NULL, 0, 0, 4096},
    [DV]   = {"dv", "width of a head's v; 0: width / heads", OPT_INT, NULL, 0, 0, 4096},
    [RANK] = {"rank", "rank of the decay's projection", OPT_INT, NULL, 16, 1, 4096},
    [CONV] = {"conv", "taps of a convolution of q, k and v; 0: none", OPT_CHOICE, "0|4", 0, 0, 0},
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

static bool has_conv(const struct mixer_cfg *c) { return c->opt[CONV] > 0; }
static bool tied(const struct mixer_cfg *c) { return c->position != &position_none; }

/* Channels of q, k or g, of v, r or o, of [q, k, v], of a row [q, k, v, r], and of the decays. */
static int n_k(const struct mixer_cfg *c) { return c->H * dk_of(c); }
static int n_v(const struct mixer_cfg *c) { return c->H * dv_of(c); }
static int n_qkv(const struct mixer_cfg *c) { return 2 * n_k(c) + n_v(c); }
static int n_row(const struct mixer_cfg *c) { return n_qkv(c) + n_v(c); }
static int n_z(const struct mixer_cfg *c) { return tied(c) ? n_k(c) / 2 : n_k(c); }
static int rank(const struct mixer_cfg *c) { return (int)c->opt[RANK]; }

static const char *check(const struct mixer_cfg *c)
{
    if (c->C % (2 * c->H) && !(c->opt[DK] > 0))
        return "width must be a multiple of 2 heads, or dk be set";
    return c->C % c->H && !(c->opt[DV] > 0) ? "width must be a multiple of heads, or dv be set"
                                            : NULL;
}

static int params(const struct mixer_cfg *c, struct param *p)
{
    p[WQ] = (struct param){"wq", n_k(c), c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", n_k(c), c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", n_v(c), c->C, INIT_INPUT, .decay = true};
    p[WG] = (struct param){"wg", n_v(c), c->C, INIT_INPUT, .decay = true};
    p[WO] = (struct param){"wo", c->C, n_v(c), INIT_OUTPUT, .decay = true};
    p[WA1] = (struct param){"wa1", rank(c), c->C, INIT_INPUT, .decay = true};
    p[WA2] = (struct param){"wa2", n_z(c), rank(c), INIT_INPUT, .decay = true};
    p[BA] = (struct param){"ba", n_z(c), 0, INIT_ZERO};
    p[NORM] = (struct param){"norm", dv_of(c), 0, INIT_ONE};
    if (!has_conv(c))
        return CQ;
    p[CQ] = (struct param){"cq", n_k(c), CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CK] = (struct param){"ck", n_k(c), CONV_TAPS, INIT_UNIFORM, 0.5};
    p[CV] = (struct param){"cv", n_v(c), CONV_TAPS, INIT_UNIFORM, 0.5};
    return CV + 1;
}

static void angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->H;
    *dk = dk_of(c);
}

struct acts {
    real *row;          // (B, T, row)
    real *qkv;          // (B, T, qkv) after convolution; without one it is the row
    size_t ld;          // of qkv
    real *low;          // (B, T, rank) Wa1 x
    real *g;            // (B, T, H, dk)
    real *o;            // (B, T, H, dv)
    real *gated;        // as o
    real *core;         // kept of the core
    real *z;            // (B, T, z) logits of tied decays, not kept
};

struct grads {
    real *drow;         // as row
    real *dqkv;         // as qkv
    real *dg, *dz;      // as g, z
    real *dlow;         // as low
    real *dba;          // (B, z)
    real *d_o, *normed; // as o
    real *partial;      // of the norm
    real *core;         // scratch of the core
};

static struct norm head_norm(const struct mixer_cfg *c)
{
    return (struct norm){c->H, dv_of(c), true, (real)1e-5};
}

static struct vector shape(const struct mixer_cfg *c, int B, int T)
{
    return (struct vector){.B = B, .T = T, .H = c->H, .dk = dk_of(c), .dv = dv_of(c),
                           .scale = 1 / (real)sqrt(dk_of(c))};
}

static struct vector core_of(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct vector s = shape(c, ctx->B, ctx->T);

    s.q = a->qkv, s.k = s.q + n_k(c), s.v = s.k + n_k(c), s.g = a->g;
    s.ld_q = s.ld_k = s.ld_v = a->ld;
    s.ld_g = n_k(c);
    s.ld_o = n_v(c);
    return s;
}

static struct conv conv_of(const struct ctx *ctx, int B)
{
    return (struct conv){.B = B, .T = ctx->T, .C = n_qkv(ctx->cfg), .ld_x = n_row(ctx->cfg),
                         .ld_y = n_qkv(ctx->cfg), .w = ctx->w[CQ], .silu = true};
}

static size_t carve(struct acts *a, void *base, const struct mixer_cfg *c, int B, int T, bool train)
{
    struct arena  m = arena_over(base);
    struct vector core = shape(c, B, T);
    size_t        n = (size_t)B * T;

    a->row = arena_reals(&m, n * n_row(c));
    a->qkv = has_conv(c) ? arena_reals(&m, n * n_qkv(c)) : a->row;
    a->ld = has_conv(c) ? n_qkv(c) : n_row(c);
    a->low = arena_reals(&m, n * rank(c));
    a->g = arena_reals(&m, n * n_k(c));
    a->o = arena_reals(&m, n * n_v(c));
    a->gated = arena_reals(&m, n * n_v(c));
    a->core = arena_reals(&m, train ? vector_kept(&core) : 0);
    a->z = arena_reals(&m, train ? 0 : n * n_z(c));
    return m.used;
}

static size_t carve_grads(struct grads *g, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena  m = arena_over(base);
    struct vector core = shape(c, B, T);
    struct norm   o = head_norm(c);
    size_t        n = (size_t)B * T;

    g->drow = arena_reals(&m, n * n_row(c));
    g->dqkv = has_conv(c) ? arena_reals(&m, n * n_qkv(c)) : g->drow;
    g->dg = arena_reals(&m, n * n_k(c));
    g->dz = arena_reals(&m, n * n_z(c));
    g->dlow = arena_reals(&m, n * rank(c));
    g->dba = arena_reals(&m, (size_t)B * n_z(c));
    g->d_o = arena_reals(&m, n * n_v(c));
    g->normed = arena_reals(&m, n * n_v(c));
    g->partial = arena_reals(&m, norm_partial(&o));
    g->core = arena_reals(&m, vector_scratch(&core));
    return m.used;
}

/* Inputs that the convolution remembers. */
static size_t past(const struct mixer_cfg *c)
{
    return has_conv(c) ? (CONV_TAPS - 1) * (size_t)n_qkv(c) : 0;
}

static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct vector core = shape(c, B, T);
    struct acts   a;
    struct grads  g;
    size_t        extend = carve(&a, NULL, c, B, T, false);
    size_t        back = carve_grads(&g, NULL, c, B, T);

    s->kept = carve(&a, NULL, c, B, T, true);
    s->scratch = back > extend ? back : extend;
    s->state = (past(c) + vector_state(&core)) * sizeof(real);
}

/* g from the logits of n rows; those of a head, of width e, serve dk / e channels each. */
static void decays(const struct ctx *ctx, real *g, const real *z, long n)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int dk = dk_of(c), e = n_z(c) / c->H;

    #pragma omp parallel for schedule(static) if (n > 32)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < c->H; h++) {
            const real *zi = z + i * n_z(c) + (size_t)h * e, *ba = ctx->w[BA] + (size_t)h * e;
            real       *gi = g + i * n_k(c) + (size_t)h * dk;

            for (int j = 0; j < e; j++)
                gi[j] = vlsig(zi[j] + ba[j]) / TAU;
            if (e < dk)
                memcpy(gi + e, gi, e * sizeof *gi);
        }
}

/* x to rows and decays; what depends on earlier tokens is left to the caller. */
static void project(struct ctx *ctx, const real *x, struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = (long)ctx->B * ctx->T;
    real      *z = tied(c) ? a->z : a->g;

    linear_forward(a->row, x, ctx->w[WQ], n, c->C, n_row(c));
    linear_forward(a->low, x, ctx->w[WA1], n, c->C, rank(c));
    linear_forward(z, a->low, ctx->w[WA2], n, rank(c), n_z(c));
    decays(ctx, a->g, z, n);
}

static void turn(struct ctx *ctx, struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;

    rotate(&ctx->angles, a->qkv, ctx->B, ctx->T, c->H, a->ld);
    rotate(&ctx->angles, a->qkv + n_k(c), ctx->B, ctx->T, c->H, a->ld);
}

/* y from o and r. */
static void finish(struct ctx *ctx, struct acts *a, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long  n = (long)ctx->B * ctx->T;
    const int   e = n_v(c);
    struct norm o = head_norm(c);

    rms_forward(&o, a->gated, e, a->o, e, ctx->w[NORM], n);
    gate_forward(GATE_SILU, a->gated, e, a->gated, e, a->row + n_qkv(c), n_row(c), n, e);
    linear_forward(y, a->gated, ctx->w[WO], n, e, c->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts   a;
    struct vector core;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    a.z = ctx->scratch;
    core = core_of(ctx, &a);
    project(ctx, x, &a);
    if (has_conv(c)) {
        struct conv conv = conv_of(ctx, ctx->B);

        conv_forward(&conv, a.qkv, a.row);
    }
    turn(ctx, &a);
    vector_forward(&core, a.o, a.core);
    finish(ctx, &a, y);
}

/* From dy to the gradients of o and r. */
static void finish_back(struct ctx *ctx, const struct acts *a, struct grads *g, const real *dy)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    const int    e = n_v(c);
    const size_t ld = n_row(c), at = n_qkv(c);
    struct norm  o = head_norm(c);

    linear_backward(g->d_o, 0, ctx->dw[WO], dy, a->gated, ctx->w[WO], n, e, c->C);
    rms_forward(&o, g->normed, e, a->o, e, ctx->w[NORM], n);
    gate_backward(GATE_SILU, g->d_o, g->drow + at, ld, g->d_o, e, g->normed, e, a->row + at, ld,
                  n, e);
    rms_backward(&o, g->d_o, e, 0, ctx->dw[NORM], g->d_o, e, a->o, e, ctx->w[NORM], n, g->partial);
}

/* Of head h of sequence b:  dz = dg (1 - e^{16 g}) / 16, over both channels where they are tied. */
static void decay_back(const struct ctx *ctx, const struct acts *a, struct grads *g, int b, int h)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int    e = n_z(c) / c->H, dk = dk_of(c);
    const size_t at = (size_t)h * e;
    real        *dba = g->dba + (size_t)b * n_z(c) + at;

    memset(dba, 0, e * sizeof *dba);
    for (long i = (long)b * ctx->T; i < (long)(b + 1) * ctx->T; i++) {
        const real *gi = a->g + i * n_k(c) + (size_t)h * dk;
        const real *dg = g->dg + i * n_k(c) + (size_t)h * dk, *more = dg + dk - e;
        real       *dz = g->dz + i * n_z(c) + at;

        for (int j = 0; j < e; j++) {
            dz[j] = (dg[j] + (e < dk ? more[j] : 0)) * vexpm1(TAU * gi[j]) / -TAU;
            dba[j] += dz[j];
        }
    }
}

static void decays_back(struct ctx *ctx, const real *x, const struct acts *a, struct grads *g,
                        real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = (long)ctx->B * ctx->T;

    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < c->H; h++)
            decay_back(ctx, a, g, b, h);
    for (int i = 0; i < ctx->B * n_z(c); i++)
        ctx->dw[BA][i % n_z(c)] += g->dba[i];
    linear_backward(g->dlow, 0, ctx->dw[WA2], g->dz, a->low, ctx->w[WA2], n, rank(c), n_z(c));
    linear_backward(dx, 1, ctx->dw[WA1], g->dlow, x, ctx->w[WA1], n, c->C, rank(c));
}

static void core_back(struct ctx *ctx, const struct acts *a, struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t  ld = a->ld, k = n_k(c);
    struct vector core = core_of(ctx, a);
    struct vector_grad d = {
        .dq = g->dqkv, .dk = g->dqkv + k, .dv = g->dqkv + 2 * k, .dg = g->dg,
        .ld_dq = ld, .ld_dk = ld, .ld_dv = ld, .ld_dg = k,
    };

    vector_backward(&core, &d, g->d_o, a->core, g->core);
    rotate_back(&ctx->angles, a->qkv, g->dqkv, ctx->B, ctx->T, c->H, ld, ld);
    rotate_back(&ctx->angles, a->qkv + k, g->dqkv + k, ctx->B, ctx->T, c->H, ld, ld);
    if (has_conv(c)) {
        struct conv conv = conv_of(ctx, ctx->B);

        conv_backward(&conv, g->drow, ctx->dw[CQ], NULL, g->dqkv, a->row);
    }
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts  a;
    struct grads g;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    carve_grads(&g, ctx->scratch, c, ctx->B, ctx->T);
    finish_back(ctx, &a, &g, dy);
    core_back(ctx, &a, &g);
    decays_back(ctx, x, &a, &g, dx);
    linear_backward(dx, 1, ctx->dw[WQ], g.drow, x, ctx->w[WQ], (long)ctx->B * ctx->T, c->C,
                    n_row(c));
}

/* The state of a sequence: the inputs of the convolution, then S. */
static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct acts   a;
    struct vector core;

    carve(&a, ctx->scratch, c, ctx->B, ctx->T, false);
    core = core_of(ctx, &a);
    project(ctx, x, &a);
    for (int b = 0; has_conv(c) && b < ctx->B; b++) {
        struct conv conv = conv_of(ctx, 1);
        size_t      at = (size_t)b * ctx->T;
        real       *inputs = state[b];

        conv_extend(&conv, &inputs, a.qkv + at * conv.ld_y, a.row + at * conv.ld_x);
    }
    turn(ctx, &a);
    vector_extend(&core, state, past(c), a.o);
    finish(ctx, &a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    double low = 2.0 * rank(c) * (c->C + n_z(c)), conv = 2.0 * CONV_TAPS * n_qkv(c);

    (void)window;
    return T * (2.0 * c->C * (n_row(c) + n_v(c)) + low + (has_conv(c) ? conv : 0) +
                c->H * vector_flops(T, dk_of(c), dv_of(c)));
}

const struct mixer mixer_gla = {
    .name     = "gla",
    .about    = "linear attention with a decay per key channel and token (GLA)",
    .system   = "L = I x diag(sigmoid(z_t)^(1/16)), B = I x k_t, C = I x q_t / sqrt(dk)",
    .position = "none",
    .opts     = opts,
    .check    = check,
    .params   = params,
    .angles   = angles,
    .sizes    = sizes,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .flops    = flops,
};
