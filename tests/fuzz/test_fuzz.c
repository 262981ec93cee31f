/* Every seed, and every seed broken in a few ways, through its reader. The reader takes a
 * seed as it is, unless the seed's name begins with "no-". */
#include "data/base/file.h"
#include "data/base/rng.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/rig.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cut short, and with bytes changed. */
static void break_it(const struct fuzz_target *t, const char *bytes, size_t len)
{
    struct rng r = rng_open(1, RNG_SAMPLE, len);

    for (int i = 0; i < 20 && len; i++) {
        char  *copy = malloc(len);
        size_t cut = i % 4 ? len : rng_below(&r, len);

        memcpy(copy, bytes, len);
        for (int k = 0; k < i % 5; k++)
            copy[rng_below(&r, len)] = (char)rng_below(&r, 256);
        t->run((const uint8_t *)copy, cut);
        free(copy);
    }
}

START_TEST(the_reader_survives_its_seeds)
{
    const struct fuzz_target *t = &fuzz_targets[_i];
    char                      dir[512], path[1024];
    int                       n = 0;
    struct dirent            *e;

    fuzz_place(rig_tmp());
    snprintf(dir, sizeof dir, "tests/fuzz/seeds/%s", t->name);
    DIR *d = opendir(dir);

    ck_assert_msg(d != NULL, "%s: there are no seeds", dir);
    while ((e = readdir(d))) {
        struct why why;
        char      *bytes;
        size_t     len;

        if (e->d_name[0] == '.')
            continue;
        ck_assert_msg(!file_read(path_join(path, sizeof path, dir, e->d_name), 1 << 20,
                                 &bytes, &len, &why), "%s", why.line);
        fuzz_takes = 0;
        t->run((const uint8_t *)bytes, len);
        ck_assert_msg(!fuzz_takes == !strncmp(e->d_name, "no-", 3), "%s is %s", path,
                      fuzz_takes ? "taken" : "refused");
        break_it(t, bytes, len);
        free(bytes);
        n++;
    }
    closedir(d);
    ck_assert_int_gt(n, 0);
    t->run((const uint8_t *)"", 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fuzz");
    TCase *tc = tcase_create("seeds");
    int    n = 0;

    while (fuzz_targets[n].name)
        n++;
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, the_reader_survives_its_seeds, 0, n);
    suite_add_tcase(s, tc);
    return rig_run(s, 0);
}
