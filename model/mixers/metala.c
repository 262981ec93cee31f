/* MetaLA: gated linear attention without keys (arXiv:2411.10741).
 *
 *     u = silu(conv(x))
 *     q, z = Wq u, Wa u (H, dk),   v, r = Wv u, Wg u + bg (H, dv)
 *     log a = log sigmoid(z) / 16,   k = 1 - a
 *     S_t = diag(a_t) S_{t-1} + k_t v_tᵀ
 *     o_t = S_tᵀ q_t / sqrt(dk) + sigmoid(v_t (q_t . aug k_t))     self-augmentation, per head
 *     y = Wo( ln(o) silu(r) )                                      ln over each head, no weights
 *
 * What enters the state is what was forgotten: the weights of all tokens sum to 1 - a_0 ... a_t. The
 * norm must remove the mean: with aug = 0 the augmentation is the constant 1/2.
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

enum { CONV, WQ, WA, WV, WG, BG, AUG, WO, N_PARAMS };
enum { DK, DV };
enum { TAU = 16 };

static const struct opt opts[] = {
    [DK] = {"dk", "width of a head's q; 0: width / heads / 2", OPT_INT, NULL, 0, 0, 4096},
    [DV] = {"dv", "width of a head's v; 0: width / heads", OPT_INT, NULL, 0, 0, 4096},
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

/* Channels of q, z or k and of v, r or o; a row is [q, log a, v, r]. */
static int n_k(const struct mixer_cfg *c) { return c->H * dk_of(c); }
static int n_v(const struct mixer_cfg *c) { return c->H * dv_of(c); }
static int n_row(const struct mixer_cfg *c) { return 2 * (n_k(c) + n_v(c)); }
static int v_at(const struct mixer_cfg *c) { return 2 * n_k(c); }
static int r_at(const struct mixer_cfg *c) { return v_at(c) + n_v(c); }

static const char *check(const struct mixer_cfg *c)
{
    if (c->C % (2 * c->H) && !(c->opt[DK] > 0))
        return "width must be a multiple of 2 heads, or dk be set";
    return c->C % c->H && !(c->opt[DV] > 0) ? "width must be a multiple of heads, or dv be set"
                                            : NULL;
}

/* wq and wa: Xavier's uniform distribution with gain 2^-2.5. */
static int params(const struct mixer_cfg *c, struct param *p)
{
    double xavier = exp2(-2.5) * sqrt(6.0 / (c->C + n_k(c)));

    p[CONV] = (struct param){"conv", c->C, CONV_TAPS, INIT_UNIFORM, 0.5};
    p[WQ] = (struct param){"wq", n_k(c), c->C, INIT_UNIFORM, xavier, .decay = true};
    p[WA] = (struct param){"wa", n_k(c), c->C, INIT_UNIFORM, xavier, .decay = true};
    p[WV] = (struct param){"wv", n_v(c), c->C, INIT_INPUT, .decay = true};
    p[WG] = (struct param){"wg", n_v(c), c->C, INIT_INPUT, .decay = true};
    p[BG] = (struct param){"bg", n_v(c), 0, INIT_ZERO};
    p[AUG] = (struct param){"aug", n_k(c), 0, INIT_ZERO};
    p[WO] = (struct param){"wo", c->C, n_v(c), INIT_OUTPUT, .decay = true};
    return N_PARAMS;
}

struct acts {
    real *u;            // (B, T, C)
    real *row;          // (B, T, row)
    real *k;            // (B, T, H, dk)
    real *o;            // (B, T, H, dv)
    real *gated;        // as o
    real *core;         // kept of the core
};

struct grads {
    real *du, *dx;      // as u
    real *drow;         // as row
    real *dk;           // as k
    real *d_o, *normed; // as o
    real *dbg, *daug;   // (B, H, dv), (B, H, dk)
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

    s.q = a->row, s.g = a->row + n_k(c), s.v = a->row + v_at(c), s.k = a->k;
    s.ld_q = s.ld_g = s.ld_v = n_row(c);
    s.ld_k = n_k(c);
    s.ld_o = n_v(c);
    return s;
}

static struct conv conv_of(const struct ctx *ctx, int B)
{
    const int C = ctx->cfg->C;

    return (struct conv){.B = B, .T = ctx->T, .C = C, .ld_x = C, .ld_y = C, .w = ctx->w[CONV],
                         .silu = true};
}

static size_t carve(struct acts *a, void *base, const struct mixer_cfg *c, int B, int T, bool train)
{
    struct arena  m = arena_over(base);
    struct vector core = shape(c, B, T);
    size_t        n = (size_t)B * T;

    a->u = arena_reals(&m, n * c->C);
    a->row = arena_reals(&m, n * n_row(c));
    a->k = arena_reals(&m, n * n_k(c));
    a->o = arena_reals(&m, n * n_v(c));
    a->gated = arena_reals(&m, n * n_v(c));
    a->core = arena_reals(&m, train ? vector_kept(&core) : 0);
    return m.used;
}

static size_t carve_grads(struct grads *g, void *base, const struct mixer_cfg *c, int B, int T)
{
    struct arena  m = arena_over(base);
    struct vector core = shape(c, B, T);
    size_t        n = (size_t)B * T;

    g->du = arena_reals(&m, n * c->C);
    g->dx = arena_reals(&m, n * c->C);
    g->drow = arena_reals(&m, n * n_row(c));
    g->dk = arena_reals(&m, n * n_k(c));
    g->d_o = arena_reals(&m, n * n_v(c));
    g->normed = arena_reals(&m, n * n_v(c));
    g->dbg = arena_reals(&m, (size_t)B * n_v(c));
    g->daug = arena_reals(&m, (size_t)B * n_k(c));
    g->core = arena_reals(&m, vector_scratch(&core));
    return m.used;
}

/* Inputs that the convolution remembers. */
static size_t past(const struct mixer_cfg *c) { return (CONV_TAPS - 1) * (size_t)c->C; }

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

/* u to rows and k. */
static void project(struct ctx *ctx, struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = (long)ctx->B * ctx->T;

    linear_forward(a->row, a->u, ctx->w[WQ], n, c->C, n_row(c));
    #pragma omp parallel for schedule(static) if (n > 32)
    for (long i = 0; i < n; i++) {
        real *z = a->row + i * n_row(c) + n_k(c), *k = a->k + i * n_k(c);
        real *r = a->row + i * n_row(c) + r_at(c);

        for (int j = 0; j < n_k(c); j++) {
            z[j] = vlsig(z[j]) / TAU;
            k[j] = -vexpm1(z[j]);
        }
        for (int j = 0; j < n_v(c); j++)
            r[j] += ctx->w[BG][j];
    }
}

static inline real dot3(const real *a, const real *b, const real *c, int n)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < n; j++)
        sum += a[j] * b[j] * c[j];
    return sum;
}

/* o += sigmoid(v (q . aug k)) */
static void augment(struct ctx *ctx, struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = (long)ctx->B * ctx->T;
    const int  dk = dk_of(c), dv = dv_of(c);

    #pragma omp parallel for schedule(static) if (n > 32)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < c->H; h++) {
            const real *row = a->row + i * n_row(c), *v = row + v_at(c) + (size_t)h * dv;
            size_t      at = (size_t)h * dk;
            real       *o = a->o + i * n_v(c) + (size_t)h * dv;
            real        s = dot3(row + at, ctx->w[AUG] + at, a->k + i * n_k(c) + at, dk);

            #pragma omp simd
            for (int j = 0; j < dv; j++)
                o[j] += vsigmoid(s * v[j]);
        }
}

/* y from S_tᵀ q_t in o, and r. */
static void finish(struct ctx *ctx, struct acts *a, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long  n = (long)ctx->B * ctx->T;
    const int   e = n_v(c);
    struct norm s = head_norm(c);

    augment(ctx, a);
    ln_forward(&s, a->gated, e, a->o, e, NULL, n);
    gate_forward(GATE_SILU, a->gated, e, a->gated, e, a->row + r_at(c), n_row(c), n, e);
    linear_forward(y, a->gated, ctx->w[WO], n, e, c->C);
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct conv   conv = conv_of(ctx, ctx->B);
    struct acts   a;
    struct vector core;

    carve(&a, ctx->kept, ctx->cfg, ctx->B, ctx->T, true);
    core = core_of(ctx, &a);
    conv_forward(&conv, a.u, x);
    project(ctx, &a);
    vector_forward(&core, a.o, a.core);
    finish(ctx, &a, y);
}

/* From dy to the gradients of o and r. */
static void finish_back(struct ctx *ctx, const struct acts *a, struct grads *g, const real *dy)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    const int    e = n_v(c);
    const size_t ld = n_row(c), at = r_at(c);
    struct norm  s = head_norm(c);

    linear_backward(g->d_o, 0, ctx->dw[WO], dy, a->gated, ctx->w[WO], n, e, c->C);
    ln_forward(&s, g->normed, e, a->o, e, NULL, n);
    gate_backward(GATE_SILU, g->d_o, g->drow + at, ld, g->d_o, e, g->normed, e, a->row + at, ld,
                  n, e);
    ln_backward(&s, g->d_o, e, 0, NULL, g->d_o, e, a->o, e, NULL, n, NULL);
}

/* With p = sigmoid(s v), s = q . aug k:   e = do p (1 - p),  dv += s e;  returns ds = e . v. */
static inline real sigmoid_back(real *dv, const real *d_o, const real *v, real s, int n)
{
    real ds = 0;

    #pragma omp simd reduction(+ : ds)
    for (int j = 0; j < n; j++) {
        real p = vsigmoid(s * v[j]), e = d_o[j] * p * (1 - p);

        dv[j] += s * e;
        ds += e * v[j];
    }
    return ds;
}

/* One head of one token, with ds = do . d sigmoid(s v) / ds:
 *
 *     dq += ds aug k,  dk += ds q aug,  daug += ds q k
 *     dz = (dlog a - a dk) (1 - a^16) / 16         dz holds dlog a
 */
static void keys_back(real *restrict dq, real *restrict dz, real *restrict daug, const real *gk,
                      const real *q, const real *log_a, const real *k, const real *aug, real ds,
                      int n)
{
    for (int j = 0; j < n; j++) {
        real dk = gk[j] + ds * q[j] * aug[j];

        dq[j] += ds * aug[j] * k[j];
        daug[j] += ds * q[j] * k[j];
        dz[j] = (dz[j] - (1 - k[j]) * dk) * vexpm1(TAU * log_a[j]) / -TAU;
    }
}

/* All tokens of head h of sequence b: from the core's gradients to those of q, z and v, and the sums
 * for aug and bg. */
static void head_back(const struct ctx *ctx, const struct acts *a, struct grads *g, int b, int h)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int    dk = dk_of(c), dv = dv_of(c);
    const size_t hk = (size_t)h * dk, hv = (size_t)h * dv;
    const real  *aug = ctx->w[AUG] + hk;
    real        *daug = g->daug + (size_t)b * n_k(c) + hk, *dbg = g->dbg + (size_t)b * n_v(c) + hv;

    memset(daug, 0, dk * sizeof *daug);
    memset(dbg, 0, dv * sizeof *dbg);
    for (long i = (long)b * ctx->T; i < (long)(b + 1) * ctx->T; i++) {
        const real *row = a->row + i * n_row(c), *q = row + hk, *k = a->k + i * n_k(c) + hk;
        real       *drow = g->drow + i * n_row(c), *dr = drow + r_at(c) + hv;
        real        ds = sigmoid_back(drow + v_at(c) + hv, g->d_o + i * n_v(c) + hv,
                                      row + v_at(c) + hv, dot3(q, aug, k, dk), dv);

        keys_back(drow + hk, drow + n_k(c) + hk, daug, g->dk + i * n_k(c) + hk, q, q + n_k(c), k,
                  aug, ds, dk);
        for (int j = 0; j < dv; j++)
            dbg[j] += dr[j];
    }
}

static void core_back(struct ctx *ctx, const struct acts *a, struct grads *g)
{
    const struct mixer_cfg *c = ctx->cfg;
    const size_t  ld = n_row(c);
    struct vector core = core_of(ctx, a);
    struct vector_grad d = {
        .dq = g->drow, .dg = g->drow + n_k(c), .dv = g->drow + v_at(c), .dk = g->dk,
        .ld_dq = ld, .ld_dg = ld, .ld_dv = ld, .ld_dk = n_k(c),
    };

    vector_backward(&core, &d, g->d_o, a->core, g->core);
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < c->H; h++)
            head_back(ctx, a, g, b, h);
    for (int i = 0; i < ctx->B * n_k(c); i++)
        ctx->dw[AUG][i % n_k(c)] += g->daug[i];
    for (int i = 0; i < ctx->B * n_v(c); i++)
        ctx->dw[BG][i % n_v(c)] += g->dbg[i];
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = (long)ctx->B * ctx->T;
    struct conv  conv = conv_of(ctx, ctx->B);
    struct acts  a;
    struct grads g;

    carve(&a, ctx->kept, c, ctx->B, ctx->T, true);
    carve_grads(&g, ctx->scratch, c, ctx->B, ctx->T);
    finish_back(ctx, &a, &g, dy);
    core_back(ctx, &a, &g);
    linear_backward(g.du, 0, ctx->dw[WQ], g.drow, a.u, ctx->w[WQ], n, c->C, n_row(c));
    conv_backward(&conv, g.dx, ctx->dw[CONV], NULL, g.du, x);
    #pragma omp parallel for simd schedule(static)
    for (long i = 0; i < n * c->C; i++)
        dx[i] += g.dx[i];
}

/* The state of a sequence: the inputs of the convolution, then S. */
static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct conv   conv = conv_of(ctx, 1);
    struct acts   a;
    struct vector core;

    carve(&a, ctx->scratch, c, ctx->B, ctx->T, false);
    core = core_of(ctx, &a);
    for (int b = 0; b < ctx->B; b++) {
        size_t at = (size_t)b * ctx->T * c->C;
        real  *inputs = state[b];

        conv_extend(&conv, &inputs, a.u + at, x + at);
    }
    project(ctx, &a);
    vector_extend(&core, state, past(c), a.o);
    finish(ctx, &a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return T * (2.0 * c->C * (n_row(c) + n_v(c)) + 2.0 * CONV_TAPS * c->C +
                c->H * vector_flops(T, dk_of(c), dv_of(c)));
}

const struct mixer mixer_metala = {
    .name     = "metala",
    .about    = "gated linear attention without keys, self-augmented (MetaLA)",
    .system   = "L = I x diag(a_t), B = I x (1 - a_t), C = I x q_t / sqrt(dk); D by sigmoid",
    .position = "none",
    .opts     = opts,
    .check    = check,
    .params   = params,
    .sizes    = sizes,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .flops    = flops,
};
