/* data/base/record.h: what a long work has come to, whole or refused. */
#include "data/base/record.h"
#include "data/base/file.h"
#include "tests/support/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 200000 };        // more than a buffer's

static struct {
    int           first;
    unsigned char many[N];
    int           last;
} saved, restored;

static char path[300];

/* One walk for both. */
static struct record *walk(bool saving)
{
    struct record *r;
    struct why     why;

    ck_assert_msg(!record_open(&r, path, saving, &why), "%s", why.line);
    ck_assert(record_saves(r) == saving);
    record_bytes(r, saving ? &saved.first : &restored.first, sizeof saved.first);
    record_bytes(r, saving ? saved.many : restored.many, sizeof saved.many);
    record_bytes(r, saving ? &saved.last : &restored.last, sizeof saved.last);
    return r;
}

static void save(void)
{
    struct rng r = rng_open(1, RNG_TEST, 0);
    struct why why;

    path_join(path, sizeof path, rig_tmp(), "record");
    saved.first = 7, saved.last = 9;
    for (int i = 0; i < N; i++)
        saved.many[i] = (unsigned char)rng_below(&r, 256);
    ck_assert(!record_close(walk(true), &why));
}

START_TEST(what_was_saved_is_restored)
{
    struct why why;
    int        open = rig_open_files();

    save();
    ck_assert(!record_close(walk(false), &why));
    ck_assert(!memcmp(&saved, &restored, sizeof saved));
    ck_assert_int_eq(rig_open_files(), open);
}
END_TEST

/* Cut short, or with a byte changed: refused, and zeros in place of what is missing. */
START_TEST(what_is_damaged_is_refused)
{
    static const double at[] = {0, 0.00002, 0.3, 0.9, 0.99999};
    struct why why;
    char      *bytes;
    size_t     len;

    save();
    ck_assert(!file_read(path, 1 << 20, &bytes, &len, &why));
    for (int cut = 0; cut < 2; cut++) {
        size_t         where = (size_t)(at[_i] * (double)len);
        struct record *r;

        bytes[where] ^= (char)!cut;
        ck_assert(!file_write(path, bytes, cut ? where : len, &why));
        memset(&restored, 1, sizeof restored);
        r = walk(false);
        ck_assert_msg(!cut || _i == 4 || (record_failed(r) && restored.last == 0),
                      "cut at %zu of %zu: %d", where, len, restored.last);
        ck_assert_int_eq(record_close(r, &why), FAIL_INPUT);
        ck_assert_msg(strstr(why.line, "damaged") &&
                      !strncmp(why.line, path, strlen(path)), "%s", why.line);
        bytes[where] ^= (char)!cut;
    }
    free(bytes);
}
END_TEST

START_TEST(a_walk_that_asks_for_more_than_there_is_is_refused)
{
    struct record *r;
    struct why     why;
    int            more = 1;

    save();
    r = walk(false);
    record_bytes(r, &more, sizeof more);
    ck_assert(record_failed(r) && more == 0);
    ck_assert_int_eq(record_close(r, &why), FAIL_INPUT);
}
END_TEST

START_TEST(a_walk_that_leaves_something_is_refused)
{
    struct record *r;
    struct why     why;

    save();
    for (int empty = 0; empty < 2; empty++) {
        ck_assert(!empty || !file_write(path, "", 0, &why));
        ck_assert(!record_open(&r, path, false, &why) && !record_failed(r));
        ck_assert_int_eq(record_close(r, &why), FAIL_INPUT);
    }
}
END_TEST

/* The first failure is told, and no file takes the name. */
START_TEST(a_walk_may_fail_for_its_own_reason)
{
    struct record *r;
    struct why     why, own, other;

    save();
    unlink(path);
    r = walk(true);
    ck_assert(!record_failed(r));
    record_fail(r, fail(&own, FAIL_MEMORY, "no room for a table"), &own);
    record_fail(r, fail(&other, FAIL_WRITE, "a later one"), &other);
    record_refuse(r);
    ck_assert(record_failed(r));
    ck_assert_int_eq(record_close(r, &why), FAIL_MEMORY);
    ck_assert_str_eq(why.line, "no room for a table");
    ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("record");
    TCase *tc = tcase_create("record");

    tcase_add_test(tc, what_was_saved_is_restored);
    tcase_add_loop_test(tc, what_is_damaged_is_refused, 0, 5);
    tcase_add_test(tc, a_walk_that_asks_for_more_than_there_is_is_refused);
    tcase_add_test(tc, a_walk_that_leaves_something_is_refused);
    tcase_add_test(tc, a_walk_may_fail_for_its_own_reason);
    suite_add_tcase(s, tc);
    return rig_run(s, 1);
}
