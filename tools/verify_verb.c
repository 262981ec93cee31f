/* weft verify: check every hash of a dataset, a checkpoint, or a run with all
 * it holds. */
#include "data/base/cli.h"
#include "data/base/file.h"
#include "data/dataset.h"
#include "model/files/checkpoint.h"
#include "tools/verbs.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] =
    "weft verify runs/book\n"
    "weft verify PATH\n"
    "\n"
    "Checks every hash, and that everything loads: a dataset, a checkpoint (RUN@best,\n"
    "RUN@STEP too), or a run with all its checkpoints and its data. One line for each\n"
    "thing checked; exit code 3 when something is damaged.\n";

/* Report one check and keep the worst result. */
static void report(int *worst, int err, const char *path, const struct why *why)
{
    if (err)
        printf("damaged  %s\n", why->line);
    else
        printf("ok       %s\n", path);
    fflush(stdout);
    *worst = err ? err : *worst;
}

static void verify_dataset(int *worst, const char *path)
{
    struct why why;

    report(worst, dataset_verify(path, &why), path, &why);
}

static void verify_checkpoint(int *worst, const char *path)
{
    struct model      m;
    struct tokenizer *t;
    struct why        why;
    enum fail         err = checkpoint_load(path, &m, &t, NULL, 0, &why);

    report(worst, err, path, &why);
    if (!err) {
        model_close(&m);
        tokenizer_free(t);
    }
}

static void verify_run(int *worst, const char *run, const long *step, long n)
{
    char       path[PATH_MAX];
    struct why why;
    enum fail  err = checkpoint_find(run, path, sizeof path, &why);

    path_join(path, sizeof path, run, "data");
    if (dataset_is(path))
        verify_dataset(worst, path);
    for (long i = n - 1; i >= 0; i--)
        verify_checkpoint(worst, checkpoint_path(path, sizeof path, run, step[i]));
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
