/* Command lines, and numbers as people write them. */
#include "data/base/cli.h"
#include "data/base/format.h"
#include "model/config.h"
#include "tests/support/rig.h"
#include "tests/support/spawn.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* ---- parsing ---- */

static void explain(void)
{
    puts("layers = 4");
}

/* A verb with one flag of each kind that prints what it was given. */
static int show(int argc, char **argv)
{
    const char  *text = "-";
    int          number = 7;
    long         count = 8;
    uint64_t     seed = 9;
    double       real_value = 0.5;
    bool         on = false;
    struct words words = {0};
    struct flag  flags[] = {
        {"prompt", 'p', "TEXT", "a text", .text = &text},
        {"top-k", 'k', "N", "a number", .number = &number, .min = -1, .max = 100},
        {"bytes", 0, "N", "a count", .count = &count},
        {"seed", 's', "N", "a seed", .seed = &seed},
        {"temp", 0, "X", "a real", .real = &real_value, .min = 0, .max = 10},
        {"json", 'j', NULL, "a switch", .on = &on},
        {"stop", 0, "TEXT", "several texts", .words = &words},
        {"hidden", 0, "N", NULL, .number = &number},
        {0},
    };
    struct cli c = {.verb = "show", .help = "weft show: an example", .flags = flags,
                    .settings = strcmp(argv[0], "plain") ? config_names() : NULL,
                    .explain = explain};

    cli_parse(&c, argc, argv);
    printf("%s %d %ld %llu %g %d", text, number, count, (unsigned long long)seed,
           real_value, on);
    for (int i = 0; i < words.n; i++)
        printf(" stop:%s", words.word[i]);
    for (int i = 0; i < c.n_set; i++)
        printf(" %s:%s", c.set[2 * i], c.set[2 * i + 1]);
    for (int i = 0; i < c.n_args; i++)
        printf(" [%s]", c.args[i]);
    return 0;
}

static const struct { const char *line, *out; } good[] = {
    {"show", "- 7 8 9 0.5 0"},
    {"show --prompt x --top-k 5", "x 5 8 9 0.5 0"},
    {"show --prompt=x --top_k=5", "x 5 8 9 0.5 0"},
    {"show -p x -k 5 -j", "x 5 8 9 0.5 1"},
    {"show -px -k5", "x 5 8 9 0.5 0"},
    {"show -k -1", "- -1 8 9 0.5 0"},
    {"show --top-k=-1", "- -1 8 9 0.5 0"},
    {"show --bytes 3M", "- 7 3000000 9 0.5 0"},
    {"show --bytes 1e9", "- 7 1000000000 9 0.5 0"},
    {"show --bytes 9007199254740993", "- 7 9007199254740993 9 0.5 0"},
    {"show --seed 18446744073709551615", "- 7 8 18446744073709551615 0.5 0"},
    {"show --temp .25", "- 7 8 9 0.25 0"},
    {"show --temp 0", "- 7 8 9 0 0"},
    {"show --prompt=", " 7 8 9 0.5 0"},
    {"show --prompt=a=b", "a=b 7 8 9 0.5 0"},
    {"show --prompt -x", "-x 7 8 9 0.5 0"},
    {"show -p --", "-- 7 8 9 0.5 0"},
    {"show --stop a --stop b", "- 7 8 9 0.5 0 stop:a stop:b"},
    {"show -k 1 -k 2", "- 2 8 9 0.5 0"},
    {"show a -j b", "- 7 8 9 0.5 1 [a] [b]"},
    {"show - x", "- 7 8 9 0.5 0 [-] [x]"},
    {"show a -- -j --top-k x=1", "- 7 8 9 0.5 0 [a] [-j] [--top-k] [x=1]"},
    {"show lr=0.1 a layers=3", "- 7 8 9 0.5 0 lr:0.1 layers:3 [a]"},
    {"show --lr 0.1 --weight-decay=0", "- 7 8 9 0.5 0 lr:0.1 weight_decay:0"},
    {"show weight-decay=1 --kv_heads 2", "- 7 8 9 0.5 0 weight_decay:1 kv_heads:2"},
    {"show mixers=softmax(window=8)/softmax",
     "- 7 8 9 0.5 0 mixers:softmax(window=8)/softmax"},
    {"show seed=4 --seed 5", "- 7 8 5 0.5 0 seed:4"},
    {"show ./lr=1 d/lr=1", "- 7 8 9 0.5 0 [./lr=1] [d/lr=1]"},
    {"plain lr=1", "- 7 8 9 0.5 0 [lr=1]"},
};

START_TEST(a_command_line_is_taken_as_written)
{
    const struct ran *r = spawn_verb(show, good[_i].line, "");

    ck_assert_msg(r->code == 0, "%s: %s", good[_i].line, r->err);
    ck_assert_str_eq(r->out, good[_i].out);
    ck_assert_str_eq(r->err, "");
}
END_TEST

/* Exit 2 and one line with these words in it. */
static const struct { const char *line, *err; } bad[] = {
    {"show --promt x", "unknown flag '--promt'; did you mean '--prompt'?"},
    {"show --layrs 3", "unknown flag '--layrs'; did you mean '--layers'?"},
    {"show --qqqqqqqq", "unknown flag '--qqqqqqqq'; weft show --help lists them"},
    {"show layrs=3", "unknown setting 'layrs'; did you mean 'layers'?"},
    {"show -x", "unknown flag '-x'"},
    {"show -jx", "unknown flag '-jx'"},
    {"plain --lr 1", "unknown flag '--lr'"},
    {"show --top-k", "--top-k needs a value"},
    {"show -p", "--prompt needs a value"},
    {"show --prompt --json", "--prompt needs a value"},
    {"show --lr", "--lr needs a value"},
    {"show --lr --layers=3", "--lr needs a value"},
    {"show --json=1", "--json takes no value"},
    {"show --top-k x", "--top-k: 'x' is not a whole number; it goes from -1 to 100"},
    {"show --top-k=", "--top-k: '' is not a whole number"},
    {"show --top-k 5x", "--top-k: '5x' is not a whole number"},
    {"show --top-k 1.5", "--top-k: '1.5' is not a whole number"},
    {"show --top-k ~5", "--top-k: ' 5' is not a whole number"},
    {"show --top-k 101", "--top-k: 101 is out of range; it goes from -1 to 100"},
    {"show --top-k -2", "--top-k: -2 is out of range"},
    {"show --top-k 99999999999999999999", "--top-k: 99999999999999999999 is too large"},
    {"show --hidden 3000000000", "--hidden: 3000000000 is too large"},
    {"show --bytes 1.0001k", "--bytes: '1.0001k' is not a whole number"},
    {"show --bytes 1e40", "--bytes: 1e40 is too large"},
    {"show --seed -1", "--seed: '-1' is not a whole number from 0"},
    {"show --seed 18446744073709551616", "--seed: '18446744073709551616' is not"},
    {"show --temp nan", "--temp: 'nan' is not a number; it goes from 0 to 10"},
    {"show --temp inf", "--temp: 'inf' is not a number"},
    {"show --temp 0x1", "--temp: '0x1' is not a number"},
    {"show --temp -0.1", "--temp: -0.1 is out of range; it goes from 0 to 10"},
    {"show --temp 1e999", "--temp: '1e999' is not a number"},
    {"show --temp 1\n2\033[31m", "--temp: '1?2?[31m' is not a number"},
    {"show --stop 1 --stop 2 --stop 3 --stop 4 --stop 5 --stop 6 --stop 7 --stop 8 "
     "--stop 9 --stop 10 --stop 11 --stop 12 --stop 13 --stop 14 --stop 15 --stop 16 "
     "--stop 17", "--stop: given more than 16 times"},
};

START_TEST(a_mistake_gets_one_line_and_exit_2)
{
    const struct ran *r = spawn_verb(show, bad[_i].line, "");

    spawn_refused(r, bad[_i].line, 2, bad[_i].err);
    ck_assert_str_eq(r->out, "");
}
END_TEST

START_TEST(help_begins_with_the_verbs_own_words_and_lists_flags_and_settings)
{
    static const char *const ways[] = {"show --help", "show x -h --nonsense"};

    for (int i = 0; i < 2; i++) {
        const struct ran *r = spawn_verb(show, ways[i], "");

        ck_assert_int_eq(r->code, 0);
        ck_assert(!strncmp(r->out, "weft show: an example\n", 22));
        ck_assert_ptr_nonnull(strstr(r->out, "  -k, --top-k N      a number\n"));
        ck_assert_ptr_nonnull(strstr(r->out, "weft show --help settings\n"));
        ck_assert_ptr_null(strstr(r->out, "hidden"));
        ck_assert_str_eq(r->err, "");
    }
    ck_assert_str_eq(spawn_verb(show, "show --help settings", "")->out, "layers = 4\n");
}
END_TEST

static int lose_a_map(int argc, char **argv)
{
    struct cli c = {.verb = argv[argc - 1]};

    cli_guard_maps(&c);
    raise(SIGBUS);
    return 0;
}

START_TEST(a_mapped_file_that_became_shorter_gets_one_line_and_exit_3)
{
    spawn_refused(spawn_verb(lose_a_map, "show", ""), "show", 3,
                  "weft show: the model's file became shorter while it was used");
}
END_TEST

static const struct { const char *called, *as; } programs[] = {
    {"weft", "weft"},       {"build/release/bin/weft", "build/release/bin/weft"},
    {"bin/trail", "weft"},  {"/opt/my bin/weft", "weft"},
};

START_TEST(a_command_is_printed_as_weft_was_called)
{
    char *before = program_invocation_name;

    program_invocation_name = (char *)programs[_i].called;
    ck_assert_str_eq(cli_program(), programs[_i].as);
    program_invocation_name = before;
}
END_TEST

static const struct { const char *text, *shown; } lines[] = {
    {"plain text, with \xc3\xa9", "plain text, with \xc3\xa9"},
    {"a\nb\tc\033[1m\x7f", "a?b?c?[1m?"},
    {"\xc2\x9b" "31m", "?31m"},                 // U+009B, CSI
    {"\x9b" "31m", "?31m"},                     // the same in Latin-1
    {"gpj.\xe2\x80\xae" "txt", "gpj.?txt"},    // U+202E
    {"\xe2\x81\xa6x\xe2\x81\xa9", "?x?"},     // U+2066, U+2069
    {"\xe2\x80\xa8", "?"},                     // U+2028
    {"\xe2\x82\xac \xf0\x9f\x98\x80", "\xe2\x82\xac \xf0\x9f\x98\x80"},
    {"cut \xe2\x82", "cut ??"},
};

START_TEST(a_line_has_nothing_that_a_terminal_obeys)
{
    char text[64];

    snprintf(text, sizeof text, "%s", lines[_i].text);
    ck_assert_str_eq(one_line(text), lines[_i].shown);
}
END_TEST

/* ---- numbers ---- */

static const struct { double n; const char *count, *bytes, *time; } shown[] = {
    {0, "0", "0 B", "0.0s"},
    {9.96, "9.96", "9.96 B", "10s"},
    {999, "999", "999 B", "16m39s"},
    {999.6, "1.00k", "0.98 KiB", "16m40s"},
    {1234, "1.23k", "1.21 KiB", "20m34s"},
    {12345678, "12.3M", "11.8 MiB", "142d21h"},
    {4e9, "4.00B", "3.73 GiB", "a long time"},
    {1e15, "1e+15", "909 TiB", "a long time"},
    {59.6, "59.6", "59.6 B", "1m00s"},
    {3600, "3.60k", "3.52 KiB", "1h00m"},
};

START_TEST(numbers_are_short_and_never_wider_than_they_should)
{
    char text[32];

    format_count(text, sizeof text, shown[_i].n);
    ck_assert_str_eq(text, shown[_i].count);
    format_bytes(text, sizeof text, shown[_i].n);
    ck_assert_str_eq(text, shown[_i].bytes);
    format_time(text, sizeof text, shown[_i].n);
    ck_assert_str_eq(text, shown[_i].time);
}
END_TEST

/* -1: refused. */
static const struct { const char *text; double time, count; } read_back[] = {
    {"90", 90, 90},   {"90s", 90, -1},     {"3m", 180, -1},   {"1h30m", 5400, -1},
    {"1.5h", 5400, -1}, {"1d", 86400, -1}, {"1m1h", -1, -1},  {"3m3m", -1, -1},
    {"m", -1, -1},    {"", -1, -1},        {"0", -1, 0},      {"3 m", -1, -1},
    {"12k", -1, 12e3}, {"3M", -1, 3e6},    {"2B", -1, 2e9},   {"1e15", -1, 1e15},
    {"0x10", -1, -1}, {"nan", -1, -1},     {"inf", -1, -1},   {"1kk", -1, -1},
};

START_TEST(times_and_counts_are_read_as_people_write_them)
{
    double time, count;

    if (!parse_time(read_back[_i].text, &time))
        time = -1;
    if (!parse_count(read_back[_i].text, &count))
        count = -1;
    ck_assert_msg(time == read_back[_i].time, "'%s': %g s", read_back[_i].text, time);
    ck_assert_msg(count == read_back[_i].count, "'%s': %g", read_back[_i].text, count);
}
END_TEST

#define ROWS(table) (int)(sizeof table / sizeof *table)

static Suite *suite(void)
{
    Suite *s = suite_create("cli");
    TCase *tc = tcase_create("parsing");

    tcase_add_loop_test(tc, a_command_line_is_taken_as_written, 0, ROWS(good));
    tcase_add_loop_test(tc, a_mistake_gets_one_line_and_exit_2, 0, ROWS(bad));
    tcase_add_loop_test(tc, a_line_has_nothing_that_a_terminal_obeys, 0,
                        (int)(sizeof lines / sizeof *lines));
    tcase_add_test(tc, help_begins_with_the_verbs_own_words_and_lists_flags_and_settings);
    tcase_add_test(tc, a_mapped_file_that_became_shorter_gets_one_line_and_exit_3);
    tcase_add_loop_test(tc, a_command_is_printed_as_weft_was_called, 0, ROWS(programs));
    tcase_add_loop_test(tc, numbers_are_short_and_never_wider_than_they_should, 0,
                        ROWS(shown));
    tcase_add_loop_test(tc, times_and_counts_are_read_as_people_write_them, 0,
                        ROWS(read_back));
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
