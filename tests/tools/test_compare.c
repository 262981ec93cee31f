/* weft compare: its statistics, its entries, its charts, and the verb from end to end. */
#include "data/base/file.h"
#include "data/stories/stories.h"
#include "tests/support/rig.h"
#include "tests/support/spawn.h"
#include "tools/chart/chart.h"
#include "tools/compare/compare.h"
#include "tools/verbs.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- statistics ---- */

/* Two-sided probabilities; for one and two degrees of freedom in closed form. */
static const struct {
    double t, freedom, p;
} students[] = {
    {0, 3, 1},
    {1, 1, 0.5},
    {12.706204736174698, 1, 0.05},
    {4.302652729911275, 2, 0.05},
    {5, 2, 0.037749551350623745},
    {-2, 10, 0.07338803477074039},
    {2.2621571627409915, 9, 0.05},
    {1.959963984540054, 1e9, 0.05},
    {1000, 2, 9.9999850000249e-07},
};

START_TEST(students_distribution_has_its_known_values)
{
    double p = student_p(students[_i].t, students[_i].freedom);

    ck_assert_msg(fabs(p - students[_i].p) < 1e-8 + 1e-6 * students[_i].p,
                  "t %g, %g degrees: %.12g, not %.12g", students[_i].t,
                  students[_i].freedom, p, students[_i].p);
}
END_TEST

START_TEST(the_incomplete_beta_function_is_a_polynomial_for_whole_numbers)
{
    for (double x = 0.05; x < 1; x += 0.05) {
        double want = 6 * x * x - 8 * x * x * x + 3 * x * x * x * x; // a = 2, b = 3

        ck_assert_double_eq_tol(beta_share(2, 3, x), want, 1e-12);
        ck_assert_double_eq_tol(beta_share(2, 3, x) + beta_share(3, 2, 1 - x), 1, 1e-12);
    }
    ck_assert(beta_share(2, 3, 0) == 0 && beta_share(2, 3, 1) == 1);
}
END_TEST

START_TEST(pairs_without_a_partner_are_left_out)
{
    const double  x[] = {1, 2, 3, NAN, 9}, y[] = {2, 2.5, 4, 7, NAN};
    struct paired r = paired_test(x, y, 5);

    ck_assert_int_eq(r.diff.n, 3);
    ck_assert_double_eq_tol(r.diff.mean, 2.5 / 3, 1e-12);
    ck_assert_double_eq_tol(r.diff.error, 1 / 6.0, 1e-12);
    ck_assert_double_eq_tol(r.p, 0.037749551350623745, 1e-9); // t = 5
    ck_assert(isnan(paired_test(x, y, 1).p));
    ck_assert(paired_test(x, x, 3).p == 1);
    ck_assert_int_eq(mean_of(x, 5).n, 4);
}
END_TEST

START_TEST(the_best_of_several_counts_and_a_mark_says_where_they_disagree)
{
    const double near[] = {990, NAN, 1000, 950}, far[] = {1000, 850};
    char         text[16];

    report_rate(text, sizeof text, rate_of(near, 4));
    ck_assert_str_eq(text, "1.00k");
    report_rate(text, sizeof text, rate_of(far, 2));
    ck_assert_str_eq(text, "~1.00k");
    report_rate(text, sizeof text, rate_of(near + 1, 1));
    ck_assert_str_eq(text, "");
}
END_TEST

/* Two trials of 1000 tokens, the second of which was beside others. */
static struct comparison *half_shared(enum budget budget)
{
    struct comparison *c = calloc(1, sizeof *c);
    const struct curve curve = {.n = 2, .seconds = {2, 4}, .bpb = {3, 2}};

    *c = (struct comparison){.n = 1, .seeds = 2, .budget = budget};
    for (int k = 0; k < 2; k++)
        c->arch[0].trial[k] = (struct trial){.done = true, .shared = k, .tokens = 1000,
                                             .seconds = 4, .decode = 50, .decode_low = 49,
                                             .bpb = 2, .curve = curve};
    return c;
}

START_TEST(a_run_beside_others_has_the_speed_that_was_measured_alone)
{
    struct comparison *c = half_shared(BUDGET_TOKENS);
    struct arch       *a = &c->arch[0];

    a->pace = (struct pace){500, 480, 80, 79};
    gather(c);
    ck_assert_double_eq(speed_of(c, &a->trial[0]), 250);
    ck_assert_double_eq(speed_of(c, &a->trial[1]), 500);
    ck_assert_double_eq(a->trial[0].seconds, 4);
    ck_assert_double_eq(a->trial[1].seconds, 2);
    ck_assert_double_eq(a->trial[0].curve.seconds[1], 4);
    ck_assert_double_eq(a->trial[1].curve.seconds[1], 2);
    ck_assert_double_eq(a->trial[1].decode, 80);
    ck_assert_double_eq(a->speed.best, 500);
    ck_assert_double_eq(a->decode.best, 80);
    free(c);
}
END_TEST

START_TEST(a_speed_that_nobody_measured_alone_is_not_shown)
{
    struct comparison *c = half_shared(BUDGET_TOKENS);

    c->arch[0].trial[0].shared = true;
    gather(c);
    ck_assert(isnan(c->arch[0].speed.best) && isnan(c->arch[0].decode.best));
    free(c);
}
END_TEST

START_TEST(a_budget_of_time_stays_what_it_was)
{
    struct comparison *c = half_shared(BUDGET_FOR);

    c->arch[0].pace = (struct pace){500, 480, 80, 79};
    gather(c);
    ck_assert_double_eq(c->arch[0].trial[1].seconds, 4);
    ck_assert_double_eq(speed_of(c, &c->arch[0].trial[1]), 500);
    free(c);
}
END_TEST

START_TEST(seeds_beyond_jsons_numbers_are_text)
{
    struct comparison *c = calloc(1, sizeof *c);
    struct trial       t = {.seed = UINT64_MAX};
    json_t            *j = result_json(c, &t);

    ck_assert_str_eq(json_string_value(json_object_get(j, "seed")),
                     "18446744073709551615");
    json_decref(j);
    free(c);
}
END_TEST

START_TEST(holms_correction_is_that_of_the_textbook)
{
    double p[] = {0.01, 0.04, NAN, 0.03, 0.005, 0.9, 0.9};
    double want[] = {0.05, 0.12, NAN, 0.12, 0.03, 1, 1};

    holm(p, 7);
    for (int i = 0; i < 7; i++)
        ck_assert_msg(isnan(want[i]) ? isnan(p[i]) : fabs(p[i] - want[i]) < 1e-12,
                      "%d: %g", i, p[i]);
}
END_TEST

/* ---- entries ---- */

START_TEST(commas_in_parentheses_do_not_part_architectures)
{
    struct comparison *c = calloc(1, sizeof *c);
    struct why         why;

    ck_assert(
        !entries_split(c, "softmax(window=32,heads=2)+srope/mlstm,gla,gla(dk=8)", &why));
    ck_assert_int_eq(c->n, 3);
    ck_assert_str_eq(c->arch[0].name, "softmax(window=32,heads=2)+srope/mlstm");
    ck_assert_str_eq(c->arch[0].slug, "softmax-window-32-heads-2-srope-mlstm");
    ck_assert_str_eq(c->arch[1].slug, "gla");
    ck_assert_str_eq(c->arch[2].slug, "gla-dk-8");
    c->n = 0;
    ck_assert_int_eq(entries_split(c, "gla,gla", &why), FAIL_USAGE);
    c->n = 0;
    ck_assert_int_eq(entries_split(c, "gla,,mlstm", &why), FAIL_USAGE);
    c->n = 0;
    ck_assert_int_eq(entries_split(c, "gla", &why), FAIL_USAGE);
    free(c);
}
END_TEST

/* Of two architectures that would have one directory the second has a number. */
static const struct {
    const char *list, *first, *second;
} clashes[] = {
    {"gla+rope,gla/rope", "gla-rope", "gla-rope-2"},
    {"gla(dk=8),gla", "gla-dk-8", "gla-2"},
    {"softmax(window=1/2),softmax(window=1)", "softmax-window-1-2",
     "softmax-window-1-3"},
};

START_TEST(no_two_architectures_share_a_directory)
{
    struct comparison *c = calloc(1, sizeof *c);
    struct why         why;

    ck_assert(!entries_split(c, clashes[_i].list, &why));
    ck_assert_str_eq(c->arch[0].slug, clashes[_i].first);
    ck_assert_str_eq(c->arch[1].slug, clashes[_i].second);
    free(c);
}
END_TEST

/* ---- charts ---- */

static const struct {
    double      v;
    const char *text;
} numbers[] = {
    {0, "0"},           {0.05, "0.05"},      {9999, "9999"},      {12345, "12.3k"},
    {999600, "1M"},     {9.98e20, "998E"},   {9.995e20, "1e+21"}, {1e21, "1e+21"},
    {-9.999e20, "-1e+21"},
};

START_TEST(a_number_has_the_unit_it_needs)
{
    char text[32];

    chart_number(text, sizeof text, numbers[_i].v);
    ck_assert_str_eq(text, numbers[_i].text);
}
END_TEST

START_TEST(a_chart_holds_no_number_that_is_none)
{
    const double        x[] = {0, 1, 10, 100, 1000}, y[] = {1, NAN, 2, INFINITY, -3};
    struct chart_series s[] = {{"a<b>&\"", x, y, y, 5, 0, 0, 0},
                               {"none", x, y, NULL, 0, 1, 0, 1}};
    struct chart_line   l[] = {{"line", 1.5}};
    char               *text = NULL;
    size_t              len = 0;

    for (int log = 0; log < 2; log++) {
        struct chart c = {"t", "x", "y", log, log, s, 2, l, 1, 0, 0};
        FILE        *f = open_memstream(&text, &len);

        chart_write(f, &c, 1);
        fclose(f);
        ck_assert(strstr(text, "<?xml") == text && strstr(text, "a&lt;b&gt;&amp;&quot;"));
        ck_assert_msg(!strstr(text, "nan") && !strstr(text, "inf "), "%s", text);
        ck_assert_msg(!strstr(text, "var("), "librsvg and Inkscape know no variables");
        free(text);
    }
}
END_TEST

/* Series that end at the right edge bear their names there; points need a legend. */
START_TEST(lines_are_named_where_they_end)
{
    const double        x[] = {1, 2, 3}, y[] = {3, 2, 1};
    struct chart_series s[] = {{"one", x, y, NULL, 3, 0, 0, 0},
                               {"two", x, y, NULL, 3, 0, 0, 1}};

    for (int points = 0; points < 2; points++) {
        struct chart c = {"t", "x", "y", 0, 0, s, 2, NULL, 0, 0, 0};
        char        *text = NULL, *one, *two;
        size_t       len = 0;
        FILE        *f = open_memstream(&text, &len);
        double       at[2];

        s[1].points = points;
        chart_write(f, &c, 1);
        fclose(f);
        ck_assert_ptr_nonnull(one = strstr(text, "\">one</text>"));
        ck_assert_ptr_nonnull(two = strstr(text, "\">two</text>"));
        for (one -= 3; one[-1] != '"'; one--)
            continue;
        for (two -= 3; two[-1] != '"'; two--)
            continue;
        at[0] = atof(one);
        at[1] = atof(two);
        ck_assert_msg(points ? at[0] == at[1] : fabs(at[0] - at[1]) >= 12.9,
                      "names at heights %g and %g", at[0], at[1]);
        free(text);
    }
}
END_TEST

START_TEST(text_in_a_page_is_harmless)
{
    char  text[64] = "";
    FILE *f = fmemopen(text, sizeof text, "w");

    chart_text(f, "<i>&\x01\xff caf\xc3\xa9");
    fclose(f);
    ck_assert_str_eq(text, "&lt;i&gt;&amp;\xef\xbf\xbd\xef\xbf\xbd caf\xc3\xa9");
}
END_TEST

/* ---- the verb ---- */

static const char common[] =
    "--tokens 2k --seeds 2 layers=1 width=32 heads=2 context=32 batch=4 "
    "vocab=300 threads=1";

/* Where this program's comparisons are. */
static const char *place(void)
{
    static const char *dir;

    return dir ? dir : (dir = rig_tmp());
}

/* A few stories in place()/stories.txt. */
static const char *stories(void)
{
    static char path[512];
    char        story[STORY_MAX];
    FILE       *f;
    double      bits;

    if (*path)
        return path;
    snprintf(path, sizeof path, "%s/stories.txt", place());
    f = fopen(path, "w");
    for (uint64_t i = 0; i < 60; i++) {
        struct rng r = rng_open(1, RNG_STORY, i);
        size_t     n = story_write(&r, story, sizeof story, &bits);

        fprintf(f, "%.*s\n<|endoftext|>\n", (int)n, story);
    }
    fclose(f);
    return path;
}

static const struct ran *compare(const char *out, const char *arch, const char *more)
{
    static char line[2048];

    snprintf(line, sizeof line, "compare %s --out %s/%s --arch %s %s %s", stories(),
             place(), out, arch, common, more);
    return spawn_verb(compare_main, line, "");
}

static char *file_in(const char *out, const char *name)
{
    char       path[PATH_MAX], *text = NULL;
    size_t     len;
    struct why why;

    snprintf(path, sizeof path, "%s/%s/%s", place(), out, name);
    ck_assert_msg(!file_read(path, 1 << 24, &text, &len, &why), "%s", why.line);
    return text;
}

/* Column i of line k of results.csv. */
static double csv(const char *text, int k, int i)
{
    for (; k > 0; k--)
        text = strchr(text, '\n') + 1;
    for (; i > 0; i--)
        text = strchr(text, ',') + 1;
    return atof(text);
}

enum { PARAMETERS = 6, BITS = 9, TOKENS = 13, FLOPS = 14, SECONDS = 15 };

START_TEST(every_file_of_the_answer_is_there)
{
    const struct ran *r = compare("whole", "softmax,gla,ssd", "");
    char             *table, *page, *marks;

    ck_assert_msg(r->code == 0, "%s", r->err);
    ck_assert(strstr(r->out, "softmax") && strstr(r->out, "yardsticks: zstd -19"));
    table = file_in("whole", "results.csv");
    for (int k = 1; k <= 6; k++) {
        ck_assert_double_eq_tol(csv(table, k, PARAMETERS) / csv(table, 1, PARAMETERS), 1,
                                0.02);
        ck_assert_double_eq_tol(csv(table, k, TOKENS), 2048, 0.5);
        ck_assert(csv(table, k, BITS) > 1 && csv(table, k, BITS) < 9);
    }
    page = file_in("whole", "report.html");
    int charts = 0;

    for (const char *at = page; (at = strstr(at, "class=\"weft-chart\"")); at++)
        charts++;
    ck_assert_int_eq(charts, 9);
    ck_assert(!strstr(page, "<script") && !strstr(page, "src=") && !strstr(page, "nan"));
    ck_assert(strstr(page, "compare") && strstr(page, "--tokens 2k"));
    ck_assert(strstr(page, "<th>architecture</th><th>bits/byte</th>"));
    marks = file_in("whole", "report.md");
    ck_assert(strstr(marks, "| `gla` |"));
    free(table), free(page), free(marks);
}
END_TEST

START_TEST(repeating_the_command_keeps_what_is_finished_and_makes_what_is_missing)
{
    char path[PATH_MAX], *first, *again;

    ck_assert_int_eq(compare("again", "softmax,gla", "")->code, 0);
    first = file_in("again", "results.csv");
    snprintf(path, sizeof path, "%s/again/gla/seed-2/result.json", place());
    ck_assert(!remove(path));
    snprintf(path, sizeof path, "%s/again/softmax/seed-1/log.jsonl", place());
    ck_assert(!remove(path));
    ck_assert_int_eq(compare("again", "softmax,gla", "")->code, 0);
    ck_assert_msg(!path_exists(path), "a finished run was trained again");
    again = file_in("again", "results.csv");
    for (int k = 1; k <= 4; k++) {
        ck_assert(csv(first, k, BITS) == csv(again, k, BITS));
        ck_assert(csv(first, k, FLOPS) == csv(again, k, FLOPS));
        ck_assert_double_gt(csv(first, k, SECONDS), 0);
        ck_assert_double_eq_tol(csv(again, k, SECONDS) / csv(first, k, SECONDS), 1, 1e-8);
    }
    free(first), free(again);
}
END_TEST

START_TEST(a_run_that_diverges_is_a_row)
{
    const struct ran *r = compare("steep", "softmax,gla",
                                  "warmup=0 clip=0 lr=10 "
                                  "weight_decay=10");
    char             *table;

    ck_assert_msg(r->code == FAIL_DIVERGED, "exit %d: %s", r->code, r->err);
    table = file_in("steep", "results.csv");
    ck_assert_msg(strstr(r->out, "diverged") && strstr(table, "diverged"), "%s", r->out);
    free(table);
}
END_TEST

/* The rates of out's sweep of its k-th architecture, in order, and their bits per byte;
 * the rate of its first seed. Returns how many. */
static int swept(const char *out, int arch, double *rate, double *bits, double *chosen)
{
    char *lines = file_in(out, "results.jsonl"), *line = lines;
    int   n = 0;

    for (; *line && arch >= 0; line = strchr(line, '\n') + 1) {
        double lr = atof(strstr(line, "\"lr\":") + 5);

        if (atof(strstr(line, "\"seed\":") + 7) > 0) {
            *chosen = lr;
            n = arch-- ? 0 : n;
            continue;
        }
        rate[n] = lr;
        bits[n++] = strstr(line, "\"bpb\":null") ? INFINITY
                                                 : atof(strstr(line, "\"bpb\":") + 6);
    }
    free(lines);
    return n;
}

static int lowest(const double *x, int n)
{
    int at = 0;

    for (int i = 1; i < n; i++)
        at = x[i] < x[at] ? i : at;
    return at;
}

START_TEST(a_sweep_chooses_the_rate_that_did_best)
{
    const struct ran *r = compare("sweep", "softmax,mlstm",
                                  "--lr-sweep --seeds 1 lr=0.01");
    double            rate[SWEEP], bits[SWEEP], chosen;

    ck_assert_msg(r->code == 0, "%s", r->err);
    for (int i = 0; i < 2; i++) {
        int n = swept("sweep", i, rate, bits, &chosen);

        ck_assert_int_ge(n, 3);
        ck_assert_double_eq_tol(chosen, rate[lowest(bits, n)], 1e-12);
    }
}
END_TEST

/* Rates that are far too low, and too high, for this model and budget. */
static const struct {
    const char *lr;
    int         from, to; // places of the rates that must have been run
    bool        edge;
    const char *says;
} edges[] = {
    {"lr=0.00001", 4, 10, true, "still an edge after 4 more"},
    {"lr=0.8", 2, 6, false, "more tried, as the best of three was an edge"},
};

START_TEST(a_sweep_goes_on_while_the_best_is_an_edge_and_says_so)
{
    char   more[64], out[16], *report;
    double rate[SWEEP], bits[SWEEP], chosen, lr = atof(edges[_i].lr + 3);
    int    n, best;

    snprintf(more, sizeof more, "--lr-sweep --seeds 1 table_lr=1 %s", edges[_i].lr);
    snprintf(out, sizeof out, "edge-%d", _i);
    const struct ran *r = compare(out, "softmax,gla", more);

    ck_assert_msg(r->code == 0, "%s", r->err);
    n = swept(out, 0, rate, bits, &chosen);
    best = lowest(bits, n);
    ck_assert_double_le(rate[0], ldexp(lr, edges[_i].from - SWEEP / 2) * 1.0001);
    ck_assert_double_ge(rate[n - 1], ldexp(lr, edges[_i].to - SWEEP / 2) * 0.9999);
    for (int k = 1; k < n; k++)
        ck_assert_double_eq_tol(rate[k], 2 * rate[k - 1], 1e-9);
    ck_assert((best == 0 || best == n - 1) == edges[_i].edge);
    ck_assert_double_eq_tol(chosen, rate[best], 1e-12);
    report = file_in(out, "report.md");
    ck_assert_msg(strstr(report, edges[_i].says), "%s", report);
    free(report);
}
END_TEST

static const struct {
    const char *arch, *more;
    int         code;
    const char *words;
} refused[] = {
    {"softmax,swxa", "", FAIL_USAGE, "did you mean 'swax'?"},
    {"softmax,glaa", "", FAIL_USAGE, "did you mean 'gla'?"},
    {"softmax", "", FAIL_USAGE, "two architectures or more"},
    {"softmax,gla", "--tokens 5", FAIL_USAGE, "too small for one step"},
    {"softmax,gla", "--for 1m", FAIL_USAGE, "one budget"},
    {"softmax,gla", "--match size", FAIL_USAGE, "params, flops, none"},
    {"softmax,gla", "steps=5", FAIL_USAGE, "--tokens, --flops or --for"},
    {"softmax,gla", "--out /dev/null", FAIL_USAGE, "is not a comparison"},
};

static const struct ran *timed(const char *out, const char *time)
{
    static char line[1024];

    snprintf(line, sizeof line,
             "compare %s --out %s/%s --arch softmax,gla --for %s --seeds 1 layers=1 "
             "width=32 heads=2 context=64 batch=4 tokenizer=bytes threads=1",
             stories(), place(), out, time);
    return spawn_verb(compare_main, line, "");
}

START_TEST(a_budget_of_time_is_kept_by_the_clock_of_every_run)
{
    static const char *const logs[] = {"softmax/seed-1/log.jsonl",
                                       "gla/seed-1/log.jsonl"};
    const struct ran        *r = timed("timed", "1s");

    ck_assert_msg(r->code == 0, "exit %d: %s", r->code, r->err);
    for (int i = 0; i < 2; i++) {
        char *log = file_in("timed", logs[i]);

        ck_assert_msg(strstr(log, "{\"decision\": \"warmup\", \"step\": 0,") &&
                          strstr(log, "{\"decision\": \"end\","),
                      "%s", logs[i]);
        free(log);
    }
}
END_TEST

START_TEST(a_budget_found_too_small_while_training_leaves_nothing)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/hasty", place());
    for (int again = 0; again < 2; again++) {
        const struct ran *r = timed("hasty", "0.00001s"); // a step is long beside it

        ck_assert_msg(r->code == FAIL_USAGE && strstr(r->err, "give more time"),
                      "exit %d: %s", r->code, r->err);
        ck_assert_msg(!path_exists(path), "%s is left", path);
    }
}
END_TEST

START_TEST(a_damaged_run_is_a_row_and_stays)
{
    char              path[PATH_MAX], config[PATH_MAX];
    FILE             *f;
    const struct ran *r = compare("torn", "softmax,gla", "--seeds 1");

    ck_assert_msg(r->code == 0, "%s", r->err);
    snprintf(path, sizeof path, "%s/torn/gla/seed-1/result.json", place());
    ck_assert(!remove(path));
    snprintf(config, sizeof config, "%s/torn/gla/seed-1/config.cfg", place());
    f = fopen(config, "a");
    ck_assert(f && fputs("heads = 3\n", f) > 0 && !fclose(f));
    r = compare("torn", "softmax,gla", "--seeds 1");
    ck_assert_msg(r->code == 0 && strstr(r->out, "heads is given twice"),
                  "exit %d: %s%s", r->code, r->out, r->err);
    ck_assert_msg(path_exists(config), "its settings are gone");
}
END_TEST

START_TEST(a_damaged_comparison_is_not_begun_anew)
{
    char              path[PATH_MAX];
    struct why        why;
    const struct ran *r = compare("cut", "softmax,gla", "--seeds 1");

    ck_assert_msg(r->code == 0, "%s", r->err);
    snprintf(path, sizeof path, "%s/cut/compare.json", place());
    ck_assert(!file_write(path, "{", 1, &why));
    r = compare("cut", "softmax,gla", "--seeds 1");
    ck_assert_msg(r->code == FAIL_INPUT && strstr(r->err, "compare.json:1: damaged"),
                  "exit %d: %s", r->code, r->err);
}
END_TEST

START_TEST(bad_input_is_refused_with_a_line_and_leaves_nothing)
{
    char              path[PATH_MAX];
    const struct ran *r = compare("bad", refused[_i].arch, refused[_i].more);

    ck_assert_msg(r->code == refused[_i].code, "exit %d: %s", r->code, r->err);
    ck_assert_msg(strstr(r->err, refused[_i].words) != NULL, "%s", r->err);
    snprintf(path, sizeof path, "%s/bad", place());
    ck_assert_msg(!path_exists(path), "%s is left", path);
}
END_TEST

START_TEST(another_comparison_is_not_overwritten)
{
    ck_assert_int_eq(compare("mine", "softmax,gla", "--seeds 1")->code, 0);
    char             *before = file_in("mine", "results.csv"), *after;
    const struct ran *r = compare("mine", "softmax,mlstm", "--seeds 1");

    ck_assert_int_eq(r->code, FAIL_USAGE);
    ck_assert_msg(strstr(r->err, "holds another comparison (its arch differs)") != NULL,
                  "%s", r->err);
    after = file_in("mine", "results.csv");
    ck_assert_str_eq(before, after);
    free(before), free(after);
}
END_TEST

START_TEST(a_prefix_is_no_text)
{
    const struct ran *r = compare("prefixed", "softmax,gla", "--seeds 1 prefix=Once~");
    char             *table, *log, *last;

    ck_assert_msg(r->code == 0, "%s", r->err);
    table = file_in("prefixed", "results.csv");
    log = file_in("prefixed", "softmax/seed-1/log.jsonl");
    for (last = log; strstr(last + 1, "\"val_bpb\":"); )
        last = strstr(last + 1, "\"val_bpb\":");
    ck_assert_double_eq_tol(csv(table, 1, BITS), atof(last + 10), 1e-4);
    free(table), free(log);
}
END_TEST

/* What the command no longer asks for differs, too. */
START_TEST(a_comparison_with_its_own_validation_text_is_not_gone_on_with_without)
{
    char more[600];

    snprintf(more, sizeof more, "--seeds 1 --val %s", stories());
    ck_assert_int_eq(compare("held", "softmax,gla", more)->code, 0);
    const struct ran *r = compare("held", "softmax,gla", "--seeds 1");

    ck_assert_int_eq(r->code, FAIL_USAGE);
    ck_assert_msg(strstr(r->err, "holds another comparison (its val differs)") != NULL,
                  "%s", r->err);
}
END_TEST

/* The first has no difference to itself: the others' columns are missed nevertheless. */
START_TEST(a_narrow_table_says_what_it_has_no_room_for)
{
    struct comparison *c = calloc(1, sizeof *c);
    char              *text = NULL;
    size_t             len = 0;
    FILE              *f = open_memstream(&text, &len);

    c->n = c->seeds = 2;
    for (int i = 0; i < 2; i++) {
        snprintf(c->arch[i].name, sizeof c->arch[i].name, "mixer %d", i);
        for (int k = 0; k < 2; k++)
            c->arch[i].trial[k] = (struct trial){.arch = i, .done = true,
                                                 .bpb = 2 + 0.1 * i * (k + 1)};
    }
    gather(c);
    table_print(c, f, 40);
    fclose(f);
    ck_assert_msg(strstr(text, "no room here for against the 1st") != NULL, "%s", text);
    free(text);
    free(c);
}
END_TEST

#define COUNT(table) ((int)(sizeof table / sizeof *table))

int main(void)
{
    Suite *s = suite_create("compare");
    TCase *parts = tcase_create("parts"), *verb = tcase_create("verb");

    tcase_add_loop_test(parts, students_distribution_has_its_known_values, 0,
                        COUNT(students));
    tcase_add_test(parts, the_best_of_several_counts_and_a_mark_says_where_they_disagree);
    tcase_add_test(parts, the_incomplete_beta_function_is_a_polynomial_for_whole_numbers);
    tcase_add_test(parts, pairs_without_a_partner_are_left_out);
    tcase_add_test(parts, seeds_beyond_jsons_numbers_are_text);
    tcase_add_test(parts, a_run_beside_others_has_the_speed_that_was_measured_alone);
    tcase_add_test(parts, a_speed_that_nobody_measured_alone_is_not_shown);
    tcase_add_test(parts, a_budget_of_time_stays_what_it_was);
    tcase_add_test(parts, holms_correction_is_that_of_the_textbook);
    tcase_add_test(parts, commas_in_parentheses_do_not_part_architectures);
    tcase_add_loop_test(parts, no_two_architectures_share_a_directory, 0, COUNT(clashes));
    tcase_add_loop_test(parts, a_number_has_the_unit_it_needs, 0, COUNT(numbers));
    tcase_add_test(parts, a_chart_holds_no_number_that_is_none);
    tcase_add_test(parts, lines_are_named_where_they_end);
    tcase_add_test(parts, text_in_a_page_is_harmless);
    tcase_add_test(parts, a_narrow_table_says_what_it_has_no_room_for);
    tcase_add_test(verb, every_file_of_the_answer_is_there);
    tcase_add_test(
        verb, repeating_the_command_keeps_what_is_finished_and_makes_what_is_missing);
    tcase_add_test(verb, a_run_that_diverges_is_a_row);
    tcase_add_test(verb, a_sweep_chooses_the_rate_that_did_best);
    tcase_add_loop_test(verb, a_sweep_goes_on_while_the_best_is_an_edge_and_says_so, 0,
                        sizeof edges / sizeof *edges);
    tcase_add_loop_test(verb, bad_input_is_refused_with_a_line_and_leaves_nothing, 0,
                        COUNT(refused));
    tcase_add_test(verb, a_budget_of_time_is_kept_by_the_clock_of_every_run);
    tcase_add_test(verb, a_budget_found_too_small_while_training_leaves_nothing);
    tcase_add_test(verb, a_damaged_run_is_a_row_and_stays);
    tcase_add_test(verb, a_damaged_comparison_is_not_begun_anew);
    tcase_add_test(verb, another_comparison_is_not_overwritten);
    tcase_add_test(verb, a_prefix_is_no_text);
    tcase_add_test(verb,
                   a_comparison_with_its_own_validation_text_is_not_gone_on_with_without);
    suite_add_tcase(s, parts);
    suite_add_tcase(s, verb);
    return rig_run(s, 0);
}
