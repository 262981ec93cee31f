/* weft verify: check every hash of a dataset, a checkpoint, or a run with all
 * it holds. */
#include "data/base/cli.h"
#include "data/base/file.h"
#include "data/dataset.h"
#include "model/files/checkpoint.h"
#include "tools/verbs.h"
#include "train/save.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] =
    "weft verify runs/book\n"
    "weft verify PATH\n"
    "\n"
    "Checks every hash, that everything loads and that all numbers are finite: a\n"
    "dataset, a checkpoint (RUN@best, RUN@STEP too), or a run with all its\n"
    "checkpoints and its data. One line for each thing checked; exit code 3 when\n"
    "something is damaged. The run may train on meanwhile.\n";

/* Report one check and keep the worst result. */
static void report(int *worst, int err, const char *path, const struct why *why)
{
    say(stdout, "%s%s\n", err ? "damaged  " : "ok       ", err ? why->line : path);
    fflush(stdout);
    *worst = err ? err : *worst;
}

static void verify_dataset(int *worst, const char *path)
{
    struct why why;

    report(worst, dataset_verify(path, &why), path, &why);
}

/* A run that trains on may prune a checkpoint while it is checked. */
static void verify_checkpoint(int *worst, const char *path)
{
    struct model      m;
    struct tokenizer *t;
    struct why        why;
    enum fail         err = checkpoint_load(path, &m, &t, NULL, 0, &why);

    if (!err) {
        err = save_check(path, &m, &why);
        model_close(&m);
        tokenizer_free(t);
    }
    if (!err || path_exists(path))
        report(worst, err, path, &why);
}

/* Where the run's `latest` leads; again when that was pruned meanwhile. */
static enum fail check_latest(const char *run, struct why *why)
{
    char      was[PATH_MAX] = "", now[PATH_MAX] = "";
    enum fail err = checkpoint_find(run, now, sizeof now, why);

    while (err && strcmp(was, now)) {
        memcpy(was, now, sizeof was);
        err = checkpoint_find(run, now, sizeof now, why);
    }
    return err;
}

static void verify_run(int *worst, const char *run, const long *step, long n)
{
    char       path[PATH_MAX];
    struct why why;
    enum fail  err;

    path_join(path, sizeof path, run, "data");
    if (dataset_is(path))
        verify_dataset(worst, path);
    for (long i = n - 1; i >= 0; i--)
        verify_checkpoint(worst, checkpoint_path(path, sizeof path, run, step[i]));
    err = check_latest(run, &why);
    if (err)
        report(worst, err, run, &why);
}

int verify_main(int argc, char **argv)
{
    struct flag flags[] = {{.name = NULL}};
    struct cli  c = {.verb = "verify", .help = help_text, .flags = flags};
    char        path[PATH_MAX];
    long       *step = NULL, n;
    struct why  why;
    int         worst = FAIL_NONE;

    cli_parse(&c, argc, argv);
    if (c.n_args != 1)
        cli_die(&c, FAIL_USAGE, "give one dataset, run or checkpoint");
    if (!path_exists(c.args[0]) && !strchr(c.args[0], '@'))
        cli_die(&c, FAIL_INPUT, "%s: no such dataset, run or checkpoint", c.args[0]);
    n = checkpoint_list(c.args[0], &step);
    if (dataset_is(c.args[0]))
        verify_dataset(&worst, c.args[0]);
    else if (n > 0 ||
             path_exists(path_join(path, sizeof path, c.args[0], "config.cfg")))
        verify_run(&worst, c.args[0], step, n);
    else if (checkpoint_find(c.args[0], path, sizeof path, &why)) {
        if (!path_exists(c.args[0]))
            cli_fail(&c, FAIL_INPUT, &why);
        cli_die(&c, FAIL_INPUT, "%s: neither a dataset, a run nor a checkpoint",
                c.args[0]);
    }
    else
        verify_checkpoint(&worst, path);
    free(step);
    return worst;
}
