/* Every golden file of tests/golden, or of $WEFT_GOLDEN when that is set: a case is
 * data, not code. Forward, every gradient and streaming must match the reference; a file
 * of a layer that is not in the table fails. */
#include "tests/support/golden.h"
#include "tests/support/layer.h"
#include "tests/support/rig.h"

#include "model/layers/loss.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static glob_t files;

/* ---- mixers ------------------------------------------------------------------------ */

static void load_params(const struct golden *g, struct layer *l)
{
    char name[160];
    int  n = 0;

    for (int i = 0; i < l->n_param; i++) {
        snprintf(name, sizeof name, "param.%s", l->param[i].name);
        golden_read(g, name, l->wp[i], param_size(&l->param[i]));
    }
    for (int i = 0; i < g->file.n; i++)
        n += !strncmp(g->file.tensor[i].name, "param.", 6);
    ck_assert_msg(n == l->n_param, "%s: %d parameters, but %s has %d", g->path, n,
                  l->entry, l->n_param);
}

static void compare_grads(const struct golden *g, const struct layer *l)
{
    char name[160];

    for (int i = 0; i < l->n_param; i++) {
        snprintf(name, sizeof name, "grad.%s", l->param[i].name);
        if (!l->param[i].buffer)
            golden_compare(g, name, "", l->dwp[i], param_size(&l->param[i]));
    }
}

/* All sequences through extend, `step` tokens at a time. */
static void compare_stream(const struct golden *g, struct layer *l, int step)
{
    int  all[LAYER_BATCH];
    char what[64];

    for (int b = 0; b < l->B; b++)
        all[b] = b;
    layer_restart(l);
    for (int t = 0; t < l->T; t += step)
        layer_extend(l, all, l->B, l->T - t < step ? l->T - t : step);
    snprintf(what, sizeof what, ", streamed by %d", step);
    golden_compare(g, "y", what, l->y, l->n_x);
}

static void open_golden_layer(const struct golden *g, struct layer *l)
{
    char             entry[256];
    struct mixer_cfg c;

    golden_entry(g, "", -1, entry, sizeof entry);
    c = golden_cfg(g, entry);
    layer_open(l, entry, &c, (int)golden_number(g, "B"), (int)golden_number(g, "T"), 1);
    load_params(g, l);
    golden_read(g, "x", l->x, l->n_x);
    golden_read(g, "dy", l->dy, l->n_x);
}

static void check_mixer(const struct golden *g)
{
    struct layer l;

    open_golden_layer(g, &l);
    layer_forward(&l);
    golden_compare(g, "y", "", l.y, l.n_x);
    layer_backward(&l);
    golden_compare(g, "dx", "", l.dx, l.n_x);
    compare_grads(g, &l);
    compare_stream(g, &l, 1);
    compare_stream(g, &l, 6);
    compare_stream(g, &l, l.T);
    layer_close(&l);
}

/* ---- a position encoding alone ----------------------------------------------------- */

/* (B, H, T, dk) of the file to or from (B, T, H, dk). */
static void swap_heads(real *to, const real *from, int B, int X, int Y, int dk)
{
    for (int b = 0; b < B; b++)
        for (int x = 0; x < X; x++)
            for (int y = 0; y < Y; y++)
                memcpy(to + (((size_t)b * Y + y) * X + x) * dk,
                       from + (((size_t)b * X + x) * Y + y) * dk, dk * sizeof *to);
}

/* The encoding of softmax heads of the same width, its parameters first in l. */
static void open_encoding(const struct golden *g, struct layer *l)
{
    int              H = (int)golden_number(g, "heads");
    char             position[128], entry[256];
    struct mixer_cfg c;

    golden_position(g, "", position, sizeof position);
    snprintf(entry, sizeof entry, "softmax(heads=%d)+%s", H, position);
    c = golden_cfg(g, entry);
    ck_assert_int_eq(c.C / H, (int)golden_number(g, "dk"));
    layer_open(l, entry, &c, (int)golden_number(g, "B"), (int)golden_number(g, "T"), 1);
    golden_read(g, "x", l->x, l->n_x);
}

/* cos and sin as the encoding left them, against those of theta. */
static void compare_angles(const struct golden *g, const struct layer *l,
                           const struct angles *a)
{
    int           half = a->dk / 2, H = a->heads;
    size_t        n = (size_t)l->B * H * l->T * half;
    const double *theta = golden_values(g, "theta", n);

    for (size_t i = 0; i < n; i++) {
        size_t j = i % half, t = i / half % l->T, h = i / half / l->T % H,
               b = i / half / l->T / H, at = b * a->b + t * a->t + h * a->h + j;
        double error = fmax(fabs((double)a->cos[at] - cos(theta[i])),
                            fabs((double)a->sin[at] - sin(theta[i])));

        ck_assert_msg(error <= rig_tolerance(),
                      "%s: theta: error of cos and sin %.3g, limit %.1g", g->path, error,
                      rig_tolerance());
    }
}

/* Rotate z of this name and its gradient back; compare both. dtheta gathers in a. */
static void compare_rotation(const struct golden *g, const struct layer *l,
                             const struct angles *a, const char *z_name)
{
    int    H = a->heads, dk = a->dk, B = l->B, T = l->T;
    size_t n = (size_t)B * T * H * dk, ld = (size_t)H * dk;
    char   y_name[8], dy_name[8], d_name[8];
    real  *file, *z = rig_reals(n), *dz = rig_reals(n);

    snprintf(y_name, sizeof y_name, "y%s", z_name);
    snprintf(dy_name, sizeof dy_name, "dy%s", z_name);
    snprintf(d_name, sizeof d_name, "d%s", z_name);
    file = golden_new(g, z_name, n);
    swap_heads(z, file, B, H, T, dk);
    rotate(a, z, B, T, H, ld);
    swap_heads(file, z, B, T, H, dk);
    golden_compare(g, y_name, "", file, n);
    golden_read(g, dy_name, file, n);
    swap_heads(dz, file, B, H, T, dk);
    rotate_back(a, z, dz, B, T, H, ld, ld);
    swap_heads(file, dz, B, T, H, dk);
    golden_compare(g, d_name, "", file, n);
    free(file);
    free(z);
    free(dz);
}

static void check_encoding(const struct golden *g)
{
    struct layer l;

    open_encoding(g, &l);
    const struct position *p = l.cfg.position;
    int                    first = mixer_own_params(&l.cfg);
    size_t                 n_theta = l.n_x / 2;
    char                   name[160];

    for (int i = first; i < l.n_param; i++) {
        snprintf(name, sizeof name, "param.%s", l.param[i].name);
        golden_read(g, name, l.wp[i], param_size(&l.param[i]));
    }
    struct ctx ctx = {.cfg = &l.cfg, .B = l.B, .T = l.T};
    struct arena kept = arena_over(l.kept, l.sizes.kept);
    struct arena scratch = arena_over(l.scratch, l.sizes.scratch);
    struct layout layout;

    layer_encoding(&layout, &ctx, l.wp + first, l.dwp + first, PASS_TRAIN, &kept,
                   &scratch);
    p->forward(&ctx, l.x);
    compare_angles(g, &l, &ctx.angles);
    ctx.angles.dtheta = calloc(n_theta, sizeof(real));
    compare_rotation(g, &l, &ctx.angles, "q");
    compare_rotation(g, &l, &ctx.angles, "k");
    p->backward(&ctx, l.x, l.dx);
    golden_compare(g, "dx", "", l.dx, l.n_x);
    for (int i = first; i < l.n_param; i++) {
        snprintf(name, sizeof name, "grad.%s", l.param[i].name);
        golden_compare(g, name, "", l.dwp[i], param_size(&l.param[i]));
    }
    free(ctx.angles.dtheta);
    layer_close(&l);
}

/* ---- the other layers -------------------------------------------------------------- */

static void check_rmsnorm(const struct golden *g)
{
    int         d = (int)golden_number(g, "d");
    size_t      rows = golden_rows(g), n = rows * d;
    struct norm o = {1, d, false, (real)golden_number(g, "eps")};
    real       *x = golden_new(g, "x", n), *dy = golden_new(g, "dy", n);
    real       *y = rig_reals(n), *dx = rig_reals(n);
    real       *w = golden_new(g, "param.w", d), *dw = calloc(d, sizeof *dw);
    real       *partial = rig_reals(norm_partial(&o));

    rms_forward(&o, y, d, x, d, w, (long)rows);
    golden_compare(g, "y", "", y, n);
    rms_backward(&o, dx, d, 0, dw, dy, d, x, d, w, (long)rows, partial);
    golden_compare(g, "dx", "", dx, n);
    golden_compare(g, "grad.w", "", dw, d);
    free(x), free(dy), free(y), free(dx), free(w), free(dw), free(partial);
}

static void check_swiglu(const struct golden *g)
{
    int    d = (int)golden_number(g, "d"), h = (int)golden_number(g, "hidden");
    size_t rows = golden_rows(g), n = rows * d, hd = (size_t)h * d;
    real  *x = golden_new(g, "x", n), *dy = golden_new(g, "dy", n);
    real  *y = rig_reals(n), *dx = rig_reals(n);
    real  *wgu = rig_reals(2 * hd), *wd = golden_new(g, "param.wd", hd);
    real  *dwgu = calloc(2 * hd, sizeof *dwgu), *dwd = calloc(hd, sizeof *dwd);
    real  *gu = rig_reals(2 * rows * h), *scratch = rig_reals(rows * h);
    struct mlp m = {d, h, wgu, wd, gu, scratch};

    golden_read(g, "param.wg", wgu, hd);
    golden_read(g, "param.wu", wgu + hd, hd);
    mlp_forward(&m, y, x, (long)rows);
    golden_compare(g, "y", "", y, n);
    rig_poison(scratch, rows * h * sizeof *scratch);
    mlp_open_backward(&m, (long)rows);
    mlp_backward_rows(&m, dx, dy, 0, (int)rows);
    #pragma omp parallel
    mlp_backward_weights(&m, dwgu, dwd, dy, x, (long)rows);
    golden_compare(g, "dx", "", dx, n);
    golden_compare(g, "grad.wg", "", dwgu, hd);
    golden_compare(g, "grad.wu", "", dwgu + hd, hd);
    golden_compare(g, "grad.wd", "", dwd, hd);
    free(x), free(dy), free(y), free(dx), free(wgu), free(wd), free(dwgu), free(dwd);
    free(gu), free(scratch);
}

static void check_cross_entropy(const struct golden *g)
{
    int      V = (int)golden_number(g, "vocab"), count = 0;
    size_t   rows = golden_rows(g), n = rows * V;
    real    *logits = golden_new(g, "x", n), mean = 0;
    int32_t *targets = golden_ids(g, "targets", rows);
    real    *nats = rig_reals(rows);

    golden_assert_constant(g, "ignore", -1);
    for (size_t i = 0; i < rows; i++)
        count += targets[i] >= 0;
    cross_entropy(logits, targets, nats, (long)rows, V, 1 / (real)count);
    for (size_t i = 0; i < rows; i++)
        mean += nats[i] / (real)count;
    golden_compare(g, "y", "", &mean, 1);
    golden_compare(g, "dx", "", logits, n);
    free(logits), free(targets), free(nats);
}

/* ---- the walk ---------------------------------------------------------------------- */

static const struct {
    const char *layer;
    void      (*check)(const struct golden *g);
} kinds[] = {
    {"rmsnorm", check_rmsnorm},
    {"swiglu", check_swiglu},
    {"cross_entropy", check_cross_entropy},
    {"adamw", golden_check_adamw},
    {"lm", golden_check_lm},
    {"selective_rope", check_encoding},
    {NULL, check_mixer},
};

START_TEST(a_golden_file_matches)
{
    struct golden g;
    int           i = 0;

    golden_open(&g, files.gl_pathv[_i]);
    while (kinds[i].layer && strcmp(kinds[i].layer, g.layer))
        i++;
    kinds[i].check(&g);
    golden_close(&g);
}
END_TEST

START_TEST(there_are_golden_files)
{
    const char *dir = getenv("WEFT_GOLDEN");

    ck_assert_msg(files.gl_pathc > 0, "no .safetensors in %s",
                  dir ? dir : "tests/golden");
}
END_TEST

static Suite *suite(void)
{
    Suite      *s = suite_create("golden");
    TCase      *tc = tcase_create("files");
    const char *dir = getenv("WEFT_GOLDEN"), *mixer = getenv("WEFT_MIXER");
    char        pattern[4096];

    snprintf(pattern, sizeof pattern, "%s/%s%s*.safetensors", dir ? dir : "tests/golden",
             mixer ? mixer : "", mixer ? "-" : "");
    glob(pattern, 0, NULL, &files);
    if (!mixer)
        tcase_add_test(tc, there_are_golden_files);
    tcase_add_loop_test(tc, a_golden_file_matches, 0, (int)files.gl_pathc);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    int code = rig_run(suite(), 0);

    globfree(&files);
    return code;
}
