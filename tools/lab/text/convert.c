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
#include "tools/compare/stats.h"
#include "tools/lab/text/corpus.h"
#include "tools/lab/text/subject.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { ARMS = 16, MARKS = 5, WIDTH = 64, HEADS = 2, LENGTH = 128 };
enum { HELD_OUT = 64 * LENGTH, SEEDS = 32 };      // SEEDS: judged, at most

static const char *const standard =
    "luna,linear(feature=hedgehog),linear(feature=elu1),linear(feature=favor),gla(dk=32)";

static const struct size {
    long base;                  // steps of the softmax model
    long transfer, tune;        // and of every arm
    int  layers, batch;
    long bytes;                 // of text to train on
} sizes[] = {
    [LAB_BRIEF] = {40, 4, 8, 1, 4, 100000},
    [LAB_QUICK] = {1200, 100, 200, 2, 4, 1000000},
    [LAB_FULL]  = {3000, 200, 600, 2, 4, 4000000},
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

/* *elsewhere: another trains it now. */
static enum fail run_softmax(struct bench *b, double *bits, bool *elsewhere,
                             struct why *why)
{
    char key[96];
    enum fail err;

    snprintf(key, sizeof key, "%s seed %llu", b->what, (unsigned long long)b->seed);
    if (lab_recall(b->lab, key, bits)) {
        *elsewhere = !lab_finished(b->lab, key);
        return 0;
    }
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
    double end[2][SEEDS];                           // of each seed: converted, scratch
};

struct table {
    double        softmax, seed[SEEDS];
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

/* A seed whose softmax another trains is left to it: it would be trained twice. */
static enum fail run_seed(struct lab *l, const struct size *s, const struct subject *from,
                          struct table *t, int k, struct why *why)
{
    struct bench b = {.lab = l, .size = s, .from = from, .seed = lab_seed(l, k)};
    double       bits[MARKS], by = 1.0 / lab_seeds(l);
    bool         elsewhere = false;
    enum fail    err = open_text(&b, why);

    if (!err && !(err = run_softmax(&b, bits, &elsewhere, why)))
        t->softmax += by * bits[MARKS - 1], t->seed[k % SEEDS] = bits[MARKS - 1];
    for (int i = 0; !err && !elsewhere && i < 2 * t->n; i++) {
        struct result *r = &t->r[i / 2];
        double        *to = i % 2 ? r->scratch : r->converted;

        err = run_arm(&b, r->arm, i % 2 == 0, bits, why);
        for (int j = 0; !err && j < MARKS; j++)
            to[j] += by * bits[j];
        r->end[i % 2][k % SEEDS] = bits[MARKS - 1];
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

static const struct lab_claim claims[] = {
    {"scratch", "a converted model beats one trained from scratch as long",
     "recovers within 2 % of training from scratch, in a tenth of the steps", "all arms",
     "bits per byte", ANSWER_MORE, 0.02, "softmax below 3 bits per byte"},
    {"tenth", "luna comes within a tenth of the softmax it was converted from",
     "BERT and ViT recovered", "luna", "bits per byte over softmax's", ANSWER_BELOW, 1.1,
     "softmax below 3 bits per byte"},
    {"maps", "learned feature maps (luna, hedgehog) recover more than fixed ones",
     "LUNA above fixed linearisations", "luna, hedgehog; elu1, favor", "bits per byte",
     ANSWER_MORE, 0.02, "softmax below 3 bits per byte"},
    {0},
};

static void gate(struct finding *f, const struct table *t)
{
    f->learnt = t->softmax < 3;
    snprintf(f->gate, sizeof f->gate, "softmax %.3f bits per byte, not 3", t->softmax);
}

static void judge_scratch(struct lab *l, const struct table *t, int seeds,
                          const char *line)
{
    struct finding all[ARMS];
    int            best = 0;
    char           measured[200];

    for (int i = 0; i < t->n; i++) {
        all[i] = find_more(t->r[i].end[0], t->r[i].end[1], seeds, 0.02);
        best = end_of(&t->r[i]) < end_of(&t->r[best]) ? i : best;
    }
    all[0] = find_all(all, t->n);
    gate(&all[0], t);
    snprintf(measured, sizeof measured, "each of %d arms; best %s %.3f, from scratch "
             "%.3f", t->n, t->r[best].arm, end_of(&t->r[best]),
             t->r[best].scratch[MARKS - 1]);
    lab_trained(l, "scratch", &all[0], measured, line);
}

static void judge_tenth(struct lab *l, const struct size *s, const struct table *t,
                        int seeds, const char *line)
{
    for (const struct result *r = t->r; r < t->r + t->n; r++) {
        double         ratio[SEEDS];
        char           measured[160];
        struct finding f;

        if (strncmp(r->arm, "luna", 4))
            continue;
        for (int k = 0; k < seeds; k++)
            ratio[k] = r->end[0][k] / t->seed[k];
        f = find_below(ratio, seeds, 1.1);
        gate(&f, t);
        snprintf(measured, sizeof measured,
                 "%.3f at once, %.3f after transfer, %.3f after %ld steps more",
                 r->converted[0], r->converted[1], end_of(r), s->tune);
        lab_trained(l, "tenth", &f, measured, line);
        return;
    }
}

/* In every seed the worse of the learned maps against the best of the fixed. */
static void judge_maps(struct lab *l, const struct table *t, int seeds, const char *line)
{
    double learned[SEEDS], fixed[SEEDS];
    char   measured[160];

    for (int k = 0; k < seeds; k++) {
        learned[k] = fixed[k] = NAN;
        for (const struct result *r = t->r; r < t->r + t->n; r++)
            if (is_learned(r->arm))
                learned[k] = fmax(learned[k], r->end[0][k]);
            else if (is_fixed(r->arm))
                fixed[k] = fmin(fixed[k], r->end[0][k]);
    }
    struct finding f = find_more(learned, fixed, seeds, 0.02);

    if (isnan(learned[0]) || isnan(fixed[0]))
        return;
    gate(&f, t);
    snprintf(measured, sizeof measured, "the worse learned map %.3f, the best fixed one "
             "%.3f", mean_of(learned, seeds).mean, mean_of(fixed, seeds).mean);
    lab_trained(l, "maps", &f, measured, line);
}

static void judge(struct lab *l, const struct size *s, const struct table *t)
{
    int  seeds = lab_seeds(l) < SEEDS ? lab_seeds(l) : SEEDS;
    char line[96];

    snprintf(line, sizeof line, "softmax's own %.3f bits per byte, seed by seed",
             t->softmax);
    judge_scratch(l, t, seeds, line);
    judge_tenth(l, s, t, seeds, line);
    if (lab_form(l) == LAB_FULL)
        judge_maps(l, t, seeds, line);
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
    .seeds = 5,
    .quick = 4,
    .run = run,
    .arch = true,
    .from = true,
    .claims = claims,
    .at = "2 layers of width 64; softmax 3000 steps of 4 x 128 bytes of stories, then "
          "200 of transfer and 600 of training",
};
