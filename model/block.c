#include "model/block.h"

#include "model/kernels/arena.h"
#include "model/kernels/meter.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"

#include <string.h>

enum { NORM1, MIXER = BLOCK_BEFORE };
enum { NORM2, WG, WU, WD };                         // after the mixer's parameters

int block_params(const struct mixer_cfg *c, int mlp, struct param *p)
{
    int           n = MIXER + mixer_params(c, p + MIXER);
    struct param *q = p + n;

    p[NORM1] = (struct param){"norm1", c->C, 0, INIT_ONE};
    if (!mlp)
        return n;
    q[NORM2] = (struct param){"norm2", c->C, 0, INIT_ONE};
    q[WG] = (struct param){"mlp.wg", mlp, c->C, INIT_INPUT, .decay = true};
    q[WU] = (struct param){"mlp.wu", mlp, c->C, INIT_INPUT, .decay = true};
    q[WD] = (struct param){"mlp.wd", c->C, mlp, INIT_OUTPUT, .decay = true};
    return n + BLOCK_AFTER;
}

static const real *after(const struct block *b, int i)
{
    return b->w[MIXER + b->n_mixer + i];
}

static real *d_after(const struct block *b, int i)
{
    return b->dw[MIXER + b->n_mixer + i];
}

static struct norm norm_of(const struct block *b)
{
    return (struct norm){1, b->cfg->C, true, (real)1e-5};
}

size_t block_carve_kept(struct block_kept *k, void *base, const struct block *b,
                        int B, int T)
{
    struct arena a = arena_over(base);
    struct sizes m;
    size_t       n = (size_t)B * T;

    mixer_sizes(b->cfg, B, T, &m);
    k->x = arena_reals(&a, n * b->cfg->C);
    k->a = arena_reals(&a, n * b->cfg->C);
    k->gu = arena_reals(&a, n * 2 * b->mlp);
    k->mixer = arena_bytes(&a, m.kept);
    return a.used;
}

size_t block_carve_scratch(struct block_scratch *s, void *base, const struct block *b,
                           int B, int T)
{
    struct arena a = arena_over(base);
    struct norm  norm = norm_of(b);
    struct sizes m;
    size_t       n = (size_t)B * T, wide = n * 3 * b->mlp * sizeof *s->wide;

    mixer_sizes(b->cfg, B, T, &m);
    s->n = arena_reals(&a, n * b->cfg->C);
    s->y = arena_reals(&a, n * b->cfg->C);
    s->partial = arena_reals(&a, norm_partial(&norm));
    // the mixer and the mlp never run at the same time
    s->mixer = arena_bytes(&a, m.scratch > wide ? m.scratch : wide);
    s->wide = s->mixer;
    return a.used;
}

struct ctx block_ctx(const struct block *b, const struct block_kept *k,
                     const struct block_scratch *s, int B, int T, int window)
{
    return (struct ctx){
        .cfg = b->cfg, .B = B, .T = T, .window = window, .w = b->w + MIXER,
        .dw = b->dw ? b->dw + MIXER : NULL, .kept = k ? k->mixer : NULL,
        .scratch = s->mixer,
    };
}

/* y = x + d */
static void add(real *y, const real *x, const real *d, size_t n)
{
    #pragma omp parallel for simd schedule(static) if (n > 1 << 14)
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] + d[i];
}

static void normalise(const struct block *b, real *y, const real *x,
                      const real *w, long n)
{
    struct norm o = norm_of(b);

    rms_forward(&o, y, b->cfg->C, x, b->cfg->C, w, n);
}

static void normalise_back(const struct block *b, real *dx, real *dw, const real *dy,
                           const real *x, const real *w, long n, real *partial)
{
    struct norm o = norm_of(b);
    size_t      C = b->cfg->C;

    rms_backward(&o, dx, C, 1, dw, dy, C, x, C, w, n, partial);
}

void block_forward(const struct block *b, struct block_kept *k,
                   struct block_scratch *s, int B, int T, int window, real *y)
{
    struct ctx ctx = block_ctx(b, k, s, B, T, window);
    long       n = (long)B * T;
    int        C = b->cfg->C;

    normalise(b, s->n, k->x, b->w[NORM1], n);
    meter_switch(METER_MIXER);
    mixer_forward(&ctx, s->n, s->y);
    meter_switch(METER_NORMS);
    add(b->mlp ? k->a : y, k->x, s->y, n * C);
    if (!b->mlp)
        return;
    normalise(b, s->n, k->a, after(b, NORM2), n);
    meter_switch(METER_MLP);
    mlp_forward(s->y, s->n, after(b, WG), after(b, WD), k->gu, s->wide, n, C, b->mlp);
    meter_switch(METER_NORMS);
    add(y, k->a, s->y, n * C);
}

/* dx, the gradient of y, becomes that of a. */
static void mlp_part_back(const struct block *b, struct block_kept *k,
                          struct block_scratch *s, long n, real *dx)
{
    normalise(b, s->n, k->a, after(b, NORM2), n);
    meter_switch(METER_MLP);
    mlp_backward(s->y, d_after(b, WG), d_after(b, WD), dx, s->n, after(b, WG),
                 after(b, WD), k->gu, s->wide, n, b->cfg->C, b->mlp);
    meter_switch(METER_NORMS);
    normalise_back(b, dx, d_after(b, NORM2), s->y, k->a, after(b, NORM2), n, s->partial);
}

void block_backward(const struct block *b, struct block_kept *k,
                    struct block_scratch *s, int B, int T, int window, real *dx)
{
    struct ctx ctx = block_ctx(b, k, s, B, T, window);
    long       n = (long)B * T;
    int        C = b->cfg->C;

    if (b->mlp)
        mlp_part_back(b, k, s, n, dx);
    normalise(b, s->n, k->x, b->w[NORM1], n);
    memset(s->y, 0, (size_t)n * C * sizeof *s->y);
    meter_switch(METER_MIXER);
    mixer_backward(&ctx, s->n, dx, s->y);
    meter_switch(METER_NORMS);
    normalise_back(b, dx, b->dw[NORM1], s->y, k->x, b->w[NORM1], n, s->partial);
}

void block_extend(const struct block *b, struct block_scratch *s, real *gu,
                  void *const *state, const long *pos, int B, int T, real *x)
{
    struct ctx ctx = block_ctx(b, NULL, s, B, T, 0);
    long       n = (long)B * T;
    int        C = b->cfg->C;

    ctx.pos = pos;
    normalise(b, s->n, x, b->w[NORM1], n);
    meter_switch(METER_MIXER);
    mixer_extend(&ctx, state, s->n, s->y);
    meter_switch(METER_NORMS);
    add(x, x, s->y, n * C);
    if (!b->mlp)
        return;
    normalise(b, s->n, x, after(b, NORM2), n);
    meter_switch(METER_MLP);
    mlp_forward(s->y, s->n, after(b, WG), after(b, WD), gu, s->wide, n, C, b->mlp);
    meter_switch(METER_NORMS);
    add(x, x, s->y, n * C);
}
