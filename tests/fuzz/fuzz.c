#include "tests/fuzz/fuzz.h"

#include "data/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct fuzz_target fuzz_targets[] = {
#define TARGET(name) {#name, fuzz_##name},
    FUZZ(TARGET){NULL, NULL},
};

void fuzz_must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

long fuzz_takes;

bool fuzz_took(enum fail err, const struct why *why)
{
    fuzz_takes += !err;
    if (!err)
        return true;
    fuzz_must(err == FAIL_INPUT || err == FAIL_MEMORY || err == FAIL_USAGE,
              "a reader fails for its input, or for memory");
    fuzz_must(*why->line && strnlen(why->line, sizeof why->line) < sizeof why->line,
              "a reason is said");
    for (const char *s = why->line; *s; s++)
        fuzz_must((unsigned char)*s >= 0x20 && *s != 0x7f, "a reason is one clean line");
    return false;
}

/* ---- places ---- */

static void put(const char *path, const uint8_t *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    fuzz_must(fd >= 0 && write(fd, bytes, len) == (ssize_t)len, "there is room");
    close(fd);
}

static char place[PATH_MAX];

void fuzz_place(const char *dir)
{
    snprintf(place, sizeof place, "%s", dir);
}

const char *fuzz_file(const char *name, const uint8_t *bytes, size_t len)
{
    static char path[PATH_MAX];

    put(path_join(path, sizeof path, place, name), bytes, len);
    return path;
}

char *fuzz_string(const uint8_t *bytes, size_t len)
{
    char *s = malloc(len + 1);

    fuzz_must(s != NULL, "there is memory");
    if (len)
        memcpy(s, bytes, len);
    s[len] = 0;
    return s;
}

/* Files of the last input go one by one: making the directory anew takes longer than many
 * a reader. */
const char *fuzz_bundle(const char *const *names, int n, const uint8_t *bytes, size_t len)
{
    static char dir[PATH_MAX];
    char        path[PATH_MAX];

    path_join(dir, sizeof dir, place, "bundle");
    fuzz_must(!mkdir(dir, 0700) || errno == EEXIST, "there is room");
    for (int i = 0; i < n; i++)
        unlink(path_join(path, sizeof path, dir, names[i]));
    while (len >= 3) {
        size_t take = (size_t)bytes[1] | (size_t)bytes[2] << 8;
        int    file = bytes[0] % n;

        bytes += 3;
        len -= 3;
        take = take < len ? take : len;
        put(path_join(path, sizeof path, dir, names[file]), bytes, take);
        bytes += take;
        len -= take;
    }
    return dir;
}

/* ---- libFuzzer ---- */

static const struct fuzz_target *target;

/* WEFT_FUZZ names the target; without it their names are printed. Files go to TMPDIR,
 * which tests/fuzz.sh removes. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = getenv("WEFT_FUZZ");

    (void)argc;
    (void)argv;
    for (const struct fuzz_target *t = fuzz_targets; t->name; t++)
        if (!name)
            puts(t->name);
        else if (!strcmp(t->name, name))
            target = t;
    if (!target)
        exit(name ? FAIL_USAGE : 0);
    fuzz_place(getenv("TMPDIR") ? getenv("TMPDIR") : ".");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    target->run(bytes, len);
    return 0;
}
