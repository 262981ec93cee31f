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
 * the constant 1/2.
 */
#include "model/cores/vector.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "model/layers/conv.h"
#include "model/mixer.h"
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

/* Channels of q, z or k and of v, r or o; a row is [q, log a, v, r]. */
static int n_k(const struct mixer_cfg *c) { return c->H * dk_of(c); }
static int n_v(const struct mixer_cfg *c) { return c->H * dv_of(c); }
static int n_row(const struct mixer_cfg *c) { return 2 * (n_k(c) + n_v(c)); }
static int v_at(const struct mixer_cfg *c) { return 2 * n_k(c); }
static int r_at(const struct mixer_cfg *c) { return v_at(c) + n_v(c); }

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
    real *u, *du, *dx;          // (B, T, C)
    real *row, *drow;           // (B, T, row)
    real *k, *dk;               // (B, T, H, dk)
    real *dbg, *daug;           // (B, H, dv), (B, H, dk)
    struct conv conv;
    struct leave out;
    struct vector core;
    struct vector_grad dcore;
    real *saved, *scratch;      // of the core
    size_t past, S;             // where the states of conv and core are
};

static void lay_out_rows(struct acts *a, struct layout *m, const struct mixer_cfg *c)
{
    const size_t n = layout_tokens(m);

    a->u = layout_keep(m, "u", n * c->C);
    a->du = layout_grad(m, "du", n * c->C);
    a->dx = layout_grad(m, "dx", n * c->C);
    a->row = layout_keep(m, "row", n * n_row(c));
    a->drow = layout_grad(m, "drow", n * n_row(c));
    a->k = layout_keep(m, "k", n * n_k(c));
    a->dk = layout_grad(m, "dk", n * n_k(c));
    a->dbg = layout_grad(m, "dbg", (size_t)m->B * n_v(c));
    a->daug = layout_grad(m, "daug", (size_t)m->B * n_k(c));
}

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t ld = n_row(c), k = n_k(c), v = v_at(c);

    lay_out_rows(a, m, c);
    a->conv = (struct conv){.B = m->B, .T = m->T, .C = c->C, .ld_x = c->C, .ld_y = c->C,
                            .w = layout_param(m, CONV), .silu = true};
    a->out = (struct leave){{c->H, dv_of(c), true, (real)1e-5}, .mean = true,
                            .act = GATE_SILU, .w = -1, .wo = WO};
    leave_layout(&a->out, m);
    a->core = (struct vector){
        .B = m->B, .T = m->T, .H = c->H, .dk = dk_of(c), .dv = dv_of(c),
        .scale = 1 / (real)sqrt(dk_of(c)),
        .q = a->row, .g = layout_at(a->row, k), .v = layout_at(a->row, v), .k = a->k,
        .ld_q = ld, .ld_g = ld, .ld_v = ld, .ld_k = k, .ld_o = n_v(c),
    };
    a->dcore = (struct vector_grad){
        .dq = a->drow, .dg = layout_at(a->drow, k), .dv = layout_at(a->drow, v),
        .dk = a->dk,
        .ld_dq = ld, .ld_dg = ld, .ld_dv = ld, .ld_dk = k,
    };
    a->saved = layout_save(m, "saved", vector_kept(&a->core));
    a->scratch = layout_grad(m, "scratch", vector_scratch(&a->core));
    a->past = layout_state(m, conv_state(&a->conv));
    a->S = layout_state(m, vector_state(&a->core));
}

/* u to rows and k. */
static void project(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);

    product_forward(a->row, a->u, ctx->w[WQ], n, c->C, n_row(c));
#pragma omp parallel for schedule(static) if (n > FEW_ROWS)
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
static void augment(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);
    const int  dk = dk_of(c), dv = dv_of(c);

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < c->H; h++) {
            const real *row = a->row + i * n_row(c), *v = row + v_at(c) + (size_t)h * dv;
            size_t      at = (size_t)h * dk;
            real       *o = a->out.o + i * n_v(c) + (size_t)h * dv;
            real        s = dot3(row + at, ctx->w[AUG] + at, a->k + i * n_k(c) + at, dk);

            #pragma omp simd
            for (int j = 0; j < dv; j++)
                o[j] += vsigmoid(s * v[j]);
        }
}

static void finish(const struct ctx *ctx, const struct acts *a, real *y)
{
    augment(ctx, a);
    leave_forward(ctx, &a->out, y, a->row + r_at(ctx->cfg), n_row(ctx->cfg));
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    conv_forward(&a->conv, a->u, x);
    project(ctx, a);
    vector_forward(&a->core, a->out.o, a->saved);
    finish(ctx, a, y);
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
        const real *row = a->row + i * n_row(c), *q = row + hk,
                   *k = a->k + i * n_k(c) + hk;
        real       *drow = a->drow + i * n_row(c), *dr = drow + r_at(c) + hv;
        real        ds = sigmoid_back(drow + v_at(c) + hv, a->out.d_o + i * n_v(c) + hv,
                                      row + v_at(c) + hv, dot3(q, aug, k, dk), dv);

        keys_back(drow + hk, drow + n_k(c) + hk, daug, a->dk + i * n_k(c) + hk, q,
                  q + n_k(c), k, aug, ds, dk);
        for (int j = 0; j < dv; j++)
            dbg[j] += dr[j];
    }
}

static void heads_back(const struct ctx *ctx, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;

    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < c->H; h++)
            head_back(ctx, a, b, h);
    for (int i = 0; i < ctx->B * n_k(c); i++)
        ctx->dw[AUG][i % n_k(c)] += a->daug[i];
    for (int i = 0; i < ctx->B * n_v(c); i++)
        ctx->dw[BG][i % n_v(c)] += a->dbg[i];
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long   n = ctx_rows(ctx);
    const size_t r = r_at(c), ld = n_row(c);
    struct acts *a = ctx->acts;

    leave_backward(ctx, &a->out, a->drow + r, dy, a->row + r, ld);
    vector_backward(&a->core, &a->dcore, a->out.d_o, a->saved, a->scratch);
    heads_back(ctx, a);
    product_backward(a->du, 0, ctx->dw[WQ], a->drow, a->u, ctx->w[WQ], n, c->C, n_row(c));
    conv_backward(&a->conv, a->dx, ctx->dw[CONV], NULL, a->du, x);
    #pragma omp parallel for simd schedule(static)
    for (long i = 0; i < n * c->C; i++)
        dx[i] += a->dx[i];
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    conv_extend(&a->conv, state, a->past, a->u, x);
    project(ctx, a);
    vector_extend(&a->core, state, a->S, a->out.o);
    finish(ctx, a, y);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return T * (2.0 * c->C * (n_row(c) + n_v(c)) + conv_flops(c->C) +
                c->H * vector_flops(T, dk_of(c), dv_of(c)));
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct mixer_cfg *c = ctx->cfg;
    const struct acts *a = ctx->acts;

    range_logs(r, a->row + n_k(c), n_row(c), ctx_rows(ctx), c->H, dk_of(c));
    return c->H;
}

const struct mixer mixer_metala = {
    .name     = "metala",
    .about    = "gated linear attention without keys, self-augmented (MetaLA)",
    .system   = "L = I x diag(a_t), B = I x (1 - a_t), C = I x q_t / sqrt(dk); "
                "D by sigmoid",
    .position = "none",
    .opts     = opts,
    .check    = check,
    .params   = params,
    .layout    = layout,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
