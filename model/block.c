#include "model/block.h"

#include "model/kernels/arena.h"
#include "model/meter.h"
#include "model/kernels/product.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"

#include <omp.h>
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

static struct mlp mlp_of(const struct block *b)
{
    return (struct mlp){b->cfg->C, b->mlp, after(b, WG), after(b, WD), b->gu, b->wide};
}

/* y = x + d, rows t .. t + rows - 1 */
static void add_rows(const struct block *b, real *y, const real *x, const real *d, long t,
                     long rows)
{
    const size_t C = b->cfg->C;

    #pragma omp simd
    for (size_t i = t * C; i < (t + rows) * C; i++)
        y[i] = x[i] + d[i];
}

static void add(const struct block *b, real *y, const real *x, const real *d)
{
    #pragma omp parallel for schedule(static) if (b->rows > FEW_ROWS)
    for (long t = 0; t < b->rows; t += FEW_ROWS)
        add_rows(b, y, x, d, t, b->rows - t < FEW_ROWS ? b->rows - t : FEW_ROWS);
}

static void normalise(const struct block *b, const real *x, const real *w)
{
    struct norm o = norm_of(b);

    rms_forward(&o, b->n, b->cfg->C, x, b->cfg->C, w, b->rows);
}

/* Rows of x from t on into those of n from s on. */
static void normalise_rows(const struct block *b, long s, const real *x, const real *w,
                           long t, long rows)
{
    struct norm o = norm_of(b);
    size_t      C = b->cfg->C;

    rms_forward_rows(&o, b->n + s * C, C, x + t * C, C, w, rows);
}

/* ---- forward ----------------------------------------------------------------------- */

static void run_mixer(struct block *b, int window)
{
    normalise(b, b->x, b->w[NORM1]);
    meter_switch(METER_MIXER);
    mixer_forward(&b->mixer, window, b->n, b->y);
    meter_switch(METER_NORMS);
}

/* a = x + y, y the mixer's. */
static void add_mixer(struct block *b)
{
    add(b, b->a, b->x, b->y);
}

/* The rows of n and wide for tile t: what a thread makes there is read at once and never
 * again, so that it takes the same for all its tiles, where each thread has some. */
static long scratch_rows(const struct block *b, int tile, long t)
{
    return (long)omp_get_num_threads() * tile <= b->rows ?
               (long)omp_get_thread_num() * tile : t;
}

/* a, and out = a + mlp(a), each tile of rows from its first sum to its last. */
static void finish_tiles(struct block *b)
{
    struct mlp m = mlp_of(b);
    const int  tile = product_tile(b->rows);

    mlp_open_forward(&m, b->rows);
    #pragma omp parallel
    {
        mlp_lay(&m);
        #pragma omp for schedule(dynamic)
        for (long t = 0; t < b->rows; t += tile) {
            int  rows = (int)(b->rows - t < tile ? b->rows - t : tile);
            long s = scratch_rows(b, tile, t);

            add_rows(b, b->a, b->x, b->y, t, rows);
            normalise_rows(b, s, b->a, after(b, NORM2), t, rows);
            mlp_forward_rows(&m, b->y, b->n + s * m.C, b->wide + s * m.h, t, rows);
            add_rows(b, b->out, b->a, b->y, t, rows);
        }
    }
}

/* The same, one thing after the other. */
static void finish_whole(struct block *b)
{
    const struct mlp m = mlp_of(b);

    add_mixer(b);
    normalise(b, b->a, after(b, NORM2));
    meter_switch(METER_MLP);
    mlp_forward(&m, b->y, b->n, b->rows);
    meter_switch(METER_NORMS);
    add(b, b->out, b->a, b->y);
}

/* From x and the mixer's y to out. */
static void finish(struct block *b)
{
    if (!b->mlp) {
        add_mixer(b);
    } else if (mlp_by_rows(b->rows)) {
        meter_switch(METER_MLP);
        finish_tiles(b);
        meter_switch(METER_NORMS);
    } else {
        finish_whole(b);
    }
}

void block_forward(struct block *b, int window)
{
    run_mixer(b, window);
    finish(b);
}

void block_recompute(struct block *b, int window)
{
    run_mixer(b, window);
    add_mixer(b);
    if (!b->mlp)
        return;
    normalise(b, b->a, after(b, NORM2));
    meter_switch(METER_MLP);
    product_forward(b->gu, b->n, after(b, WG), b->rows, b->cfg->C, 2 * b->mlp);
    meter_switch(METER_NORMS);
}

/* ---- backward ---------------------------------------------------------------------- */

/* The rows of the norm's blocks first .. end - 1: dn in y, then y = dx + what comes back
 * through the norm. */
static void mlp_rows_back(const struct block *b, const struct mlp *m, const real *dx,
                          int first, int end)
{
    const struct norm o = norm_of(b);
    const real       *w = after(b, NORM2);
    const long        from = norm_block(b->rows, first), to = norm_block(b->rows, end);
    const int         tile = product_tile(b->rows),
                      parts = (int)(to - from + tile - 1) / tile;

    for (int i = 0; i < parts; i++) {
        long t = from + (to - from) * i / parts,
             rows = from + (to - from) * (i + 1) / parts - t;

        normalise_rows(b, t, b->a, w, t, rows);
        mlp_backward_rows(m, b->y, dx, t, (int)rows);
    }
    for (int i = first; i < end; i++)
        rms_backward_block(&o, b->y, dx, b->y, b->a, w, b->rows, i, b->partial);
}

/* dx, the gradient of out, to that of a, in y. What a norm gave is made again here and
 * below: that costs less than keeping it for every block. */
static void mlp_back(struct block *b, const real *dx)
{
    struct mlp        m = mlp_of(b);
    const struct norm o = norm_of(b);
    const int  tile = product_tile(b->rows);
    const long all = NORM_BLOCKS * (long)tile;                  // blocks of a tile:
    const int  some = b->rows >= all ? 1 : (int)(all / (b->rows > 0 ? b->rows : 1));

    meter_switch(METER_MLP);
    mlp_open_backward(&m, b->rows);
    #pragma omp parallel
    {
        mlp_lay(&m);
        #pragma omp for schedule(dynamic)
        for (int i = 0; i < NORM_BLOCKS; i += some)
            mlp_rows_back(b, &m, dx, i, i + some < NORM_BLOCKS ? i + some : NORM_BLOCKS);
        mlp_backward_weights(&m, d_after(b, WG), d_after(b, WD), dx, b->n, b->rows);
    }
    rms_backward_sum(&o, d_after(b, NORM2), b->partial);
    meter_switch(METER_NORMS);
}

/* Back through norm1: dx = da + what comes from dn, which dx or da may be. */
static void input_back(const struct block *b, real *dx, const real *da, const real *dn)
{
    const struct norm o = norm_of(b);

    #pragma omp parallel for schedule(static)
    for (int i = 0; i < NORM_BLOCKS; i++)
        rms_backward_block(&o, dx, da, dn, b->x, b->w[NORM1], b->rows, i, b->partial);
    rms_backward_sum(&o, b->dw[NORM1], b->partial);
}

void block_backward(struct block *b, real *dx)
{
    real *da = b->mlp ? b->y : dx, *dn = b->mlp ? dx : b->y;

    if (b->mlp)
        mlp_back(b, dx);
    normalise(b, b->x, b->w[NORM1]);
    meter_switch(METER_MIXER);
    mixer_backward(&b->mixer, b->n, da, dn);
    meter_switch(METER_NORMS);
    input_back(b, dx, da, dn);
}

double block_imitate(struct block *b, int window, const real *x, const real *a,
                     double scale)
{
    const size_t n = (size_t)b->rows * b->cfg->C;
    double       off = 0, answer = 0;

    memcpy(b->x, x, n * sizeof *x);
    run_mixer(b, window);
    add_mixer(b);
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
    mixer_backward(&b->mixer, b->n, b->a, b->y);
    return off / answer;
}

void block_extend(struct block *b, void *const *state, const long *pos)
{
    normalise(b, b->x, b->w[NORM1]);
    meter_switch(METER_MIXER);
    mixer_extend(&b->mixer, state, pos, b->n, b->y);
    meter_switch(METER_NORMS);
    finish(b);
}
