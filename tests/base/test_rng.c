/* The counter-based generator: its statistics, and that a draw depends on nothing but
 * its key. Seeds are fixed, so a limit of 5 standard deviations either holds for ever or
 * never. */
#include "tests/support/rig.h"

#include "model/mixer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 18 };

static const enum rng_purpose purposes[] = {
    RNG_INIT, RNG_OFFSET, RNG_SHUFFLE, RNG_WINDOW, RNG_SAMPLE, RNG_STORY, RNG_TEST,
};

enum { N_PURPOSES = sizeof purposes / sizeof *purposes };

/* Chi square of counts against equal shares, in standard deviations from its mean. */
static double chi_square(const long *count, int bins, long n)
{
    double want = (double)n / bins, sum = 0;

    for (int i = 0; i < bins; i++)
        sum += (count[i] - want) * (count[i] - want) / want;
    return (sum - (bins - 1)) / sqrt(2.0 * (bins - 1));
}

START_TEST(uniform_draws_fill_the_unit_interval_evenly)
{
    struct rng r = rng_open(1, purposes[_i], 0);
    long       count[256] = {0}, pair[256] = {0};
    double     before = 0;

    for (int i = 0; i < N; i++) {
        double u = rng_uniform(&r);

        if (u < 0 || u >= 1)
            ck_abort_msg("draw %d is %g", i, u);
        count[(int)(u * 256)]++;
        pair[(int)(u * 16) * 16 + (int)(before * 16)]++;
        before = u;
    }
    ck_assert_double_lt(fabs(chi_square(count, 256, N)), 5);
    ck_assert_double_lt(fabs(chi_square(pair, 256, N)), 5);
}
END_TEST

START_TEST(every_bit_is_set_half_of_the_time)
{
    struct rng r = rng_open(2, RNG_TEST, 0);
    long       ones[64] = {0};

    for (int i = 0; i < N; i++) {
        uint64_t x = rng_next(&r);

        for (int b = 0; b < 64; b++)
            ones[b] += x >> b & 1;
    }
    for (int b = 0; b < 64; b++)
        ck_assert_msg(fabs(ones[b] - N / 2.0) < 5 * sqrt(N) / 2, "bit %d: %ld of %d", b,
                      ones[b], N);
}
END_TEST

/* Moments of N(0, 1): 0, 1, 0, 3; and the share beyond 3. */
START_TEST(normal_draws_are_normal)
{
    struct rng r = rng_open(3, RNG_TEST, 0);
    double     m[5] = {0}, beyond = 0;

    for (int i = 0; i < N; i++) {
        double z = rng_normal(&r), p = 1;

        for (int k = 1; k <= 4; k++)
            m[k] += (p *= z) / N;
        beyond += fabs(z) > 3;
    }
    ck_assert_double_lt(fabs(m[1]), 5 / sqrt(N));
    ck_assert_double_lt(fabs(m[2] - 1), 5 * sqrt(2.0 / N));
    ck_assert_double_lt(fabs(m[3]), 5 * sqrt(15.0 / N));
    ck_assert_double_lt(fabs(m[4] - 3), 5 * sqrt(96.0 / N));
    ck_assert_double_lt(fabs(beyond - N * 0.0026998), 5 * sqrt(N * 0.0026998));
}
END_TEST

START_TEST(draws_below_n_are_even)
{
    static const uint64_t n[] = {1, 2, 3, 7, 100};
    struct rng            r = rng_open(4, RNG_TEST, 0);

    for (int k = 0; k < 5; k++) {
        long count[100] = {0};

        for (int i = 0; i < N; i++) {
            uint64_t x = rng_below(&r, n[k]);

            if (x >= n[k])
                ck_abort_msg("%zu is not below %zu", (size_t)x, (size_t)n[k]);
            count[x]++;
        }
        if (n[k] > 1)
            ck_assert_double_lt(fabs(chi_square(count, (int)n[k], N)), 5);
    }
}
END_TEST

START_TEST(huge_bounds_are_kept)
{
    struct rng r = rng_open(5, RNG_TEST, 0);
    uint64_t   n = (UINT64_C(1) << 63) + 12345;

    for (int i = 0; i < 1000; i++)
        ck_assert(rng_below(&r, n) < n);
}
END_TEST

START_TEST(the_same_key_gives_the_same_draws)
{
    struct rng a = rng_open(6, RNG_SAMPLE, 9), b = rng_open(6, RNG_SAMPLE, 9);

    for (int i = 0; i < 1000; i++)
        ck_assert(rng_next(&a) == rng_next(&b));
}
END_TEST

START_TEST(many_draws_at_once_are_the_same_draws)
{
    struct rng a = rng_open(6, RNG_SAMPLE, 9), b = rng_open(6, RNG_SAMPLE, 9);
    uint64_t   u[7];

    for (int n = 0; n <= 7; n++) {
        rng_fill(&a, u, n);
        for (int i = 0; i < n; i++)
            ck_assert(u[i] == rng_next(&b));
    }
}
END_TEST

/* Streams that differ in seed, purpose or step share no draw and do not correlate. */
START_TEST(streams_do_not_overlap)
{
    struct rng a = rng_open(7, RNG_INIT, 0);
    struct rng others[] = {rng_open(8, RNG_INIT, 0), rng_open(7, RNG_OFFSET, 0),
                           rng_open(7, RNG_INIT, 1), rng_open(0, RNG_INIT, 7)};

    for (int k = 0; k < 4; k++) {
        struct rng x = a, y = others[k];
        double     product = 0;

        for (int i = 0; i < N; i++) {
            uint64_t u = rng_next(&x), v = rng_next(&y);

            if (u == v)
                ck_abort_msg("stream %d has the same draw %d", k, i);
            product += ((double)u * 0x1p-64 - 0.5) * ((double)v * 0x1p-64 - 0.5);
        }
        ck_assert_double_lt(fabs(product / N * 12), 5 / sqrt(N));
    }
}
END_TEST

START_TEST(permute_hits_every_index_once)
{
    static const uint64_t n[] = {1, 2, 3, 4, 5, 16, 17, 1000, 4096, 4097, 100003};
    struct rng            r = rng_open(9, RNG_SHUFFLE, 2);

    for (int k = 0; k < 11; k++) {
        char *hit = calloc(n[k], 1);

        for (uint64_t i = 0; i < n[k]; i++) {
            uint64_t to = rng_permute(&r, i, n[k]);

            if (to >= n[k] || hit[to])
                ck_abort_msg("%zu of %zu goes to %zu", (size_t)i, (size_t)n[k],
                             (size_t)to);
            hit[to] = 1;
        }
        free(hit);
    }
}
END_TEST

/* Where index 0 goes, over many streams; and how often neighbours stay neighbours. */
START_TEST(permutations_look_random)
{
    enum { WIDE = 64, TIMES = 1 << 14 };
    long count[WIDE] = {0}, together = 0;

    for (uint64_t step = 0; step < TIMES; step++) {
        struct rng r = rng_open(10, RNG_SHUFFLE, step);
        uint64_t   a = rng_permute(&r, 0, WIDE), b = rng_permute(&r, 1, WIDE);

        count[a]++;
        together += b == a + 1;
    }
    double want = TIMES / (double)WIDE;

    ck_assert_double_lt(fabs(chi_square(count, WIDE, TIMES)), 5);
    ck_assert_double_lt(fabs(together - want), 5 * sqrt(want));
}
END_TEST

/* ---- initial parameters ------------------------------------------------------------ */

static const struct {
    struct param p;
    double       mean, deviation;
} fills[] = {
    {{"zero", 4096, 0, INIT_ZERO, 0, false, false}, 0, 0},
    {{"one", 4096, 0, INIT_ONE, 0, false, false}, 1, 0},
    {{"const", 4096, 0, INIT_CONST, -2.5, false, false}, -2.5, 0},
    {{"normal", 512, 128, INIT_NORMAL, 0.02, false, false}, 0, 0.02},
    {{"uniform", 512, 128, INIT_UNIFORM, 0.5, false, false}, 0, 0.288675},
    {{"input", 512, 128, INIT_INPUT, 0, true, false}, 0, 0.0559017},   // sqrt(2 / 640)
    {{"output", 512, 128, INIT_OUTPUT, 0, true, false}, 0, 0.0228218}, // over sqrt(2 3)
};

START_TEST(initial_parameters_have_the_declared_spread)
{
    const struct param *p = &fills[_i].p;
    size_t              n = param_size(p);
    real               *w = malloc(n * sizeof *w);
    struct rng          r = rng_open(11, RNG_INIT, 0);
    double              mean = 0, square = 0, want = fills[_i].deviation;

    rig_poison(w, n * sizeof *w);
    param_fill(p, w, 3, &r);
    for (size_t i = 0; i < n; i++) {
        mean += (double)w[i] / n;
        square += ((double)w[i] - fills[_i].mean) * ((double)w[i] - fills[_i].mean) / n;
    }
    ck_assert_msg(fabs(mean - fills[_i].mean) <= 5 * want / sqrt(n) + 1e-6, "%s: mean %g",
                  p->name, mean);
    ck_assert_msg(fabs(sqrt(square) - want) <= 0.02 * want, "%s: deviation %g, not %g",
                  p->name, sqrt(square), want);
    free(w);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("rng");
    TCase *tc = tcase_create("rng");

    tcase_add_loop_test(tc, uniform_draws_fill_the_unit_interval_evenly, 0, N_PURPOSES);
    tcase_add_test(tc, every_bit_is_set_half_of_the_time);
    tcase_add_test(tc, normal_draws_are_normal);
    tcase_add_test(tc, many_draws_at_once_are_the_same_draws);
    tcase_add_test(tc, draws_below_n_are_even);
    tcase_add_test(tc, huge_bounds_are_kept);
    tcase_add_test(tc, the_same_key_gives_the_same_draws);
    tcase_add_test(tc, streams_do_not_overlap);
    tcase_add_test(tc, permute_hits_every_index_once);
    tcase_add_test(tc, permutations_look_random);
    tcase_add_loop_test(tc, initial_parameters_have_the_declared_spread, 0,
                        sizeof fills / sizeof *fills);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
