/* Rotary position encoding (RoFormer, arXiv:2104.09864).
 *
 *     theta_{t,j} = t base^(-2j/dk)        t from 0, pairs (j, j + dk/2)
 *
 * q and k turned by their own positions meet in a product that knows only their distance. All
 * heads and sequences share one row of cos and sin per position.
 */
#include "model/arena.h"
#include "model/mixer.h"

#include <math.h>

enum { BASE };

static const struct opt opts[] = {
    [BASE] = {"base", "wavelengths run from 2 pi to 2 pi base", OPT_REAL, NULL, 1e4, 1, 1e12},
    {0},
};

static int half(const struct mixer_cfg *c)
{
    int heads, dk;

    c->mixer->angles(c, &heads, &dk);
    return dk / 2;
}

/* cos and sin (rows, dk/2), laid out from base or only counted. */
static size_t carve(struct angles *a, void *base, const struct mixer_cfg *c, size_t rows)
{
    struct arena m = arena_over(base);

    a->cos = arena_reals(&m, rows * half(c));
    a->sin = arena_reals(&m, rows * half(c));
    return m.used;
}

static void sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct angles a;

    s->kept = carve(&a, NULL, c, T);
    s->scratch = carve(&a, NULL, c, (size_t)B * T);
    s->state = 0;
}

static void fill_row(const struct mixer_cfg *c, real *cos_row, real *sin_row, double t, int n)
{
    for (int j = 0; j < n; j++) {
        double theta = t * pow(c->position_opt[BASE], -(double)j / n);

        cos_row[j] = (real)cos(theta);
        sin_row[j] = (real)sin(theta);
    }
}

static void forward(struct ctx *ctx, const real *x)
{
    struct angles *a = &ctx->angles;
    int            n = half(ctx->cfg);

    (void)x;
    *a = (struct angles){.t = n};
    ctx->cfg->mixer->angles(ctx->cfg, &a->heads, &a->dk);
    carve(a, ctx->kept, ctx->cfg, ctx->T);
    #pragma omp parallel for schedule(static)
    for (int t = 0; t < ctx->T; t++)
        fill_row(ctx->cfg, a->cos + (size_t)t * n, a->sin + (size_t)t * n, t, n);
}

static void extend(struct ctx *ctx, void *const *state, const real *x)
{
    struct angles *a = &ctx->angles;
    int            n = half(ctx->cfg), T = ctx->T;

    (void)state, (void)x;
    *a = (struct angles){.t = n, .b = (size_t)T * n};
    ctx->cfg->mixer->angles(ctx->cfg, &a->heads, &a->dk);
    carve(a, ctx->scratch, ctx->cfg, (size_t)ctx->B * T);
    for (int b = 0; b < ctx->B; b++)
        for (int t = 0; t < T; t++) {
            size_t at = ((size_t)b * T + t) * n;

            fill_row(ctx->cfg, a->cos + at, a->sin + at, (double)ctx->pos[b] + t, n);
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
    .sizes   = sizes,
    .forward = forward,
    .extend  = extend,
    .flops   = flops,
};
