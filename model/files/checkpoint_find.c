/* Where the checkpoints of a run are. */
#include "model/files/checkpoint.h"

#include "data/base/file.h"
#include "data/base/json.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- by step ----------------------------------------------------------------------- */

char *checkpoint_name(char *buf, size_t cap, long step)
{
    snprintf(buf, cap, "ckpt-%08ld", step);
    return buf;
}

char *checkpoint_path(char *buf, size_t cap, const char *run, long step)
{
    char name[32];

    return path_join(buf, cap, run, checkpoint_name(name, sizeof name, step));
}

static int newest_first(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;

    return (x < y) - (x > y);
}

long checkpoint_step(const char *name)
{
    long step = strncmp(name, "ckpt-", 5) ? -1 : strtol(name + 5, NULL, 10);
    char right[32];

    return step < 0 || strcmp(name, checkpoint_name(right, sizeof right, step)) ? -1
                                                                               : step;
}

/* Append to a list of n steps with room for *cap; false when out of memory. */
static bool append(long **steps, long n, long *cap, long step)
{
    if (n == *cap) {
        long *more = realloc(*steps, (size_t)(2 * *cap + 16) * sizeof *more);

        if (!more)
            return false;
        *steps = more;
        *cap = 2 * *cap + 16;
    }
    (*steps)[n] = step;
    return true;
}

long checkpoint_list(const char *run, long **steps)
{
    DIR           *d = opendir(run);
    struct dirent *e;
    long           n = 0, cap = 0, step;

    *steps = NULL;
    if (!d)
        return -1;
    while (n >= 0 && (e = readdir(d)))
        if ((step = checkpoint_step(e->d_name)) >= 0)
            n = append(steps, n, &cap, step) ? n + 1 : -1;
    closedir(d);
    if (n < 0) {
        free(*steps);
        *steps = NULL;
        errno = ENOMEM;
    }
    if (n > 0)
        qsort(*steps, (size_t)n, sizeof **steps, newest_first);
    return n;
}

bool checkpoint_intact(const char *run, char *dir, size_t cap)
{
    long      *step, n = checkpoint_list(run, &step);
    struct why unused;
    bool       found = false;

    for (long i = 0; i < n && !found; i++)
        found = !manifest_check(checkpoint_path(dir, cap, run, step[i]), &unused);
    free(step);
    return found;
}

/* ---- RUN@best, RUN@STEP ------------------------------------------------------------ */

enum { TRAINER_MAX = 1 << 24, NAMED = 8 };      // bytes; steps that an error names

/* The validation loss of run's checkpoint of this step; NAN: it has none, or cannot be
 * read. */
static double loss_at(const char *run, long step)
{
    char       dir[PATH_MAX], path[PATH_MAX];
    struct why unread;
    json_t    *j;
    double     loss = NAN;

    checkpoint_path(dir, sizeof dir, run, step);
    if (!json_read(&j, path_join(path, sizeof path, dir, "trainer.json"), TRAINER_MAX, "",
                   &unread))
        loss = json_to_double(json_object_get(j, "val_loss"));
    json_decref(j);
    return loss;
}

/* The step of the lowest validation loss among n, newest first; -1: none has one. */
static long best_of(const char *run, const long *step, long n)
{
    double lowest = NAN, loss;
    long   best = -1;

    for (long i = 0; i < n; i++)
        if (isfinite(loss = loss_at(run, step[i])) && !(lowest <= loss)) {
            lowest = loss;
            best = step[i];
        }
    return best;
}

/* The step that `word` means among n, newest first; -1: none. */
static long step_named(const char *run, const char *word, const long *step, long n)
{
    long wanted;

    if (!strcmp(word, "best"))
        return best_of(run, step, n);
    if (!*word || word[strspn(word, "0123456789")])
        return -1;
    wanted = strtol(word, NULL, 10);
    for (long i = 0; i < n; i++)
        if (step[i] == wanted)
            return wanted;
    return -1;
}

/* "300, 200, 100", the newest of n. */
static void name_steps(char *buf, size_t cap, const long *step, long n)
{
    size_t at = 0;

    for (long i = 0; i < n && i < NAMED && at < cap; i++)
        at += (size_t)snprintf(buf + at, cap - at, "%s%ld", i ? ", " : "", step[i]);
    if (n > NAMED && at < cap)
        snprintf(buf + at, cap - at, " and older ones");
}

static enum fail refuse_name(const char *run, const char *word, const long *step, long n,
                             struct why *why)
{
    char have[256] = "none yet";

    name_steps(have, sizeof have, step, n);
    if (!strcmp(word, "best"))
        return fail(why, FAIL_INPUT,
                    "%s: no checkpoint of it was validated; those it has: %s", run, have);
    return fail(why, FAIL_INPUT,
                "%s: '%s' is neither best nor the step of a checkpoint; those it has: %s",
                run, word, have);
}

/* name is RUN@WORD, at points at its '@': the checkpoint into dir. */
static enum fail find_named(char *name, char *at, char *dir, size_t cap, struct why *why)
{
    long     *step, n, found;
    enum fail err = FAIL_NONE;

    *at = '\0';
    n = checkpoint_list(name, &step);
    if (n < 0)
        return fail(why, errno == ENOMEM ? FAIL_MEMORY : FAIL_INPUT,
                    "%s: cannot be listed: %s", name, strerror(errno));
    found = step_named(name, at + 1, step, n);
    if (found < 0)
        err = refuse_name(name, at + 1, step, n, why);
    else
        checkpoint_path(dir, cap, name, found);
    free(step);
    return err;
}

/* The '@' of RUN@WORD, where RUN is a directory; NULL: name has no such form. */
static char *named(char *name)
{
    char *at = strrchr(name, '@');
    bool  run;

    if (!at || at == name)
        return NULL;
    *at = '\0';
    run = path_is_dir(name);
    *at = '@';
    return run ? at : NULL;
}

/* ---- by path ----------------------------------------------------------------------- */

static bool holds(const char *dir, const char *name)
{
    char path[PATH_MAX];

    return path_exists(path_join(path, sizeof path, dir, name));
}

static bool is_checkpoint(const char *dir)
{
    return holds(dir, "manifest.json") || holds(dir, "config.json") ||
           holds(dir, "model.safetensors");
}

/* The directory that path/latest names; it is in dir even when it is no checkpoint. */
static enum fail follow_latest(const char *path, char *dir, size_t cap, struct why *why)
{
    char    link[PATH_MAX], target[PATH_MAX], word[PATH_MAX];
    ssize_t n = readlink(path_join(link, sizeof link, path, "latest"), target,
                         sizeof target - 1);

    if (n < 0)
        return fail(why, FAIL_INPUT,
                    "%s: no checkpoint yet; continue training with: "
                    "weft train --resume %s", path, path_quote(word, sizeof word, path));
    target[n] = '\0';
    if (*target == '/')
        snprintf(dir, cap, "%s", target);
    else
        path_join(dir, cap, path, target);
    if (!is_checkpoint(dir))
        return fail(why, FAIL_INPUT,
                    "%s: it points at %s, which is no checkpoint; "
                    "name another ckpt-* of this run", link, target);
    return FAIL_NONE;
}

enum fail checkpoint_find(const char *path, char *dir, size_t cap, struct why *why)
{
    char   name[PATH_MAX], word[PATH_MAX], *at;
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    snprintf(name, sizeof name, "%.*s", (int)len, path);
    if (!path_exists(name) && (at = named(name)))
        return find_named(name, at, dir, cap, why);
    if (!path_exists(name))
        return fail(why, FAIL_INPUT, "%s: no such run or checkpoint", name);
    if (!path_is_dir(name))
        return fail(why, FAIL_INPUT, "%s: a file; give a run or checkpoint directory",
                    name);
    if (is_checkpoint(name)) {
        snprintf(dir, cap, "%s", name);
        return FAIL_NONE;
    }
    if (holds(name, "dataset.json"))
        return fail(why, FAIL_INPUT,
                    "%s: a dataset, not a run; train on it with: weft train %s",
                    name, path_quote(word, sizeof word, name));
    if (!holds(name, "config.cfg") && !holds(name, "latest"))
        return fail(why, FAIL_INPUT, "%s: neither a run nor a checkpoint", name);
    return follow_latest(name, dir, cap, why);
}
