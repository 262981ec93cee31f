/* weft info: describe a dataset, a run, a checkpoint, or the mixers. */
#include "data/base/cli.h"
#include "data/base/file.h"
#include "data/base/format.h"
#include "data/base/json.h"
#include "data/base/live.h"
#include "data/dataset.h"
#include "infer/score.h"
#include "model/files/checkpoint.h"
#include "model/mixer_instruments.h"
#include "tools/arch.h"
#include "tools/verbs.h"
#include "train/log.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help_text[] =
    "weft info runs/book\n"
    "weft info PATH | --arch [NAME]\n"
    "\n"
    "Describes what weft made, or can make.\n"
    "\n"
    "  weft info runs/book               a run: its newest checkpoint\n"
    "  weft info runs/book@best          its best one; @1200: that of step 1200\n"
    "  weft info runs/book/data          a dataset\n"
    "  weft info --arch                  the mixers: size, cost, system\n"
    "  weft info --arch gla              one of them: formulas, options, paper\n";

enum { JSON_MAX = 1 << 20 };

/* ---- lines of a description -------------------------------------------------------- */

static void line(const char *label, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void line(const char *label, const char *format, ...)
{
    char    text[2 * PATH_MAX], *rest = text;
    int     columns = term_columns(STDOUT_FILENO);
    size_t  room = columns > 40 ? (size_t)columns - 15 : sizeof text, n;
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    while (strlen(rest) > room) {               // break at words, on a terminal
        for (n = room; n > 0 && rest[n] != ' '; n--)
            ;
        if (n == 0)
            break;
        say(stdout, "%-14s %.*s\n", label, (int)n, rest);
        label = "";
        rest += n + 1;
    }
    say(stdout, "%-14s %s\n", label, rest);
}

static void line_bytes(const char *label, double bytes, const char *what)
{
    char text[32];

    format_bytes(text, sizeof text, bytes);
    line(label, "%s %s", text, what);
}

static int plain_file(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static void list_files(const char *dir)
{
    struct dirent **entry;
    int             n = scandir(dir, &entry, plain_file, alphasort);

    for (int i = 0; i < n; i++) {
        char        path[PATH_MAX];
        struct stat st;

        if (!stat(path_join(path, sizeof path, dir, entry[i]->d_name), &st) &&
            S_ISREG(st.st_mode))
            line_bytes(i ? "" : "files", (double)st.st_size, entry[i]->d_name);
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
}

/* ---- a dataset --------------------------------------------------------------------- */

static void describe_split(const char *label, const struct split *s)
{
    char bytes[32];

    format_bytes(bytes, sizeof bytes, (double)s->bytes);
    line(label, "%llu tokens of %s in %llu document%s, %.2f bytes per token",
         (unsigned long long)s->tokens, bytes, (unsigned long long)s->documents,
         s->documents == 1 ? "" : "s",
         s->tokens ? (double)s->bytes / (double)s->tokens : 0);
}

static void describe_dataset(const struct cli *c, const char *path)
{
    struct dataset d;
    struct why     why;
    enum fail      err = dataset_open(&d, path, &why);

    if (err)
        cli_fail(c, err, &why);
    line("dataset", "%s", path);
    line("tokenizer", "%s, %d tokens", tokenizer_kind(d.tokenizer), d.vocab);
    describe_split("train", &d.train);
    describe_split("validation", &d.val);
    if (*d.val_file)
        line("", "from %s", one_line(d.val_file));
    for (int i = 0; i < d.n_mix; i++)
        line(i ? "" : "mix", "%.6g times an epoch %llu tokens of %s", d.mix[i].weight,
             (unsigned long long)d.mix[i].tokens, one_line(d.mix[i].name));
    if (d.invalid)
        line("not UTF-8", "%llu bytes", (unsigned long long)d.invalid);
    line("zstd -19", "%.4f bits per byte (validation)", d.zstd_bpb);
    line("order-2 model", "%.4f bits per byte", d.order2_bpb);
    if (d.floor_bpb > 0)
        line("floor", "%.4f bits per byte: what no model beats on average", d.floor_bpb);
    list_files(path);
    dataset_close(&d);
}

/* ---- a checkpoint ------------------------------------------------------------------ */

static json_t *read_json(const char *dir, const char *name)
{
    char       path[PATH_MAX];
    json_t    *j;
    struct why ignored;

    return json_read(&j, path_join(path, sizeof path, dir, name), JSON_MAX, "", &ignored)
               ? NULL
               : j;
}

static void describe_training(const char *dir)
{
    json_t       *j = read_json(dir, "trainer.json");
    const json_t *best = json_object_get(j, "best_val_loss");
    json_int_t    step = json_integer_value(json_object_get(j, "best_step")), done;
    double        bpb;
    char          tokens[32], time[32], run[PATH_MAX];

    if (j) {
        format_count(tokens, sizeof tokens,
                     json_number_value(json_object_get(j, "tokens")));
        format_time(time, sizeof time, json_number_value(json_object_get(j, "seconds")));
        done = json_integer_value(json_object_get(j, "step"));
        line("trained", "%lld step%s, %s tokens, %s", (long long)done,
             done == 1 ? "" : "s", tokens, time);
    }
    if (json_is_number(best)) {
        line("validation", "best at step %lld: %.4f nats per token", (long long)step,
             json_number_value(best));
        bpb = log_bpb(path_join(run, sizeof run, dir, ".."), (long)step);
        if (!isnan(bpb))
            line("", "%.4f bits per byte", bpb);
    }
    json_decref(j);
}

static bool same_layer(const struct mixer_cfg *a, const struct mixer_cfg *b)
{
    return a->mixer == b->mixer && a->position == b->position && a->H == b->H &&
           a->Hk == b->Hk && !memcmp(a->opt, b->opt, sizeof a->opt) &&
           !memcmp(a->position_opt, b->position_opt, sizeof a->position_opt);
}

static void describe_layers(const struct model *m)
{
    for (int i = 0, last; i < m->cfg.layers; i = last + 1) {
        const struct mixer_cfg *c = &m->layer[i];
        char                    range[40], keys[32] = "";

        for (last = i; last + 1 < m->cfg.layers && same_layer(c, &m->layer[last + 1]);
             last++)
            ;
        snprintf(range, sizeof range, last > i ? "layers %d-%d" : "layer %d", i, last);
        if (c->Hk != c->H)
            snprintf(keys, sizeof keys, ", %d for keys", c->Hk);
        line(range, "%s+%s: %s; %d heads%s", c->mixer->name, c->position->name,
             c->mixer->about, c->H, keys);
    }
}

static void describe_settings(const struct config *c)
{
    for (const struct key *k = config_keys; k->name; k++) {
        char value[sizeof c->mixers];

        if (k->part != KEY_MODEL)
            continue;
        config_format(c, k, value, sizeof value);
        line(k->name, "%s", value);
    }
}

static void describe_cost(const struct model *m)
{
    char   flops[32], count[32];
    double each = model_flops(m, m->cfg.context, 0) / m->cfg.context;

    format_count(count, sizeof count, (double)model_count(m));
    format_count(flops, sizeof flops, each);
    line("parameters", "%zu (%s)", model_count(m), count);
    line("FLOPs", "%s a token forward at full context; three times that in training",
         flops);
    line_bytes("decode state", (double)model_state_bytes(m), "per sequence");
}

/* ---- how fast its layers forget ---------------------------------------------------- */

enum { WATCHED_TOKENS = 4096, RANGES = 4 };     // run through the model; in a line

/* |L| of every layer that has a finite one. */
struct watched {
    int           most;         // heads of any layer
    struct range *range;        // (layers, most)
    int          *heads;        // (layers) 0: not finite
};

/* What pass.watch is told. */
static void watch(void *user, int layer, struct mixer_layer *l)
{
    struct watched *w = user;

    w->heads[layer] = mixer_decay(l, w->range + (size_t)layer * w->most);
}

/* The dataset that the run of this checkpoint was trained on. */
static bool find_data(const char *dir, char *path, size_t cap)
{
    char  config[PATH_MAX], *text = NULL;
    FILE *f = file_stream(path_join(config, sizeof config, dir, "../config.cfg"));
    size_t room = 0;

    path_join(path, cap, dir, "../data");
    while (f && !dataset_is(path) && getline(&text, &room, f) > 0)
        if (!strncmp(text, "input = ", 8))
            snprintf(path, cap, "%.*s", (int)strcspn(text + 8, "\n"), text + 8);
    free(text);
    if (f)
        fclose(f);
    return dataset_is(path);
}

static enum fail run_watched(const struct model *m, const struct dataset *d,
                             struct watched *w, struct score *s, struct why *why)
{
    static struct shard_cursor cursor;
    int         B = m->cfg.context < WATCHED_TOKENS ? WATCHED_TOKENS / m->cfg.context : 1;
    struct pass pass;
    enum fail   err = pass_open(&pass, m, B, m->cfg.context, PASS_SCORE, why);

    if (err)
        return err;
    pass.watch = watch, pass.user = w;
    cursor = (struct shard_cursor){.shard = &d->shard[1]};
    err = score_run(m, &pass, B, tokenizer_eos(d->tokenizer), shard_cursor_next, &cursor,
                    WATCHED_TOKENS, NULL, NULL, s, why);
    pass_close(&pass);
    return err;
}

static void print_watched(const struct model *m, const struct watched *w, uint64_t tokens)
{
    line("|L|",
         "by layer and head over %llu tokens of validation; 0 forgets all, 1 nothing",
         (unsigned long long)tokens);
    for (int i = 0; i < m->cfg.layers; i++) {
        char label[40];

        snprintf(label, sizeof label, "layer %d", i);
        for (int h = 0; h < w->heads[i]; h++) {
            const struct range *r = &w->range[(size_t)i * w->most + h];

            if (h % RANGES == 0)
                printf("%-14s %-9s ", h ? "" : label, h ? "" : m->layer[i].mixer->name);
            printf(" %#6.4g to %#6.4g%s", r->lo, r->hi,
                   h == w->heads[i] - 1 ? "\n" : h % RANGES == RANGES - 1 ? ",\n" : ",");
        }
    }
}

static enum fail watch_layers(const struct model *m, const struct dataset *d,
                              struct why *why)
{
    struct watched w = {.most = 0};
    struct score   s;
    int            layers = m->cfg.layers;
    enum fail      err = 0;

    for (int i = 0; i < layers; i++)
        w.most = m->layer[i].H > w.most ? m->layer[i].H : w.most;
    w.range = malloc((size_t)layers * w.most * sizeof *w.range);
    w.heads = calloc(layers, sizeof *w.heads);
    if (!w.range || !w.heads)
        err = fail(why, FAIL_MEMORY, "out of memory for the ranges of %d layers", layers);
    for (int i = 0; !err && i < layers * w.most; i++)
        w.range[i] = (struct range){INFINITY, 0};
    if (!err)
        err = run_watched(m, d, &w, &s, why);
    if (!err)
        print_watched(m, &w, s.tokens);
    free(w.range), free(w.heads);
    return err;
}

static bool any_finite(const struct model *m)
{
    for (int i = 0; i < m->cfg.layers; i++)
        if (m->layer[i].mixer->instruments->decay)
            return true;
    return false;
}

static void describe_decay(const struct cli *c, const struct model *m,
                           const struct tokenizer *t, const char *dir)
{
    struct dataset d = {0};
    struct why     why;
    char           path[PATH_MAX];
    enum fail      err;

    if (!any_finite(m))
        return;
    if (!find_data(dir, path, sizeof path)) {
        line("|L|", "not known: the text that the run was trained on is not there");
        return;
    }
    err = dataset_open(&d, path, &why);
    if (!err && tokenizer_fingerprint(d.tokenizer) != tokenizer_fingerprint(t))
        err = fail(&why, FAIL_INPUT, "%s: tokenized for another model", path);
    if (!err)
        err = watch_layers(m, &d, &why);
    dataset_close(&d);
    if (err)
        cli_fail(c, err, &why);
}

static void describe_checkpoint(const struct cli *c, const char *path)
{
    struct model      m;
    struct tokenizer *t;
    char              dir[PATH_MAX];
    struct why        why;
    enum fail         err = checkpoint_load(path, &m, &t, dir, sizeof dir, &why);

    if (err)
        cli_fail(c, err, &why);
    line("checkpoint", "%s", dir);
    describe_training(dir);
    describe_cost(&m);
    line("tokenizer", "%s, %d tokens", tokenizer_kind(t), tokenizer_vocab(t));
    describe_settings(&m.cfg);
    describe_layers(&m);
    describe_decay(c, &m, t, dir);
    list_files(dir);
    model_close(&m);
    tokenizer_free(t);
}

/* ---- the verb ---------------------------------------------------------------------- */

int info_main(int argc, char **argv)
{
    bool        arch = false;
    struct flag flags[] = {
        {.name = "arch", .on = &arch, .about = "the mixers, or the one named"},
        {.name = NULL},
    };
    struct cli c = {.verb = "info", .help = help_text, .flags = flags};
    struct why why;
    enum fail  err = 0;

    cli_parse(&c, argc, argv);
    if (c.n_args > 1)
        cli_die(&c, FAIL_USAGE, "one at a time: %s, then %s", c.args[0], c.args[1]);
    if (arch && !c.n_args)
        err = arch_table(&why);
    else if (!c.n_args)
        cli_die(&c, FAIL_USAGE, "give a dataset, run or checkpoint, or --arch");
    else if (arch)
        err = arch_describe(c.args[0], &why);
    else if (dataset_is(c.args[0]))
        describe_dataset(&c, c.args[0]);
    else
        describe_checkpoint(&c, c.args[0]);
    if (err)
        cli_fail(&c, err, &why);
    return 0;
}
