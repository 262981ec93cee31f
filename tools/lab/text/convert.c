/* Post-hoc conversion (LUNA, arXiv:2512.08061): a softmax model goes on with its mixers
 * replaced; parameters of the same name and shape are kept (model_take).
 *
 *     converted   the softmax model's weights, `transfer` steps in which each mixer
 *                 learns to answer as the attention at its place (model_imitate), then
 *                 `tune` steps on the text
 *     scratch     the same mixers from initial weights, as many steps on the text
 *
 * The softmax model is trained here on stories, byte by byte, or it is the one of --from,
 * with its own tokenizer. Bits per byte are those of text that training never saw. The
 * attention was trained with rotated queries and keys, so every arm keeps the rotation.
 */
#include "tools/lab/text/corpus.h"
#include "tools/lab/text/subject.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { ARMS = 16, MARKS = 5, WIDTH = 64, HEADS = 2, LENGTH = 128 };
enum { HELD_OUT = 64 * LENGTH };

static const char *const standard =
    "luna,linear(feature=hedgehog),linear(feature=elu1),linear(feature=favor),gla(dk=32)";

static const struct size {
    long base;                  // steps of the softmax model
    long transfer, tune;        // and of every arm
    int  layers, batch;
    long bytes;                 // of text to train on
} sizes[] = {
    [LAB_BRIEF] = {40, 4, 8, 1, 4, 100000},
    [LAB_QUICK] = {800, 96, 192, 2, 16, 2000000},
    [LAB_FULL]  = {3000, 200, 600, 4, 16, 8000000},
};

static const double lr = 3e-3;

/* ---- cells ------------------------------------------------------------------------- */

/* What one seed shares: the text and the softmax model, trained when a cell needs it. */
struct bench {
    struct lab           *lab;
    const struct size    *size;
    const struct subject *from;         // NULL: train one here
    uint64_t              seed;
    int                   length;
    struct corpus         corpus;
    struct model          own;
    double               *bits;         // where marks are written
    long                  at[MARKS];
    char                  what[64];     // is converted, and the text: for keys
};

static const struct model *softmax_of(const struct bench *b)
{
    return b->from ? &b->from->model : &b->own;
}

/* Bits per byte of the text that is held out; NAN when memory is short. */
static double held_out_bits(const struct bench *b, const struct model *m)
{
    double     nats[LENGTH], bytes[LENGTH];
    struct why why;

    return corpus_score(&b->corpus, m, b->length, nats, bytes, &why)
               ? NAN : corpus_bits(nats, bytes, 0, b->length);
}

/* Steps after which a model is looked at: none, those of transfer, then parts of tune. */
static void marks_of(long at[MARKS], long transfer, long tune)
{
    const long when[MARKS] = {0, transfer, transfer + tune / 4, transfer + tune / 2,
                              transfer + tune};

    memcpy(at, when, sizeof when);
}

/* task's mark. */
static void mark(void *marker, const struct model *m, long step)
{
    struct bench *b = marker;
    double        bits = NAN;

    for (int i = 0; i < MARKS; i++)
        if (step == b->at[i])
            b->bits[i] = isnan(bits) ? (bits = held_out_bits(b, m)) : bits;
}

static struct task task_of(struct bench *b, const char *list, long transfer, long tune)
{
    marks_of(b->at, transfer, tune);
    return (struct task){
        .mixers = list, .layers = b->size->layers, .width = WIDTH, .heads = HEADS,
        .mlp = 3 * WIDTH, .vocab = CORPUS_VOCAB, .batch = b->size->batch,
        .length = b->length, .steps = transfer + tune, .lr = lr, .weight_decay = 0.1,
        .clip = 1, .seed = b->seed, .fill = corpus_fill, .user = &b->corpus,
        .mark = mark, .marker = b, .like = b->from ? &b->from->model.cfg : NULL,
    };
}

/* The softmax model, once. */
static enum fail need_softmax(struct bench *b, const char *key, double *bits,
                              struct why *why)
{
    struct task t = task_of(b, "softmax", 0, b->size->base);

    b->bits = bits;
    if (b->from) {
        bits[0] = held_out_bits(b, &b->from->model);
        for (int i = 1; i < MARKS; i++)
            bits[i] = bits[0];
        return FAIL_NONE;
    }
    return b->own.w ? FAIL_NONE : task_train(&t, &b->own, b->lab, key, 1, why);
}

static enum fail run_softmax(struct bench *b, double *bits, struct why *why)
{
    char key[96];
    enum fail err;

    snprintf(key, sizeof key, "%s seed %llu", b->what, (unsigned long long)b->seed);
    if (lab_recall(b->lab, key, bits))
        return 0;
    err = need_softmax(b, key, bits, why);
    return err ? err : lab_record(b->lab, key, bits, why);
}

/* The mixers of an arm. */
static enum fail name_mixers(const struct bench *b, const char *arm, char *list,
                             size_t cap, struct why *why)
{
    if (b->from)
        return subject_mixers(b->from, arm, list, cap, why);
    snprintf(list, cap, "%.80s+rope", arm);
    return FAIL_NONE;
}

static enum fail run_arm(struct bench *b, const char *arm, bool convert, double *bits,
                         struct why *why)
{
    char         key[192], list[512];
    double       unused[MARKS];
    struct task  t;
    struct model m;
    enum fail    err = name_mixers(b, arm, list, sizeof list, why);

    snprintf(key, sizeof key, "%s %.60s %s %ld + %ld steps seed %llu", b->what, arm,
             convert ? "converted" : "scratch", b->size->transfer, b->size->tune,
             (unsigned long long)b->seed);
    if (err || lab_recall(b->lab, key, bits))
        return err;
    if (convert && !b->from)
        err = need_softmax(b, key, unused, why);
    if (err)
        return err;
    t = task_of(b, list, b->size->transfer, b->size->tune);
    t.start = convert ? softmax_of(b) : NULL;
    t.transfer = convert ? b->size->transfer : 0;
    b->bits = bits;
    err = task_train(&t, &m, b->lab, key, 1, why);
    if (err)
        return err;
    model_close(&m);
    return lab_record(b->lab, key, bits, why);
}

/* ---- the table --------------------------------------------------------------------- */

struct result {
    char   arm[80];
    double converted[MARKS], scratch[MARKS];        // means over the seeds
};

struct table {
    double        softmax;
    struct result r[ARMS];
    int           n;
};

/* The text, as the model that is converted reads it. */
static enum fail open_text(struct bench *b, struct why *why)
{
    const struct subject *s = b->from;
    enum fail             err;

    snprintf(b->what, sizeof b->what, "softmax %ld steps", b->size->base);
    b->length = LENGTH;
    if (!s)
        return corpus_open(&b->corpus, b->size->bytes, HELD_OUT, b->seed, why);
    if (s->model.cfg.context < b->length)
        b->length = s->model.cfg.context;
    err = corpus_open_for(&b->corpus, s->tokenizer, s->model.cfg.prefix, lab_text(b->lab),
                          b->size->bytes, HELD_OUT, b->seed, why);
    if (!err && b->corpus.n - b->corpus.held <= b->length)
        err = fail(why, FAIL_INPUT, "%s: too short: an eighth of it must hold %d tokens",
                   lab_text(b->lab), b->length + 1);
    if (!err)
        snprintf(b->what, sizeof b->what, "model %016llx text %016llx",
                 (unsigned long long)s->hash,
                 (unsigned long long)XXH3_64bits(b->corpus.id, (size_t)b->corpus.n *
                                                                   sizeof *b->corpus.id));
    return err;
}

static enum fail run_seed(struct lab *l, const struct size *s, const struct subject *from,
                          struct table *t, int k, struct why *why)
{
    struct bench b = {.lab = l, .size = s, .from = from, .seed = lab_seed(l, k)};
    double       bits[MARKS], by = 1.0 / lab_seeds(l);
    enum fail    err = open_text(&b, why);

    if (!err && !(err = run_softmax(&b, bits, why)))
        t->softmax += by * bits[MARKS - 1];
    for (int i = 0; !err && i < 2 * t->n; i++) {
        struct result *r = &t->r[i / 2];
        double        *to = i % 2 ? r->scratch : r->converted;

        err = run_arm(&b, r->arm, i % 2 == 0, bits, why);
        for (int j = 0; !err && j < MARKS; j++)
            to[j] += by * bits[j];
    }
    model_close(&b.own);
    corpus_close(&b.corpus);
    return err;
}

static void say_row(struct lab *l, const char *name, const char *how, const double *bits)
{
    lab_say(l, "%-26s %-9s %7.3f %7.3f %7.3f %7.3f %7.3f", name, how, bits[0],
            bits[1], bits[2], bits[3], bits[4]);
}

static void say_table(struct lab *l, const struct size *s, const struct table *t)
{
    char row[128];
    int  n = 0;
    long at[MARKS];

    marks_of(at, s->transfer, s->tune);
    for (int i = 0; i < MARKS; i++)
        n += snprintf(row + n, sizeof row - (size_t)n, " %7ld", at[i]);
    if (lab_from(l))
        lab_say(l, "%s: %.3f bits per byte of text held out", lab_from(l), t->softmax);
    else
        lab_say(l, "%d layers of width %d; softmax, %ld steps: %.3f bits per byte",
                s->layers, WIDTH, s->base, t->softmax);
    lab_say(l, "%d x %d tokens a step, learning rate %g; after so many steps, of which "
            "the first %ld\nare attention transfer:\n", s->batch, LENGTH, lr,
            s->transfer);
    lab_say(l, "%-26s %-9s%s", "", "steps", row);
    for (int i = 0; i < t->n; i++) {
        say_row(l, t->r[i].arm, "converted", t->r[i].converted);
        say_row(l, "", "scratch", t->r[i].scratch);
    }
}

static double end_of(const struct result *r) { return r->converted[MARKS - 1]; }

static bool is_learned(const char *arm)
{
    return !strncmp(arm, "luna", 4) || strstr(arm, "hedgehog");
}

/* A linearisation of softmax without a map to learn; a gate is none. */
static bool is_fixed(const char *arm)
{
    return !strncmp(arm, "linear", 6) && !is_learned(arm);
}

static const struct result *worse(const struct result *a, const struct result *b)
{
    return a && end_of(a) > end_of(b) ? a : b;
}

static void judge(struct lab *l, const struct size *s, const struct table *t)
{
    const struct result *best = t->r, *luna = NULL, *map = NULL, *fixed = NULL;
    int  ahead = 0;
    char measured[256], line[96];

    for (const struct result *r = t->r; r < t->r + t->n; r++) {
        best = end_of(r) < end_of(best) ? r : best;
        luna = strncmp(r->arm, "luna", 4) ? luna : r;
        ahead += end_of(r) < r->scratch[MARKS - 1];
        if (is_learned(r->arm))
            map = worse(map, r);
        else if (is_fixed(r->arm))
            fixed = fixed && worse(fixed, r) == r ? fixed : r;
    }
    snprintf(line, sizeof line, "softmax's own %.3f bits per byte", t->softmax);
    snprintf(measured, sizeof measured, "%d of %d arms; best %s %.3f, from scratch %.3f",
             ahead, t->n, best->arm, end_of(best), best->scratch[MARKS - 1]);
    lab_verdict(l, ahead == t->n,
                "a converted model beats one trained from scratch as long",
                measured, line);
    if (luna) {
        snprintf(measured, sizeof measured,
                 "%.3f at once, %.3f after transfer, %.3f after %ld steps more",
                 luna->converted[0], luna->converted[1], end_of(luna), s->tune);
        lab_verdict(l, end_of(luna) < 1.1 * t->softmax,
                    "luna comes within a tenth of the softmax it was converted from",
                    measured, line);
    }
    if (map && fixed) {
        snprintf(measured, sizeof measured, "the worse learned map, %s, %.3f; the best "
                 "fixed one, %s, %.3f", map->arm, end_of(map), fixed->arm, end_of(fixed));
        lab_verdict(l, end_of(map) < end_of(fixed),
                    "learned feature maps (luna, hedgehog) recover more than fixed ones",
                    measured, line);
    }
}

static enum fail draw(struct lab *l, const struct size *s, const struct table *t,
                      struct why *why)
{
    struct chart_series series[ARMS];
    struct chart_line   line = {"softmax", t->softmax};
    double              x[MARKS];
    long                at[MARKS];
    struct chart        c = {.title = "Softmax converted to other mixers",
                             .series = series, .xlabel = "steps after conversion",
                             .ylabel = "bits per byte", .nseries = t->n, .lines = &line,
                             .nlines = 1};

    marks_of(at, s->transfer, s->tune);
    for (int i = 0; i < MARKS; i++)
        x[i] = (double)at[i];
    for (int a = 0; a < t->n; a++)
        series[a] = (struct chart_series){.name = t->r[a].arm, .x = x,
                                          .y = t->r[a].converted, .n = MARKS,
                                          .colour = a};
    return lab_chart(l, "convert", &c, why);
}

static enum fail run_seeds(struct lab *l, const struct size *s,
                           const struct subject *from, struct table *t, struct why *why)
{
    enum fail err = FAIL_NONE;

    for (int k = 0; !err && k < lab_seeds(l); k++)
        err = run_seed(l, s, from, t, k, why);
    return err;
}

static enum fail run(struct lab *l, struct why *why)
{
    const struct size *s = &sizes[lab_form(l)];
    struct table       t = {0};
    struct subject     from = {0};
    const char        *path = lab_from(l);
    enum fail          err = path ? subject_open(&from, path, why) : FAIL_NONE;

    while (t.n < ARMS && lab_arch(l, standard, t.n, t.r[t.n].arm, sizeof t.r[0].arm))
        t.n++;
    lab_plan(l, lab_seeds(l) * (1 + 2 * t.n));
    if (!err)
        err = run_seeds(l, s, path ? &from : NULL, &t, why);
    subject_close(&from);
    if (err)
        return err;
    say_table(l, s, &t);
    judge(l, s, &t);
    return draw(l, s, &t, why);
}

const struct experiment experiment_convert = {
    .name = "convert",
    .claim = "a trained softmax model, its mixers replaced, recovers its quality "
             "in few steps",
    .paper = "LUNA, arXiv:2512.08061",
    .columns = "bpb0,bpb1,bpb2,bpb3,bpb4",
    .seeds = 3,
    .run = run,
    .arch = true,
    .from = true,
};
