/* Gradients of every mixer against finite differences of the loss sum(y dy). */
#include "tests/support/rig.h"
#include "tests/support/variants.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The loss with element *at moved to `to`. */
static double loss_at(struct layer *l, real *at, double to)
{
    real   was = *at;
    double loss;

    *at = (real)to;
    layer_forward(l);
    loss = layer_loss(l);
    *at = was;
    return loss;
}

/* The central difference at *at that comes nearest to `got`, over shrinking steps:
 * a corner of a relu inside the step spoils a wide one only, a wrong gradient all
 * of them. */
static double difference(struct layer *l, real *at, double got, double floor)
{
    double best = NAN;

    for (double h = 1e-5 * fmax(1, fabs((double)*at)); h > 1e-8; h /= 30) {
        double fd = (loss_at(l, at, *at + h) - loss_at(l, at, *at - h)) / (2 * h);

        if (!(fabs(best - got) <= fabs(fd - got)))
            best = fd;
        if (fabs(best - got) <= 1e-6 * fmax(fabs(got), floor))
            break;
    }
    return best;
}

static double largest(const real *a, size_t n)
{
    double max = 0;

    for (size_t i = 0; i < n; i++)
        max = fmax(max, fabs((double)a[i]));
    return max;
}

/* Central differences of the loss in n elements from a, against their gradient d. The
 * measure is the golden one, but no tensor counts as smaller than `floor`: some
 * gradients vanish (that of the queries at T = 1), and the quotient's own noise must not
 * be divided by them. */
static void assert_differences(struct layer *l, const char *name, real *a, const real *d,
                               size_t n, double floor)
{
    double diff = 0, size = floor;

    for (size_t i = 0; i < n; i++) {
        double fd = difference(l, a + i, (double)d[i], floor);

        if (!isfinite(fd) || !isfinite(d[i]))
            ck_abort_msg("%s: gradient of %s is not finite", l->entry, name);
        diff = fmax(diff, fabs((double)d[i] - fd));
        size = fmax(size, fabs(fd));
    }
    ck_assert_msg(diff <= 2e-6 * size,
                  "%s, T = %d, draw %d: %s against differences: error %.3g, limit 2e-6",
                  l->entry, l->T, l->window, name, diff / size);
}

static void check_differences(int i, int T, int window)
{
    struct mixer_cfg c = variant_cfg(i, 16);
    struct layer     l;
    double           floor;

    layer_open(&l, variant_entry(i), &c, 2, T, 7);
    l.window = window;
    layer_forward(&l);
    layer_backward(&l);
    floor = 1e-3 * fmax(largest(l.dx, l.n_x), largest(l.dw, l.n_w));
    assert_differences(&l, "x", l.x, l.dx, l.n_x, floor);
    for (int p = 0; p < l.n_param; p++)
        if (!l.param[p].buffer)
            assert_differences(&l, l.param[p].name, l.wp[p], l.dwp[p],
                               param_size(&l.param[p]), floor);
    layer_close(&l);
}

START_TEST(gradients_match_finite_differences)
{
    check_differences(_i, 1, 0);
    check_differences(_i, 9, 0);
    check_differences(_i, 9, 3);
}
END_TEST

/* x and all parameters moved by h times the directions ux, uw. */
static void shift(struct layer *l, const real *ux, const real *uw, double h)
{
    for (size_t i = 0; i < l->n_x; i++)
        l->x[i] += (real)h * ux[i];
    for (int p = 0; p < l->n_param; p++)
        for (size_t j = 0; !l->param[p].buffer && j < param_size(&l->param[p]); j++)
            l->wp[p][j] += (real)h * uw[l->wp[p] - l->w + j];
}

static double dot(const real *a, const real *b, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* The loss with x and parameters moved by h (ux, uw), and in *along how far that went
 * along the gradient, which in float is not h (ux, uw) to the last digits. They are put
 * back. */
static double loss_along(struct layer *l, const real *ux, const real *uw, double h,
                         double *along)
{
    real  *x = layer_copy(l->x, l->n_x), *w = layer_copy(l->w, l->n_w);
    double loss;

    shift(l, ux, uw, h);
    layer_forward(l);
    loss = layer_loss(l);
    *along = 0;
    for (size_t i = 0; i < l->n_x; i++)
        *along += (double)l->dx[i] * ((double)l->x[i] - (double)x[i]);
    for (size_t i = 0; i < l->n_w; i++)
        *along += (double)l->dw[i] * ((double)l->w[i] - (double)w[i]);
    memcpy(l->x, x, l->n_x * sizeof *x);
    memcpy(l->w, w, l->n_w * sizeof *w);
    free(x);
    free(w);
    return loss;
}

/* Along the gradient itself the slope is the gradient's norm, and a step of one length
 * moves no number far: in float one step is right for every layer, where the random
 * directions below need their choice. A gradient that is 1 % too long or too short fails
 * for certain, one that is right passes with a fifth of the limit. Two steps, for the
 * corner of a relu that may lie inside the wider. */
START_TEST(the_slope_along_the_gradient_is_its_norm)
{
    struct layer l;
    double       norm, least = INFINITY;

    variant_open(&l, _i, 2, VARIANT_LONGEST);
    layer_forward(&l);
    layer_backward(&l);
    norm = sqrt(dot(l.dx, l.dx, l.n_x) + dot(l.dw, l.dw, l.n_w));
    for (double h = 1e-4; h >= 0.9 * 5e-5 && !(least <= 5e-3); h /= 2) {
        double to, back, rise = loss_along(&l, l.dx, l.dw, h / norm, &to);

        rise -= loss_along(&l, l.dx, l.dw, -h / norm, &back);
        least = fmin(least, fabs(rise / (to - back) - 1));
    }
    ck_assert_msg(least <= 5e-3,
                  "%s: along its gradient the loss rises by %.3g more or less than that "
                  "says; limit 5e-3",
                  l.entry, least);
    layer_close(&l);
}
END_TEST

/* The least error of the slope along (ux, uw) against differences, over shrinking steps
 * as above. */
static double slope_error(struct layer *l, const real *ux, const real *uw, double limit)
{
    bool   fine = sizeof(real) == sizeof(double);
    double least = INFINITY, narrowest = fine ? 1e-8 : 1e-6;

    for (double h = fine ? 1e-6 : 1e-3; h >= 0.9 * narrowest && !(least <= limit);
         h /= 10) {
        double to, back, rise = loss_along(l, ux, uw, h, &to);

        rise -= loss_along(l, ux, uw, -h, &back);
        least = fmin(least, fabs((rise - (to - back)) / (2 * h)));
    }
    return least;
}

/* Long sequences, where blocks meet: the slope along random directions, relative to the
 * norm of the gradient. In double every direction must agree. In float no step is right
 * for every layer: where a relu has corners or a normaliser is nearly 0 (luna), wide
 * steps cross them and narrow ones drown in rounding. There most directions must agree:
 * a gradient that points elsewhere is wrong along nearly all, and its length is held
 * above. */
START_TEST(slopes_match_finite_differences_across_blocks)
{
    bool         fine = sizeof(real) == sizeof(double);
    int          directions = fine ? 3 : 15, need = fine ? 3 : 8, agree = 0;
    struct rng   r = rng_open(3, RNG_TEST, variant_seed(_i));
    double       limit, error = 0;
    struct layer l;

    variant_open(&l, _i, 2, VARIANT_LONGEST);
    real *ux = malloc(l.n_x * sizeof *ux), *uw = malloc(l.n_w * sizeof *uw);

    layer_forward(&l);
    layer_backward(&l);
    limit = (fine ? 2e-6 : 5e-3) *
            sqrt(dot(l.dx, l.dx, l.n_x) + dot(l.dw, l.dw, l.n_w));
    for (int k = 0; k < directions && agree < need; k++) {
        double off;

        rig_normal(&r, ux, l.n_x);
        rig_normal(&r, uw, l.n_w);
        off = slope_error(&l, ux, uw, limit);
        agree += off <= limit;
        error = fmax(error, off);
    }
    ck_assert_msg(agree >= need,
                  "%s: the gradient's slope is off along %d of %d directions, by up to "
                  "%.3g; limit %.3g", l.entry, directions - agree, directions, error,
                  limit);
    free(ux);
    free(uw);
    layer_close(&l);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("gradients");
    TCase *tc = tcase_create("every mixer");

    if (sizeof(real) == sizeof(double))
        tcase_add_loop_test(tc, gradients_match_finite_differences, 0, variant_count());
    else
        tcase_add_loop_test(tc, the_slope_along_the_gradient_is_its_norm, 0,
                            variant_count());
    tcase_add_loop_test(tc, slopes_match_finite_differences_across_blocks, 0,
                        variant_count());
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
