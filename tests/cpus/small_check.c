/* The part of libcheck that numerical suites use, for a machine that has none: tests run
 * one after the other in this process, and the first that fails ends it. WITHOUT names a
 * test that is left out. */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

struct TCase {
    const TTest *test[MOST];
    int          from[MOST], to[MOST], n;
    SFun         setup, teardown;
};

struct Suite {
    const char *name;
    TCase      *cases[MOST];
    int         n;
};

struct SRunner {
    Suite *suite;
};

static const char *running;

Suite *suite_create(const char *name)
{
    Suite *s = calloc(1, sizeof *s);

    s->name = name;
    return s;
}

TCase *tcase_create(const char *name)
{
    (void)name;
    return calloc(1, sizeof(TCase));
}

void suite_add_tcase(Suite *s, TCase *c) { s->cases[s->n++] = c; }
void tcase_set_timeout(TCase *c, double seconds) { (void)c, (void)seconds; }

void tcase_add_checked_fixture(TCase *c, SFun setup, SFun teardown)
{
    c->setup = setup;
    c->teardown = teardown;
}

void _tcase_add_test(TCase *c, const TTest *t, int sig, int code, int from, int to)
{
    (void)sig, (void)code;
    c->test[c->n] = t;
    c->from[c->n] = from;
    c->to[c->n++] = to;
}

SRunner *srunner_create(Suite *s)
{
    SRunner *r = calloc(1, sizeof *r);

    r->suite = s;
    return r;
}

static void run_test(const TCase *c, int i)
{
    running = c->test[i]->name;
    for (int k = c->from[i]; k < c->to[i]; k++) {
        if (c->setup)
            c->setup();
        c->test[i]->fn(k);
        if (c->teardown)
            c->teardown();
    }
}

void srunner_run_all(SRunner *r, enum print_output how)
{
    const char *without = getenv("WITHOUT");
    int         ran = 0;

    (void)how;
    for (int i = 0; i < r->suite->n; i++)
        for (int j = 0; j < r->suite->cases[i]->n; j++)
            if (!without || strcmp(without, r->suite->cases[i]->test[j]->name)) {
                run_test(r->suite->cases[i], j);
                ran++;
            }
    printf("%s: %d tests\n", r->suite->name, ran);
}

void srunner_set_fork_status(SRunner *r, enum fork_status f) { (void)r, (void)f; }
int  srunner_ntests_failed(SRunner *r) { return !r; }

void srunner_free(SRunner *r)
{
    for (int i = 0; i < r->suite->n; i++)
        free(r->suite->cases[i]);
    free(r->suite);
    free(r);
}

void _mark_point(const char *file, int line) { (void)file, (void)line; }

void _ck_assert_failed(const char *file, int line, const char *what, const char *msg, ...)
{
    va_list args;

    printf("%s:%d: %s: %s: ", file, line, running, what);
    va_start(args, msg);
    if (msg)
        vprintf(msg, args);
    va_end(args);
    putchar('\n');
    exit(1);
}
