/* MetaLA: gated linear attention without keys (arXiv:2411.10741).
 *
 *     u = silu(conv(x))                                            conv = 0: u = x
 *     q, z = Wq u, Wa u (H, dk),   v, r = Wv u, Wg u + bg (H, dv)
 *     log a = log sigmoid(z) / 16,   k = 1 - a
 *     S_t = diag(a_t) S_{t-1} + k_t v_tᵀ
 *     o_t = S_tᵀ q_t / sqrt(dk) + sigmoid(v_t (q_t . aug k_t))     self-augmentation;
 *                                                                  aug = 0: none
 *     y = Wo( ln(o) silu(r) )                                      ln over each head,
 *                                                                  no weights
 *
 * What enters the state is what was forgotten: the weights of all tokens sum to
 * 1 - a_0 ... a_t. The norm must remove the mean: where the weights aug are 0 the
 * augmentation is the constant 1/2. The preset metala trains at half the rate of the
 * others.
 */
#include "model/kernels/vmath.h"
#include "model/mixer_heads.h"

#include <math.h>
#include <string.h>

enum { DK, DV, AUG, CONV };
enum { TAU = 16 };

static const struct opt opts[] = {
    [DK] = {"dk", "width of a head's q; 0: width / heads / 2", OPT_INT, 0, 0, 4096},
    [DV] = {"dv", "width of a head's v; 0: width / heads", OPT_INT, 0, 0, 4096},
    [AUG] = {"aug", "self-augmentation", OPT_FLAG, 1},
    [CONV] = {"conv", "taps of the convolution before all; 0: none",
              OPT_CHOICE, 1, .choices = "0|4"},
    {0},
};

static bool augments(const struct mixer_cfg *c) { return c->opt[AUG] > 0; }
static bool convolves(const struct mixer_cfg *c) { return c->opt[CONV] > 0; }

struct acts {
    struct act u;               // (C), with a convolution
    struct act row, q, log_a;   // of u: q, log a (H, dk)
    struct act v, r;            // (H, dv) the rest of the row
    struct act k;               // (H, dk)
    struct weight bg, aug;      // (H, dv), (H, dk); aug may be none
    struct short_conv conv;
    struct vector_heads core;
    struct heads_out out;
};

/* wq and wa: Xavier's uniform distribution with gain 2^-2.5. */
static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    C = c->C, H = c->H, dk = opt_or(c, DK, C / H / 2),
                 dv = opt_or(c, DV, C / H), k = H * dk, v = H * dv;
    const double xavier = exp2(-2.5) * sqrt(6.0 / (C + k));
    const struct norm norm = {H, dv, .shared = true, .eps = (real)c->eps, .centre = true};

    layout_require(m, C % (2 * H) == 0 || c->opt[DK] > 0,
                   "width must be a multiple of 2 heads, or dk be set");
    if (convolves(c)) {
        a->u = act_keep(m, "u", C);
        a->conv = short_conv_layout(m, (struct taps[]){{"conv", C}, {0}}, NULL, C, C,
                                    true);
    }
    a->row = act_row(m, (struct act_part[]){
        {"wq", &a->q, k, INIT_UNIFORM, xavier},
        {"wa", &a->log_a, k, INIT_UNIFORM, xavier}, {"wv", &a->v, v}, {"wg", &a->r, v},
        {0}});
    a->k = act_keep(m, "k", k);
    a->bg = layout_summed(m, "bg", v, INIT_ZERO);
    if (augments(c))
        a->aug = layout_summed(m, "aug", k, INIT_ZERO);
    a->core = vector_heads_layout(m, a->q, a->k, a->v, a->log_a,
                                  (struct vector){.H = H, .dk = dk, .dv = dv});
    a->out.wo = layout_out(m, v);
    heads_out_layout(&a->out, m, norm, GATE_SILU, a->core.o, a->r);
    m->paper_state = (double)dk * v + (convolves(c) ? 3 * C : 0);
}

/* u to rows and k. */
static void project(const struct ctx *ctx, const struct acts *a, const real *u)
{
    const long n = ctx_rows(ctx);

    proj_forward(ctx, a->row, u);
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++) {
        real *z = a->log_a.x + i * a->row.ld, *k = a->k.x + i * a->k.ld;
        real *r = a->r.x + i * a->row.ld;

        for (size_t j = 0; j < a->k.ld; j++) {
            z[j] = vlsig(z[j]) / TAU;
            k[j] = -vexpm1(z[j]);
        }
        for (size_t j = 0; j < a->core.o.ld; j++)
            r[j] += a->bg.w[j];
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
    const long n = ctx_rows(ctx);
    const int  dk = a->core.core.dk, dv = a->core.core.dv;

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        for (int h = 0; h < ctx->cfg->H; h++) {
            const real *v = a->v.x + i * a->row.ld + (size_t)h * dv;
            size_t      at = (size_t)h * dk;
            real       *o = a->core.o.x + i * a->core.o.ld + (size_t)h * dv;
            real        s = dot3(a->q.x + i * a->row.ld + at, a->aug.w + at,
                                 a->k.x + i * a->k.ld + at, dk);

            #pragma omp simd
            for (int j = 0; j < dv; j++)
                o[j] += vsigmoid(s * v[j]);
        }
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;

    if (convolves(ctx->cfg))
        short_conv_forward(ctx, &a->conv, a->u.x, x);
    project(ctx, a, convolves(ctx->cfg) ? a->u.x : x);
    vector_heads_forward(ctx, &a->core);
    if (augments(ctx->cfg))
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
 */
static void augment_back(real *restrict dq, real *restrict dk, real *restrict daug,
                         const real *q, const real *k, const real *aug, real ds, int n)
{
    for (int j = 0; j < n; j++) {
        dk[j] += ds * q[j] * aug[j];
        dq[j] += ds * aug[j] * k[j];
        daug[j] += ds * q[j] * k[j];
    }
}

/* dz = (dlog a - a dk) (1 - a^16) / 16         dz holds dlog a */
static void keys_back(real *restrict dz, const real *dk, const real *log_a, const real *k,
                      int n)
{
    for (int j = 0; j < n; j++)
        dz[j] = (dz[j] - (1 - k[j]) * dk[j]) * vexpm1(TAU * log_a[j]) / -TAU;
}

/* All tokens of head h of sequence b: from the gradient of o to those of q, k and v, and
 * the sum for aug. */
static void head_augment_back(const struct ctx *ctx, const struct acts *a, int b, int h)
{
    const struct act o = a->core.o;
    const int    dk = a->core.core.dk, dv = a->core.core.dv;
    const size_t hk = (size_t)h * dk, hv = (size_t)h * dv;
    const real  *aug = a->aug.w + hk;
    real        *daug = a->aug.part + b * a->k.ld + hk;

    memset(daug, 0, dk * sizeof *daug);
    for (long i = (long)b * ctx->T; i < (long)(b + 1) * ctx->T; i++) {
        const size_t at = i * a->row.ld, keys = i * a->k.ld + hk;
        const real  *q = a->q.x + at + hk, *k = a->k.x + keys;
        real ds = sigmoid_back(a->v.dx + at + hv, o.dx + i * o.ld + hv,
                               a->v.x + at + hv, dot3(q, aug, k, dk), dv);

        augment_back(a->q.dx + at + hk, a->k.dx + keys, daug, q, k, aug, ds, dk);
    }
}

/* On to z, and the sum for bg. */
static void head_back(const struct ctx *ctx, const struct acts *a, int b, int h)
{
    const int    dk = a->core.core.dk, dv = a->core.core.dv;
    const size_t hk = (size_t)h * dk, hv = (size_t)h * dv;
    real        *dbg = a->bg.part + b * a->core.o.ld + hv;

    if (augments(ctx->cfg))
        head_augment_back(ctx, a, b, h);
    memset(dbg, 0, dv * sizeof *dbg);
    for (long i = (long)b * ctx->T; i < (long)(b + 1) * ctx->T; i++) {
        const size_t at = i * a->row.ld, keys = i * a->k.ld + hk;

        keys_back(a->log_a.dx + at + hk, a->k.dx + keys, a->log_a.x + at + hk,
                  a->k.x + keys, dk);
        for (int j = 0; j < dv; j++)
            dbg[j] += a->r.dx[at + hv + j];
    }
}

static void heads_back(const struct ctx *ctx, const struct acts *a)
{
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < ctx->B; b++)
        for (int h = 0; h < ctx->cfg->H; h++)
            head_back(ctx, a, b, h);
    if (augments(ctx->cfg))
        add_parts(ctx, a->aug, a->k.ld);
    add_parts(ctx, a->bg, a->core.o.ld);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct acts *a = ctx->acts;

    heads_out_backward(ctx, &a->out, dy);
    vector_heads_backward(&a->core);
    heads_back(ctx, a);
    if (!convolves(ctx->cfg)) {
        proj_backward(ctx, dx, 0, a->row, x);
        return;
    }
    proj_backward(ctx, a->u.dx, 0, a->row, a->u.x);
    short_conv_backward(&a->conv, dx, a->u.dx, x);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;

    return decay_of_logs(ctx, r, a->log_a.x, a->row.ld, a->core.core.dk);
}

const struct mixer mixer_metala = {
    .name     = "metala",
    .about    = "gated linear attention without keys, self-augmented (MetaLA)",
    .opts     = opts,
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = I x diag(a_t), B = I x (1 - a_t), C = I x q_t / sqrt(dk); "
                  "D by sigmoid",
        .decay = decay,
    },
};
