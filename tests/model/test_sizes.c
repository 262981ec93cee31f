/* The memory that a mixer asks for. */
#include "model/mixer_instruments.h"
#include "tests/support/rig.h"
#include "tests/support/variants.h"

#include <math.h>
#include <string.h>

enum { C = 256, H = 2, E = C / H };

static struct sizes sizes_of(const char *entry, int T, int context)
{
    struct mixer_cfg c = layer_cfg(entry, C, H, context);
    struct sizes     s;

    mixer_sizes(&c, 1, T, &s);
    return s;
}

START_TEST(memory_is_linear_in_the_length)
{
    const char  *entry = variant_entry(_i);
    struct sizes half = sizes_of(entry, 2048, 4096), full = sizes_of(entry, 4096, 4096);

    ck_assert_msg((double)full.kept <= 2.02 * (double)half.kept,
                  "%s keeps %zu bytes of 2048 tokens, %zu of 4096", entry, half.kept,
                  full.kept);
    ck_assert_msg((double)full.scratch <= 2.02 * (double)half.scratch,
                  "%s works in %zu bytes on 2048 tokens, in %zu on 4096", entry,
                  half.scratch, full.scratch);
}
END_TEST

/* Where a state is larger than what a token needs anyway. */
START_TEST(states_are_kept_only_where_chunks_meet)
{
    const char  *name = variant_mixer(_i)->name;
    struct sizes s = sizes_of(name, 4096, 4096);

    if (s.state > 20 * C * sizeof(real))
        ck_assert_msg(s.kept / 4096 < s.state / 2, "%s keeps %zu bytes a token, of a "
                      "state of %zu", name, s.kept / 4096, s.state);
}
END_TEST

/* To 3 percent, or to a whole cache line. */
static void assert_state(const char *entry, double more)
{
    const double line = 64.0 / sizeof(real);

    for (int context = 1 << 10; context <= 1 << 16; context *= 64) {
        struct mixer_cfg c = layer_cfg(entry, C, H, context);
        double got = (double)sizes_of(entry, 1, context).state / sizeof(real);
        double want = mixer_paper_state(&c) + more;

        ck_assert_msg(fabs(got - want) < fmax(0.03 * want, line),
                      "%s, context %d: a state of %.0f numbers, not %.0f", entry, context,
                      got, want);
    }
}

START_TEST(a_decode_state_is_as_large_as_the_mixer_says_whatever_the_context)
{
    if (!strstr(variant_entry(_i), "srope"))
        assert_state(variant_entry(_i), 0);
}
END_TEST

/* Angles in double and the last three steps. */
START_TEST(a_selective_rotation_adds_the_state_of_its_angles)
{
    double each = 3 + (double)sizeof(double) / sizeof(real);

    assert_state("softmax(window=100,kv_heads=1)+srope", each * E / 2);
    assert_state("retention+srope", each * C / 2);
}
END_TEST

/* softmax(window=100) holds 100 keys and values, retention a matrix a head. */
START_TEST(two_states_are_those_of_their_papers)
{
    struct mixer_cfg window = layer_cfg("softmax(window=100)", C, H, 1 << 10);
    struct mixer_cfg retention = layer_cfg("retention", C, H, 1 << 10);

    ck_assert_double_eq(mixer_paper_state(&window), 2 * 100 * C);
    ck_assert_double_eq(mixer_paper_state(&retention), H * E * E);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sizes");
    TCase *tc = tcase_create("sizes");

    tcase_add_loop_test(tc, memory_is_linear_in_the_length, 0, variant_count());
    tcase_add_loop_test(tc, states_are_kept_only_where_chunks_meet, 0,
                        variant_mixers());
    tcase_add_loop_test(
        tc, a_decode_state_is_as_large_as_the_mixer_says_whatever_the_context, 0,
        variant_count());
    tcase_add_test(tc, a_selective_rotation_adds_the_state_of_its_angles);
    tcase_add_test(tc, two_states_are_those_of_their_papers);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
