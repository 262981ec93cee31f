#include "tools/compare/compare.h"

#include "data/base/claim.h"
#include "data/base/cli.h"
#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/format.h"
#include "data/base/json.h"
#include "data/base/live.h"
#include "tools/jobs.h"
#include "tools/verbs.h"
#include "train/presets.h"
#include "train/report.h"
#include "train/size.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { IDENTITY_MAX = 1 << 20 };

static const char help[] =
    "weft compare book.txt --arch softmax,gla,mlstm --for 1m\n"
    "weft compare INPUT --arch A,B,... (--flops X | --for T | --tokens N) [flags]\n"
    "\n"
    "Trains architectures on the same text in the same order with the same budget, a\n"
    "few seeds each, and says which predicts it best and whether that could be\n"
    "chance: a table here, and results.csv, results.jsonl, report.md, .html and .svg\n"
    "in --out. The same command again continues an interrupted comparison; a larger\n"
    "--seeds adds to a finished one. With --join DIR the same command, given on any\n"
    "number of machines that share DIR, shares the runs out; one that died is taken\n"
    "over from its checkpoint. Settings, key=value, are those of weft train.\n";

/* What the command line asks for. */
static struct {
    const char *arch, *out, *join, *size, *file, *time, *field, *val, *match;
    double      tokens, flops;
    int         seeds, jobs;
    bool        sweep, json, worker;
} ask = {.seeds = 3, .jobs = 1, .match = "params"};

static const struct flag flags[] = {
    {.name = "arch",
     .value = "A,B,...",
     .text = &ask.arch,
     .about = "presets, or mixers joined by /; others are held to the 1st"},
    {.name = "flops",
     .value = "X",
     .real = &ask.flops,
     .min = 1,
     .max = 1e30,
     .about = "floating-point operations of each run"},
    {.name = "for",
     .value = "TIME",
     .text = &ask.time,
     .about = "time of each run, by the clock: 90s, 3m or 1h30m"},
    {.name = "tokens",
     .value = "N",
     .real = &ask.tokens,
     .min = 1,
     .max = 1e18,
     .about = "tokens of each run; 12k and 3M are numbers too"},
    {.name = "size",
     .value = "S",
     .text = &ask.size,
     .about = "nano (the default), pico, mini, small or base"},
    {.name = "seeds",
     .value = "K",
     .number = &ask.seeds,
     .min = 1,
     .max = MOST_SEEDS,
     .about = "runs of each architecture (3), paired by their data"},
    {.name = "match",
     .value = "WHAT",
     .text = &ask.match,
     .about = "what is made equal: params (the default), flops or none"},
    {.name = "lr-sweep",
     .on = &ask.sweep,
     .about = "choose each learning rate, on a quarter of the budget"},
    {.name = "out",
     .value = "DIR",
     .text = &ask.out,
     .about = "where everything goes (runs/compare-NAME of the input)"},
    {.name = "join",
     .value = "DIR",
     .text = &ask.join,
     .about = "as --out, together with others that were given the same"},
    {.name = "jobs",
     .value = "N",
     .number = &ask.jobs,
     .min = 1,
     .max = 1024,
     .about = "runs side by side, a thread each; not with --for"},
    {.name = "worker", .on = &ask.worker},
    {.name = "config",
     .value = "FILE",
     .text = &ask.file,
     .about = "settings of all, one key = value a line"},
    {.name = "field",
     .value = "NAME",
     .text = &ask.field,
     .about = "what holds the text in .jsonl lines (text)"},
    {.name = "val",
     .value = "FILE",
     .text = &ask.val,
     .about = "validate on this text, not on the end of the input"},
    {.name = "json",
     .on = &ask.json,
     .about = "print results.jsonl instead of the table"},
    {.name = NULL},
};

/* ---- the command ---- */

/* Words that continue this, as a shell takes them. */
static void keep_command(struct comparison *c, int argc, char **argv)
{
    size_t n = (size_t)snprintf(c->command, sizeof c->command, "%s", cli_program());
    char   word[1200];

    for (int i = 0; i < argc && n + 1 < sizeof c->command; i++) {
        if (i > 0 && !argv[i][strcspn(argv[i], " '\"\\()*?[]{}$&;|<>`!#~\t\n")])
            snprintf(word, sizeof word, "%s", argv[i]);
        else
            path_quote(word, sizeof word, argv[i]);
        n += (size_t)snprintf(c->command + n, sizeof c->command - n, " %s", word);
    }
}

static void take_budget(const struct cli *cli, struct comparison *c)
{
    if (!!ask.time + (ask.tokens > 0) + (ask.flops > 0) != 1)
        cli_die(cli, FAIL_USAGE,
                "give one budget for each run: --flops 1e12, --for 1m or "
                "--tokens 500k");
    c->budget = ask.time ? BUDGET_FOR : ask.tokens > 0 ? BUDGET_TOKENS : BUDGET_FLOPS;
    c->amount = ask.tokens > 0 ? ask.tokens : ask.flops;
    if (ask.time && !parse_time(ask.time, &c->amount))
        cli_die(cli, FAIL_USAGE, "--for %s: a time is written 90s, 3m or 1h30m, "
                "and ends within ten years", ask.time);
}

static void take_match(const struct cli *cli, struct comparison *c)
{
    static const char *const names[] = {"params", "flops", "none"};

    for (int i = 0; i < 3; i++)
        if (!strcmp(ask.match, names[i])) {
            c->match = (enum match)i;
            return;
        }
    cli_die(cli, FAIL_USAGE, "--match %s: take one of params, flops, none", ask.match);
}

static void take_settings(const struct cli *cli)
{
    for (int i = 0; i < cli->n_set; i++) {
        const char *key = cli->set[2 * i];

        if (!strcmp(key, "steps"))
            cli_die(cli, FAIL_USAGE,
                    "steps: give the budget as --tokens, --flops or --for");
        if (!strcmp(key, "mixers"))
            cli_die(cli, FAIL_USAGE, "mixers: give the architectures as --arch");
        if (!strcmp(key, "patience"))
            cli_die(cli, FAIL_USAGE,
                    "patience: runs that stop early do not have equal budgets");
    }
}

static void take_command(const struct cli *cli, struct comparison *c)
{
    if (cli->n_args != 1)
        cli_die(cli, FAIL_USAGE,
                "give one input, as in: weft compare book.txt --arch "
                "softmax,gla --for 1m");
    if (!strcmp(cli->args[0], "-"))
        cli_die(cli, FAIL_USAGE,
                "standard input cannot be read again when the comparison is "
                "continued; give a file");
    if (!ask.arch)
        cli_die(cli, FAIL_USAGE,
                "give the architectures, as in --arch softmax,gla,mlstm "
                "(weft info --arch lists them)");
    take_budget(cli, c);
    take_match(cli, c);
    take_settings(cli);
    if (ask.jobs > 1 && ask.time)
        cli_die(cli, FAIL_USAGE,
                "--jobs %d: runs side by side take each other's time; give --flops or "
                "--tokens instead of --for",
                ask.jobs);
    if (ask.join && ask.out)
        cli_die(cli, FAIL_USAGE, "--join names the directory; leave --out away");
    if (ask.join)
        ask.out = ask.join;
    if ((ask.val || ask.field) && dataset_is(cli->args[0]))
        cli_die(cli, FAIL_USAGE, "%s is tokenized and split already; leave %s out",
                cli->args[0], ask.val ? "--val" : "--field");
    c->seeds = ask.seeds;
    c->sweep = ask.sweep;
    c->joined = ask.join != NULL;
    snprintf(c->input, sizeof c->input, "%s", cli->args[0]);
    if (ask.out && (!*ask.out || strlen(ask.out) >= sizeof c->out - 200))
        cli_die(cli, FAIL_USAGE, "--out '%.80s': not the path of a comparison", ask.out);
}

/* runs/compare-NAME, or --out. */
static void name_out(struct comparison *c)
{
    char name[512];

    if (ask.out) {
        snprintf(c->out, sizeof c->out, "%s", ask.out);
        return;
    }
    run_name(name, sizeof name, c->input);
    snprintf(c->out, sizeof c->out, "runs/compare-%s", name + strlen("runs/"));
}

/* ---- the directory ---- */

/* What must be the same when a comparison is continued: all but the number of seeds. */
static json_t *identity(const struct cli *cli, const struct comparison *c)
{
    char    input[PATH_MAX];
    json_t *j = json_object(), *set = json_array(), *archs = json_array();

    json_object_set_new(j, "input",
                        json_string(realpath(c->input, input) ? input : c->input));
    if (ask.val)
        json_object_set_new(j, "val",
                            json_string(realpath(ask.val, input) ? input : ask.val));
    for (int i = 0; i < c->n; i++)
        json_array_append_new(archs, json_string(c->arch[i].name));
    json_object_set_new(j, "arch", archs);
    json_object_set_new(j, "size", json_string(ask.size ? ask.size : "nano"));
    json_object_set_new(j, "budget",
                        json_string(c->budget == BUDGET_FOR      ? "for"
                                    : c->budget == BUDGET_TOKENS ? "tokens"
                                                                 : "flops"));
    json_object_set_new(j, "amount", json_real(c->amount));
    json_object_set_new(j, "match", json_string(ask.match));
    json_object_set_new(j, "lr_sweep", json_boolean(c->sweep));
    json_object_set_new(j, "config", json_string(ask.file ? ask.file : ""));
    json_object_set_new(j, "field", json_string(ask.field ? ask.field : ""));
    for (int i = 0; i < 2 * cli->n_set; i++)
        json_array_append_new(set, json_string(cli->set[i]));
    json_object_set_new(j, "settings", set);
    return j;
}

/* The first key in which two identities differ. */
static const char *difference(json_t *a, json_t *b)
{
    const char *key;
    json_t     *value;

    json_object_foreach(a, key, value)
        if (!json_equal(value, json_object_get(b, key)))
            return key;
    json_object_foreach(b, key, value)
        if (!json_object_get(a, key))
            return key;
    return NULL;
}

static bool holds_anything(const char *dir)
{
    DIR           *d = opendir(dir);
    struct dirent *e;
    bool           any = false;

    while (d && (e = readdir(d)))
        any |= e->d_name[0] != '.' && strcmp(e->d_name, "lock") &&
               !strstr(e->d_name, ".claim-") && !path_is_temporary(e->d_name);
    if (d)
        closedir(d);
    return any;
}

/* compare.json in c->out, or NULL in *j when there is none. FAIL_INPUT: it is damaged. */
static enum fail read_identity(const struct comparison *c, json_t **j, struct why *why)
{
    char path[PATH_MAX];

    *j = NULL;
    if (!path_exists(path_join(path, sizeof path, c->out, "compare.json")))
        return 0;
    return json_read(j, path, IDENTITY_MAX,
                     "restore it, or name another directory with --out", why);
}

/* May the comparison `mine` be in c->out? *new: it is not yet. */
static enum fail check_out(const struct comparison *c, json_t *mine, bool *new,
                           struct why *why)
{
    json_t     *theirs;
    enum fail   err = read_identity(c, &theirs, why);
    const char *other = theirs ? difference(mine, theirs) : NULL;

    *new = !theirs;
    if (!err && other)
        err = fail(why, FAIL_USAGE,
                   "%s holds another comparison (its %s differs); name another "
                   "directory with --out",
                   c->out, other);
    else if (!err && !theirs && path_exists(c->out) &&
             (!path_is_dir(c->out) || holds_anything(c->out)))
        err = fail(why, FAIL_USAGE,
                   "%s exists and is not a comparison; name another directory "
                   "with --out",
                   c->out);
    json_decref(theirs);
    return err;
}

/* Continue what is in c->out, or begin there: *new. *lock stays open. */
static enum fail open_out(const struct cli *cli, const struct comparison *c, int *lock,
                          bool *new, struct why *why)
{
    json_t *mine = identity(cli, c);
    char      path[PATH_MAX];
    enum fail err = check_out(c, mine, new, why);

    if (!err)
        err = dir_make(c->out, why);
    if (!err)
        err = ask.join ? dir_lock_shared(c->out, lock, why)
                       : dir_lock(c->out, lock, why);
    if (!err)
        err = check_out(c, mine, new, why); // again: nobody else can change it now
    path_join(path, sizeof path, c->out, "compare.json");
    if (!err && *new)
        err = json_write(path, json_incref(mine), JSON_INDENT(1), why);
    *new &= !err;
    json_decref(mine);
    return err;
}

/* Is there nothing of any run? The directories that would hold them go. */
static bool untouched(const struct comparison *c)
{
    char path[PATH_MAX];
    bool none = true;

    for (int i = 0; i < c->n; i++) {
        rmdir(path_join(path, sizeof path, c->out, c->arch[i].slug));
        none &= !path_exists(path);
    }
    return none;
}

/* Nothing came of a new comparison: remove what it made, and nothing else. */
static void discard(const struct comparison *c)
{
    static const char *const names[] = {"compare.json", "lock"};
    char                     path[PATH_MAX];

    dir_remove(path_join(path, sizeof path, c->out, "data"));
    dir_sweep(c->out);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(path_join(path, sizeof path, c->out, names[i]));
    rmdir(c->out);
}

/* ---- the text ---- */

static enum fail build_data(struct comparison *c, const char *dir, int lock,
                            struct why *why)
{
    const struct config   *cfg = &c->arch[0].cfg;
    const char            *inputs[] = {c->input};
    struct dataset_options o = {
        .inputs = inputs,
        .n_inputs = 1,
        .field = ask.field,
        .tokenizer = cfg->tokenizer,
        .vocab = cfg->vocab,
        .prefix = cfg->prefix,
        .val = ask.val,
        .val_fraction = cfg->val_fraction,
        .lock_fd = lock,
        .progress = live_phase,
        .user = &c->live,
        .stop = &interrupted,
    };
    enum fail err;

    dir_sweep(c->out);
    err = dataset_build(dir, &o, why);
    live_clear(&c->live);
    return err;
}

static enum fail open_data(struct comparison *c, int lock, struct why *why)
{
    char own[PATH_MAX], dir[PATH_MAX];
    enum fail err = 0;

    path_join(own, sizeof own, c->out, "data");
    if (!dataset_is(c->input) && !dataset_is(own))
        err = build_data(c, own, lock, why);
    if (!err && !realpath(dataset_is(c->input) ? c->input : own, dir))
        err = fail(why, FAIL_INPUT, "%s: it is gone", own);
    if (!err)
        err = dataset_open(&c->data, dir, why);
    if (!err)
        tell_overlap(&c->live, &c->data);
    return err;
}

/* ---- the runs ---- */

static void count_trials(struct comparison *c)
{
    c->trials = c->n * c->seeds;
    for (int i = 0; c->sweep && i < c->n; i++)
        c->trials += c->arch[i].high - c->arch[i].low + 1;
}

/* ---- the answer ---- */

static enum fail print_jsonl(const struct comparison *c, struct why *why)
{
    char   path[PATH_MAX], *text;
    size_t len;
    enum fail err = file_read(path_join(path, sizeof path, c->out, "results.jsonl"),
                              1 << 30, &text, &len, why);

    if (err)
        return err;
    fwrite(text, 1, len, stdout);
    free(text);
    return 0;
}

static enum fail answer(struct comparison *c, struct why *why)
{
    char word[1200];
    int       good = 0;
    enum fail err;

    gather(c);
    err = table_files(c, why);
    if (!err)
        err = report_markdown(c, why);
    if (!err)
        err = report_html(c, why);
    if (!err && ask.json)
        err = print_jsonl(c, why);
    else if (!err)
        table_print(c, stdout, term_columns(STDOUT_FILENO));
    if (!err && fflush(stdout))
        err = fail(why, FAIL_WRITE, "cannot write the table");
    if (err)
        return err;
    path_quote(word, sizeof word, c->out);
    say(stderr, "with plots: %s/report.html\n", word);
    for (int i = 0; i < c->n; i++)
        good += c->arch[i].bpb.n;
    return good ? 0
                : fail(why, FAIL_DIVERGED, "no run came to an end; the table says why");
}

/* The directory and the text: of several processes one makes them, while the others wait.
 */
static enum fail open_all(const struct cli *cli, struct comparison *c, int *lock,
                          bool *new, struct why *why)
{
    char          path[PATH_MAX];
    struct claim *first = NULL;
    enum fail     err = FAIL_NONE;

    if (ask.join) {
        err = dir_make(c->out, why);
        if (!err)
            err = claim_wait(path_join(path, sizeof path, c->out, "compare"), &first,
                             why);
    }
    if (!err)
        err = open_out(cli, c, lock, new, why);
    if (!err)
        err = open_data(c, *lock, why);
    claim_release(first);
    return err;
}

/* Models of equal size; nothing has been trained yet. */
static enum fail prepare(struct comparison *c, struct why *why)
{
    enum fail err = entries_match(c, why);

    if (!err)
        err = entries_check_budget(c, why);
    for (int i = 0; i < c->n; i++)
        c->arch[i].cfg.threads = choose_threads(c->arch[i].cfg.threads);
    omp_set_num_threads(c->arch[0].cfg.threads);
    c->seed = c->arch[0].cfg.seed;
    trials_name(c);
    count_trials(c);
    return err;
}

/* What is wrong with the command is told once, before workers are started. */
static enum fail check_command(const struct cli *cli, struct comparison *c,
                               struct why *why)
{
    struct sources from = {
        .size = ask.size, .file = ask.file, .set = cli->set, .n_set = cli->n_set};
    enum fail err = entries_split(c, ask.arch, why);

    if (!err)
        err = entries_settle(c, &from, why);
    if (!err && !path_exists(c->input))
        err = fail(why, FAIL_INPUT, "%s: no such file or directory", c->input);
    return err;
}

static enum fail compare(const struct cli *cli, struct comparison *c, struct why *why)
{
    int       lock = -1;
    bool new = false;
    enum fail err = open_all(cli, c, &lock, &new, why);

    if (!err)
        err = prepare(c, why);
    if (!err)
        err = join_run(c, why);
    if (!err && !ask.worker)
        err = speed_measure(c, why);
    if (!err && !ask.worker)
        err = answer(c, why);
    if (err && err != FAIL_INTERRUPTED && new &&untouched(c))
        discard(c);
    if (lock >= 0)
        close(lock);
    return err;
}

static void tell_lost(const char *path)
{
    say(stderr, "weft compare: %s was taken over by another process\n", path);
}

int compare_main(int argc, char **argv)
{
    struct cli cli = {.verb = "compare", .help = help, .flags = flags,
                      .settings = config_names(), .explain = tell_settings,
                    .other = config_other_name};
    static struct comparison *c;        // still known where cli_die() ends the process
    struct why why;
    enum fail  err;

    cli_parse(&cli, argc, argv);
    c = calloc(1, sizeof *c);
    if (!c)
        cli_die(&cli, FAIL_MEMORY, "out of memory");
    take_command(&cli, c);
    keep_command(c, argc, argv);
    name_out(c);
    signal(SIGPIPE, SIG_IGN);
    claim_lost = tell_lost;
    c->live = live_open(10);
    catch_interrupts();
    err = check_command(&cli, c, &why);
    if (!err && ask.jobs > 1)
        err = jobs_run(ask.jobs, argc, argv, c->out, &why);
    c->quiet = ask.jobs > 1;
    if (!err)
        err = compare(&cli, c, &why);
    if (err == FAIL_INTERRUPTED && ask.worker)
        return err;
    if (err == FAIL_INTERRUPTED && c->trials == 0)
        say(stderr, "continue with:  %s\n", c->command);
    else if (err == FAIL_INTERRUPTED)
        say(stderr, "stopped after %d of %d runs\ncontinue with:  %s\n", c->done,
                c->trials, c->command);
    else if (err)
        cli_fail(&cli, err, &why);
    dataset_close(&c->data);
    free(c);
    return err;
}
