/* weft lab: the table of experiments, and the verb that runs them. */
#include "data/base/claim.h"
#include "data/base/cli.h"
#include "data/base/clock.h"
#include "data/base/file.h"
#include "tools/lab/claims.h"
#include "tools/lab/report.h"
#include "tools/jobs.h"
#include "tools/verbs.h"

#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "weft lab mqar --quick\n"
    "weft lab                              the experiments and what they show\n"
    "weft lab NAME [flags]\n"
    "weft lab all --quick                  every one, then one table\n"
    "weft lab convert --from RUN           a model of yours, its softmax replaced\n"
    "weft lab all --docs                   the project's own pages\n"
    "weft lab --check DIR                  were the claims of its records registered?\n"
    "\n"
    "Each experiment measures claims of a paper beside exact or trivial\n"
    "yardsticks and says of each: holds, fails, or not decided, and why. DIR/NAME.csv\n"
    "keeps every finished cell, so that the same command continues after Ctrl-C\n"
    "(exit code 130) and computes nothing twice; charts are written beside it, and\n"
    "by `all` DIR/summary.md and DIR/report.html. Remove DIR to measure anew. With\n"
    "--join DIR any number of processes, also on other machines that share DIR,\n"
    "share the cells.\n";

static void list(void)
{
    for (int i = 0; i < n_experiments; i++)
        printf("%-10s %s\n%-10s %s\n", experiments[i]->name, experiments[i]->claim, "",
               experiments[i]->paper);
    printf("\nweft lab NAME --quick runs one, weft lab all --quick all of them.\n");
}

static const struct experiment *find(const struct cli *c, const char *name)
{
    enum { MAX = 64 };
    const char *names[MAX] = {"all"}, *near;
    int         n = 1;

    for (int i = 0; i < n_experiments && n < MAX; i++) {
        if (!strcmp(name, experiments[i]->name))
            return experiments[i];
        names[n++] = experiments[i]->name;
    }
    near = nearest_name(name, names, n);
    if (near)
        cli_die(c, FAIL_USAGE, "unknown experiment '%s'; did you mean '%s'?", name, near);
    cli_die(c, FAIL_USAGE, "unknown experiment '%s'; weft lab lists them", name);
}

/* Run one into dir. Dies unless it ended well. */
static void run(const struct cli *c, const struct experiment *e, struct lab_ask ask,
                const char *dir, struct verdicts *v)
{
    struct why why;
    enum fail  err;

    ask.out = dir;
    if (!ask.json)
        printf("%s: %s\n%s\n\n", e->name, e->claim, e->paper);
    fflush(stdout);
    err = lab_run(e, &ask, v, &why);
    if (err == FAIL_INTERRUPTED)
        cli_die(c, err,
                "interrupted; what is finished is in %s, the same command continues",
                dir);
    if (err)
        cli_fail(c, err, &why);
    if (!ask.json)
        printf("\nwritten to %s\n", dir);
    fflush(stdout);
}

/* DIR/summary.md, also on stdout, and DIR/report.html. */
static void summary(const struct cli *c, const struct lab_ask *ask, const char *out,
                    struct verdicts *v)
{
    char      *text = NULL;
    struct why why;
    enum fail  err;

    verdicts_settle(v);
    err = report_write(out, ask, v, &text, &why);
    if (!err && ask->docs)
        err = report_pages(ask, v, &why);
    if (err)
        cli_fail(c, err, &why);
    if (!ask->json)
        printf("%s\nwritten to %s: summary.md, report.html\n", text, out);
    free(text);
}

/* Were the claims of these records registered? */
static void check(const struct cli *c, const char *dir)
{
    static const char file[] = "tools/lab/claims.txt";
    struct checked    found;
    struct why        why;
    enum fail         err = claims_check(dir, file, &found, &why);

    if (err)
        cli_fail(c, err, &why);
    printf("%s: %d records, %d claims, all of them in %s\n", dir, found.records,
           found.claims, file);
}

static void run_all(const struct cli *c, const struct lab_ask *ask, const char *out)
{
    struct verdicts v = {0};
    char            dir[PATH_MAX];

    for (int i = 0; i < n_experiments; i++) {
        path_join(dir, sizeof dir, out, experiments[i]->name);
        run(c, experiments[i], *ask, dir, &v);
        if (!ask->json)
            putchar('\n');
    }
    summary(c, ask, out, &v);
    verdicts_free(&v);
}

/* Is there such an experiment, and does it take what was asked for? Dies if not. */
static void check_ask(const struct cli *c, const struct lab_ask *ask, const char *name)
{
    const struct experiment *e;

    if (!strcmp(name, "all")) {
        if (ask->arch || ask->from)
            cli_die(c, FAIL_USAGE, "all takes no --%s; name one experiment",
                    ask->arch ? "arch" : "from");
        return;
    }
    e = find(c, name);
    if (ask->arch && !e->arch)
        cli_die(c, FAIL_USAGE, "%s takes no --arch", e->name);
    if (ask->from && !e->from)
        cli_die(c, FAIL_USAGE, "%s takes no --from", e->name);
}

static void run_one(const struct cli *c, const struct lab_ask *ask, const char *name,
                    const char *out)
{
    const struct experiment *e = find(c, name);
    struct verdicts          v = {0};
    char                     dir[PATH_MAX];

    path_join(dir, sizeof dir, "lab", e->name);
    run(c, e, *ask, out ? out : dir, &v);
    verdicts_free(&v);
}

static void tell_lost(const char *path)
{
    fprintf(stderr, "weft lab: %s was taken over by another process\n", path);
}

/* Let workers fill the record that this process reads then. */
static void start_jobs(const struct cli *c, int jobs, int argc, char **argv,
                       const char *out)
{
    char       dir[PATH_MAX];
    struct why why;
    enum fail  err;

    path_join(dir, sizeof dir, "lab", c->args[0]);
    if (!strcmp(c->args[0], "all"))
        snprintf(dir, sizeof dir, "lab");
    err = jobs_run(jobs, argc, argv, out ? out : dir, &why);
    if (err == FAIL_INTERRUPTED)
        cli_die(c, err, "interrupted; the same command continues");
    if (err)
        cli_fail(c, err, &why);
}

int lab_main(int argc, char **argv)
{
    struct lab_ask    ask = {.form = LAB_FULL};
    bool              quick = false, brief = false;
    bool              worker = false;
    const char       *out = NULL, *join = NULL;
    int               jobs = 1, threads = 0, seed = 0;
    bool              claims = false, checks = false;
    const struct flag flags[] = {
        {.name = "quick",
         .about = "a smaller form, some minutes on two cores",
         .on = &quick},
        {.name = "brief", .on = &brief},
        {.name = "seeds",
         .value = "K",
         .about = "repetitions (each experiment has its own number)",
         .number = &ask.seeds,
         .min = 1,
         .max = LAB_SEEDS},
        {.name = "seed",
         .value = "FROM",
         .about = "the first of them (101; 1001 and up: to try things on)",
         .number = &seed,
         .min = 1,
         .max = 1000000},
        {.name = "arch",
         .value = "A,B",
         .about = "mixers to compare, where the experiment takes them",
         .text = &ask.arch},
        {.name = "from",
         .value = "RUN",
         .about = "the model that convert takes; otherwise it trains one",
         .text = &ask.from},
        {.name = "text",
         .value = "PATH",
         .about = "with --from: text to go on with (stories)",
         .text = &ask.text},
        {.name = "json",
         .about = "one object per line: cells, then verdicts",
         .on = &ask.json},
        {.name = "out",
         .value = "DIR",
         .about = "where records and charts go (lab/NAME)",
         .text = &out},
        {.name = "join",
         .value = "DIR",
         .about = "as --out, together with others that were given the same",
         .text = &join},
        {.name = "jobs",
         .value = "N",
         .about = "cells side by side, a thread each",
         .number = &jobs,
         .min = 1,
         .max = 1024},
        {.name = "threads",
         .value = "N",
         .about = "threads (all cores)",
         .number = &threads,
         .min = 1,
         .max = 1024},
        {.name = "claims",
         .about = "a line for each claim, its hash first: tools/lab/claims.txt",
         .on = &claims},
        {.name = "check",
         .about = "are the claims of the records in DIR in that file?",
         .on = &checks},
        {.name = "docs",
         .about = "all: put the tables into docs/lab.md and README.md, too",
         .on = &ask.docs},
        {.name = "worker", .on = &worker},
        {0},
    };
    struct cli c = {.verb = "lab", .help = help, .flags = flags};

    cli_parse(&c, argc, argv);
    ask.form = brief ? LAB_BRIEF : quick ? LAB_QUICK : LAB_FULL;
    if (c.n_args > 1)
        cli_die(&c, FAIL_USAGE, "'%s': give one experiment, or all", c.args[1]);
    if (ask.text && !ask.from)
        cli_die(&c, FAIL_USAGE, "--text goes with --from RUN");
    if (ask.docs && (!c.n_args || strcmp(c.args[0], "all")))
        cli_die(&c, FAIL_USAGE, "--docs goes with all");
    if (join && out)
        cli_die(&c, FAIL_USAGE, "--join names the directory; leave --out away");
    if (threads)
        omp_set_num_threads(threads);
    ask.seed = (uint64_t)seed;
    ask.join = join != NULL;
    out = join ? join : out;
    claim_lost = tell_lost;
    catch_interrupts();
    if (claims || checks) {
        if (claims)
            claims_print(stdout);
        else
            check(&c, c.n_args ? c.args[0] : "lab");
        return 0;
    }
    if (c.n_args)
        check_ask(&c, &ask, c.args[0]);
    if (c.n_args && jobs > 1)
        start_jobs(&c, jobs, argc, argv, out);
    if (!c.n_args)
        list();
    else if (!strcmp(c.args[0], "all"))
        run_all(&c, &ask, out ? out : "lab");
    else
        run_one(&c, &ask, c.args[0], out);
    return 0;
}
