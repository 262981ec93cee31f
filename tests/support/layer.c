#include "tests/support/layer.h"

#include "tests/support/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 64 };

static void *guarded(size_t bytes)
{
    size_t room = (bytes + 63) / 64 * 64 + GUARD;
    char  *p = aligned_alloc(64, room);

    rig_poison(p, room);
    return p;
}

/* Every byte from the end of the block to the end of its guard still has its value. */
static bool intact(const char *p, size_t bytes)
{
    for (size_t i = bytes; i < (bytes + 63) / 64 * 64 + GUARD; i++)
        if ((unsigned char)p[i] != 0xff)
            return false;
    return true;
}

static void *block(struct layer *l, const char *name, size_t bytes)
{
    ck_assert_int_lt(l->n_block, LAYER_BLOCKS);
    l->block[l->n_block++] = (struct layer_block){name, guarded(bytes), bytes};
    return l->block[l->n_block - 1].p;
}

static void check_guards(const struct layer *l, const char *call)
{
    for (int i = 0; i < l->n_block; i++)
        if (!intact(l->block[i].p, l->block[i].bytes))
            ck_abort_msg("%s: %s writes behind its %s", l->entry, call,
                         l->block[i].name);
}

struct mixer_cfg layer_cfg(const char *entry, int C, int H, int context)
{
    struct mixer_cfg c = {.C = C, .H = H, .Hk = H, .layers = 2, .context = context};
    struct why       why = {""};

    ck_assert_msg(mixer_parse(&c, entry, &why) == FAIL_NONE, "%s", why.line);
    return c;
}

static void place_params(struct layer *l)
{
    l->n_param = mixer_params(&l->cfg, l->param);
    for (int i = 0; i < l->n_param; i++)
        l->n_w += param_size(&l->param[i]);
    l->w = block(l, "parameters", l->n_w * sizeof(real));
    l->dw = block(l, "gradients", l->n_w * sizeof(real));
    for (size_t i = 0, at = 0; i < (size_t)l->n_param; at += param_size(&l->param[i++])) {
        l->wp[i] = l->w + at;
        l->dwp[i] = l->dw + at;
    }
}

static void fill(struct layer *l, uint64_t seed)
{
    struct rng r = rng_open(seed, RNG_TEST, 0);

    mixer_init(&l->cfg, l->wp, seed, 0);
    for (int i = 0; i < l->n_param; i++)
        for (size_t j = 0; !l->param[i].buffer && j < param_size(&l->param[i]); j++)
            l->wp[i][j] += (real)(0.1 * rng_normal(&r));
    rig_normal(&r, l->x, l->n_x);
    rig_normal(&r, l->dy, l->n_x);
}

/* l->mixer over kept and scratch. */
static void lay_out(struct layer *l)
{
    struct arena kept, scratch;

    mixer_sizes(&l->cfg, l->B, l->T, &l->sizes);
    l->kept = block(l, "kept", l->sizes.kept);
    l->scratch = block(l, "scratch", l->sizes.scratch);
    kept = arena_over(l->kept, l->sizes.kept);
    scratch = arena_over(l->scratch, l->sizes.scratch);
    l->mixer.ctx = (struct ctx){.cfg = &l->cfg, .B = l->B, .T = l->T};
    l->mixer.w = (const real *const *)l->wp;
    l->mixer.dw = l->dwp;
    mixer_layout(&l->mixer, PASS_TRAIN, &kept, &scratch);
}

void layer_open(struct layer *l, const char *entry, const struct mixer_cfg *cfg, int B,
                int T, uint64_t seed)
{
    size_t bytes;

    *l = (struct layer){.cfg = *cfg, .B = B, .T = T, .n_x = (size_t)B * T * cfg->C};
    snprintf(l->entry, sizeof l->entry, "%s", entry);
    bytes = l->n_x * sizeof(real);
    place_params(l);
    l->x = block(l, "x", bytes);
    l->y = block(l, "y", bytes);
    l->dy = block(l, "dy", bytes);
    l->dx = block(l, "dx", bytes);
    lay_out(l);
    for (int b = 0; b < B; b++)
        l->state[b] = block(l, "state", l->sizes.state);
    fill(l, seed);
    layer_zero(l);
    layer_restart(l);
}

void layer_close(struct layer *l)
{
    while (l->n_block > 0)
        free(l->block[--l->n_block].p);
}

void layer_forward(struct layer *l)
{
    rig_poison(l->y, l->n_x * sizeof(real));
    rig_poison(l->kept, l->sizes.kept);
    rig_poison(l->scratch, l->sizes.scratch);
    mixer_forward(&l->mixer, l->window, l->x, l->y);
    check_guards(l, "forward");
}

void layer_backward(struct layer *l)
{
    rig_poison(l->scratch, l->sizes.scratch);
    rig_poison(l->dx, l->n_x * sizeof(real));
    mixer_backward(&l->mixer, l->x, l->dy, l->dx);
    check_guards(l, "backward");
}

void layer_zero(struct layer *l)
{
    memset(l->dx, 0, l->n_x * sizeof(real));
    memset(l->dw, 0, l->n_w * sizeof(real));
}

/* Copy the next n rows of each sequence between a full (B, T, C) array and a packed
 * (n_seq, n, C) one. */
static void copy_rows(const struct layer *l, const int *seq, int n_seq, int n, real *full,
                      real *packed, bool to_full)
{
    size_t C = (size_t)l->cfg.C, len = n * C;

    for (int i = 0; i < n_seq; i++) {
        real *at = full + ((size_t)seq[i] * l->T + l->pos[seq[i]]) * C;

        memcpy(to_full ? at : packed + i * len, to_full ? packed + i * len : at,
               len * sizeof(real));
    }
}

void layer_extend(struct layer *l, const int *seq, int n_seq, int n)
{
    struct mixer_layer m = {.ctx = {.cfg = &l->cfg, .B = n_seq, .T = n},
                            .w = (const real *const *)l->wp};
    struct arena kept = arena_over(NULL, 0), need = kept, place;
    size_t       bytes = (size_t)n_seq * n * l->cfg.C * sizeof(real);
    real        *x = guarded(bytes), *y = guarded(bytes);
    void        *state[LAYER_BATCH], *scratch;
    long         pos[LAYER_BATCH];

    mixer_layout(&m, PASS_EXTEND, &kept, &need);
    scratch = guarded(need.used);
    place = arena_over(scratch, need.used);
    mixer_layout(&m, PASS_EXTEND, &kept, &place);
    copy_rows(l, seq, n_seq, n, l->x, x, false);
    for (int i = 0; i < n_seq; i++) {
        state[i] = l->state[seq[i]];
        pos[i] = l->pos[seq[i]];
    }
    mixer_extend(&m, state, pos, x, y);
    copy_rows(l, seq, n_seq, n, l->y, y, true);
    for (int i = 0; i < n_seq; i++)
        l->pos[seq[i]] += n;
    check_guards(l, "extend");
    if (!intact(scratch, need.used))
        ck_abort_msg("%s: extend over (%d, %d) writes behind its scratch", l->entry,
                     n_seq, n);
    if (!intact((char *)y, bytes))
        ck_abort_msg("%s: extend writes behind y", l->entry);
    free(scratch);
    free(x);
    free(y);
}

void layer_restart(struct layer *l)
{
    rig_poison(l->y, l->n_x * sizeof(real));
    for (int b = 0; b < l->B; b++) {
        memset(l->state[b], 0, l->sizes.state);
        l->pos[b] = 0;
    }
}

int layer_param(const struct layer *l, const char *name)
{
    for (int i = 0; i < l->n_param; i++)
        if (!strcmp(l->param[i].name, name))
            return i;
    return -1;
}

double *layer_project(const struct layer *l, const char *name, int b)
{
    const struct param *p = &l->param[layer_param(l, name)];
    const real         *w = l->wp[layer_param(l, name)];
    double             *out = calloc((size_t)l->T * p->rows, sizeof *out);

    for (int t = 0; t < l->T; t++) {
        const real *x = l->x + ((size_t)b * l->T + t) * p->cols;

        for (int i = 0; i < p->rows; i++)
            for (int j = 0; j < p->cols; j++)
                out[t * p->rows + i] += (double)w[i * p->cols + j] * (double)x[j];
    }
    return out;
}

double layer_loss(const struct layer *l)
{
    double sum = 0;

    for (size_t i = 0; i < l->n_x; i++)
        sum += (double)l->y[i] * (double)l->dy[i];
    return sum;
}

real *layer_copy(const real *a, size_t n)
{
    real *b = malloc(n * sizeof *b);

    memcpy(b, a, n * sizeof *b);
    return b;
}

void layer_assert_near(const struct layer *l, const char *what, const real *a,
                       const real *b, size_t n)
{
    double limit = sizeof(real) == sizeof(double) ? 1e-12 : 2e-5;
    double error = rig_error_real(a, b, n);

    ck_assert_msg(error <= limit, "%s, T = %d: %s: error %.3g, limit %.1g", l->entry,
                  l->T, what, error, limit);
}

void layer_assert_bits(const struct layer *l, const char *what, const real *a,
                       const real *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a))
            ck_abort_msg("%s, T = %d: %s: element %zu is %.9g, not %.9g", l->entry, l->T,
                         what, i, (double)a[i], (double)b[i]);
}

void layer_assert_finite(const struct layer *l, const char *what, const real *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(a[i]))
            ck_abort_msg("%s, T = %d: %s: element %zu is %g", l->entry, l->T, what, i,
                         (double)a[i]);
}

void layer_assert_results(const struct layer *l)
{
    layer_assert_finite(l, "y", l->y, l->n_x);
    layer_assert_finite(l, "dx", l->dx, l->n_x);
    layer_assert_finite(l, "dw", l->dw, l->n_w);
}

void layer_encoding(struct layout *m, struct ctx *ctx, real *const *w, real *const *dw,
                    enum pass_mode mode, struct arena *kept, struct arena *scratch)
{
    *m = (struct layout){
        .mode = mode, .B = ctx->B, .T = ctx->T, .C = ctx->cfg->C, .w = w, .dw = dw,
        .kept = kept, .scratch = scratch,
    };
    ctx->cfg->position->layout(m, ctx->cfg);
    ctx->acts = m->acts;
}
