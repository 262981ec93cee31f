/* Rotary position encoding (RoFormer, arXiv:2104.09864).
 *
 *     theta_{t,j} = t base^(-2j/dk)        t from 0, pairs (j, j + dk/2)
 *
 * q and k turned by their own positions meet in a product that knows only their distance.
 * All heads and sequences share one row of cos and sin per position.
 */
#include "model/mixer.h"

#include <math.h>

enum { BASE };

static const struct opt opts[] = {
    [BASE] = {"base", "wavelengths run from 2 pi to 2 pi base",
              OPT_REAL, NULL, 1e4, 1, 1e12},
    {0},
};

/* cos and sin (T, dk/2) for all sequences; (B, T, dk/2) in extend, where each
 * has its place. */
static void carve(struct room *m, const struct mixer_cfg *c)
{
    struct angles *a = room_names(m, sizeof *a);
    const size_t   rows = m->call == EXTEND ? room_rows(m) : (size_t)m->T;

    *a = (struct angles){0};
    c->mixer->angles(c, &a->heads, &a->dk);
    a->t = a->dk / 2;
    a->b = m->call == EXTEND ? m->T * a->t : 0;
    a->cos = room_keep(m, rows * a->t);
    a->sin = room_keep(m, rows * a->t);
}

static void fill_row(const struct mixer_cfg *c, real *cos_row, real *sin_row,
                     double t, int n)
{
    for (int j = 0; j < n; j++) {
        double theta = t * pow(c->position_opt[BASE], -(double)j / n);

        cos_row[j] = (real)cos(theta);
        sin_row[j] = (real)sin(theta);
    }
}

static void forward(struct ctx *ctx, const real *x)
{
    const struct angles *a = ctx->acts;

    (void)x;
    ctx->angles = *a;
    #pragma omp parallel for schedule(static)
    for (int t = 0; t < ctx->T; t++)
        fill_row(ctx->cfg, a->cos + t * a->t, a->sin + t * a->t, t, (int)a->t);
}

static void extend(struct ctx *ctx, void *const *state, const real *x)
{
    const struct angles *a = ctx->acts;

    (void)state, (void)x;
    ctx->angles = *a;
    for (int b = 0; b < ctx->B; b++)
        for (int t = 0; t < ctx->T; t++) {
            size_t at = b * a->b + t * a->t;

            fill_row(ctx->cfg, a->cos + at, a->sin + at, (double)ctx->pos[b] + t,
                     (int)a->t);
        }
}

static double flops(const struct mixer_cfg *c, int T)
{
    (void)c, (void)T;
    return 0;
}

const struct position position_rope = {
    .name    = "rope",
    .about   = "rotary: angles proportional to the position",
    .opts    = opts,
    .carve   = carve,
    .forward = forward,
    .extend  = extend,
    .flops   = flops,
};
