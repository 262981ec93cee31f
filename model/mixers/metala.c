/* MetaLA: gated linear attention without keys (arXiv:2411.10741).
 *
 *     u = silu(conv(x))
 *     q, z = Wq u, Wa u (H, dk),   v, r = Wv u, Wg u + bg (H, dv)
 *     log a = log sigmoid(z) / 16,   k = 1 - a
 *     S_t = diag(a_t) S_{t-1} + k_t v_tᵀ
 *     o_t = S_tᵀ q_t / sqrt(dk) + sigmoid(v_t (q_t . aug k_t))     self-augmentation
 *     y = Wo( ln(o) silu(r) )                                      ln over each head,
 *                                                                  no weights
 *
 * What enters the state is what was forgotten: the weights of all tokens sum to
 * 1 - a_0 ... a_t. The norm must remove the mean: with aug = 0 the augmentation is
 * the constant 1/2. The preset metala trains at half the rate of the others.
 */
#include "model/kernels/vmath.h"
#include "model/mixer_heads.h"

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

static int dk_of(const struct mixer_cfg *c) { return opt_or(c, DK, c->C / c->H / 2); }
static int dv_of(const struct mixer_cfg *c) { return opt_or(c, DV, c->C / c->H); }

/* Channels of q, z or k, and of v, r or o. */
static int n_k(const struct mixer_cfg *c) { return c->H * dk_of(c); }
static int n_v(const struct mixer_cfg *c) { return c->H * dv_of(c); }

static const char *check(const struct mixer_cfg *c)
{
    return c->C % (2 * c->H) && !(c->opt[DK] > 0)
               ? "width must be a multiple of 2 heads, or dk be set"
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
    struct act u;               // (C)
    real *dx;                   // as u
    struct act row, q, log_a;   // q, log a (H, dk)
    struct act v, r;            // (H, dv) the rest of the row
    struct act k;               // (H, dk)
    real *dbg, *daug;           // (B, H, dv), (B, H, dk)
    struct short_conv conv;
    struct vector_heads core;
    struct heads_out out;
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);

    a->u = act_keep(m, "u", c->C);
    a->dx = layout_grad(m, "dx", layout_tokens(m) * c->C);
    a->row = act_row(m, (struct act_part[]){{&a->q, n_k(c)}, {&a->log_a, n_k(c)},
                                            {&a->v, n_v(c)}, {&a->r, n_v(c)}, {0}});
    a->k = act_keep(m, "k", n_k(c));
    a->dbg = layout_grad(m, "dbg", (size_t)m->B * n_v(c));
    a->daug = layout_grad(m, "daug", (size_t)m->B * n_k(c));
    a->conv = short_conv_layout(m, CONV, -1, c->C, c->C, c->C, true);
    a->core.core = (struct vector){.H = c->H, .dk = dk_of(c), .dv = dv_of(c),
                                   .scale = 1 / (real)sqrt(dk_of(c))};
    vector_heads_layout(&a->core, m, a->q, a->k, a->v, a->log_a);
    a->out = (struct heads_out){{c->H, dv_of(c), .shared = true, .eps = (real)c->eps},
                                .mean = true, .act = GATE_SILU, .w = -1, .wo = WO,
                                .g = a->r};
    heads_out_layout(&a->out, m);
}

/* u to rows and k. */
static void project(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);

    in_proj_forward(ctx, WQ, a->row, a->u.x);
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++) {
        real *z = a->log_a.x + i * a->row.ld, *k = a->k.x + i * n_k(c);
        real *r = a->r.x + i * a->row.ld;

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
static void augment(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);
    const int  dk = dk_of(c), dv = dv_of(c);

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < c->H; h++) {
            const real *v = a->v.x + i * a->row.ld + (size_t)h * dv;
            size_t      at = (size_t)h * dk;
            real       *o = a->out.o.x + i * n_v(c) + (size_t)h * dv;
            real        s = dot3(a->q.x + i * a->row.ld + at, ctx->w[AUG] + at,
                                 a->k.x + i * n_k(c) + at, dk);

            #pragma omp simd
            for (int j = 0; j < dv; j++)
                o[j] += vsigmoid(s * v[j]);
        }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    short_conv_forward(ctx, &a->conv, a->u.x, x);
    project(ctx, a);
    vector_heads_forward(ctx, &a->core, a->out.o.x);
    augment(ctx, a);
    heads_out_forward(ctx, &a->out, y);
}

/* With p = sigmoid(s v), s = q . aug k:   e = do p (1 - p),  dv += s e;  returns
 * ds = e . v. */
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
static void keys_back(real *restrict dq, real *restrict dz, real *restrict daug,
                      const real *gk, const real *q, const real *log_a, const real *k,
                      const real *aug, real ds, int n)
{
    for (int j = 0; j < n; j++) {
        real dk = gk[j] + ds * q[j] * aug[j];

        dq[j] += ds * aug[j] * k[j];
        daug[j] += ds * q[j] * k[j];
        dz[j] = (dz[j] - (1 - k[j]) * dk) * vexpm1(TAU * log_a[j]) / -TAU;
    }
}

/* All tokens of head h of sequence b: from the core's gradients to those of q, z and v,
 * and the sums for aug and bg. */
static void head_back(const struct ctx *ctx, const struct acts *a, int b, int h)
{
    const struct mixer_cfg *c = ctx->cfg;
    const int    dk = dk_of(c), dv = dv_of(c);
    const size_t hk = (size_t)h * dk, hv = (size_t)h * dv;
    const real  *aug = ctx->w[AUG] + hk;
    real        *daug = a->daug + (size_t)b * n_k(c) + hk,
                *dbg = a->dbg + (size_t)b * n_v(c) + hv;

    memset(daug, 0, dk * sizeof *daug);
    memset(dbg, 0, dv * sizeof *dbg);
    for (long i = (long)b * ctx->T; i < (long)(b + 1) * ctx->T; i++) {
        const size_t at = i * a->row.ld, keys = i * n_k(c) + hk;
        const real  *q = a->q.x + at + hk, *k = a->k.x + keys;
        real ds = sigmoid_back(a->v.dx + at + hv, a->out.o.dx + i * n_v(c) + hv,
                               a->v.x + at + hv, dot3(q, aug, k, dk), dv);

        keys_back(a->q.dx + at + hk, a->log_a.dx + at + hk, daug, a->k.dx + keys, q,
                  a->log_a.x + at + hk, k, aug, ds, dk);
        for (int j = 0; j < dv; j++)
            dbg[j] += a->r.dx[at + hv + j];
    }
}

static void heads_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;

    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < c->H; h++)
            head_back(ctx, a, b, h);
    add_partials(ctx, AUG, a->daug, n_k(c));
    add_partials(ctx, BG, a->dbg, n_v(c));
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const long   n = ctx_rows(ctx), C = ctx->cfg->C;
    struct acts *a = ctx->acts;

    heads_out_backward(ctx, &a->out, dy);
    vector_heads_backward(&a->core, a->out.o);
    heads_back(ctx, a);
    proj_backward(a->u.dx, 0, ctx->dw[WQ], a->row.dx, a->u.x, ctx->w[WQ], n, (int)C,
                  (int)a->row.ld);
    short_conv_backward(ctx, &a->conv, a->dx, a->u.dx, x);
    #pragma omp parallel for simd schedule(static)
    for (long i = 0; i < n * C; i++)
        dx[i] += a->dx[i];
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return T * (2.0 * c->C * (2 * n_k(c) + 3 * n_v(c)) + conv_flops(c->C) +
                c->H * vector_flops(T, dk_of(c), dv_of(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;

    return decay_of_logs(ctx, r, a->log_a.x, a->row.ld, dk_of(ctx->cfg));
}

static double state(const struct mixer_cfg *c)
{
    return (double)dk_of(c) * n_v(c) + 3 * c->C;
}

const struct mixer mixer_metala = {
    .name     = "metala",
    .about    = "gated linear attention without keys, self-augmented (MetaLA)",
    .position = "none",
    .opts     = opts,
    .check    = check,
    .params   = params,
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .flops    = flops,
    .instruments = &(struct instruments){
        .system = "L = I x diag(a_t), B = I x (1 - a_t), C = I x q_t / sqrt(dk); "
                  "D by sigmoid",
        .state = state, .decay = decay,
    },
};
