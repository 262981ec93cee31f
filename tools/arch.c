#include "tools/arch.h"

#include "data/base/format.h"
#include "model/mixer_instruments.h"
#include "model/model.h"
#include "train/plan.h"
#include "train/presets.h"

#include <stdio.h>
#include <string.h>

static const struct note {
    const char *name, *text;
} notes[] = {
#include "tools/notes.inc"
    {NULL, ""},
};

enum { VOCAB = 4096, SHORT = 1 << 10, LONG = 1 << 16 };

const char *arch_note(const struct mixer *m)
{
    const struct note *n = notes;

    while (n->name && strcmp(n->name, m->name))
        n++;
    return n->text;
}

/* ---- figures ---- */

/* Of a block in a model of size small with VOCAB tokens; training is that of
 * the whole model. */
struct figures {
    struct config    cfg;
    struct mixer_cfg mixer;
    double params, flops, training;  // parameters, FLOPs of a token at its context, bytes
    double state[2];                 // bytes, for contexts SHORT and LONG
};

static enum fail settle(struct config *c, const char *arch, struct why *why)
{
    struct sources from = {.size = "small", .arch = arch};
    enum fail      err = presets_apply(c, &from, why);

    c->vocab = VOCAB;
    return err ? err : config_resolve(c, why);
}

static enum fail state_bytes(const struct config *c, int layer, int context,
                             double *bytes, struct why *why)
{
    struct config    at = *c;
    struct mixer_cfg m;
    struct sizes     s;
    enum fail        err;

    at.context = context;
    err = config_resolve(&at, why);
    if (err)
        return err;
    config_layer(&at, layer, &m);
    mixer_sizes(&m, 1, 1, &s);
    *bytes = (double)s.state;
    return 0;
}

static void weigh(struct figures *f, const struct model *m, int layer)
{
    const struct config *c = &m->cfg;
    size_t end = m->param[m->first[layer + 1]].at, begin = m->param[m->first[layer]].at;

    f->params = (double)(end - begin);
    f->flops = mixer_flops(&m->layer[layer], c->context, 0) / c->context +
               6.0 * c->width * c->mlp;
    f->training = plan_memory(m, c);
}

static enum fail measure(struct figures *f, const char *arch, int layer, struct why *why)
{
    struct model m;
    enum fail    err = settle(&f->cfg, arch, why);

    if (!err)
        err = state_bytes(&f->cfg, layer, SHORT, &f->state[0], why);
    if (!err)
        err = state_bytes(&f->cfg, layer, LONG, &f->state[1], why);
    if (!err)
        err = model_open(&m, &f->cfg, why);
    if (err)
        return err;
    weigh(f, &m, layer);
    f->mixer = m.layer[layer];
    model_close(&m);
    return 0;
}

static void print_head(void)
{
    printf("%-10s %-8s %8s %11s %10s %11s %10s\n", "mixer", "position", "params",
           "FLOPs/token", "state 1k", "state 64k", "training");
}

static void print_row(const struct figures *f)
{
    char params[32], flops[32], state[2][32], training[32];

    format_count(params, sizeof params, f->params);
    format_count(flops, sizeof flops, f->flops);
    format_bytes(state[0], sizeof state[0], f->state[0]);
    format_bytes(state[1], sizeof state[1], f->state[1]);
    format_bytes(training, sizeof training, f->training);
    printf("%-10s %-8s %8s %11s %10s %11s %10s\n", f->mixer.mixer->name,
           f->mixer.position->name, params, flops, state[0], state[1], training);
}

static void print_legend(const struct config *c)
{
    printf("\nAt size small: width %d, %d heads, context %d. "
           "params and FLOPs/token: of a block\n"
           "with its MLP, forward. state: a block's while decoding, "
           "after 1k and 64k tokens of\n"
           "a model trained on as many. training: memory for all %d layers, "
           "vocabulary %d,\n"
           "batch %d.\n", c->width, c->heads, c->context, c->layers, c->vocab, c->batch);
}

/* How large a model may be here. */
static void print_room(void)
{
    enum { MANY = 1024 };
    char memory[16], alone[16], shared[16];

    format_bytes(memory, sizeof memory, plan_memory_limit());
    format_count(alone, sizeof alone, plan_most_parameters(1));
    format_count(shared, sizeof shared, plan_most_parameters(MANY));
    printf("Training here (%s) fits up to %s parameters, on many such ranks, which share "
           "the\nmoments, %s; activations come on top (recompute=1 keeps fewer).\n",
           memory, alone, shared);
}

enum fail arch_table(struct why *why)
{
    struct figures f;

    print_head();
    for (int i = 0; mixers[i]; i++) {
        enum fail err = measure(&f, mixers[i]->name, 0, why);

        if (err)
            return err;
        print_row(&f);
        printf("  %s\n", mixers[i]->instruments->system);
    }
    print_legend(&f.cfg);
    puts("The line below each is its h_t = L h_{t-1} + B u_t, o_t = C h_t, "
         "where x is Kronecker's\n"
         "product and n a normaliser. weft info --arch NAME has formulas, "
         "options and the paper.\n"
         "Entries joined by / alternate over the layers, "
         "as in softmax(window=128)/mlstm.");
    print_room();
    for (int i = 0; preset_arch(i); i++)
        printf("%s%s", i ? ", " : "Presets: ", preset_arch(i));
    putchar('\n');
    return 0;
}

/* ---- one mixer ---- */

static void format_standard(const struct opt *o, char *buf, size_t cap)
{
    const char *p = o->choices;

    snprintf(buf, cap, "%.9g", o->standard);
    for (int i = 0; o->type == OPT_CHOICE && p && i < (int)o->standard; i++)
        p = strchr(p, '|') ? strchr(p, '|') + 1 : p;
    if (o->type == OPT_CHOICE)
        snprintf(buf, cap, "%.*s", (int)strcspn(p, "|"), p);
}

/* A limit this large says nothing to a reader. */
#define ENDLESS 1e9

static void format_values(const struct opt *o, char *buf, size_t cap)
{
    if (o->type == OPT_CHOICE)
        snprintf(buf, cap, "%s", o->choices);
    else if (o->type == OPT_FLAG)
        snprintf(buf, cap, "0|1");
    else if (o->type == OPT_SPAN)
        snprintf(buf, cap, "tokens, or 1/8 of the context");
    else if (o->max >= ENDLESS)
        snprintf(buf, cap, "%.9g or more", o->min);
    else
        snprintf(buf, cap, "%.9g to %.9g", o->min, o->max);
}

static void print_opts(const struct opt *o)
{
    for (; o && o->name; o++) {
        char form[64], standard[32], values[96];

        format_standard(o, standard, sizeof standard);
        format_values(o, values, sizeof values);
        snprintf(form, sizeof form, "%s=%s", o->name, standard);
        printf("  %-16s %s (%s)\n", form, o->about, values);
    }
}

static void print_positions(const struct mixer *m)
{
    if (!m->position) {
        puts("\nIt takes no position encoding.");
        return;
    }
    printf("\nPosition encodings, as in %s+%s (the default):\n", m->name, m->position);
    for (int i = 0; positions[i]; i++) {
        printf("%-18s %s\n", positions[i]->name, positions[i]->about);
        print_opts(positions[i]->opts);
    }
}

/* Where to read more: every arXiv number of the note. */
static void print_papers(const char *note)
{
    const char *lead = "\nPaper:";

    for (const char *p = note; (p = strstr(p, "arXiv:")); lead = "      ", p++)
        printf("%s https://arxiv.org/abs/%.*s\n", lead,
               (int)strspn(p + 6, "0123456789."), p + 6);
}

static enum fail describe_mixer(const char *entry, struct why *why)
{
    struct figures      f;
    const struct mixer *m;
    enum fail           err = measure(&f, entry, 0, why);

    if (err)
        return err;
    m = f.mixer.mixer;
    puts(arch_note(m));
    printf("As a dynamical system h_t = L h_{t-1} + B u_t, o_t = C h_t:\n  %s\n\n",
           m->instruments->system);
    if (strcmp(f.cfg.mixers, entry))
        printf("The preset %s, of which the figures are, is %s.\n\n", entry,
               f.cfg.mixers);
    print_head();
    print_row(&f);
    print_legend(&f.cfg);
    printf("\nOptions, their defaults and what they may be, as in %s(heads=2):\n",
           m->name);
    print_opts(m->opts);
    printf("  %-16s %s\n  %-16s %s\n", "heads", "this layer's, instead of the model's",
           "kv_heads", "likewise");
    print_positions(m);
    print_papers(arch_note(m));
    return 0;
}

/* ---- several ---- */

static enum fail describe_list(const char *arch, int n, struct why *why)
{
    const char    *text = preset_find(arch);
    struct figures f;

    printf(text ? "%s\n" : "mixers = %s\n\n", text ? text : arch);
    print_head();
    for (int i = 0; i < n; i++) {
        enum fail err = measure(&f, arch, i, why);

        if (err)
            return err;
        print_row(&f);
    }
    print_legend(&f.cfg);
    puts("weft info --arch NAME has formulas, options and the paper of each.");
    print_room();
    print_papers(text ? text : "");
    return 0;
}

enum fail arch_describe(const char *arch, struct why *why)
{
    struct config c;
    int           n;
    enum fail     err = settle(&c, arch, why);

    if (err)
        return err;
    n = config_entries(&c);
    if (n == 1 && !strncmp(c.mixers, arch, strcspn(arch, "(+")))
        return describe_mixer(arch, why);
    return describe_list(arch, n, why);
}
