/* minGRU: a gated recurrence whose gates do not see its state (arXiv:2410.01201).
 *
 *     k, v = Wz x, Wh x                     k, v (e), e = expand C
 *     z = sigmoid(k),  c = g(v)             g(v) = v + 1/2 (v >= 0), sigmoid(v); or v
 *     h_t = (1 - z) h_{t-1} + z c
 *     y = Wo h
 *
 * 1 - z is computed as sigmoid(-k), which keeps its digits where z is near 1.
 */
#include "model/cores/scan.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "model/mixer.h"

enum { WZ, WH, WO, N_PARAMS };
enum { EXPAND, ACT };

static const struct opt opts[] = {
    [EXPAND] = {"expand", "inner width in widths", OPT_INT, NULL, 1, 1, 16},
    [ACT]    = {"act", "of the candidate: g keeps it positive",
                OPT_CHOICE, "g|none", 0, 0, 0},
    {0},
};

static int  inner(const struct mixer_cfg *c) { return (int)c->opt[EXPAND] * c->C; }
static bool positive(const struct mixer_cfg *c) { return c->opt[ACT] == 0; }

static int params(const struct mixer_cfg *c, struct param *p)
{
    p[WZ] = (struct param){"wz", inner(c), c->C, INIT_INPUT, .decay = true};
    p[WH] = (struct param){"wh", inner(c), c->C, INIT_INPUT, .decay = true};
    p[WO] = (struct param){"wo", c->C, inner(c), INIT_OUTPUT, .decay = true};
    return N_PARAMS;
}

struct acts {
    real *kv, *dkv;     // (B, T, 2, e)
    real *a;            // (B, T, e) 1 - z
    real *h, *dh;       // (B, T, e) states
    size_t S;           // where the state is
};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t n = layout_tokens(m) * inner(c);

    a->kv = layout_keep(m, "kv", 2 * n);
    a->a = layout_keep(m, "a", n);
    a->h = layout_keep(m, "h", n);
    a->dkv = layout_grad(m, "dkv", 2 * n);
    a->dh = layout_grad(m, "dh", n);
    a->S = layout_state(m, inner(c));
}

/* g(v), and its derivative. Without branches, to be vectorised. */
static inline real candidate(real v, bool act)
{
    real low = vsigmoid(v), g = v < 0 ? low : v + (real)0.5;

    return act ? g : v;
}

static inline real candidate_slope(real v, bool act)
{
    real low = vsigmoid(v), slope = v < 0 ? low * (1 - low) : 1;

    return act ? slope : 1;
}

/* One token: a, and into h what enters the state, z c. */
static inline void gate_row(const real *k, const real *v, real *restrict a,
                            real *restrict h, int e, bool act)
{
    for (int j = 0; j < e; j++) {
        a[j] = vsigmoid(-k[j]);
        h[j] = vsigmoid(k[j]) * candidate(v[j], act);
    }
}

static struct scan project(const struct ctx *ctx, const real *x, const struct acts *a)
{
    const struct mixer_cfg *c = ctx->cfg;
    const long n = ctx_rows(ctx);
    const int  e = inner(c);

    product_forward(a->kv, x, ctx->w[WZ], n, c->C, 2 * e);
#pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long r = 0; r < n; r++)
        gate_row(a->kv + 2 * r * e, a->kv + (2 * r + 1) * e, a->a + r * e,
                 a->h + r * e, e, positive(c));
    return (struct scan){ctx->B, ctx->T, e, a->a};
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    struct acts *a = ctx->acts;
    struct scan  s = project(ctx, x, a);

    scan_forward(&s, a->h);
    product_forward(y, a->h, ctx->w[WO], ctx_rows(ctx), s.C, ctx->cfg->C);
}

/* One token: dk = z (1 - z) (c db - da),  dv = z g'(v) db; da is in the place of dk. */
static inline void gate_row_back(const real *k, const real *v, const real *a,
                                 const real *db, real *restrict dk, real *restrict dv,
                                 int e, bool act)
{
    for (int j = 0; j < e; j++) {
        real z = vsigmoid(k[j]);

        dk[j] = z * a[j] * (candidate(v[j], act) * db[j] - dk[j]);
        dv[j] = z * candidate_slope(v[j], act) * db[j];
    }
}

static void gates_back(const struct ctx *ctx, const struct acts *a)
{
    const int e = inner(ctx->cfg);

    #pragma omp parallel for schedule(static)
    for (long r = 0; r < ctx_rows(ctx); r++)
        gate_row_back(a->kv + 2 * r * e, a->kv + (2 * r + 1) * e, a->a + r * e,
                      a->dh + r * e, a->dkv + 2 * r * e, a->dkv + (2 * r + 1) * e, e,
                      positive(ctx->cfg));
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const long   n = ctx_rows(ctx);
    const int    C = ctx->cfg->C, e = inner(ctx->cfg);
    struct acts *a = ctx->acts;
    struct scan  s = {ctx->B, ctx->T, e, a->a};

    product_backward(a->dh, 0, ctx->dw[WO], dy, a->h, ctx->w[WO], n, e, C);
    scan_backward(&s, a->dh, a->dkv, 2 * (size_t)e, a->h);
    gates_back(ctx, a);
    product_backward(dx, 1, ctx->dw[WZ], a->dkv, x, ctx->w[WZ], n, C, 2 * e);
}

static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    struct acts *a = ctx->acts;
    struct scan  s = project(ctx, x, a);

    scan_extend(&s, state, a->S, a->h);
    product_forward(y, a->h, ctx->w[WO], ctx_rows(ctx), s.C, ctx->cfg->C);
}

static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * inner(c) * (6.0 * c->C + 4);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct acts *a = ctx->acts;

    for (long i = 0; i < ctx_rows(ctx) * inner(ctx->cfg); i++)
        range_add(r, (double)a->a[i]);
    return 1;
}

const struct mixer mixer_mingru = {
    .name     = "mingru",
    .about    = "gated recurrence whose gates see only the input (minGRU)",
    .system   = "L = diag(1 - z_t), B = diag(z_t) on g(Wh x), C = I",
    .position = "none",
    .opts     = opts,
    .params   = params,
    .layout    = layout,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
