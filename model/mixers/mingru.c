/* minGRU: a gated recurrence whose gates do not see its state (arXiv:2410.01201).
 *
 *     k, v = Wz x, Wh x                     k, v (e), e = expand C
 *     z = sigmoid(k),  c = g(v)             g(v) = v + 1/2 (v >= 0), sigmoid(v); or v
 *     h_t = (1 - z) h_{t-1} + z c
 *     y = Wo h
 *
 * 1 - z is computed as sigmoid(-k), which keeps its digits where z is near 1.
 */
#include "model/kernels/vmath.h"
#include "model/mixer_recurrence.h"

enum { EXPAND, ACT };

static const struct opt opts[] = {
    [EXPAND] = {"expand", "inner width in widths", OPT_INT, 1, 1, 16},
    [ACT]    = {"act", "of the candidate: g keeps it positive",
                OPT_CHOICE, .choices = "g|none"},
    {0},
};

static bool positive(const struct mixer_cfg *c) { return c->opt[ACT] == 0; }

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

/* a = 1 - z,  b = z c */
static void input(const struct ctx *ctx, const struct recurrence_token *t)
{
    const int   e = t->e;
    const bool  act = positive(ctx->cfg);
    const real *k = t->z, *v = t->z + e;
    real       *a = t->a, *h = t->h;

    #pragma omp simd
    for (int j = 0; j < e; j++) {
        a[j] = vsigmoid(-k[j]);
        h[j] = vsigmoid(k[j]) * candidate(v[j], act);
    }
}

/* dk = z (1 - z) (c db - da),  dv = z g'(v) db */
static void input_back(const struct ctx *ctx, const struct recurrence_token *t)
{
    const int   e = t->e;
    const bool  act = positive(ctx->cfg);
    const real *k = t->z, *v = t->z + e, *a = t->a, *db = t->dh;
    real       *dk = t->dz, *dv = t->dz + e;

    #pragma omp simd
    for (int j = 0; j < e; j++) {
        real z = vsigmoid(k[j]);

        dk[j] = z * a[j] * (candidate(v[j], act) * db[j] - dk[j]);
        dv[j] = z * candidate_slope(v[j], act) * db[j];
    }
}

static const struct recurrence_form form = {.input = input, .input_back = input_back};

static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct recurrence *r = layout_acts(m, sizeof *r);
    const int          e = (int)c->opt[EXPAND] * c->C;

    r->row = act_row(m, (struct act_part[]){{"wz", NULL, e}, {"wh", NULL, e}, {0}});
    r->wo = layout_out(m, e);
    recurrence_layout(r, m, &form, e);
    layout_flops(m, 4.0 * e);
    m->paper_state = e;
}

static void forward(struct ctx *ctx, const real *x, real *y)
{
    recurrence_forward(ctx, ctx->acts, x, y);
}

static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    recurrence_backward(ctx, ctx->acts, x, dy, dx);
}

static int decay(struct ctx *ctx, struct range *r)
{
    const struct recurrence *a = ctx->acts;

    for (long i = 0; i < ctx_rows(ctx) * a->e; i++)
        range_add(r, (double)a->a[i]);
    return 1;
}

const struct mixer mixer_mingru = {
    .name     = "mingru",
    .about    = "gated recurrence whose gates see only the input (minGRU)",
    .opts     = opts,
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L = diag(1 - z_t), B = diag(z_t) on g(Wh x), C = I",
        .decay = decay,
    },
};
