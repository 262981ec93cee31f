/* The memory that a mixer asks for. */
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

/* Numbers in the decode state of a layer; 0 stands for the keys and values of the whole
 * context. */
static const struct {
    const char *entry;
    double      numbers;
} formulas[] = {
    {"softmax",                      0},
    {"rela",                         0},
    {"softmax(window=100)",          2 * 100 * C},
    {"softmax(window=100,kv_heads=1)+srope", 2 * 100 * E + 4 * E / 2},
    {"linear",                       H * E * (E + 1)},
    {"linear(feature=hedgehog)",     H * 2 * E * (E + 1)},
    {"linear(feature=favor,m=100)",  H * 100 * (E + 1)},
    {"linear(feature=id,normalise=0)", H * E * E},
    {"luna",                         H * 16 * 4 * (E + 1)},
    {"normattn",                     H * E * E},
    {"inline",                       H * (E * E + 2 * E) + C + 2 * C},
    {"retention",                    H * E * E},
    {"retention+srope",              H * E * E + 4 * C / 2},
    {"mlstm",                        H * (E / 2 * E + E / 2 + 1)},
    {"ssd",                          2 * C * 64 + 3 * (2 * C + 2 * 64)},
    {"deltanet",                     H * E * E + 3 * H * 3 * E},
    {"gla",                          H * E / 2 * E},
    {"gla(conv=4)",                  H * E / 2 * E + 3 * H * 2 * E},
    {"metala",                       H * E / 2 * E + 3 * C},
    {"qlstm",                        2 * C + 3 * 2 * C},
    {"rglru",                        C + 3 * C},
    {"mingru",                       C},
    {"s6",                           2 * C * 16 + 3 * 2 * C},
};

enum { N_FORMULAS = sizeof formulas / sizeof *formulas };

START_TEST(a_decode_state_is_as_large_as_its_formula_whatever_the_context)
{
    for (int context = 1 << 10; context <= 1 << 16; context *= 64) {
        size_t bytes = sizes_of(formulas[_i].entry, 1, context).state;
        double got = (double)bytes / sizeof(real);
        double want = formulas[_i].numbers ? formulas[_i].numbers : 2.0 * context * C;

        ck_assert_msg(fabs(got / want - 1) < 0.03,
                      "%s, context %d: a state of %.0f numbers, not %.0f",
                      formulas[_i].entry, context, got, want);
    }
}
END_TEST

/* Whatever has no formula above. */
START_TEST(a_decode_state_is_of_one_size_or_linear_in_the_context)
{
    const char *entry = variant_entry(_i);
    double      near = (double)sizes_of(entry, 1, 1 << 10).state;
    double      far = (double)sizes_of(entry, 1, 1 << 16).state;

    ck_assert_msg(far == near || fabs(far / near - 64) < 1,
                  "%s: a state of %.0f bytes at context 1024, of %.0f at 65536", entry,
                  near, far);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("sizes");
    TCase *tc = tcase_create("sizes");

    tcase_add_loop_test(tc, memory_is_linear_in_the_length, 0, variant_count());
    tcase_add_loop_test(tc, states_are_kept_only_where_chunks_meet, 0,
                        variant_mixers());
    tcase_add_loop_test(tc,
                        a_decode_state_is_as_large_as_its_formula_whatever_the_context,
                        0, N_FORMULAS);
    tcase_add_loop_test(tc, a_decode_state_is_of_one_size_or_linear_in_the_context, 0,
                        variant_count());
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
