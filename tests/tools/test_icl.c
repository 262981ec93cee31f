/* Learners of in-context regression, attention over long prompts, and matrix
 * factorisation: each against its formula or differences of its loss. */
#include "tests/support/rig.h"

#include "tools/lab/theory/factor.h"
#include "tools/lab/theory/icl_net.h"
#include "tools/lab/theory/prompt.h"

#include <math.h>

static void assert_near(const char *what, double got, double want, double within)
{
    ck_assert_msg(fabs(got - want) <= within, "%s is %.7f, not %.7f within %g", what,
                  got, want, within);
}

/* ---- regression -------------------------------------------------------------------- */

START_TEST(gradients_of_the_layer_are_differences_of_its_loss)
{
    struct icl_task task = {.d = 4, .t = 2, .L = 9, .noise = 0.1, .beta = 1,
                            .groups = true};
    struct rng      r = rng_open(2, RNG_TEST, 1);
    struct icl_net  a;
    double          h = sizeof(real) == 8 ? 1e-5 : 4e-3,
                    within = sizeof(real) == 8 ? 1e-7 : 4e-3;

    ck_assert(icl_open(&a, &task, 3, 5, _i));
    rig_normal(&r, a.kq, a.n);
    for (size_t i = 0; i < a.n; i++)
        a.kq[i] /= 2;
    icl_draw(&a, 1, 0);
    icl_grad(&a);
    for (size_t i = 0; i < a.n; i++) {
        real   was = a.kq[i];
        double up, down;

        a.kq[i] = was + (real)h, up = icl_loss(&a);
        a.kq[i] = was - (real)h, down = icl_loss(&a);
        a.kq[i] = was;
        assert_near(_i ? "linear" : "softmax", a.dkq[i], (up - down) / (2 * h),
                    within * (1 + fabs(a.dkq[i])));
    }
    icl_close(&a);
}
END_TEST

/* eta / L sum of y_i x_i . x has the excess risk 1 - 2 eta + eta^2
 * (1 + (d + 1 + s d) / L). */
START_TEST(one_step_of_descent_has_its_exact_risk)
{
    enum { D = 5, L = 40 };
    struct icl_task task = {.d = D, .t = 1, .L = L, .noise = 0.1, .beta = 1 / sqrt(D)};
    double          noise = (D + 1 + 0.1 * D) / L, eta = 1 / (1 + noise);
    struct icl_net  a;
    struct estimate e;

    ck_assert(icl_open(&a, &task, 1, 4, true));
    for (int i = 0; i < D; i++)
        a.kq[i * D + i] = (real)eta;
    a.ov[D] = 1;
    e = icl_risk(&a, L, 1 << 16, 3);
    assert_near("risk", e.mean, 1 - eta, 4 * e.se);
    ck_assert_double_lt(e.se, 0.002);
    a.ov[D] = (real)0.5;
    e = icl_risk(&a, L, 1 << 16, 3);
    assert_near("risk at half the step", e.mean, 1 - eta + eta * eta / 4 * (1 + noise),
                4 * e.se);
    icl_close(&a);
}
END_TEST

/* A factored step: each weight is q k with q = k, and both descend. */
START_TEST(factors_learn_in_proportion_to_themselves)
{
    struct icl_task   task = {.d = 3, .t = 1, .L = 8, .beta = 1};
    struct icl_course course = {.steps = 1, .lr = 0.1, .sgd = true, .steady = true,
                                .factored = true, .seed = 3};
    struct icl_net    a, b;

    ck_assert(icl_open(&a, &task, 2, 8, false) && icl_open(&b, &task, 2, 8, false));
    for (size_t i = 0; i < a.n; i++)
        a.kq[i] = b.kq[i] = (real)(0.1 + 0.01 * (double)i);
    icl_draw(&b, 3, 0);
    icl_grad(&b);
    icl_learn(&a, &course, 0, 1);
    for (size_t i = 0; i < a.n; i++) {
        double q = sqrt((double)b.kq[i]), step = 0.1 * (double)b.dkq[i];

        assert_near("weight", a.kq[i], (q - step * q) * (q - step * q), 1e-6);
    }
    icl_close(&a);
    icl_close(&b);
}
END_TEST

START_TEST(held_parameters_stay)
{
    struct icl_task   task = {.d = 3, .t = 1, .L = 8, .beta = 1};
    struct icl_course course = {.steps = 4, .lr = 0.1, .sgd = _i, .seed = 1};
    struct icl_net    a;

    ck_assert(icl_open(&a, &task, 1, 8, false));
    a.mask[0] = 0;
    a.kq[0] = a.kq[1] = a.ov[3] = 1;
    icl_learn(&a, &course, 0, 4);
    ck_assert(a.kq[0] == 1);
    ck_assert(a.kq[1] != 1);
    icl_close(&a);
}
END_TEST

/* ---- prompts ----------------------------------------------------------------------- */

static const struct prompt kinds[] = {
    {.d = 4, .G = {1, 0.5, 2, 1.5}},
    {.d = 2, .parts = 2, .G = {1, 0.5}, .m = {{2, 0}, {0, 2}}},
    {.d = 1, .signs = true},
};

static const double at[] = {0.3, -0.3, 0.15, 0.21}, back[] = {0.5, 1, -1, 0.25};

START_TEST(the_kernel_over_many_tokens_is_its_limit)
{
    const struct prompt *p = &kinds[_i];
    double               T[PROMPT_MAX], da[PROMPT_MAX];
    struct prompt_error  e;

    prompt_limit(p, at, back, T, da);
    ck_assert(prompt_measure(p, at, back, 4096, 64, 1, &e));
    for (int j = 0; j < p->d; j++)
        assert_near("output", e.mean[j], T[j], 4 * e.se[j]);
    assert_near("query gradient", e.query.mean, 0, 0.05);
    assert_near("value gradient", e.value.mean, e.output.mean, 1e-3 * e.output.mean);
}
END_TEST

START_TEST(gradients_of_limits_are_their_differences)
{
    const struct prompt *p = &kinds[_i];
    double               up[PROMPT_MAX], down[PROMPT_MAX], da[PROMPT_MAX],
                         none[PROMPT_MAX];
    double               h = 1e-5;

    for (int i = 0; i < p->d; i++) {
        double a[PROMPT_MAX], sum = 0;

        for (int j = 0; j < p->d; j++)
            a[j] = at[j];
        a[i] = at[i] + h, prompt_limit(p, a, back, up, none);
        a[i] = at[i] - h, prompt_limit(p, a, back, down, none);
        a[i] = at[i], prompt_limit(p, a, back, none, da);
        for (int j = 0; j < p->d; j++)
            sum += back[j] * (up[j] - down[j]) / (2 * h);
        assert_near("gradient", da[i], sum, 1e-8);
    }
}
END_TEST

START_TEST(the_constant_of_the_central_limit_is_the_published_one)
{
    assert_near("constant", prompt_constant(&kinds[0], at), 6.7814, 5e-5);
}
END_TEST

/* ---- factorisation ----------------------------------------------------------------- */

START_TEST(gradients_of_the_factors_are_differences_of_the_loss)
{
    struct factor f;
    double        dA[FACTOR2], dB[FACTOR2], h = 1e-5;

    factor_open(&f, 10, 20, 1);
    factor_loss(&f, dA, dB);
    for (int i = 0; i < 2 * FACTOR2; i++) {
        double *w = i < FACTOR2 ? &f.A[i] : &f.B[i - FACTOR2], was = *w, up, down;

        *w = was + h, up = factor_loss(&f, NULL, NULL);
        *w = was - h, down = factor_loss(&f, NULL, NULL);
        *w = was;
        assert_near("gradient", i < FACTOR2 ? dA[i] : dB[i - FACTOR2],
                    (up - down) / (2 * h), 1e-7);
    }
}
END_TEST

START_TEST(many_samples_start_near_the_optimum_and_every_descent_gets_there)
{
    static const double rate[DESCENTS] = {0.05, 0.01, 0.5};
    struct factor       few, many;

    factor_open(&few, 1, 100, 1);
    factor_open(&many, 1, 10000, 1);
    ck_assert_double_lt(factor_loss(&many, NULL, NULL),
                        0.05 * factor_loss(&few, NULL, NULL));
    ck_assert_int_le(factor_run(&few, _i, rate[_i], 1e-6, 20000, NULL, NULL, 0), 20000);
}
END_TEST

/* The finite layer's loss exceeds the formula, ever less as the prompt grows. */
START_TEST(the_loss_of_the_layer_tends_to_the_factorisation)
{
    enum { PROMPTS = 2000 };
    struct factor f;
    double        excess[2], se = 0;

    factor_open(&f, 10, 20, 1);
    for (int i = 0; i < FACTOR2; i++)
        f.B[i] /= 3, f.A[i] *= 3;           // scores small enough for short prompts
    for (int k = 0; k < 2; k++) {
        struct rng r = rng_open(4, RNG_TEST, k);
        double     s = 0, ss = 0;

        for (int i = 0; i < PROMPTS; i++) {
            double loss = factor_layer_loss(&f, k ? 2048 : 128, &r);

            s += loss, ss += loss * loss;
        }
        struct estimate e = estimate_of(s, ss, PROMPTS);

        excess[k] = e.mean - factor_loss(&f, NULL, NULL), se = e.se;
    }
    ck_assert_double_gt(excess[0], 0);
    assert_near("excess at 16 times the tokens", excess[1], excess[0] / 16, 4 * se);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("icl");
    TCase *tc = tcase_create("icl");

    tcase_add_loop_test(tc, gradients_of_the_layer_are_differences_of_its_loss, 0, 2);
    tcase_add_test(tc, one_step_of_descent_has_its_exact_risk);
    tcase_add_test(tc, factors_learn_in_proportion_to_themselves);
    tcase_add_loop_test(tc, held_parameters_stay, 0, 2);
    tcase_add_loop_test(tc, the_kernel_over_many_tokens_is_its_limit, 0, 3);
    tcase_add_loop_test(tc, gradients_of_limits_are_their_differences, 0, 3);
    tcase_add_test(tc, the_constant_of_the_central_limit_is_the_published_one);
    tcase_add_test(tc, gradients_of_the_factors_are_differences_of_the_loss);
    tcase_add_loop_test(tc,
                        many_samples_start_near_the_optimum_and_every_descent_gets_there,
                        0, DESCENTS);
    tcase_add_test(tc, the_loss_of_the_layer_tends_to_the_factorisation);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
