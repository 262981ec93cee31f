#include "train/train_verb.h"

#include "data/base/cli.h"
#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/format.h"
#include "data/inputs.h"
#include "infer/serve/serve.h"
#include "train/presets.h"
#include "train/progress.h"
#include "train/ranks.h"
#include "train/report.h"
#include "train/save.h"
#include "train/size.h"
#include "train/warmstart.h"

#include <limits.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "weft train book.txt --for 3m\n"
    "weft train INPUT[:WEIGHT]... [flags] [key=value...]\n"
    "weft train --resume RUN [--for TIME | --tokens N | --flops X | --steps N]\n"
    "weft train --replay RUN\n"
    "\n"
    "Trains on text files, directories or a dataset. Ctrl-C saves and says what next.\n";

static const double default_seconds = 180;

/* What the command line asks for. */
static struct {
    const char *out, *arch, *size, *file, *time, *resume, *replay, *field, *from, *val;
    double      tokens, flops;
    bool        page;
} ask;

static bool is_set(const struct cli *c, const char *key)
{
    for (int i = 0; i < c->n_set; i++)
        if (!strcmp(c->set[2 * i], key))
            return true;
    return false;
}

/* --steps as a count: 1k is 1000. What is no whole number is left for config_set. */
static void take_steps(struct cli *c)
{
    static char steps[32];
    double      n;

    for (int i = 0; i < c->n_set; i++) {
        if (strcmp(c->set[2 * i], "steps") || !parse_count(c->set[2 * i + 1], &n) ||
            n != rint(n) || fabs(n) > 1e15)
            continue;
        if (n == 0)
            cli_die(c, FAIL_USAGE,
                    "steps=0 is out of range; give at least 1, or leave it out");
        snprintf(steps, sizeof steps, "%.0f", n);
        c->set[2 * i + 1] = steps;
    }
}

/* path into dir (cap bytes). */
static enum fail copy_path(char *dir, size_t cap, const char *path, struct why *why)
{
    if ((size_t)snprintf(dir, cap, "%s", path) >= cap || !*path)
        return fail(why, FAIL_USAGE, "'%.80s': not the path of a run", path);
    return 0;
}

/* ---- a new run ---- */

/* --for, when it is given. */
static void take_time(const struct cli *c, double *seconds)
{
    if (ask.time && !parse_time(ask.time, seconds))
        cli_die(c, FAIL_USAGE, "--for %s: a time is written 90s, 3m or 1h30m, and ends "
                "within ten years", ask.time);
}

static void check_one_budget(const struct cli *c)
{
    if (is_set(c, "steps") + !!ask.time + (ask.tokens > 0) + (ask.flops > 0) > 1)
        cli_die(c, FAIL_USAGE, "give one of --for, --steps, --tokens and --flops");
}

static void take_budget(const struct cli *c, struct run *r)
{
    check_one_budget(c);
    r->amount = default_seconds;
    r->budget = ask.tokens > 0                  ? BUDGET_TOKENS
                : ask.flops > 0                 ? BUDGET_FLOPS
                : ask.time || r->cfg.steps == 0 ? BUDGET_FOR
                                                : BUDGET_STEPS;
    take_time(c, &r->amount);
    if (r->budget == BUDGET_FOR && (is_set(c, "schedule") || is_set(c, "lr_end")))
        cli_die(c, FAIL_USAGE,
                "%s goes with --steps, --tokens or --flops; with a time budget the clock "
                "decides when the learning rate falls, and it falls to 0",
                is_set(c, "schedule") ? "schedule" : "lr_end");
    if (ask.tokens > 0)
        r->amount = ask.tokens;
    if (ask.flops > 0)
        r->amount = ask.flops;
    if (r->budget != BUDGET_STEPS)
        r->cfg.steps = 0;
}

/* The number of threads is kept with the run. Of several ranks each has those that are
 * its own on its machine, unless somebody says how many. */
static void take_threads(const struct cli *c, struct config *cfg)
{
    int asked = ranks_n() > 1 && !is_set(c, "threads") ? 0 : cfg->threads;

    cfg->threads = choose_threads(asked);
    if (asked > cfg->threads && ranks_me() == 0)
        say(stderr, "threads = %d is more than this machine's cores: %d now, which "
            "changes %s\n", asked, cfg->threads,
            strcmp(cfg->products, "own") ? "the last bits" : "no bit");
    omp_set_num_threads(cfg->threads);
}

static enum fail refuse_tokenizer(const struct cli *c, const struct run *r,
                                  struct why *why)
{
    if (r->n_input == 1 && dataset_is(r->input[0]) &&
        (is_set(c, "tokenizer") || is_set(c, "val_fraction") || ask.val || ask.field))
        return fail(why, FAIL_USAGE,
                    "%s is tokenized and split already; leave tokenizer, "
                    "val_fraction, --val and --field out",
                    r->input[0]);
    if (ask.val && is_set(c, "val_fraction"))
        return fail(why, FAIL_USAGE,
                    "--val %s is the validation text; leave val_fraction out", ask.val);
    return 0;
}

/* How long it will train; 0: what a number of steps or FLOPs will take is not known. */
static double asked_seconds(const struct cli *c)
{
    double seconds = default_seconds;

    if (is_set(c, "steps") || ask.tokens > 0 || ask.flops > 0)
        return 0;
    if (ask.time)
        parse_time(ask.time, &seconds);
    return seconds;
}

/* The size for this text and time, when neither size nor shape is given; else NULL. */
static const char *chosen_size(const struct cli *c)
{
    double seconds = asked_seconds(c);

    if (ask.size || ask.file || ask.from || is_set(c, "layers") || is_set(c, "width"))
        return NULL;
    return seconds > 0 ? choose_size(choose_text(c->args, c->n_args), seconds,
                                     choose_threads(0)) : "nano";
}

/* The architecture for it, when nothing of it is given either. */
static const char *chosen_arch(const struct cli *c, const char *size)
{
    static const char *const keys[] = {"mixers", "heads", "kv_heads", "tied", "copy"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (is_set(c, keys[i]))
            return NULL;
    return choose_arch(size, asked_seconds(c), choose_threads(0));
}

static void check_from(const struct cli *c)
{
    if (ask.size || is_set(c, "vocab") || is_set(c, "tokenizer"))
        cli_die(c, FAIL_USAGE,
                "--from takes %s from %s; leave %s out",
                ask.size ? "its size" : "its tokenizer", ask.from,
                ask.size ? "--size" : is_set(c, "vocab") ? "vocab" : "tokenizer");
}

/* What a file says of the rate's fall is said, not refused: it may be for other budgets
 * too. */
static void tell_unread(const struct run *r, const struct sources *from)
{
    struct sources rest = *from;
    struct config  c;
    struct why     unread;
    bool           schedule;

    rest.file = NULL;
    if (r->budget != BUDGET_FOR || !from->file || presets_apply(&c, &rest, &unread))
        return;
    schedule = strcmp(c.schedule, r->cfg.schedule);
    if (schedule || c.lr_end != r->cfg.lr_end)
        say(stderr, "%s in %s does not hold: with a time budget the clock decides when "
            "the learning rate falls, and it falls to 0\n",
            schedule ? "schedule" : "lr_end", from->file);
}

/* Where nobody gave kv_heads (they are -1): as many as heads where --from had as many, or
 * where its own do not divide heads any more; else its own. */
static void take_kv_heads(struct config *c, const struct config *other)
{
    int  had = other->kv_heads;
    bool fit = had > 0 && c->heads % had == 0;

    if (c->kv_heads >= 0)
        return;
    if (!fit && had < other->heads)
        say(stderr, "the kv_heads = %d of %s do not divide heads = %d: kv_heads = %d\n",
            had, ask.from, c->heads, c->heads);
    c->kv_heads = fit && had < other->heads ? had : 0;
}

static enum fail settle(const struct cli *c, struct setup *s, struct why *why)
{
    struct run    *r = &s->run;
    struct config  other = {0}, given;
    struct sources from = {.size = s->chosen ? s->chosen : ask.size, .arch = ask.arch,
                           .file = ask.file, .set = c->set, .n_set = c->n_set};
    enum fail      err = 0;

    if (s->chosen && !ask.arch)
        from.arch = s->chosen_arch = chosen_arch(c, s->chosen);
    if (ask.from) {
        check_from(c);
        err = start_open(s, ask.from, &other, why);
        if (ask.arch)
            other.window_p = 0;             // of other mixers
        *other.opening = 0;                 // of another text,
        other.weight_decay = -1;            // which comes by more or less often
        given = other;
        given.kv_heads = -1;
        from.from = &given;
    }
    if (!err)
        err = presets_apply(&r->cfg, &from, why);
    if (!err && ask.from)
        take_kv_heads(&r->cfg, &other);
    if (!err)
        err = config_resolve(&r->cfg, why);
    if (!err && !ask.from)
        err = config_check_start(&r->cfg, why);
    if (!err && ask.from && r->cfg.copy > 0 && r->cfg.copy != other.copy)
        err = fail(why, FAIL_USAGE, "copy = %g is how weights begin, and --from has them "
                   "from %s; add copy=0", r->cfg.copy, ask.from);
    if (err)
        return err;
    take_budget(c, r);
    tell_unread(r, &from);
    take_threads(c, &r->cfg);
    return ranks_check(r->cfg.accumulate, why);
}

static enum fail add_inputs(const struct cli *c, struct run *r, const double *weight,
                            struct why *why)
{
    enum fail err = 0;

    for (int i = 0; !err && i < c->n_args; i++) {
        err = run_add_input(r, c->args[i], why);
        if (!err)
            r->weight[i] = weight[i];
    }
    if (!err && ask.val)
        err = run_validate_on(r, ask.val, why);
    return err;
}

/* Is the run at dir finished? */
static enum fail check_finished(const char *dir, const struct config *cfg,
                                struct why *why)
{
    struct decisions d = {0};
    struct tally     y;
    char             latest[PATH_MAX], word[1200];
    long             end;
    enum fail        err;

    path_join(latest, sizeof latest, dir, "latest");
    path_quote(word, sizeof word, dir);
    if (!path_exists(latest))
        return fail(why, FAIL_INPUT,
                    "%s has no checkpoint yet; finish it with: weft train --resume %s",
                    dir, word);
    err = save_load_tally(latest, &y, &d, why);
    end = err ? 0 : schedule_phase(cfg, &d, y.step).end;
    decisions_free(&d);
    if (!err && (end == 0 || y.step < end))
        err = fail(why, FAIL_INPUT,
                   "%s is not finished; finish it with: weft train --resume %s", dir,
                   word);
    return err;
}

/* A run of this name that is finished: how to go on. */
static enum fail refuse_finished(const char *dir, struct why *why)
{
    struct run was;
    struct why unread;
    char       word[1200];
    bool       finished;

    if (run_read(&was, dir, &unread))
        return 0;
    finished = !check_finished(dir, &was.cfg, &unread);
    run_close(&was);
    return finished ? fail(why, FAIL_USAGE,
                           "%s is a run already, and finished; train it more with: weft "
                           "train --resume %s --for 3m, or name another with --out",
                           dir, path_quote(word, sizeof word, dir))
                    : 0;
}

static enum fail create(const struct cli *c, struct setup *s, struct why *why)
{
    struct run *r = &s->run;
    double     *weight;
    enum fail   err;

    if (c->n_args == 0)
        cli_die(c, FAIL_USAGE,
                "no input; give text, as in: weft train book.txt --for 3m");
    err = inputs_weigh(c->args, c->n_args, &weight, why);
    s->chosen = err ? NULL : chosen_size(c);
    if (!err)
        err = settle(c, s, why);
    if (!err)
        err = add_inputs(c, r, weight, why);
    free(weight);
    if (!err)
        err = refuse_tokenizer(c, r, why);
    if (ask.field)
        snprintf(r->field, sizeof r->field, "%s", ask.field);
    if (!err && ask.out)
        err = copy_path(r->dir, sizeof r->dir, ask.out, why);
    else if (!err && ask.from)
        start_name(r->dir, sizeof r->dir, c->args[0], ask.arch);
    else if (!err)
        run_name(r->dir, sizeof r->dir, c->args[0]);
    if (!err)
        err = refuse_finished(r->dir, why);
    return err ? err : run_create(r, why);
}

/* ---- an existing run ---- */

/* Settings that do not change what the remaining steps compute, but for steps itself. */
static bool may_change(const char *key)
{
    static const char *const keys[] = {"steps", "eval_every", "checkpoint_every",
                                       "sample_every", "keep", "patience", "threads",
                                       "recompute"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!strcmp(key, keys[i]))
            return true;
    return false;
}

static void check_resume(const struct cli *c)
{
    if (ask.out || ask.arch || ask.size || ask.file || ask.field || ask.from || ask.val)
        cli_die(c, FAIL_USAGE,
                "--resume takes its settings from the run; only --for, --tokens, "
                "--flops, --steps and settings such as keep=5 go with it");
    check_one_budget(c);
    for (int i = 0; i < c->n_set; i++)
        if (!may_change(c->set[2 * i]))
            cli_die(c, FAIL_USAGE,
                    "%s cannot change when a run is resumed; steps, eval_every, "
                    "checkpoint_every, sample_every, keep, patience, threads and "
                    "recompute can",
                    c->set[2 * i]);
}

/* What the run at dir gets more, into s. What is wrong with it itself, run_open says. */
static void take_more(const struct cli *c, const char *dir, struct setup *s)
{
    struct run r;
    struct why unread;
    char       word[PATH_MAX];

    s->stretch = is_set(c, "steps");
    s->more.kind = ask.time ? BUDGET_FOR : ask.tokens > 0 ? BUDGET_TOKENS : BUDGET_FLOPS;
    s->more.amount = ask.tokens > 0 ? ask.tokens : ask.flops;
    take_time(c, &s->more.amount);
    if (!(s->more.amount > 0 || s->stretch) || run_read(&r, dir, &unread))
        return;
    if (*r.replay)
        cli_die(c, FAIL_USAGE, "%s repeats another run; extend that one: --resume %s",
                path_quote(word, sizeof word, dir), r.replay);
    run_close(&r);
}

/* The run that path means: itself, or the one whose newest checkpoint it is. A run is
 * repeated as a whole, also where an earlier one is named. */
static enum fail find_run(const char *path, char *dir, size_t cap, struct why *why)
{
    char      link[PATH_MAX], given[PATH_MAX], newest[PATH_MAX], named[PATH_MAX];
    enum fail err = 0;

    if (!path_exists(path) && strchr(path, '@')) {
        err = checkpoint_find(path, named, sizeof named, why);
        path = named;
    }
    if (err)
        return err;
    path_join(link, sizeof link, path, "trainer.json");
    if (!path_exists(link) || !realpath(path, given))
        return copy_path(dir, cap, path, why);
    if (copy_path(dir, cap, given, why))
        return FAIL_USAGE;
    *strrchr(dir, '/') = 0;
    path_join(link, sizeof link, dir, "latest");
    if (!ask.replay && realpath(link, newest) && strcmp(newest, given))
        return fail(why, FAIL_USAGE,
                    "%s is not the newest checkpoint of its run; --resume %s goes on "
                    "from %s, and --from %s begins a new run with these weights",
                    path, path_quote(link, sizeof link, dir), newest, ask.resume);
    return 0;
}

static bool lies_in(const char *path, const char *dir)
{
    char   full[PATH_MAX], led[PATH_MAX];
    size_t n = realpath(dir, full) ? strlen(full) : 0;

    if (realpath(path, led))                // by .. or a link it may lead out again
        path = led;
    return n && !strncmp(path, full, n) && path[n] == '/';
}

/* Does the command line name this input of the run? */
static bool is_named(const struct cli *c, const char *input)
{
    char full[PATH_MAX];

    for (int i = 0; i < c->n_args; i++)
        if (realpath(c->args[i], full) && !strcmp(full, input))
            return true;
    return false;
}

/* A run directory may come from elsewhere. What its config.cfg names outside of it is
 * read only when the command line names it too; not again where it is tokenized, and a
 * dataset is held to the hash in the run's checkpoints. */
static enum fail check_inputs(const struct cli *c, const struct run *r, struct why *why)
{
    char data[PATH_MAX], latest[PATH_MAX], word[1200], input[1200];
    bool text = path_exists(path_join(data, sizeof data, r->dir, "data"));
    struct stat st;
    bool begun = !lstat(path_join(latest, sizeof latest, r->dir, "latest"), &st);

    path_quote(word, sizeof word, r->dir);
    for (int i = 0; i < c->n_args; i++) {
        bool of_run = is_named(&(struct cli){.args = c->args + i, .n_args = 1}, r->val);

        for (int k = 0; k < r->n_input; k++)
            of_run |= is_named(&(struct cli){.args = c->args + i, .n_args = 1},
                               r->input[k]);
        if (!of_run)
            return fail(why, FAIL_USAGE,
                        "--resume takes its input from the run, and '%s' is none of "
                        "%s; leave it out", c->args[i], word);
    }
    for (int i = 0; i <= r->n_input; i++) {
        const char *path = i < r->n_input ? r->input[i] : r->val;

        if (*path && !(dataset_is(path) ? begun : text) && !lies_in(path, r->dir) &&
            strcmp(path, "-") && !is_named(c, path))
            return fail(why, FAIL_INPUT,
                        "%.200s has not begun yet, and its input lies outside of it; "
                        "to let it be read, name it: weft train --resume %.300s %.400s",
                        r->dir, word, path_quote(input, sizeof input, path));
    }
    return 0;
}

/* 0 is for the plan to fill in; a run that is not counted in steps has it behind it. */
static enum fail check_intervals(const struct cli *c, const struct setup *s,
                                 struct why *why)
{
    if (s->stretch || (s->run.budget == BUDGET_STEPS && !(s->more.amount > 0)))
        return 0;
    for (int i = 0; i < c->n_set; i++)
        if (strstr(c->set[2 * i], "_every") && strtol(c->set[2 * i + 1], NULL, 10) == 0)
            return fail(why, FAIL_USAGE, "%s=%s: give a number of steps, at least 1",
                        c->set[2 * i], c->set[2 * i + 1]);
    return 0;
}

/* *steps: how many the run had. */
static enum fail reopen(const struct cli *c, struct setup *s, long *steps,
                        struct why *why)
{
    struct run *r = &s->run;
    char        dir[sizeof r->dir];
    enum fail   err;

    check_resume(c);
    err = find_run(ask.resume, dir, sizeof dir, why);
    if (!err) {
        take_more(c, dir, s);
        err = run_open(r, dir, why);
    }
    if (err)
        return err;
    if (run_lacks_stdin(r))
        return fail(why, FAIL_INPUT,
                    "%s: its text came from stdin and did not arrive whole; remove it "
                    "and repeat the command that began it",
                    dir);
    err = check_inputs(c, r, why);
    if (err)
        return err;
    *steps = r->cfg.steps;
    if (config_resolve(&r->cfg, why))
        return FAIL_INPUT;
    for (int i = 0; !err && i < c->n_set; i++)
        err = config_set(&r->cfg, c->set[2 * i], c->set[2 * i + 1], why);
    if (!err)
        err = check_intervals(c, s, why);
    if (s->stretch) {
        r->budget = BUDGET_STEPS;
        r->before = 0;                      // nor is an extension to begin any more
    }
    take_threads(c, &r->cfg);
    return err ? err : ranks_check(r->cfg.accumulate, why);
}

/* A run that has begun gets another number of steps: say what that means. */
static enum fail check_stretch(const struct cli *c, const struct setup *s, long before,
                               struct live *l, struct why *why)
{
    long now = s->run.cfg.steps, step = s->trainer.tally.step;

    if (!is_set(c, "steps") || before == now || step == 0)
        return 0;
    if (now < step)
        return fail(why, FAIL_USAGE,
                    "%s has done %ld steps already, more than --steps %ld", s->run.dir,
                    step, now);
    live_say(l,
             "%ld steps instead of %ld: from here the learning rate follows the "
             "schedule stretched over them",
             now, before);
    return 0;
}

/* ---- a run again ---- */

static void check_replay(const struct cli *c)
{
    if (c->n_args || ask.arch || ask.size || ask.file || ask.field || ask.from ||
        ask.val || ask.time || ask.tokens > 0 || ask.flops > 0 || ask.resume)
        cli_die(c, FAIL_USAGE,
                "--replay takes everything from the run; only --out and threads go "
                "with it");
    for (int i = 0; i < c->n_set; i++)
        if (strcmp(c->set[2 * i], "threads"))
            cli_die(c, FAIL_USAGE, "%s cannot change when a run is repeated",
                    c->set[2 * i]);
}

/* The settings, the tokens and the name of the run `was` into r. */
static enum fail take_run(struct run *r, const struct run *was, struct why *why)
{
    char full[PATH_MAX], data[PATH_MAX];

    *r = *was;
    r->input = NULL;
    r->weight = NULL;
    r->n_input = 0;
    *r->val = 0;
    if (!realpath(was->dir, full) || strlen(full) >= sizeof r->replay)
        return fail(why, FAIL_INPUT, "%s: its path is too long", was->dir);
    memcpy(r->replay, full, strlen(full) + 1);
    path_join(data, sizeof data, was->dir, "data");
    if (!dataset_is(data) && !dataset_is(was->input[0]))
        return fail(why, FAIL_INPUT, "%s: its tokenized text is gone; restore it from a "
                    "copy", data);
    return run_add_input(r, dataset_is(data) ? data : was->input[0], why);
}

/* --out, or RUN-replay. */
static enum fail name_replay(struct run *r, const char *of, struct why *why)
{
    char   dir[PATH_MAX];
    size_t n = strlen(of);

    while (n > 1 && of[n - 1] == '/')
        n--;
    snprintf(dir, sizeof dir, "%.*s-replay", (int)n, of);
    return copy_path(r->dir, sizeof r->dir, ask.out ? ask.out : dir, why);
}

static enum fail repeat(const struct cli *c, struct run *r, struct why *why)
{
    char       of[sizeof r->dir];
    struct run was;
    enum fail  err;

    check_replay(c);
    err = find_run(ask.replay, of, sizeof of, why);
    if (!err)
        err = run_read(&was, of, why);
    if (err)
        return err;
    err = check_finished(of, &was.cfg, why);
    if (!err)
        err = take_run(r, &was, why);
    if (!err)
        err = name_replay(r, of, why);
    run_close(&was);
    for (int i = 0; !err && i < c->n_set; i++)
        err = config_set(&r->cfg, c->set[2 * i], c->set[2 * i + 1], why);
    if (err)
        return err;
    take_threads(c, &r->cfg);
    err = ranks_check(r->cfg.accumulate, why);
    return err ? err : run_create(r, why);
}

/* Weights and moments of a repeated run are those of the first. */
static enum fail check_same(const struct setup *s, struct why *why)
{
    static const char *const files[] = {"model.safetensors", "trainer.safetensors"};
    char                     dir[PATH_MAX], path[PATH_MAX];
    uint64_t                 hash[2], size;
    enum fail                err = 0;

    for (int i = 0; !err && i < 2; i++) {
        path_join(dir, sizeof dir, s->run.dir, "latest");
        err = file_hash(path_join(path, sizeof path, dir, files[i]), &hash[0], &size,
                        why);
        path_join(dir, sizeof dir, s->run.replay, "latest");
        if (!err)
            err = file_hash(path_join(path, sizeof path, dir, files[i]), &hash[1], &size,
                            why);
        if (!err && hash[0] != hash[1])
            err = fail(why, FAIL_INPUT,
                       "%s is not %s again: %s differs; it was trained by another build "
                       "of weft, on another machine, or with other settings at first",
                       s->run.dir, s->run.replay, files[i]);
    }
    if (!err)
        say(stderr, "weights and moments are those of %s, bit for bit\n",
                s->run.replay);
    return err;
}

/* ---- the verb ---- */

static void opened(void *user, const struct setup *s)
{
    struct progress *p = user;

    tell_data(&p->live, s);
    tell_model(&p->live, s);
}

static void planned(void *user, const struct setup *s)
{
    struct progress *p = user;

    tell_plan(&p->live, s);
}

static void begun(void *user, const struct setup *s)
{
    struct progress *p = user;

    p->span = s->clock.amount;
    p->deadline = wall_seconds() + clock_left(&s->clock);
    progress_open(p, setup_steps(s), s->trainer.tally.step, &s->data, s->peak);
}

/* The page of this run while it trains, from one thread; without it training goes on. */
static struct server *serve_page(const struct setup *s, struct progress *p)
{
    struct serve_options o;
    struct server       *page = NULL;
    struct why           why;

    if (!ask.page || ranks_me() > 0)
        return NULL;
    serve_defaults(&o);
    o.path = s->run.dir;
    o.threads = 1;
    o.training = true;
    if (serve_start(&page, &o, &why))
        live_say(&p->live, "no page: %s", why.line);
    else
        live_say(&p->live, "page: %s", serve_url(page));
    return page;
}

static enum fail train(struct setup *s, struct progress *p, struct why *why)
{
    double         nats, bits;
    struct server *page = serve_page(s, p);
    enum fail      err = setup_train(s, &nats, &bits, why);

    live_clear(&p->live);
    serve_stop(page, 3);
    if (!err)
        tell_result(s, nats, bits);
    if (!err && *s->run.replay)
        err = ranks_agree(ranks_me() ? FAIL_NONE : check_same(s, why), why);
    return err;
}

/* The run: rank 0 creates or opens it, and the others learn what it is. *steps: how many
 * it had. */
static enum fail begin(const struct cli *c, struct setup *s, long *steps, struct why *why)
{
    enum fail err = FAIL_NONE;

    if (ranks_me() == 0)
        err = ask.replay   ? repeat(c, &s->run, why)
              : ask.resume ? reopen(c, s, steps, why)
                           : create(c, s, why);
    err = ranks_agree(err, why);
    if (err)
        return err;
    err = run_share(&s->run, why);
    ranks_share(steps, sizeof *steps);
    ranks_share(&s->more, sizeof s->more);
    ranks_share(&s->stretch, sizeof s->stretch);
    if (ranks_me() > 0)
        take_threads(c, &s->run.cfg);
    return err;
}

static const struct flag flags[] = {
    {.name = "for", .value = "TIME", .text = &ask.time,
     .about = "train for 90s, 3m or 1h30m (3m when no budget is given)"},
    {.name = "tokens", .value = "N", .real = &ask.tokens, .min = 1, .max = 1e18,
     .about = "train on so many tokens; 12k and 3M are numbers too"},
    {.name = "flops", .value = "X", .real = &ask.flops, .min = 1, .max = 1e30,
     .about = "train with so many floating-point operations"},
    {.name = "out", .value = "RUN", .text = &ask.out,
     .about = "the run's directory (runs/NAME of the first input)"},
    {.name = "size", .value = "S", .text = &ask.size,
     .about = "pico, nano, mini, small, base; else by text and time"},
    {.name = "arch", .value = "NAME", .text = &ask.arch,
     .about = "a preset, or mixers joined by /; else by size"},
    {.name = "config", .value = "FILE", .text = &ask.file,
     .about = "settings, one key = value a line"},
    {.name = "field", .value = "NAME", .text = &ask.field,
     .about = "what holds the text in .jsonl lines (text)"},
    {.name = "val", .value = "FILE", .text = &ask.val,
     .about = "validate on this text, not on the end of the input"},
    {.name = "from", .value = "RUN", .text = &ask.from,
     .about = "begin with its weights; --arch replaces its mixers"},
    {.name = "resume", .value = "RUN", .text = &ask.resume,
     .about = "continue an interrupted run, bit for bit"},
    {.name = "replay",
     .value = "RUN",
     .text = &ask.replay,
     .about = "repeat a finished run, also one by time, bit for bit"},
    {.name = "page", .on = &ask.page,
     .about = "a page in the browser to watch and try it, while it trains"},
    {.name = NULL},
};

int train_main(int argc, char **argv)
{
    struct cli c = {.verb = "train", .help = help, .flags = flags,
                    .settings = config_names(), .explain = tell_settings,
                    .other = config_other_name};
    struct progress p = {.live = live_open(PROGRESS_PLAIN)};
    struct setup    s = {.run.lock = -1, .saved = -1,
                         .watch = {progress_phase, opened, planned, begun, progress_step,
                                   progress_validation, progress_sample, progress_note,
                                   &p}};
    struct why   why;
    long         steps = 0;
    bool         lost;
    enum fail    err;

    err = ranks_open(&why);
    if (err)
        cli_fail(&c, err, &why);
    cli_parse(&c, argc, argv);
    take_steps(&c);
    signal(SIGPIPE, SIG_IGN); // a closed stderr must not stop training
    catch_interrupts();       // before anything is written
    err = begin(&c, &s, &steps, &why);
    if (err)
        cli_fail(&c, err, &why);
    err = setup_open(&s, &why);
    live_clear(&p.live);
    lost = err == FAIL_INTERRUPTED && run_lacks_stdin(&s.run);
    if (err && (err != FAIL_INTERRUPTED || lost) && !ask.resume && ranks_me() == 0)
        run_discard(&s.run);
    if (!err)
        err = check_stretch(&c, &s, steps, &p.live, &why);
    if (!err && setup_finished(&s))
        tell_finished(&s);
    else if (!err)
        err = train(&s, &p, &why);
    if (lost)
        fprintf(stderr, "nothing is kept of what came from stdin; repeat the command\n");
    else if (err == FAIL_INTERRUPTED)
        tell_interrupted(&s);
    else if (err)
        cli_fail(&c, err, &why);
    setup_close(&s);
    return err;
}
