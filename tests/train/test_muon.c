/* Muon held to its formula in plain C and double, and to what it is for: steps whose
 * singular values are all about 1. */
#include "tests/support/rig.h"
#include "tools/bench/trace.h"
#include "train/adamw.h"
#include "train/muon.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* A wide, a tall and a square matrix, and what Muon leaves to AdamW. */
enum { WIDE, TALL, SQUARE, EMBED, NORM, CONV, BUFFER, N };

static struct model_param params[N] = {
    [WIDE] = {"blocks.0.mixer.wq", {"wq", 24, 40, INIT_INPUT, .decay = true}},
    [TALL] = {"blocks.0.mlp.wu", {"mlp.wu", 56, 24, INIT_INPUT, .decay = true}},
    [SQUARE] = {"blocks.1.mixer.wo", {"wo", 33, 33, INIT_OUTPUT, .decay = true}},
    [EMBED] = {"embed", {"embed", 30, 24, INIT_NORMAL, 0.1, .decay = true}},
    [NORM] = {"blocks.0.norm1", {"norm1", 24, 0, INIT_ONE}},
    [CONV] = {"blocks.0.mixer.conv", {"conv", 24, 4, INIT_UNIFORM, 0.5}},
    [BUFFER] = {"blocks.0.mixer.proj", {"proj", 8, 8, INIT_OWN, .buffer = true}},
};

struct bench {
    struct model model;
    real        *g, *m, *v;
};

static void open_bench(struct bench *t)
{
    struct rng r = rng_open(7, RNG_TEST, 0);

    *t = (struct bench){.model = {.param = params, .n_param = N}};
    for (int i = 0; i < N; i++) {
        params[i].at = t->model.n;
        t->model.n += param_size(&params[i].is);
    }
    t->model.w = rig_reals(t->model.n);
    t->g = rig_reals(t->model.n);
    t->m = calloc(t->model.n, sizeof *t->m);
    t->v = calloc(t->model.n, sizeof *t->v);
    rig_normal(&r, t->model.w, t->model.n);
    for (size_t i = 0; i < t->model.n; i++)
        t->model.w[i] *= (real)0.01;        // so that steps, not weights, are compared
}

static void close_bench(struct bench *t)
{
    free(t->model.w), free(t->g), free(t->m), free(t->v);
}

static void draw_gradients(struct bench *t, int step)
{
    struct rng r = rng_open(8, RNG_TEST, (uint64_t)step);

    rig_normal(&r, t->g, t->model.n);
    for (size_t i = 0; i < t->model.n; i++)
        t->g[i] *= (real)0.01;
}

/* ---- the formula ---- */

enum { MOST = 64 * 64 };

/* z (n, k) = x (n, m) y (m, k). */
static void times(double *z, const double *x, const double *y, int n, int m, int k)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++) {
            z[i * k + j] = 0;
            for (int l = 0; l < m; l++)
                z[i * k + j] += x[i * m + l] * y[l * k + j];
        }
}

/* Five times X = a X + (b X Xᵀ + c (X Xᵀ)²) X, X (n, k) of norm 1. */
static void newton_schulz(double *x, int n, int k)
{
    static double turned[MOST], gram[MOST], square[MOST], change[MOST];
    double        norm = 0;

    for (int i = 0; i < n * k; i++)
        norm += x[i] * x[i];
    for (int i = 0; i < n * k; i++)
        x[i] /= sqrt(norm) + 1e-7;
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < k; j++)
                turned[j * n + i] = x[i * k + j];
        times(gram, x, turned, n, k, n);
        times(square, gram, gram, n, n, n);
        for (int i = 0; i < n * n; i++)
            gram[i] = -4.7750 * gram[i] + 2.0315 * square[i];
        times(change, gram, x, n, n, k);
        for (int i = 0; i < n * k; i++)
            x[i] = 3.4445 * x[i] + change[i];
    }
}

/* One step of one matrix, w and m (n, k); scale: of the gradient. */
static void expect(double *w, double *m, const real *g, double scale, double lr,
                   double decay, int n, int k)
{
    static double u[MOST];

    for (int i = 0; i < n * k; i++) {
        m[i] = 0.95 * m[i] + 0.05 * scale * (double)g[i];
        u[i] = 0.95 * m[i] + 0.05 * scale * (double)g[i];
    }
    newton_schulz(u, n, k);
    for (int i = 0; i < n * k; i++)
        w[i] = (1 - lr * decay) * w[i] - lr * 0.2 * sqrt(n > k ? n : k) * u[i];
}

START_TEST(three_steps_are_those_of_the_formula)
{
    static double       w[MOST], m[MOST];
    const struct param *p = &params[_i].is;
    size_t              n = param_size(p), at;
    struct bench        t;
    struct muon         o;
    struct why          why;

    open_bench(&t);
    at = params[_i].at;
    ck_assert(!muon_open(&o, &t.model, 0.1, 0.25, &why));
    for (size_t i = 0; i < n; i++)
        w[i] = t.model.w[at + i], m[i] = 0;
    for (int step = 0; step < 3; step++) {
        draw_gradients(&t, step);
        double norm = adamw_norm(&t.model, t.g);

        ck_assert(norm > 0.25);
        expect(w, m, t.g + at, 0.25 / norm, 0.02, 0.1, p->rows, p->cols);
        muon_step(&o, &t.model, t.g, t.m, norm, 0.02);
    }
    rig_assert_error(params[_i].name, t.model.w + at, w, n);
    rig_assert_error("momentum", t.m + at, m, n);
    for (size_t i = 0; i < n; i++)
        if (t.g[at + i] != 0 || t.v[at + i] != 0)
            ck_abort_msg("gradient or variance of element %zu is not zero", i);
    muon_close(&o);
    close_bench(&t);
}
END_TEST

/* ---- what it is for ---- */

/* The squared singular values of x (n, k), k <= n, by one-sided Jacobi rotations, which
 * make its columns orthogonal. */
static void singular(double *x, int n, int k, double *squared)
{
    for (int sweep = 0; sweep < 30; sweep++)
        for (int i = 0; i < k; i++)
            for (int j = i + 1; j < k; j++) {
                double p = 0, q = 0, r = 0;

                for (int l = 0; l < n; l++) {
                    p += x[l * k + i] * x[l * k + i];
                    q += x[l * k + j] * x[l * k + j];
                    r += x[l * k + i] * x[l * k + j];
                }
                double angle = 0.5 * atan2(2 * r, p - q), c = cos(angle), s = sin(angle);

                for (int l = 0; l < n; l++) {
                    double left = x[l * k + i], right = x[l * k + j];

                    x[l * k + i] = c * left + s * right;
                    x[l * k + j] = c * right - s * left;
                }
            }
    for (int i = 0; i < k; i++) {
        squared[i] = 0;
        for (int l = 0; l < n; l++)
            squared[i] += x[l * k + i] * x[l * k + i];
    }
}

/* The first step, without decay and over lr 0.2 sqrt(max(n, k)), turned to be tall. */
START_TEST(the_singular_values_of_a_step_are_near_1)
{
    static double       x[MOST], squared[64];
    const struct param *p = &params[_i].is;
    bool                wide = p->rows < p->cols;
    int                 n = wide ? p->cols : p->rows, k = wide ? p->rows : p->cols;
    size_t              at;
    struct bench        t;
    struct muon         o;
    struct why          why;

    open_bench(&t);
    at = params[_i].at;
    memset(t.model.w, 0, t.model.n * sizeof *t.model.w);
    draw_gradients(&t, 0);
    ck_assert(!muon_open(&o, &t.model, 0.1, 0, &why));
    muon_step(&o, &t.model, t.g, t.m, 1, 1);
    for (int i = 0; i < p->rows; i++)
        for (int j = 0; j < p->cols; j++)
            x[wide ? j * k + i : i * k + j] =
                -(double)t.model.w[at + (size_t)i * p->cols + j] / (0.2 * sqrt(n));
    singular(x, n, k, squared);
    // the square one's smallest has to grow from 1 % of the largest
    for (int i = 0; i < k; i++)
        ck_assert_msg(squared[i] > (n == k ? 0.01 : 0.4) && squared[i] < 1.5,
                      "%s: singular value %d is %g", params[_i].name, i,
                      sqrt(squared[i]));
    muon_close(&o);
    close_bench(&t);
}
END_TEST

START_TEST(the_rest_is_adamws_and_the_same_for_any_number_of_threads)
{
    struct bench t[4];
    struct why   why;

    for (int i = 0; i < 4; i++) {
        struct adamw rest = {0.9, 0.95, 1e-8, 0.1, 1, 1, i < 3};
        struct muon  o;

        omp_set_num_threads(i < 3 ? i + 1 : 1);
        open_bench(&t[i]);
        ck_assert(!muon_open(&o, &t[i].model, 0.1, 1, &why));
        for (int step = 0; step < 3; step++) {
            draw_gradients(&t[i], step);
            double norm = adamw_norm(&t[i].model, t[i].g);

            if (i < 3)
                muon_step(&o, &t[i].model, t[i].g, t[i].m, norm, 0.01);
            adamw_step(&rest, &t[i].model, t[i].g, t[i].m, t[i].v, norm, 0.01, step + 1);
        }
        muon_close(&o);
    }
    for (int i = 1; i < 4; i++)
        for (int p = i < 3 ? 0 : EMBED; p < N; p++)
            ck_assert_msg(!memcmp(t[i].model.w + params[p].at,
                                  t[0].model.w + params[p].at,
                                  param_size(&params[p].is) * sizeof(real)),
                          "%s differs in case %d", params[p].name, i);
    ck_assert(memcmp(t[3].model.w, t[0].model.w, 24 * 40 * sizeof(real)));
    for (int i = 0; i < 4; i++)
        close_bench(&t[i]);
}
END_TEST

START_TEST(flops_are_those_of_its_products)
{
    struct bench t;
    struct muon  o;
    struct why   why;
    struct trace ran = {0};

    omp_set_num_threads(1);
    open_bench(&t);
    draw_gradients(&t, 0);
    ck_assert(!muon_open(&o, &t.model, 0.1, 1, &why));
    trace_products(&ran);
    muon_step(&o, &t.model, t.g, t.m, 1, 0.01);
    trace_products(NULL);
    ck_assert_double_eq(2.0 * (double)ran.madds, muon_flops(&t.model));
    ck_assert(muon_flops(&t.model) > 0);
    muon_close(&o);
    close_bench(&t);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("muon");
    TCase *tc = tcase_create("all");

    tcase_add_loop_test(tc, three_steps_are_those_of_the_formula, 0, EMBED);
    tcase_add_loop_test(tc, the_singular_values_of_a_step_are_near_1, 0, EMBED);
    tcase_add_test(tc, the_rest_is_adamws_and_the_same_for_any_number_of_threads);
    tcase_add_test(tc, flops_are_those_of_its_products);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
