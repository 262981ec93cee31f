/* Rotary position encoding (RoFormer, arXiv:2104.09864).
 *
 *     theta_{t,j} = t base^(-2j/dk)        t from 0, pairs (j, j + dk/2)
 *
 * q and k turned by their own positions meet in a product that knows only their distance.
 * All heads and sequences share one row of cos and sin per position.
 */
#include "model/kernels/vmath.h"
#include "model/mixer.h"

#include <math.h>

enum { BASE };

static const struct opt opts[] = {
    [BASE] = {"base", "wavelengths run from 2 pi to 2 pi base", OPT_REAL, 1e4, 1, 1e12},
    {0},
};

/* cos and sin (T, dk/2) for all sequences; (B, T, dk/2) in extend, where each
 * has its place. */
static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct angles *a = layout_acts(m, sizeof *a);
    const size_t   rows = m->mode == PASS_EXTEND ? layout_tokens(m) : (size_t)m->T;

    *a = (struct angles){0};
    mixer_angles(c, &a->heads, &a->dk);
    a->t = a->dk / 2;
    a->b = m->mode == PASS_EXTEND ? m->T * a->t : 0;
    a->cos = layout_keep(m, "cos", rows * a->t);
    a->sin = layout_keep(m, "sin", rows * a->t);
}

/* Frequencies j = from .. from + n - 1 of all. */
struct band {
    int    from, n;
    double f[64];
};

static struct band band_at(const struct mixer_cfg *c, int from, int all)
{
    struct band b = {.from = from, .n = all - from};

    b.n = b.n < (int)(sizeof b.f / sizeof *b.f) ? b.n : (int)(sizeof b.f / sizeof *b.f);
    for (int j = 0; j < b.n; j++)
        b.f[j] = pow(c->position_opt[BASE], -(double)(from + j) / all);
    return b;
}

static inline void fill_row(const struct band *b, real *c, real *s, double t)
{
    #pragma omp simd
    for (int j = 0; j < b->n; j++)
        vsincos(t * b->f[j], s + b->from + j, c + b->from + j);
}

/* Positions pos[b], pos[b] + 1 … of B sequences. */
static void fill(const struct ctx *ctx, const struct angles *a, int B, const long *pos)
{
    const int T = ctx->T, all = (int)a->t;

    for (int j = 0; j < all;) {
        struct band f = band_at(ctx->cfg, j, all);

        #pragma omp parallel for collapse(2) schedule(static) if ((long)B * T > FEW_ROWS)
        for (int b = 0; b < B; b++)
            for (int t = 0; t < T; t++) {
                size_t at = b * a->b + t * a->t;

                fill_row(&f, a->cos + at, a->sin + at, (double)pos[b] + t);
            }
        j += f.n;
    }
}

static void forward(struct ctx *ctx, const real *x)
{
    const long first = 0;

    (void)x;
    ctx->angles = *(struct angles *)ctx->acts;
    fill(ctx, ctx->acts, 1, &first);
}

static void extend(struct ctx *ctx, void *const *state, const real *x)
{
    (void)state, (void)x;
    ctx->angles = *(struct angles *)ctx->acts;
    fill(ctx, ctx->acts, ctx->B, ctx->pos);
}

const struct position position_rope = {
    .name    = "rope",
    .about   = "rotary: angles proportional to the position",
    .opts    = opts,
    .layout  = layout,
    .forward = forward,
    .extend  = extend,
};
