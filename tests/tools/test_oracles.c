/* The laboratory's yardsticks, against published figures, identities and each other. */
#include "tests/support/rig.h"

#include "tools/lab/theory/oracle.h"
#include "tools/lab/theory/replica.h"
#include "tools/lab/theory/slr_net.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void assert_near(const char *what, double got, double want, double within)
{
    ck_assert_msg(fabs(got - want) <= within, "%s is %.7f, not %.7f within %g", what,
                  got, want, within);
}

static struct slr spiked(double nu, int L)
{
    return (struct slr){SLR_SPIKED, nu, L, L};
}

static struct slr largest(int L)
{
    return (struct slr){SLR_MAX, INFINITY, L, L};
}

/* ---- closed forms ------------------------------------------------------------------ */

static const double nus[] = {1, 2, 5, 10, 20};

/* L, then the risks at each nu: Bayes (beyond L = 2 published by simulation with a
 * standard error of 0.0005, so that 3 of these are allowed), linear, best element-wise
 * (0: not given). */
static const struct {
    int    L;
    double within, bayes[5], linear[5], element[5];
} table[] = {
    {2, 6e-6, {.32494, .22480, .08440, .01923, .00121},
     {.4, .33333, .22222, .14286, .08333},
     {.39797, .32494, .18908, .08440, .01923}},
    {3, 1.5e-3, {.4808, .3528, .1458, .0353, .0024},
     {.54545, .46154, .31579, .20690, .12245},
     {.5398, .4445, .2617, .1177, .0270}},
    {8, 1.5e-3, {.7490, .6174, .3170, .0938, .0075},
     {.78873, .71795, .56566, .41791, .27451}, {0}},
    {16, 1.5e-3, {.8586, .7547, .4483, .1547, .0139},
     {.88561, .83916, .72508, .59113, .43165}, {0}},
};

START_TEST(spiked_risks_are_the_published_ones)
{
    for (int i = 0; i < 5; i++) {
        struct slr s = spiked(nus[i], table[_i].L);

        assert_near("Bayes", slr_bayes(&s), table[_i].bayes[i], table[_i].within);
        assert_near("linear", slr_linear(&s), table[_i].linear[i], 6e-6);
        if (table[_i].element[i] > 0)
            assert_near("element-wise", slr_elementwise(&s), table[_i].element[i],
                        table[_i].L == 2 ? 6e-6 : 6e-5);
    }
}
END_TEST

START_TEST(risks_of_the_largest_are_the_published_ones)
{
    static const int    L[] = {2, 3, 4, 8, 16, 64};
    static const double linear[] = {.34085, .42793, .48510, .62167, .74258, .89855};

    for (int i = 0; i < 6; i++) {
        struct slr s = largest(L[i]);

        assert_near("linear", slr_linear(&s), linear[i], 6e-6);
        assert_near("element-wise", slr_elementwise(&s),
                    (L[i] - 1.0) / (2 * L[i] - 1), 1e-9);
        ck_assert_double_eq(slr_bayes(&s), 0);
    }
}
END_TEST

START_TEST(the_largest_of_normals_lies_where_it_should)
{
    struct slr two = largest(2), three = largest(3);

    assert_near("the larger of 2", slr_location(&two), 1 / sqrt(M_PI), 1e-9);
    assert_near("the largest of 3", slr_location(&three), 1.5 / sqrt(M_PI), 1e-9);
}
END_TEST

/* Nishimori: E[p_e] = E[sum p_l^2] under the posterior, so softmax there has
 * the Bayes risk. */
START_TEST(softmax_at_the_posterior_has_the_bayes_risk)
{
    static const int L[] = {2, 3, 8, 16};

    for (int i = 0; i < 20; i++) {
        struct slr s = spiked(nus[i % 5], L[i / 5]);
        double     root = sqrt(s.nu), bayes = slr_bayes(&s);

        assert_near("softmax at k = sqrt(nu) k*", slr_softmax(&s, root, 1), bayes, 1e-7);
        ck_assert_double_gt(slr_softmax(&s, 0.9 * root, 1), bayes);
        ck_assert_double_gt(slr_softmax(&s, root, 1.05), bayes);
    }
}
END_TEST

START_TEST(two_spiked_tokens_need_one_integral)
{
    for (int i = 0; i < 5; i++) {
        struct slr s = spiked(nus[i], 2), half = spiked(nus[i] / 2, 2);
        double     sum = 0, h = 0.01;

        for (double g = -12; g <= 12; g += h)
            sum += h * exp(-g * g / 2) / sqrt(2 * M_PI) /
                   (1 + exp(s.nu + sqrt(2 * s.nu) * g));
        assert_near("Bayes", slr_bayes(&s), sum, 1e-8);
        assert_near("element-wise", slr_elementwise(&s), slr_bayes(&half), 1e-8);
    }
}
END_TEST

/* Both sides of 1 - E[p_e] = 1 - E[sum p_l^2] for three spiked tokens, by trapezoids in
 * all three scores. */
START_TEST(three_spiked_tokens_agree_with_integrals_over_their_scores)
{
    const double h = 0.25, span = 7;

    for (int i = 0; i < 5; i++) {
        struct slr s = spiked(nus[i], 3);
        double     root = sqrt(s.nu), right = 0, squares = 0;

        for (double x = -span; x <= span; x += h)
            for (double y = -span; y <= span; y += h)
                for (double z = -span; z <= span; z += h) {
                    double w = h * h * h * exp(-(x * x + y * y + z * z) / 2) /
                               pow(2 * M_PI, 1.5);
                    double a = exp(root * (y - x - root)), b = exp(root * (z - x - root));
                    double p = 1 / (1 + a + b);

                    right += w * p;
                    squares += w * p * p * (1 + a * a + b * b);
                }
        assert_near("Bayes by E[p_e]", slr_bayes(&s), 1 - right, 1e-7);
        assert_near("Bayes by E[sum p^2]", slr_bayes(&s), 1 - squares, 1e-7);
    }
}
END_TEST

/* Stein: E[sum p_l chi_l] = nu E[1 - sum p_l^2]. */
START_TEST(the_chosen_score_follows_from_the_bayes_risk)
{
    static const double nu[] = {0.5, 1, 3, 6};

    for (int i = 0; i < 8; i++) {
        int        L = i < 4 ? 2 : 5;
        struct slr s = {SLR_MAX, nu[i % 4], L, L};
        double     want = s.nu * slr_bayes(&s);

        assert_near("E[chi_e] by densities", slr_location(&s), want, 1e-6);
        assert_near("E[chi_e] by shares", L * slr_share(s.nu, L, 0, 0, 1, 1), want, 1e-6);
    }
}
END_TEST

START_TEST(activations_stay_above_the_best_and_the_sigmoid_reaches_it)
{
    struct slr s = spiked(5, 2);
    double     best = slr_elementwise(&s);

    assert_near("sigmoid", slr_family(&s, slr_activation(SLR_SIGMOID)), best, 2e-6);
    assert_near("erf", slr_family(&s, slr_activation(SLR_ERF)), .18915, 1e-5);
    assert_near("relu", slr_family(&s, slr_activation(SLR_RELU)), .21336, 2e-5);
    assert_near("linear", slr_family(&s, slr_activation(SLR_LINEAR)),
                slr_linear(&s), 1e-6);
}
END_TEST

START_TEST(lengths_that_vary_cost_linear_but_not_softmax)
{
    struct slr mixed = {SLR_SPIKED, 5, 1, 3};
    double     bayes = 0, linear = 0;

    for (int L = 1; L <= 3; L++) {
        struct slr s = spiked(5, L);

        bayes += slr_bayes(&s) / 3, linear += slr_linear(&s) / 3;
    }
    assert_near("Bayes", slr_bayes(&mixed), bayes, 1e-12);
    assert_near("softmax", slr_softmax(&mixed, sqrt(5), 1), bayes, 1e-7);
    ck_assert_double_gt(slr_linear(&mixed), linear + 0.01);
    assert_near("linear", slr_family(&mixed, slr_activation(SLR_LINEAR)),
                slr_linear(&mixed), 1e-6);
}
END_TEST

/* ---- the learner ------------------------------------------------------------------- */

enum { D = 16, N = 6, LONG = 4 };

static const struct slr settings[] = {
    {SLR_SPIKED, 3, 1, 4}, {SLR_MAX, 2, 2, 4}, {SLR_MAX, INFINITY, 4, 4},
};

static struct slr_batch batch_of(int n, int length)
{
    return (struct slr_batch){
        n, length, D, calloc(n, sizeof(int)), calloc(n, sizeof(int)),
        rig_reals(slr_reals(n, length, D)), rig_reals(n),
    };
}

static void batch_free(struct slr_batch *b)
{
    free(b->length), free(b->at), free(b->x), free(b->y);
}

START_TEST(gradients_of_every_predictor_are_differences_of_its_loss)
{
    double           h = sizeof(real) == 8 ? 1e-5 : 2e-3,
                     within = sizeof(real) == 8 ? 1e-7 : 4e-3;
    struct rng       r = rng_open(5, RNG_TEST, 1);
    struct slr_batch b = batch_of(N, LONG);
    real             k[D], v[D], w[2 * D + 1], g[2 * D + 1] = {0}, none[2 * D + 1] = {0};

    slr_teacher(k, v, D, &r);
    slr_draw(&settings[_i / SLR_ARMS], &b, k, v, &r);
    rig_normal(&r, w, 2 * D + 1);
    slr_loss(_i % SLR_ARMS, &b, w, g);
    for (int i = 0; i < 2 * D + 1; i++) {
        real   was = w[i];
        double up, down;

        w[i] = was + (real)h, up = slr_loss(_i % SLR_ARMS, &b, w, none);
        w[i] = was - (real)h, down = slr_loss(_i % SLR_ARMS, &b, w, none);
        w[i] = was;
        if (i < 2 * D || g[i] != 0)
            assert_near(slr_arm_name[_i % SLR_ARMS], g[i], (up - down) / (2 * h), within);
    }
    batch_free(&b);
}
END_TEST

/* The order parameters know the risk of samples in D dimensions. */
START_TEST(the_risk_of_order_parameters_is_that_of_samples)
{
    enum { MANY = 40000 };
    enum slr_arm     arm = _i % SLR_ARMS;
    struct rng       r = rng_open(4, RNG_TEST, 2);
    struct slr_batch b = batch_of(MANY, LONG);
    real             k[D], v[D], w[2 * D + 1], g[2 * D + 1] = {0};
    struct slr_order o;
    struct estimate  e;

    slr_teacher(k, v, D, &r);
    rig_normal(&r, w, 2 * D + 1);
    for (int i = 0; i < D; i++)
        w[i] = w[i] / 2 + k[i], w[D + i] = w[D + i] / 2 + v[i];
    slr_draw(&settings[_i / SLR_ARMS], &b, k, v, &r);
    o = slr_order(w, k, v, D);
    e = slr_risk(&settings[_i / SLR_ARMS], arm, &o, MANY, 1);
    assert_near(slr_arm_name[arm], 2 * slr_loss(arm, &b, w, g), e.mean, 0.06 * e.mean);
    batch_free(&b);
}
END_TEST

START_TEST(the_risk_at_the_optimum_is_the_oracle)
{
    struct slr       s = spiked(5, 3), m = {SLR_MAX, 3, 3, 3};
    struct slr_order at = {.m_kk = sqrt(5), .m_vv = 1, .q_kk = 5, .q_vv = 1};
    struct estimate  e = slr_risk(&s, SLR_SOFTMAX, &at, 1 << 18, 7);

    assert_near("spiked", e.mean, slr_bayes(&s), 4 * e.se);
    ck_assert_double_lt(e.se, 1e-3);
    at.m_kk = 3, at.q_kk = 9;
    e = slr_risk(&m, SLR_SOFTMAX, &at, 1 << 18, 7);
    assert_near("max", e.mean, slr_bayes(&m), 4 * e.se);
}
END_TEST

/* ---- finite samples ---------------------------------------------------------------- */

/* Of one token softmax is 1, so that v is ridge regression's:
 *
 *     V (decay + alpha / (1 + V)) = 1,  m = 1 - decay V
 *     risk = (1 - m)^2 / (1 - alpha V^2 / (1 + V)^2)
 */
START_TEST(the_replica_of_one_token_is_ridge_regression)
{
    static const double alphas[] = {0.5, 2, 8}, decay = 0.5;
    const struct slr    one = spiked(0, 1);
    const double        alpha = alphas[_i];
    struct slr_order    o = replica_fit(&one, alpha, decay, 40000, 7);
    double              b = decay + alpha - 1,
                        V = (sqrt(b * b + 4 * decay) - b) / 2 / decay,
                        m = 1 - decay * V, moved = V / (1 + V),
                        risk = (1 - m) * (1 - m) / (1 - alpha * moved * moved);

    assert_near("m", o.m_vv, m, 0.02 * m);
    assert_near("risk", 1 - 2 * o.m_vv + o.q_vv, risk, 0.04 * risk);
    assert_near("k of what has no use for it", o.q_kk, 0, 1e-6);
}
END_TEST

START_TEST(samples_without_end_leave_the_bayes_risk)
{
    const struct slr three = spiked(5, 3);
    struct slr_order fit = replica_fit(&three, 2000, 1e-3, 4000, 7),
                     best = replica_bayes(&three, 2000, 4000, 7);
    double           bayes = slr_bayes(&three);

    assert_near("the fit", slr_risk(&three, SLR_SOFTMAX, &fit, 1 << 17, 1).mean, bayes,
                0.02 * bayes);
    assert_near("the best", slr_risk(&three, SLR_SOFTMAX, &best, 1 << 17, 1).mean, bayes,
                0.02 * bayes);
}
END_TEST

/* ---- samples ----------------------------------------------------------------------- */

START_TEST(normals_are_normal)
{
    enum { MANY = 1 << 20 };
    struct rng r = rng_open(1, RNG_TEST, 9);
    real      *x = rig_reals(MANY + 3);
    double     m[5] = {0}, next = 0, beyond = 0;

    normals(&r, x, MANY + 3);
    for (int i = 0; i < MANY; i++) {
        for (int p = 1; p < 5; p++)
            m[p] += pow(x[i], p) / MANY;
        next += (double)x[i] * x[i + 1] / MANY;
        beyond += fabs(x[i]) > 3;
    }
    assert_near("mean", m[1], 0, 4e-3);
    assert_near("variance", m[2], 1, 6e-3);
    assert_near("third moment", m[3], 0, 1.6e-2);
    assert_near("fourth moment", m[4], 3, 4e-2);
    assert_near("neighbours' correlation", next, 0, 4e-3);
    assert_near("share beyond 3", beyond / MANY, 0.0026998, 2.1e-4);
    free(x);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("oracles");
    TCase *tc = tcase_create("oracles");
    int    combinations = SLR_ARMS * (int)(sizeof settings / sizeof *settings);

    tcase_add_loop_test(tc, spiked_risks_are_the_published_ones, 0, 4);
    tcase_add_test(tc, risks_of_the_largest_are_the_published_ones);
    tcase_add_test(tc, the_largest_of_normals_lies_where_it_should);
    tcase_add_test(tc, softmax_at_the_posterior_has_the_bayes_risk);
    tcase_add_test(tc, two_spiked_tokens_need_one_integral);
    tcase_add_test(tc, three_spiked_tokens_agree_with_integrals_over_their_scores);
    tcase_add_test(tc, the_chosen_score_follows_from_the_bayes_risk);
    tcase_add_test(tc, activations_stay_above_the_best_and_the_sigmoid_reaches_it);
    tcase_add_test(tc, lengths_that_vary_cost_linear_but_not_softmax);
    tcase_add_loop_test(tc, gradients_of_every_predictor_are_differences_of_its_loss, 0,
                        combinations);
    tcase_add_loop_test(tc, the_risk_of_order_parameters_is_that_of_samples, 0,
                        combinations);
    tcase_add_test(tc, the_risk_at_the_optimum_is_the_oracle);
    tcase_add_loop_test(tc, the_replica_of_one_token_is_ridge_regression, 0, 3);
    tcase_add_test(tc, samples_without_end_leave_the_bayes_risk);
    tcase_add_test(tc, normals_are_normal);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
