/* weft lab from end to end: every experiment of the table in its brief form. */
#include "data/base/file.h"
#include "tests/support/rig.h"
#include "tests/support/spawn.h"
#include "tools/lab/lab.h"
#include "tools/lab/report.h"
#include "tools/verbs.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* Where the experiments write. */
static const char *tmp(void)
{
    static const char *dir;

    return dir = dir ? dir : rig_tmp();
}

static const struct ran *lab(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

static const struct ran *lab(const char *format, ...)
{
    char    line[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    return spawn_verb(lab_main, line, "");
}

/* Lines of text that hold these words. */
static int count(const char *text, const char *words)
{
    int n = 0;

    for (; (text = strstr(text, words)); text++)
        n++;
    return n;
}

static long file_bytes(const char *name, const char *file)
{
    char       dir[512], path[600], *bytes;
    size_t     len;
    struct why why;

    path_join(dir, sizeof dir, tmp(), name);
    path_join(path, sizeof path, dir, file);
    if (file_read(path, 1 << 24, &bytes, &len, &why))
        return -1;
    free(bytes);
    return (long)len;
}

START_TEST(every_experiment_runs_and_exact_ones_agree_with_their_yardsticks)
{
    const struct experiment *e = experiments[_i];
    const struct ran *r =
        lab("lab %s --brief --json --out %s/%s", e->name, tmp(), e->name);
    static char              first[sizeof r->out];
    char                     record[64];
    long                     bytes;

    ck_assert_msg(r->code == 0, "%s: exit %d: %s", e->name, r->code, r->err);
    ck_assert_msg(count(r->out, "\"cell\": ") > 0, "%s: no cell", e->name);
    ck_assert_msg(count(r->out, "\"verdict\": ") > 0, "%s: no verdict", e->name);
    ck_assert_msg(!e->exact || !strstr(r->out, "\"verdict\": \"fails\""), "%s: %.400s",
                  e->name, strstr(r->out, "\"verdict\": \"fails\""));
    snprintf(record, sizeof record, "%s.csv", e->name);
    bytes = file_bytes(e->name, record);
    ck_assert_msg(bytes > 0, "%s: no record", e->name);
    strcpy(first, r->out);
    r = lab("lab %s --brief --json --out %s/%s", e->name, tmp(), e->name);
    ck_assert_msg(r->code == 0 && !strcmp(first, r->out),
                  "%s: other results when repeated", e->name);
    ck_assert_msg(file_bytes(e->name, record) == bytes, "%s: computed a cell twice",
                  e->name);
}
END_TEST

/* The records are those of the test before. */
START_TEST(all_of_them_end_with_one_table_in_a_file)
{
    const struct ran *r = lab("lab all --brief --out %s", tmp());
    char              path[512], *text;
    size_t            len;
    struct why        why;

    ck_assert_msg(r->code == 0, "exit %d: %s", r->code, r->err);
    path_join(path, sizeof path, tmp(), "summary.md");
    ck_assert_int_eq(file_read(path, 1 << 20, &text, &len, &why), 0);
    ck_assert_int_ge(count(text, "\n| "), 1 + n_experiments);
    ck_assert_ptr_nonnull(strstr(r->out, "\n| experiment | claim | measured |"));
    ck_assert_ptr_nonnull(strstr(text, "exact rows hold; of "));
    for (int i = 0; i < n_experiments; i++) {
        char row[64];

        snprintf(row, sizeof row, "\n| %s | ", experiments[i]->name);
        ck_assert_msg(strstr(text, row) != NULL, "%s: no row", experiments[i]->name);
    }
    free(text);
    path_join(path, sizeof path, tmp(), "report.html");
    ck_assert_int_eq(file_read(path, 16 << 20, &text, &len, &why), 0);
    ck_assert_int_eq(count(text, "<h2 id="), n_experiments);
    ck_assert_int_gt(count(text, "<svg"), n_experiments / 2);
    ck_assert_ptr_null(strstr(text, "<?xml"));
    ck_assert_ptr_null(strstr(text, "<script"));
    free(text);
}
END_TEST

/* The records are those of the tests before; the pages are not the project's. */
START_TEST(the_tables_of_the_pages_are_put_between_their_marks)
{
    static const char kept[] = REPORT_MARK("", "begin") "full\n" REPORT_MARK("", "end"),
                      page[] = "before\n" REPORT_MARK(" --brief", "begin") "old\n"
                               REPORT_MARK(" --brief", "end") "after\n"
                               REPORT_MARK("", "begin") "full\n" REPORT_MARK("", "end");
    static const char *const path[] = {"docs/lab.md", "README.md"};
    char              home[512], dir[512], *text;
    size_t            len;
    struct why        why;
    const struct ran *r;

    path_join(dir, sizeof dir, tmp(), "pages");
    ck_assert_ptr_nonnull(getcwd(home, sizeof home));
    ck_assert(!dir_make(dir, &why) && !chdir(dir) && !dir_make("docs", &why));
    ck_assert_int_eq(file_write(path[0], page, strlen(page), &why), 0);
    r = lab("lab all --brief --docs --out %s", tmp());
    ck_assert_int_eq(r->code, 3);
    ck_assert_ptr_nonnull(strstr(r->err, "README.md"));
    ck_assert_int_eq(file_write(path[1], "no marks\n", 9, &why), 0);
    r = lab("lab all --brief --docs --out %s", tmp());
    ck_assert_int_eq(r->code, 3);
    ck_assert_int_eq(file_write(path[1], page, strlen(page), &why), 0);
    r = lab("lab all --brief --docs --out %s", tmp());
    ck_assert_msg(r->code == 0, "exit %d: %s", r->code, r->err);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(file_read(path[i], 1 << 20, &text, &len, &why), 0);
        ck_assert(!strncmp(text, page, strlen("before\n")));
        ck_assert(!strcmp(text + len - strlen(kept), kept));
        ck_assert_int_eq(count(text, REPORT_MARK(" --brief", "begin")), 1);
        ck_assert_int_eq(count(text, REPORT_MARK(" --brief", "end") "after\n"), 1);
        ck_assert_ptr_null(strstr(text, "old\n"));
        ck_assert_ptr_nonnull(strstr(text, i ? "| exact rows | " : "| slr | "));
        free(text);
    }
    r = lab("lab slr --docs");
    ck_assert_int_eq(r->code, 2);
    ck_assert_int_eq(chdir(home), 0);
}
END_TEST

/* malloc'ed; NULL: it cannot be read. */
static char *read_all(const char *path, size_t *len)
{
    char      *text;
    struct why why;

    return file_read(path, 1 << 20, &text, len, &why) ? NULL : text;
}

START_TEST(seeds_that_were_asked_for_are_all_of_them)
{
    char              path[512], *text;
    size_t            len;
    int               n = 0;
    const struct ran *r = lab("lab mqar --brief --seeds 11 --arch linear --out %s/eleven",
                              tmp());

    ck_assert_msg(r->code == 0, "exit %d: %s", r->code, r->err);
    snprintf(path, sizeof path, "%s/eleven/mqar.csv", tmp());
    text = read_all(path, &len);
    ck_assert_ptr_nonnull(text);
    for (const char *at = text; (at = strstr(at, "brief,\"linear")); at++)
        n++;
    ck_assert_int_eq(n, 11);
    free(text);
}
END_TEST

/* What is measured was registered before: a claim that changes changes its line. */
START_TEST(the_registered_claims_are_those_of_the_program)
{
    size_t            len;
    char             *text = read_all("tools/lab/claims.txt", &len);
    const struct ran *r = lab("lab --claims");

    ck_assert_ptr_nonnull(text);
    ck_assert_msg(!strcmp(r->out, text),
                  "other claims than tools/lab/claims.txt; after a change on purpose: "
                  "weft lab --claims > tools/lab/claims.txt");
    free(text);
}
END_TEST

START_TEST(a_record_of_a_claim_that_was_not_registered_is_refused)
{
    char              path[512], *text, *at;
    size_t            len;
    struct why        why;
    const struct ran *r = lab("lab copy --brief --arch gla --out %s/check/copy", tmp());

    ck_assert_msg(r->code == 0, "exit %d: %s", r->code, r->err);
    r = lab("lab --check %s/check", tmp());
    ck_assert_msg(r->code == 0 && strstr(r->out, "1 records, 3 claims"), "%s%s", r->out,
                  r->err);
    snprintf(path, sizeof path, "%s/check/copy/copy.csv", tmp());
    text = read_all(path, &len);
    ck_assert_ptr_nonnull(text);
    at = memmem(text, len, "# claim ", 8);
    ck_assert_ptr_nonnull(at);
    at[8] = at[8] == '0' ? '1' : '0';
    ck_assert(!file_write(path, text, len, &why));
    r = lab("lab --check %s/check", tmp());
    ck_assert_msg(r->code == FAIL_INPUT && strstr(r->err, "was not registered"), "%s",
                  r->err);
    ck_assert(!file_write(path, "form,cell\n", 10, &why));
    free(text);
    r = lab("lab --check %s/check", tmp());
    ck_assert_msg(r->code == FAIL_INPUT && strstr(r->err, "names no claim"), "%s",
                  r->err);
    r = lab("lab --check %s/nothing", tmp());
    ck_assert_int_eq(r->code, FAIL_INPUT);
}
END_TEST

START_TEST(seeds_begin_where_they_are_asked_to)
{
    const struct ran *r =
        lab("lab copy --brief --arch gla --seed 1007 --seeds 2 --json --out %s/s", tmp());

    ck_assert_msg(r->code == 0, "exit %d: %s", r->code, r->err);
    ck_assert(strstr(r->out, "seed 1007\"") && strstr(r->out, "seed 1008\""));
    ck_assert_ptr_nonnull(strstr(r->out, "\"parameters\": "));
}
END_TEST

static void press_ctrl_c(int alarmed)
{
    (void)alarmed;
    raise(SIGINT);
}

/* lab_main, with Ctrl-C after a quarter of a second. */
static int impatient(int argc, char **argv)
{
    const struct itimerval soon = {.it_value = {.tv_usec = 250000}};

    signal(SIGALRM, press_ctrl_c);
    setitimer(ITIMER_REAL, &soon, NULL);
    return lab_main(argc, argv);
}

START_TEST(after_ctrl_c_the_same_command_continues_to_the_same_numbers)
{
    char              line[512];
    const struct ran *r = lab("lab icl --brief --json --out %s/whole", tmp());
    static char       whole[sizeof r->out];

    strcpy(whole, r->out);
    snprintf(line, sizeof line, "lab icl --brief --json --out %s/halves", tmp());
    r = spawn_verb(impatient, line, "");
    ck_assert_msg(r->code == FAIL_INTERRUPTED, "exit %d: %s", r->code, r->err);
    ck_assert_ptr_nonnull(strstr(r->err, "the same command continues"));
    r = lab("%s", line);
    ck_assert_msg(r->code == 0, "exit %d: %s", r->code, r->err);
    ck_assert_msg(!strcmp(whole, r->out), "other results than without a break");
}
END_TEST

START_TEST(a_damaged_record_is_refused_and_stays)
{
    char              path[512], *text;
    size_t            len;
    struct why        why;
    const struct ran *r = lab("lab dsf --brief --out %s/nul", tmp());

    ck_assert_msg(r->code == 0, "exit %d: %s", r->code, r->err);
    snprintf(path, sizeof path, "%s/nul/dsf.csv", tmp());
    ck_assert(!file_read(path, 1 << 20, &text, &len, &why));
    *(strchr(text, '\n') + 1) = 0;           // as if there were no line after the first
    ck_assert(!file_write(path, text, len, &why));
    free(text);
    r = lab("lab dsf --brief --out %s/nul", tmp());
    ck_assert_msg(r->code == FAIL_INPUT, "exit %d: %s", r->code, r->err);
    ck_assert_msg(file_bytes("nul", "dsf.csv") == (long)len, "the record has changed");
}
END_TEST

START_TEST(the_list_names_every_experiment)
{
    const struct ran *r = lab("lab");

    ck_assert_int_eq(r->code, 0);
    for (int i = 0; i < n_experiments; i++)
        ck_assert_ptr_nonnull(strstr(r->out, experiments[i]->claim));
}
END_TEST

static const struct { const char *line, *words; } wrong[] = {
    {"lab mqra --quick", "did you mean 'mqar'?"},
    {"lab zzzzzz", "weft lab lists them"},
    {"lab mqar copy", "give one experiment"},
    {"lab dsf --arch gla", "dsf takes no --arch"},
    {"lab all --arch gla", "name one experiment"},
    {"lab mqar --seeds 0", "out of range"},
    {"lab mqar --arch gla,,s6", "parted by commas"},
    {"lab copy --arch a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", "1 to 16"},
    {"lab mqar --quick --arch sofmax", "softmax"},
};

START_TEST(a_mistake_gets_one_line_and_exit_2)
{
    char line[256];

    snprintf(line, sizeof line, "%s --out %s/wrong", wrong[_i].line, tmp());
    const struct ran *r = lab("%s", line);

    ck_assert_msg(r->code == FAIL_USAGE, "%s: exit %d", line, r->code);
    ck_assert_msg(strstr(r->err, wrong[_i].words) != NULL, "%s: '%s'", line, r->err);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("lab");
    TCase *tc = tcase_create("verb");

    tcase_add_loop_test(tc,
                        every_experiment_runs_and_exact_ones_agree_with_their_yardsticks,
                        0, n_experiments);
    tcase_add_test(tc, all_of_them_end_with_one_table_in_a_file);
    tcase_add_test(tc, the_tables_of_the_pages_are_put_between_their_marks);
    tcase_add_test(tc, seeds_that_were_asked_for_are_all_of_them);
    tcase_add_test(tc, the_registered_claims_are_those_of_the_program);
    tcase_add_test(tc, a_record_of_a_claim_that_was_not_registered_is_refused);
    tcase_add_test(tc, seeds_begin_where_they_are_asked_to);
    tcase_add_test(tc, after_ctrl_c_the_same_command_continues_to_the_same_numbers);
    tcase_add_test(tc, a_damaged_record_is_refused_and_stays);
    tcase_add_test(tc, the_list_names_every_experiment);
    tcase_add_loop_test(tc, a_mistake_gets_one_line_and_exit_2, 0,
                        sizeof wrong / sizeof *wrong);
    suite_add_tcase(s, tc);
    return s;
}

int main(void) { return rig_run(suite(), 0); }
