/* The statistics behind verdicts, against known values. */
#include "tests/support/rig.h"
#include "tools/lab/lab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Clopper and Pearson's bounds, from tables. */
static const struct { int k, n; double low, high; } shares[] = {
    {0, 10, 0, 0.3085}, {5, 10, 0.1871, 0.8129}, {9, 10, 0.5550, 0.9975},
    {10, 10, 0.6915, 1}, {2, 20, 0.0123, 0.3170},
};

START_TEST(bounds_of_a_share_are_those_of_the_tables)
{
    struct interval i = share_interval(shares[_i].k, shares[_i].n);

    ck_assert_double_eq_tol(i.low, shares[_i].low, 6e-5);
    ck_assert_double_eq_tol(i.high, shares[_i].high, 6e-5);
}
END_TEST

START_TEST(k_of_n_follows_the_binomial_law)
{
    struct finding f = find_share(8, 10, 0.5);

    ck_assert_double_eq_tol(binomial_from(8, 10, 0.5), 56 / 1024.0, 1e-12);
    ck_assert_double_eq_tol(f.p, 56 / 1024.0, 1e-12);
    ck_assert_double_eq_tol(f.q, 1 - 11 / 1024.0, 1e-12);
    ck_assert_double_eq_tol(find_share(10, 10, 0.5).p, 1 / 1024.0, 1e-12);
    ck_assert_double_eq_tol(find_share(0, 10, 0.5).q, 1 / 1024.0, 1e-12);
}
END_TEST

/* t = 3 / sqrt(0.5) = 4.2426 with 4 degrees of freedom: 0.0132356 on both sides. */
START_TEST(a_mean_above_a_limit_has_students_p)
{
    const double x[] = {1, 2, 3, 4, 5}, same[] = {2, 2, 2};
    struct finding f = find_above(x, 5, 0);

    ck_assert_double_eq_tol(f.p, 0.0132356 / 2, 1e-6);
    ck_assert_double_eq_tol(f.p + f.q, 1, 1e-12);
    ck_assert_double_eq_tol(find_below(x, 5, 6).p, f.p, 1e-12);
    ck_assert(find_above(same, 3, 1).p < 1e-6 && find_above(same, 3, 3).p > 1 - 1e-6);
    ck_assert(find_above(same, 3, 1.9995).p > 0.05);    // as near as that nobody looked
    ck_assert(isnan(find_above(x, 1, 0).p));
}
END_TEST

/* y - x has the mean 3 and the error sqrt(0.5): above 0 as above; 1 less than 4. */
START_TEST(a_difference_is_more_or_less_than_what_would_count)
{
    const double x[] = {0, 0, 0, 0, 0}, y[] = {1, 2, 3, 4, 5};
    struct finding f = find_more(x, y, 5, 4);

    ck_assert_double_eq_tol(f.p, 0.0132356 / 2, 1e-6);
    ck_assert_double_eq_tol(f.q, 0.2301996 / 2, 1e-6);      // t = -1.4142
    f = find_more(y, x, 5, 4);
    ck_assert(f.p > 0.99 && f.q < 0.001);
}
END_TEST

START_TEST(equal_needs_both_sides_within_the_margin)
{
    const double x[] = {0, 0, 0, 0, 0}, y[] = {1, 2, 3, 4, 5};

    ck_assert_double_eq_tol(find_equal(x, y, 5, 6).p, 0.0132356 / 2, 1e-6);
    ck_assert(find_equal(x, y, 5, 3.5).p > 0.05 && find_equal(x, y, 5, 3.5).q > 0.05);
    ck_assert(find_equal(x, y, 5, 0.1).p > 0.99 && find_equal(x, y, 5, 0.1).q < 0.05);
}
END_TEST

/* Page's table for 3 arms and 3 seeds: 41 at 0.05, 42 at 0.01. */
START_TEST(an_order_has_pages_p)
{
    const double rising[] = {1, 1, 1, 2, 2, 2, 3, 3, 3};
    const double once[] = {2, 1, 1, 1, 2, 2, 3, 3, 3};
    const double falling[] = {3, 3, 3, 2, 2, 2, 1, 1, 1};
    const double level[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};

    ck_assert_double_eq_tol(find_order(rising, 3, 3).p, 1 / 216.0, 1e-12);
    ck_assert_double_eq_tol(find_order(once, 3, 3).p, 7 / 216.0, 1e-12);
    ck_assert_double_eq_tol(find_order(falling, 3, 3).q, 1 / 216.0, 1e-12);
    ck_assert(find_order(level, 3, 3).p > 0.3 && find_order(level, 3, 3).q > 0.3);
    ck_assert(isnan(find_order(rising, 3, 1).p));
}
END_TEST

START_TEST(all_of_several_are_as_weak_as_the_weakest)
{
    struct finding f[] = {{0.01, 0.9, true, ""}, {0.2, 0.03, true, ""},
                          {0.02, 0.5, false, "gla 0.3, not 0.95"}};
    struct finding all = find_all(f, 3);

    ck_assert(all.p == 0.2 && fabs(all.q - 0.09) < 1e-12 && !all.learnt);
    ck_assert_str_eq(all.gate, f[2].gate);
    f[0].p = f[0].q = NAN;                          // too few seeds, of the first alone
    ck_assert(isnan(find_all(f, 3).p));
}
END_TEST

START_TEST(the_best_of_several_had_as_many_chances)
{
    struct finding f[] = {{.p = 0.02}, {.p = 0.5}, {.p = NAN}};

    for (int i = 0; i < 3; i++)
        of_several(&f[i], 3);
    ck_assert(fabs(f[0].p - 0.06) < 1e-12 && f[1].p == 1 && isnan(f[2].p));
}
END_TEST

START_TEST(an_arm_that_has_not_learnt_is_told)
{
    const double   good[] = {0.96, 0.97}, bad[] = {0.5, 0.6};
    struct finding f = {.p = 0, .q = 1, .learnt = true};

    gate_learnt(&f, "gla", good, 2, 0.95, INFINITY);
    ck_assert(f.learnt);
    gate_learnt(&f, "gla", bad, 2, NAN, 0.1);       // 0.45 above 0.1, error 0.05
    ck_assert(f.learnt);
    gate_learnt(&f, "gla", bad, 2, 0.95, INFINITY);
    ck_assert(!f.learnt);
    ck_assert_str_eq(f.gate, "gla 0.550, not 0.95");
}
END_TEST

/* Of five trained rows one did not pass its gate: Holm's correction is for four. */
START_TEST(verdicts_are_corrected_for_their_number)
{
    static const struct experiment e = {.name = "e"};
    static const struct lab_claim  trained = {.name = "t", .answer = ANSWER_MORE};
    static const struct lab_claim  exact = {.name = "x", .answer = ANSWER_EXACT};
    const double    p[] = {0.02, 0.01, 0.001, 0.0001};
    struct answered row[6] = {0};
    struct verdicts v = {row, 6};
    char            text[96];

    for (int i = 0; i < 6; i++)
        row[i] = (struct answered){.e = &e, .claim = i < 5 ? &trained : &exact,
                                   .found = {i < 4 ? p[i] : 0.9, i < 4 ? 0.9 : 0.004,
                                             i != 3, "gla 0.3, not 0.95"}};
    row[5].verdict = VERDICT_FAILS;
    verdicts_settle(&v);
    ck_assert_double_eq_tol(row[0].p, 0.04, 1e-12);
    ck_assert_double_eq_tol(row[1].p, 0.03, 1e-12);
    ck_assert_double_eq_tol(row[2].p, 0.004, 1e-12);
    ck_assert(row[2].verdict == VERDICT_HOLDS && row[3].verdict == VERDICT_OPEN);
    ck_assert_str_eq(verdict_text(&row[3], text, sizeof text),
                     "not decided: gla 0.3, not 0.95");
    ck_assert(row[4].verdict == VERDICT_FAILS && row[5].verdict == VERDICT_FAILS);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("judge");
    TCase *tc = tcase_create("judge");

    tcase_add_loop_test(tc, bounds_of_a_share_are_those_of_the_tables, 0,
                        sizeof shares / sizeof *shares);
    tcase_add_test(tc, k_of_n_follows_the_binomial_law);
    tcase_add_test(tc, a_mean_above_a_limit_has_students_p);
    tcase_add_test(tc, a_difference_is_more_or_less_than_what_would_count);
    tcase_add_test(tc, equal_needs_both_sides_within_the_margin);
    tcase_add_test(tc, an_order_has_pages_p);
    tcase_add_test(tc, all_of_several_are_as_weak_as_the_weakest);
    tcase_add_test(tc, the_best_of_several_had_as_many_chances);
    tcase_add_test(tc, an_arm_that_has_not_learnt_is_told);
    tcase_add_test(tc, verdicts_are_corrected_for_their_number);
    suite_add_tcase(s, tc);
    return s;
}

int main(void) { return rig_run(suite(), 0); }
