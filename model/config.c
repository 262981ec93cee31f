#include "model/config.h"

#include "data/base/split.h"
#include "data/base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define AT(f) offsetof(struct config, f), sizeof((struct config *)0)->f

const struct key config_keys[] = {
    {"layers", "blocks in the stack", KEY_INT, KEY_MODEL, AT(layers), 1, 1024, NULL},
    {"width", "model width", KEY_INT, KEY_MODEL, AT(width), 1, 65536, NULL},
    {"heads", "heads; they divide the width",
     KEY_INT, KEY_MODEL, AT(heads), 1, 4096, NULL},
    {"kv_heads", "key/value heads; they divide heads (0: as heads)",
     KEY_INT, KEY_MODEL, AT(kv_heads), 0, 4096, NULL},
    {"mlp", "hidden width of the MLP (0: 8/3 of the width, up to a multiple of 64)",
     KEY_INT, KEY_MODEL, AT(mlp), 0, 1 << 20, NULL},
    {"mixers", "mixer of each layer, parted by / and repeated over the stack",
     KEY_TEXT, KEY_MODEL, AT(mixers), 0, 0, NULL},
    {"tied", "1: the embedding is also the head",
     KEY_INT, KEY_MODEL, AT(tied), 0, 1, NULL},
    {"context", "tokens in one training window",
     KEY_INT, KEY_MODEL, AT(context), 1, 1 << 20, NULL},
    {"eps", "added under the root of RMSNorm",
     KEY_REAL, KEY_MODEL, AT(eps), 1e-12, 1, NULL, .optional = true},
    {"prefix", "text put before every document and prompt, in double quotes",
     KEY_QUOTED, KEY_MODEL, AT(prefix), 0, 0, NULL, .optional = true},
    {"opening",
     "what a text without a prompt begins with (\"\": as a document; of a text with few "
     "documents the validation text's first word)",
     KEY_QUOTED, KEY_MODEL, AT(opening), 0, 0, NULL, .optional = true},
    {"batch", "windows in one pass", KEY_INT, KEY_TRAIN, AT(batch), 1, 65536, NULL},
    {"accumulate", "passes in one step",
     KEY_INT, KEY_TRAIN, AT(accumulate), 1, 65536, NULL},
    {"recompute",
     "1: less memory, a third more time, the same result: backward makes a "
     "block's activations again",
     KEY_INT, KEY_TRAIN, AT(recompute), 0, 1, NULL},
    {"products", "own, or openblas: results then depend on the number of threads",
     KEY_TEXT, KEY_TRAIN, AT(products), 0, 0, "own|openblas"},
    {"precision", "of what products multiply: f32, or bf16; sums and all else stay f32",
     KEY_TEXT, KEY_TRAIN, AT(precision), 0, 0, "f32|bf16"},
    {"lr", "peak learning rate", KEY_REAL, KEY_TRAIN, AT(lr), 0, 10, NULL},
    {"lr_end", "where cosine ends, as a share of lr",
     KEY_REAL, KEY_TRAIN, AT(lr_end), 0, 1, NULL},
    {"schedule", "of the learning rate by steps: cosine, or warm-up/stable/decay",
     KEY_TEXT, KEY_TRAIN, AT(schedule), 0, 0, "cosine|wsd"},
    {"warmup", "steps, or below 1 a share of them",
     KEY_REAL, KEY_TRAIN, AT(warmup), 0, 1e9, NULL},
    {"optimiser", "adamw, or muon for the matrices inside blocks and adamw for the rest",
     KEY_TEXT, KEY_TRAIN, AT(optimiser), 0, 0, "adamw|muon"},
    {"weight_decay", "of matrices (-1: from how often the text will come by)",
     KEY_REAL, KEY_TRAIN, AT(weight_decay), -1, 10, NULL},
    {"clip", "largest norm of the gradient (0: no limit)",
     KEY_REAL, KEY_TRAIN, AT(clip), 0, 1e9, NULL},
    {"outlier",
     "skip a step whose gradient's norm is so many deviations above the mean of the "
     "last 128 (0: none is skipped)",
     KEY_REAL, KEY_TRAIN, AT(outlier), 0, 1000, NULL},
    {"beta1", "AdamW's mean", KEY_REAL, KEY_TRAIN, AT(beta1), 0, 0.999999, NULL},
    {"beta2", "AdamW's variance", KEY_REAL, KEY_TRAIN, AT(beta2), 0, 0.999999, NULL},
    {"table_lr", "factor on the learning rate of the embedding and the head",
     KEY_REAL, KEY_TRAIN, AT(table_lr), 0, 1000, NULL},
    {"transfer", "steps in which mixers first learn to answer as those of --from",
     KEY_LONG, KEY_TRAIN, AT(transfer), 0, 1e9, NULL},
    {"embed_init", "start of the embedding, in 1 / sqrt(width)",
     KEY_REAL, KEY_TRAIN, AT(embed_init), 0, 1000, NULL},
    {"out_init", "factor on the start of output projections; 0: they start at zero",
     KEY_REAL, KEY_TRAIN, AT(out_init), 0, 1000, NULL},
    {"copy",
     "begin with a head that says again what it looks at, so many times as loud as it "
     "is (0: none)",
     KEY_REAL, KEY_TRAIN, AT(copy), 0, 1000, NULL},
    {"seed", "of every random draw",
     KEY_SEED, KEY_TRAIN, AT(seed), 0, 18446744073709551615.0, NULL},
    {"steps", "optimiser steps (0: from the budget)",
     KEY_LONG, KEY_TRAIN, AT(steps), 0, 1e12, NULL},
    {"eval_every", "steps between validations (0: from steps)",
     KEY_LONG, KEY_TRAIN, AT(eval_every), 0, 1e12, NULL},
    {"checkpoint_every", "steps between checkpoints (0: from steps)",
     KEY_LONG, KEY_TRAIN, AT(checkpoint_every), 0, 1e12, NULL},
    {"sample_every", "steps between samples (0: from steps)",
     KEY_LONG, KEY_TRAIN, AT(sample_every), 0, 1e12, NULL},
    {"keep", "newest checkpoints to keep, besides the best",
     KEY_INT, KEY_TRAIN, AT(keep), 1, 1e6, NULL},
    {"patience", "stop after so many validations without a new best (0: never)",
     KEY_INT, KEY_TRAIN, AT(patience), 0, 1e6, NULL},
    {"window_short", "the short window a step may draw (0: context/64, at least 4)",
     KEY_INT, KEY_TRAIN, AT(window_short), 0, 1 << 20, NULL},
    {"window_p", "chance that a step draws it",
     KEY_REAL, KEY_TRAIN, AT(window_p), 0, 1, NULL},
    {"window_anneal", "share of the last steps that draw none",
     KEY_REAL, KEY_TRAIN, AT(window_anneal), 0, 1, NULL},
    {"vocab", "tokens in the vocabulary (0: from the text)",
     KEY_INT, KEY_MODEL, AT(vocab), 0, 1 << 24, NULL},
    {"tokenizer", "unigram, bpe or bytes",
     KEY_TEXT, KEY_DATA, AT(tokenizer), 0, 0, "unigram|bpe|bytes"},
    {"val_fraction", "share of the text kept for validation",
     KEY_REAL, KEY_DATA, AT(val_fraction), 0.0001, 0.9, NULL},
    {"threads", "0: one per core", KEY_INT, KEY_DATA, AT(threads), 0, 1024, NULL},
    {NULL, NULL, 0, 0, 0, 0, 0, 0, NULL},
};

enum { N_KEYS = sizeof config_keys / sizeof *config_keys };

void config_defaults(struct config *c)
{
    *c = (struct config){
        .layers = 4, .width = 128, .heads = 4, .mixers = "softmax", .tied = 1,
        .context = 256, .eps = MIXER_EPS,
        .batch = 16, .accumulate = 1, .products = "own",
        .precision = "f32", .lr = 6e-3,
        .lr_end = 0.1, .schedule = "cosine", .warmup = 0.1, .optimiser = "adamw",
        .weight_decay = -1, .clip = 1, .beta1 = 0.9, .beta2 = 0.95, .table_lr = 1,
        .embed_init = 1, .out_init = 1, .seed = 1, .keep = 3, .window_anneal = 0.1,
        .tokenizer = "unigram", .val_fraction = 0.05,
    };
}

/* ---- one key ----------------------------------------------------------------------- */

/* Keys are equal when they differ in '-' and '_' only. */
static bool same_key(const char *a, const char *b)
{
    while (*a && (*a == *b || (*a == '-' && *b == '_')))
        a++, b++;
    return !*a && !*b;
}

const struct key *config_find(const char *key)
{
    for (const struct key *k = config_keys; k->name; k++)
        if (same_key(key, k->name))
            return k;
    return NULL;
}

const char *const *config_names(void)
{
    static const char *names[N_KEYS];

    for (int i = 0; i < N_KEYS; i++)
        names[i] = config_keys[i].name;
    return names;
}

const char *config_other_name(const char *name)
{
    static const char *const other[][2] = {
        {"learning_rate", "lr"}, {"max_lr", "lr"}, {"min_lr", "lr_end"},
        {"epochs", "--tokens N, --steps N or --for TIME"},
        {"num_epochs", "--tokens N, --steps N or --for TIME"},
        {"max_steps", "steps"}, {"max_iters", "steps"}, {"iterations", "steps"},
        {"batch_size", "batch"}, {"grad_clip", "clip"}, {"warmup_steps", "warmup"},
        {"warmup_iters", "warmup"}, {"gradient_accumulation_steps", "accumulate"},
        {"n_layer", "layers"}, {"n_layers", "layers"}, {"num_layers", "layers"},
        {"n_embd", "width"}, {"d_model", "width"}, {"hidden_size", "width"},
        {"n_head", "heads"}, {"n_heads", "heads"}, {"num_heads", "heads"},
        {"block_size", "context"}, {"seq_len", "context"}, {"max_seq_len", "context"},
        {"vocab_size", "vocab"}, {"optimizer", "optimiser"}, {"n_threads", "threads"},
        {"model", "--arch NAME and --size S"},
    };

    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (same_key(name, other[i][0]))
            return other[i][1];
    return NULL;
}

static enum fail unknown_key(const char *key, struct why *why)
{
    const char *near = nearest_name(key, config_names(), N_KEYS - 1);
    const char *other = config_other_name(key);

    if (other)
        return fail(why, FAIL_USAGE, "unknown setting '%s'; weft calls it %s", key,
                    other);
    if (near)
        return fail(why, FAIL_USAGE, "unknown setting '%s'; did you mean '%s'?",
                    key, near);
    return fail(why, FAIL_USAGE, "unknown setting '%s'; weft train --help lists them all",
                key);
}

static enum fail out_of_range(const struct key *k, const char *value, struct why *why)
{
    return fail(why, FAIL_USAGE, "%s = %s is out of range; give %.12g to %.12g",
                k->name, value, k->min, k->max);
}

static enum fail set_integer(void *at, const struct key *k, const char *value,
                             struct why *why)
{
    char     *end;
    long long v;

    errno = 0;
    v = strtoll(value, &end, 10);
    if (end == value || *end)
        return fail(why, FAIL_USAGE, "%s = %s: not a whole number", k->name, value);
    if (errno || (double)v < k->min || (double)v > k->max)
        return out_of_range(k, value, why);
    if (k->type == KEY_INT)
        *(int *)at = (int)v;
    else
        *(long *)at = (long)v;
    return FAIL_NONE;
}

static enum fail set_seed(void *at, const struct key *k, const char *value,
                          struct why *why)
{
    char              *end;
    unsigned long long v;

    errno = 0;
    v = strtoull(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end)
        return fail(why, FAIL_USAGE, "%s = %s: not a whole number from 0",
                    k->name, value);
    if (errno)
        return fail(why, FAIL_USAGE,
                    "%s = %s is out of range; give 0 to 2^64 - 1", k->name, value);
    *(uint64_t *)at = v;
    return FAIL_NONE;
}

/* A number, or after an x a factor on what the setting was before. */
static enum fail set_real(void *at, const struct key *k, const char *value,
                          struct why *why)
{
    const char *digits = value + (*value == 'x');
    char       *end;
    double      v = strtod(digits, &end);

    if (end == digits || *end || isnan(v))
        return fail(why, FAIL_USAGE, "%s = %s: not a number", k->name, value);
    if (digits > value && *(const double *)at < 0)
        return fail(why, FAIL_USAGE, "%s = %s: it is not chosen yet; give a number",
                    k->name, value);
    if (digits > value)
        v *= *(const double *)at;
    if (v < k->min || v > k->max)
        return out_of_range(k, value, why);
    *(double *)at = v;
    return FAIL_NONE;
}

/* Is word one of "a|b|c"? */
static bool is_choice(const char *choices, const char *word)
{
    size_t len = strlen(word);

    for (const char *p = choices; p; p = strchr(p, '|')) {
        p += *p == '|';
        if (strcspn(p, "|") == len && !strncmp(p, word, len))
            return true;
    }
    return false;
}

static bool is_utf8(const char *text, size_t n)
{
    int len = 1;

    for (size_t i = 0; len && i < n; i += (size_t)len)
        len = utf8_length(text + i, n - i);
    return len;
}

static enum fail set_text(void *at, const struct key *k, const char *value,
                          struct why *why)
{
    size_t len = strlen(value);

    if (k->choices && !is_choice(k->choices, value))
        return fail(why, FAIL_USAGE, "%s = %.40s: not one of %s", k->name, value,
                    k->choices);
    if (!len || len >= k->size)
        return fail(why, FAIL_USAGE, "%s: give 1 to %zu characters", k->name,
                    k->size - 1);
    for (size_t i = 0; i < len; i++)
        if (iscntrl((unsigned char)value[i]) || value[i] == '#')
            return fail(why, FAIL_USAGE, "%s: no '#' or control characters, please",
                        k->name);
    if (!is_utf8(value, len))           // config.json could not hold it
        return fail(why, FAIL_USAGE, "%s: not UTF-8", k->name);
    memcpy(at, value, len + 1);
    return FAIL_NONE;
}

/* With or without double quotes around it; empty text is fine. */
static enum fail set_quoted(char *at, const struct key *k, const char *value,
                            struct why *why)
{
    size_t len = strlen(value);
    bool   quotes = len > 1 && *value == '"' && value[len - 1] == '"';

    value += quotes;
    len -= 2 * quotes;
    if (len >= k->size)
        return fail(why, FAIL_USAGE, "%s: at most %zu bytes", k->name, k->size - 1);
    for (size_t i = 0; i < len; i++)
        if (iscntrl((unsigned char)value[i]) || strchr("#\"", value[i]))
            return fail(why, FAIL_USAGE,
                        "%s: no '#', '\"' or control characters, please", k->name);
    if (!is_utf8(value, len))
        return fail(why, FAIL_USAGE, "%s: not UTF-8", k->name);
    memcpy(at, value, len);
    at[len] = '\0';
    return FAIL_NONE;
}

enum fail config_set(struct config *c, const char *key, const char *value,
                     struct why *why)
{
    const struct key *k = config_find(key);
    void             *at;

    if (!k)
        return unknown_key(key, why);
    at = (char *)c + k->at;
    switch (k->type) {
    case KEY_INT:
    case KEY_LONG:
        return set_integer(at, k, value, why);
    case KEY_SEED:
        return set_seed(at, k, value, why);
    case KEY_REAL:
        return set_real(at, k, value, why);
    case KEY_QUOTED:
        return set_quoted(at, k, value, why);
    case KEY_TEXT:
        break;
    }
    return set_text(at, k, value, why);
}

/* The shortest decimal that reads back as v. */
static void format_real(double v, char *buf, size_t cap)
{
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(buf, cap, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            return;
    }
}

void config_format(const struct config *c, const struct key *k, char *buf, size_t cap)
{
    const void *at = (const char *)c + k->at;

    switch (k->type) {
    case KEY_INT:
        snprintf(buf, cap, "%d", *(const int *)at);
        break;
    case KEY_LONG:
        snprintf(buf, cap, "%ld", *(const long *)at);
        break;
    case KEY_SEED:
        snprintf(buf, cap, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    case KEY_REAL:
        format_real(*(const double *)at, buf, cap);
        break;
    case KEY_TEXT:
        snprintf(buf, cap, "%s", (const char *)at);
        break;
    case KEY_QUOTED:
        snprintf(buf, cap, "\"%s\"", (const char *)at);
        break;
    }
}

/* ---- the parts together ------------------------------------------------------------ */

/* Copy the next entry of a list parted by '/'; returns the rest, NULL after the last. */
static const char *next_entry(const char *list, char *entry, size_t cap)
{
    size_t n = split_length(list, '/');

    snprintf(entry, cap, "%.*s", (int)n, list);
    return list[n] ? list + n + 1 : NULL;
}

int config_entries(const struct config *c)
{
    const char *list = c->mixers;
    char        entry[sizeof c->mixers];
    int         n = 0;

    for (; list; n++)
        list = next_entry(list, entry, sizeof entry);
    return n;
}

static enum fail parse_entry(const struct config *c, int i, struct mixer_cfg *out,
                             struct why *why)
{
    char        entry[sizeof c->mixers];
    const char *rest = c->mixers;

    for (int skip = i % config_entries(c); skip >= 0; skip--)
        rest = next_entry(rest, entry, sizeof entry);
    *out = (struct mixer_cfg){.C = c->width, .H = c->heads, .Hk = c->kv_heads,
                              .layers = c->layers, .context = c->context,
                              .eps = c->eps};
    return mixer_parse(out, entry, why);
}

void config_layer(const struct config *c, int i, struct mixer_cfg *out)
{
    struct why why;

    (void)parse_entry(c, i, out, &why); // config_resolve has
}

/* Does this layer look back over a window, which a step's draw may narrow? */
static bool has_window(const struct mixer_cfg *m)
{
    for (int i = 0; m->mixer->opts && m->mixer->opts[i].name; i++)
        if (!strcmp(m->mixer->opts[i].name, "window"))
            return m->opt[i] > 0;
    return false;
}

static enum fail resolve_mixers(const struct config *c, struct why *why)
{
    int  n = config_entries(c);
    bool window = false;

    if (n > c->layers)
        return fail(why, FAIL_USAGE,
                    "mixers = %.200s lists %d mixers for %d layers; "
                    "set layers to %d or more", c->mixers, n, c->layers, n);
    for (int i = 0; i < n; i++) {
        struct mixer_cfg m;
        const char      *problem;
        enum fail        err = parse_entry(c, i, &m, why);

        if (err)
            return err;
        problem = mixer_problem(&m);
        if (problem)
            return fail(why, FAIL_USAGE, "mixers = %.200s: %s: %s", c->mixers,
                        m.mixer->name, problem);
        window |= has_window(&m);
    }
    if (c->window_p > 0 && !window)
        return fail(why, FAIL_USAGE,
                    "window_p is set, but no layer of mixers = %.200s has a window; "
                    "give one, as in softmax(window=1/8), or set window_p = 0",
                    c->mixers);
    return FAIL_NONE;
}

/* In double, so that nothing overflows before it is refused. */
static enum fail check_sizes(const struct config *c, struct why *why)
{
    double w = c->width, tokens = (double)c->batch * c->context;
    double params = c->layers * (4 * w * w + 3 * w * c->mlp) + w * c->vocab;

    if (params > 0x1p40)
        return fail(why, FAIL_USAGE,
                    "layers = %d, width = %d, mlp = %d, vocab = %d make %.1e parameters; "
                    "make some of them smaller", c->layers, c->width, c->mlp,
                    c->vocab, params);
    if (tokens > 0x1p28)
        return fail(why, FAIL_USAGE,
                    "batch = %d windows of context = %d are %.0f tokens at once; "
                    "make one of them smaller and accumulate larger", c->batch,
                    c->context, tokens);
    return FAIL_NONE;
}

/* What a head copies, the output must know. */
static enum fail check_copy(const struct config *c, struct why *why)
{
    if (c->copy > 0 && !c->tied)
        return fail(why, FAIL_USAGE, "copy = %g needs tied = 1; copy=0 is without",
                    c->copy);
    return FAIL_NONE;
}

enum fail config_check_start(const struct config *c, struct why *why)
{
    struct mixer_cfg last;

    if (!(c->copy > 0))
        return FAIL_NONE;
    config_layer(c, c->layers - 1, &last);
    if (strcmp(last.mixer->name, "softmax"))
        return fail(why, FAIL_USAGE,
                    "copy = %g needs softmax in the last layer, not %s; copy=0 is "
                    "without",
                    c->copy, last.mixer->name);
    return FAIL_NONE;
}

enum fail config_resolve(struct config *c, struct why *why)
{
    enum fail err;

    if (!c->kv_heads)
        c->kv_heads = c->heads;
    if (!(c->eps > 0))
        c->eps = MIXER_EPS;
    if (!c->mlp)
        c->mlp = ((int)ceil(c->width * 8 / 3.0) + 63) / 64 * 64;
    if (!c->window_short && c->window_p > 0)
        c->window_short = c->context / 64 > 4 ? c->context / 64 : 4;
    if (c->weight_decay < 0 && c->weight_decay != -1)
        return fail(why, FAIL_USAGE, "weight_decay = %g: give 0 or more, or -1: from how "
                    "often the text will come by", c->weight_decay);
    if (c->width % c->heads)
        return fail(why, FAIL_USAGE, "heads = %d do not divide width = %d", c->heads,
                    c->width);
    if (c->heads % c->kv_heads)
        return fail(why, FAIL_USAGE, "kv_heads = %d do not divide heads = %d",
                    c->kv_heads, c->heads);
    err = check_sizes(c, why);
    if (!err)
        err = resolve_mixers(c, why);
    return err ? err : check_copy(c, why);
}
