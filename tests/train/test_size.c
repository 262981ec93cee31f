/* What is chosen and said for a person who names nothing: the size, and whether the
 * result is good. */
#include "data/base/file.h"
#include "tests/support/rig.h"
#include "train/report.h"
#include "train/size.h"

#include <math.h>
#include <string.h>

static const struct {
    double      bytes, seconds;
    int         cores;
    const char *size;
} sizes[] = {
    {3e6, 180, 2, "pico"},      {3e9, 599, 2, "pico"},          {0, 1e9, 2, "nano"},
    {3e9, 600, 2, "nano"},      {3e6, 180, 8, "nano"},          {3e6, 60, 16, "pico"},
    {2e5, 7200, 2, "nano"},     {3e6, 3600, 2, "mini"},         {3e6, 1e7, 2, "mini"},
    {3e6, 1200, 1, "nano"},     {3e6, 301, 8, "mini"},          {5e7, 18e3, 2, "small"},
    {5e7, HUGE_VAL, 1, "small"}, {1e10, 1e7, 2, "base"},
};

START_TEST(the_size_is_what_text_and_time_allow)
{
    ck_assert_str_eq(choose_size(sizes[_i].bytes, sizes[_i].seconds, sizes[_i].cores),
                     sizes[_i].size);
}
END_TEST

/* Where it was found to be worth it (docs/recipe.md). */
START_TEST(what_minutes_train_begins_with_a_head_that_copies)
{
    ck_assert_str_eq(choose_arch("pico", 150, 2), "copying");
    ck_assert_str_eq(choose_arch("nano", 1200, 1), "copying");
    ck_assert_ptr_null(choose_arch("pico", 149, 2));
    ck_assert_ptr_null(choose_arch("nano", 0, 2));
    ck_assert_ptr_null(choose_arch("mini", 1200, 2));
}
END_TEST

START_TEST(the_text_is_measured_over_all_inputs)
{
    const char *dir = rig_tmp();
    const char *none = "/nonexistent", *paths[2];
    char        a[300], b[300];
    struct why  why;

    path_join(a, sizeof a, dir, "a.txt");
    path_join(b, sizeof b, dir, "b.txt.zst");
    ck_assert(!file_write(a, "0123456789", 10, &why) && !file_write(b, "01234", 5, &why));
    paths[0] = a, paths[1] = b;
    ck_assert_double_eq(choose_text(paths, 2), 10 + 3 * 5);
    ck_assert_double_eq(choose_text(&dir, 1), 10 + 3 * 5);
    ck_assert_double_eq(choose_text(&none, 1), 0);
}
END_TEST

static const struct {
    double      bits;
    const char *word;
} verdicts[] = {
    {0.9, "good: 50 % below zstd -19"}, {1.8, "fair:"}, {2.4, "fair:"}, {2.6, "poor:"},
    {9, "worse than guessing"},
};

START_TEST(a_result_is_judged_by_the_yardsticks)
{
    struct dataset d = {.zstd_bpb = 1.8, .order2_bpb = 2.5};
    char           line[128];

    tell_verdict(&d, verdicts[_i].bits, line, sizeof line);
    ck_assert_msg(!strncmp(line, verdicts[_i].word, strlen(verdicts[_i].word)),
                  "%s", line);
    ck_assert_uint_lt(strlen(line), 80);
}
END_TEST

#define ROWS(table) (int)(sizeof table / sizeof *table)

static Suite *suite(void)
{
    Suite *s = suite_create("choose");
    TCase *tc = tcase_create("all");

    tcase_add_loop_test(tc, the_size_is_what_text_and_time_allow, 0, ROWS(sizes));
    tcase_add_test(tc, what_minutes_train_begins_with_a_head_that_copies);
    tcase_add_test(tc, the_text_is_measured_over_all_inputs);
    tcase_add_loop_test(tc, a_result_is_judged_by_the_yardsticks, 0, ROWS(verdicts));
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
