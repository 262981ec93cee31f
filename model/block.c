#include "model/block.h"

#include "model/kernels/arena.h"
#include "model/meter.h"
#include "model/kernels/product.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"

#include <string.h>

enum { NORM1, MIXER = BLOCK_BEFORE };
enum { NORM2, WG, WU, WD };     // after the mixer's; WG and WU are used as one matrix

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

/* Parameter i of those after the mixer's, and its gradient. */
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
    return (struct norm){1, b->cfg->C, .shared = true, .eps = (real)b->cfg->eps};
}

void block_layout(struct block *b, enum pass_mode mode, int B, int T, struct arena *kept,
                  struct arena *scratch)
{
    struct norm  norm = norm_of(b);
    struct arena mlp;
    size_t       n = (size_t)B * T, C = b->cfg->C;
    bool         train = pass_trains(mode);

    b->rows = (long)n;
    b->a = train && b->mlp ? arena_reals(kept, "a", n * C) : b->out;
    b->gu = arena_reals(train ? kept : scratch, "gu", n * 2 * b->mlp);
    b->n = arena_reals(scratch, "n", n * C);
    b->y = arena_reals(scratch, "y", n * C);
    b->partial = arena_reals(scratch, "partial", train ? norm_partial(&norm) : 0);
    mlp = *scratch;                     // which never runs at the same time as the mixer
    b->wide = arena_reals(&mlp, "wide", n * b->mlp);
    b->mixer = (struct mixer_layer){
        .ctx = {.cfg = b->cfg, .B = B, .T = T}, .w = b->w + MIXER,
        .dw = b->dw ? b->dw + MIXER : NULL,
    };
    mixer_layout(&b->mixer, mode, kept, scratch);
    scratch->used = mlp.used > scratch->used ? mlp.used : scratch->used;
}

/* y = x + d */
static void add(real *y, const real *x, const real *d, size_t n)
{
    #pragma omp parallel for simd schedule(static) if (n > 1 << 14)
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] + d[i];
}

static void normalise(const struct block *b, const real *x, const real *w)
{
    struct norm o = norm_of(b);

    rms_forward(&o, b->n, b->cfg->C, x, b->cfg->C, w, b->rows);
}

/* dx += and dw += from b->y, the gradient of b->n. */
static void normalise_back(const struct block *b, real *dx, real *dw, const real *x,
                           const real *w)
{
    struct norm o = norm_of(b);
    size_t      C = b->cfg->C;

    rms_backward(&o, dx, C, 1, dw, b->y, C, x, C, w, b->rows, b->partial);
}

/* a = x + y, y the mixer's. */
static void add_mixer(struct block *b)
{
    meter_switch(METER_NORMS);
    add(b->a, b->x, b->y, b->rows * b->cfg->C);
}

static void run_mixer(struct block *b, int window)
{
    normalise(b, b->x, b->w[NORM1]);
    meter_switch(METER_MIXER);
    mixer_forward(&b->mixer, window, b->n, b->y);
    add_mixer(b);
}

/* out = a + mlp(a) */
static void run_mlp(struct block *b)
{
    if (!b->mlp)
        return;
    normalise(b, b->a, after(b, NORM2));
    meter_switch(METER_MLP);
    mlp_forward(b->y, b->n, after(b, WG), after(b, WD), b->gu, b->wide, b->rows,
                b->cfg->C, b->mlp);
    meter_switch(METER_NORMS);
    add(b->out, b->a, b->y, b->rows * b->cfg->C);
}

void block_forward(struct block *b, int window)
{
    run_mixer(b, window);
    run_mlp(b);
}

void block_recompute(struct block *b, int window)
{
    run_mixer(b, window);
    if (!b->mlp)
        return;
    normalise(b, b->a, after(b, NORM2));
    meter_switch(METER_MLP);
    product_forward(b->gu, b->n, after(b, WG), b->rows, b->cfg->C, 2 * b->mlp);
    meter_switch(METER_NORMS);
}

/* dx, the gradient of out, becomes that of a. What a norm gave is made again here and
 * below: that costs less than keeping it for every block. */
static void mlp_back(struct block *b, real *dx)
{
    if (!b->mlp)
        return;
    normalise(b, b->a, after(b, NORM2));
    meter_switch(METER_MLP);
    mlp_backward(b->y, d_after(b, WG), d_after(b, WD), dx, b->n, after(b, WG),
                 after(b, WD), b->gu, b->wide, b->rows, b->cfg->C, b->mlp);
    meter_switch(METER_NORMS);
    normalise_back(b, dx, d_after(b, NORM2), b->a, after(b, NORM2));
}

void block_backward(struct block *b, real *dx)
{
    mlp_back(b, dx);
    normalise(b, b->x, b->w[NORM1]);
    memset(b->y, 0, (size_t)b->rows * b->cfg->C * sizeof *b->y);
    meter_switch(METER_MIXER);
    mixer_backward(&b->mixer, b->n, dx, b->y);
    meter_switch(METER_NORMS);
    normalise_back(b, dx, b->dw[NORM1], b->x, b->w[NORM1]);
}

double block_imitate(struct block *b, int window, const real *x, const real *a,
                     double scale)
{
    const size_t n = (size_t)b->rows * b->cfg->C;
    double       off = 0, answer = 0;

    memcpy(b->x, x, n * sizeof *x);
    run_mixer(b, window);
    for (size_t i = 0; i < n; i++) {
        b->a[i] -= a[i];
        off += (double)b->a[i] * b->a[i];
        answer += (double)(a[i] - x[i]) * (a[i] - x[i]);
    }
    if (answer == 0)
        return 0;
    for (size_t i = 0; i < n; i++)
        b->a[i] *= (real)(2 * scale / answer);
    normalise(b, b->x, b->w[NORM1]);
    memset(b->y, 0, n * sizeof *b->y);
    mixer_backward(&b->mixer, b->n, b->a, b->y);
    return off / answer;
}

void block_extend(struct block *b, void *const *state, const long *pos)
{
    normalise(b, b->x, b->w[NORM1]);
    meter_switch(METER_MIXER);
    mixer_extend(&b->mixer, state, pos, b->n, b->y);
    add_mixer(b);
    run_mlp(b);
}
