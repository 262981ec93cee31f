/* weft info: describe a dataset, a run, a checkpoint, or the mixers. */
#include "data/dataset.h"
#include "data/file.h"
#include "infer/cli.h"
#include "model/checkpoint.h"
#include "tools/verbs.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char help_text[] =
    "weft info runs/book\n"
    "weft info PATH | --arch [NAME]\n"
    "\n"
    "Describes what weft made, or can make.\n"
    "\n"
    "  weft info runs/book               a run: its newest checkpoint\n"
    "  weft info runs/book/data          a dataset\n"
    "  weft info --arch                  the mixers\n"
    "  weft info --arch softmax          one of them, with its options\n";

enum { JSON_MAX = 1 << 20 };

/* ---- lines of a description ----------------------------------------------------------------- */

static void line(const char *label, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void line(const char *label, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("%-14s ", label);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
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

/* ---- a dataset ------------------------------------------------------------------------------ */

static void describe_split(const char *label, const struct split *s)
{
    char bytes[32];

    format_bytes(bytes, sizeof bytes, (double)s->bytes);
    line(label, "%llu tokens of %s in %llu document%s, %.2f bytes per token",
         (unsigned long long)s->tokens, bytes, (unsigned long long)s->documents,
         s->documents == 1 ? "" : "s", s->tokens ? (double)s->bytes / (double)s->tokens : 0);
}

static void describe_dataset(const struct cli *c, const char *path)
{
    struct dataset d;
    struct why     why;
    int            err = dataset_open(&d, path, &why);

    if (err)
        cli_fail(c, err, &why);
    line("dataset", "%s", path);
    line("tokenizer", "%s, %d tokens", tokenizer_kind(d.tokenizer), d.vocab);
    describe_split("train", &d.train);
    describe_split("validation", &d.val);
    if (d.invalid)
        line("not UTF-8", "%llu bytes", (unsigned long long)d.invalid);
    line("zstd -19", "%.4f bits per byte (validation)", d.zstd_bpb);
    line("order-2 model", "%.4f bits per byte", d.order2_bpb);
    if (d.floor_bpb > 0)
        line("floor", "%.4f bits per byte: what no model beats on average", d.floor_bpb);
    list_files(path);
    dataset_close(&d);
}

/* ---- a checkpoint --------------------------------------------------------------------------- */

static json_t *read_json(const char *dir, const char *name)
{
    char       path[PATH_MAX], *text;
    size_t     len;
    json_t    *j;
    struct why ignored;

    if (file_read(path_join(path, sizeof path, dir, name), JSON_MAX, &text, &len, &ignored))
        return NULL;
    j = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    free(text);
    return j;
}

/* Bits per byte that the log has for this step; NAN when it has none. */
static double logged_bpb(const char *dir, json_int_t step)
{
    char    path[PATH_MAX], *text = NULL;
    FILE   *f = fopen(path_join(path, sizeof path, dir, "../log.jsonl"), "re");
    size_t  cap = 0;
    double  bpb = NAN;

    while (f && isnan(bpb) && getline(&text, &cap, f) > 0) {
        json_t       *j = json_loads(text, 0, NULL);
        const json_t *v = json_object_get(j, "val_bpb");

        if (json_is_number(v) && json_integer_value(json_object_get(j, "step")) == step)
            bpb = json_number_value(v);
        json_decref(j);
    }
    free(text);
    if (f)
        fclose(f);
    return bpb;
}

static void describe_training(const char *dir)
{
    json_t       *j = read_json(dir, "trainer.json");
    const json_t *best = json_object_get(j, "best_val_loss");
    json_int_t    step = json_integer_value(json_object_get(j, "best_step"));
    double        bpb;
    char          tokens[32], time[32];

    if (j) {
        format_count(tokens, sizeof tokens, json_number_value(json_object_get(j, "tokens")));
        format_time(time, sizeof time, json_number_value(json_object_get(j, "seconds")));
        line("trained", "%lld steps, %s tokens, %s",
             (long long)json_integer_value(json_object_get(j, "step")), tokens, time);
    }
    if (json_is_number(best)) {
        line("validation", "best at step %lld: %.4f nats per token", (long long)step,
             json_number_value(best));
        bpb = logged_bpb(dir, step);
        if (!isnan(bpb))
            line("", "%.4f bits per byte", bpb);
    }
    json_decref(j);
}

static bool same_layer(const struct mixer_cfg *a, const struct mixer_cfg *b)
{
    return a->mixer == b->mixer && a->position == b->position && a->H == b->H && a->Hk == b->Hk &&
           !memcmp(a->opt, b->opt, sizeof a->opt) &&
           !memcmp(a->position_opt, b->position_opt, sizeof a->position_opt);
}

static void describe_layers(const struct model *m)
{
    for (int i = 0, last; i < m->cfg.layers; i = last + 1) {
        const struct mixer_cfg *c = &m->layer[i];
        char                    range[40];

        for (last = i; last + 1 < m->cfg.layers && same_layer(c, &m->layer[last + 1]); last++)
            ;
        snprintf(range, sizeof range, last > i ? "layers %d-%d" : "layer %d", i, last);
        line(range, "%s+%s: %s; %d heads, %d for keys", c->mixer->name, c->position->name,
             c->mixer->about, c->H, c->Hk);
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
    line("FLOPs", "%s per token forward at full context; training costs three times that", flops);
    line_bytes("decode state", (double)model_state_bytes(m), "per sequence");
}

static void describe_checkpoint(const struct cli *c, const char *path)
{
    struct model      m;
    struct tokenizer *t;
    char              dir[PATH_MAX];
    struct why        why;
    int               err = checkpoint_load(path, &m, &t, dir, sizeof dir, &why);

    if (err)
        cli_fail(c, err, &why);
    line("checkpoint", "%s", dir);
    describe_training(dir);
    describe_cost(&m);
    line("tokenizer", "%s, %d tokens", tokenizer_kind(t), tokenizer_vocab(t));
    describe_settings(&m.cfg);
    describe_layers(&m);
    list_files(dir);
    model_close(&m);
    tokenizer_free(t);
}

/* ---- the mixers ----------------------------------------------------------------------------- */

static void format_standard(const struct opt *o, char *buf, size_t cap)
{
    const char *p = o->choices;

    snprintf(buf, cap, "%.9g", o->standard);
    for (int i = 0; o->type == OPT_CHOICE && p && i < (int)o->standard; i++)
        p = strchr(p, '|') ? strchr(p, '|') + 1 : p;
    if (o->type == OPT_CHOICE)
        snprintf(buf, cap, "%.*s", (int)strcspn(p, "|"), p);
}

static void print_opts(const struct opt *o)
{
    for (; o && o->name; o++) {
        char form[64], standard[32];

        format_standard(o, standard, sizeof standard);
        snprintf(form, sizeof form, "%s=%s", o->name, standard);
        printf("  %-16s %s%s%s%s\n", form, o->about, o->choices ? " (" : "",
               o->choices ? o->choices : "", o->choices ? ")" : "");
    }
}

static void print_mixers(void)
{
    printf("%-12s %-8s %s\n", "mixer", "position", "");
    for (int i = 0; mixers[i]; i++) {
        printf("%-12s %-8s %s\n", mixers[i]->name, mixers[i]->position, mixers[i]->about);
        printf("%-12s %-8s %s\n", "", "", mixers[i]->system);
    }
    puts("\nweft info --arch NAME lists a mixer's options; entries joined by / alternate over\n"
         "the layers, as in softmax(window=128)/softmax.");
}

static void print_mixer(const struct cli *c, const char *name)
{
    struct mixer_cfg m = {.C = 128, .H = 4, .Hk = 4, .layers = 1, .context = 256};
    struct why       why;
    int              err = mixer_parse(&m, name, &why);

    if (err)
        cli_fail(c, err, &why);
    printf("%s: %s\n  %s\n\nOptions and their defaults, as in %s(heads=2):\n", m.mixer->name,
           m.mixer->about, m.mixer->system, m.mixer->name);
    print_opts(m.mixer->opts);
    printf("  %-16s %s\n  %-16s %s\n", "heads", "this layer's, instead of the model's", "kv_heads",
           "likewise");
    if (!m.mixer->angles) {
        puts("\nIt takes no position encoding.");
        return;
    }
    printf("\nPosition encodings, as in %s+%s (the default):\n", m.mixer->name, m.mixer->position);
    for (int i = 0; positions[i]; i++) {
        printf("%-18s %s\n", positions[i]->name, positions[i]->about);
        print_opts(positions[i]->opts);
    }
}

int info_main(int argc, char **argv)
{
    bool        arch = false;
    struct flag flags[] = {
        {.name = "arch", .on = &arch, .about = "the mixers, or the one named"},
        {.name = NULL},
    };
    struct cli c = {.verb = "info", .help = help_text, .flags = flags};

    cli_parse(&c, argc, argv);
    if (c.n_args > 1)
        cli_die(&c, FAIL_USAGE, "one at a time: %s, then %s", c.args[0], c.args[1]);
    if (arch && !c.n_args)
        print_mixers();
    else if (!c.n_args)
        cli_die(&c, FAIL_USAGE, "give a dataset, run or checkpoint, or --arch");
    else if (arch)
        print_mixer(&c, c.args[0]);
    else if (dataset_is(c.args[0]))
        describe_dataset(&c, c.args[0]);
    else
        describe_checkpoint(&c, c.args[0]);
    return 0;
}
