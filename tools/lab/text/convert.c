/* Post-hoc conversion (LUNA, arXiv:2512.08061): a softmax model trained on stories
 * goes on with its mixers replaced; parameters of the same name and shape are
 * kept (model_take).
 *
 *     converted   the softmax model's weights, then `tune` steps
 *     scratch     the same mixers from initial weights, as many steps
 *
 * Text is read byte by byte; bits per byte are those of text that training never saw. The
 * attention was trained with rotated queries and keys, so every arm keeps the rotation.
 */
#include "tools/lab/text/corpus.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ARMS = 16, MARKS = 5, WIDTH = 64, HEADS = 2, LENGTH = 128 };
enum { HELD_OUT = 64 * LENGTH };

static const char *const standard =
    "luna,linear(feature=hedgehog),linear(feature=elu1),linear(feature=favor),gla(dk=32)";

static const struct size {
    long base, tune;            // steps of the softmax model, and of every arm
    int  layers, batch;
    long bytes;                 // of text to train on
} sizes[] = {
    [LAB_BRIEF] = {40, 8, 1, 4, 100000},
    [LAB_QUICK] = {800, 192, 2, 16, 2000000},
    [LAB_FULL]  = {3000, 600, 4, 16, 8000000},
};

static const double lr = 3e-3;
static const double share[MARKS] = {0, 1 / 8., 1 / 4., 1 / 2., 1};  // of tune, looked at

/* ---- cells ------------------------------------------------------------------------- */

/* What one seed shares: the text and the softmax model, trained when a cell needs it. */
struct bench {
    struct lab        *lab;
    const struct size *size;
    uint64_t           seed;
    struct corpus      corpus;
    struct model       softmax;
    double            *bits;            // where marks are written
    long               steps;
};

/* Bits per byte of the text that is held out; NAN when memory is short. */
static double held_out_bits(const struct corpus *c, const struct model *m)
{
    double     nats[LENGTH], bytes[LENGTH];
    struct why why;

    return corpus_score(c, m, LENGTH, nats, bytes, &why)
               ? NAN : corpus_bits(nats, bytes, 0, LENGTH);
}

/* task's mark. */
static void mark(void *marker, const struct model *m, long step)
{
    struct bench *b = marker;

    for (int i = 0; i < MARKS; i++)
        if (step == lround(share[i] * (double)b->steps))
            b->bits[i] = held_out_bits(&b->corpus, m);
}

static struct task task_of(struct bench *b, const char *entry, long steps)
{
    b->steps = steps;
    return (struct task){
        .mixers = entry, .layers = b->size->layers, .width = WIDTH, .heads = HEADS,
        .mlp = 3 * WIDTH, .vocab = CORPUS_VOCAB, .batch = b->size->batch,
        .length = LENGTH, .steps = steps, .lr = lr, .weight_decay = 0.1, .clip = 1,
        .seed = b->seed, .fill = corpus_fill, .user = &b->corpus, .mark = mark,
        .marker = b,
    };
}

/* The softmax model, once. */
static enum fail need_softmax(struct bench *b, const char *key, double *bits,
                              struct why *why)
{
    struct task t = task_of(b, "softmax", b->size->base);

    b->bits = bits;
    return b->softmax.w ? 0 : task_train(&t, &b->softmax, b->lab, key, 1, why);
}

static enum fail run_softmax(struct bench *b, double *bits, struct why *why)
{
    char key[64];
    enum fail err;

    snprintf(key, sizeof key, "softmax %ld steps seed %llu", b->size->base,
             (unsigned long long)b->seed);
    if (lab_recall(b->lab, key, bits))
        return 0;
    err = need_softmax(b, key, bits, why);
    return err ? err : lab_record(b->lab, key, bits, why);
}

static enum fail run_arm(struct bench *b, const char *arm, bool convert, double *bits,
                         struct why *why)
{
    char         key[128], entry[96];
    double       unused[MARKS];
    struct task  t;
    struct model m;
    enum fail    err = 0;

    snprintf(key, sizeof key, "%.60s %s %ld steps seed %llu", arm,
             convert ? "converted" : "scratch", b->size->tune,
             (unsigned long long)b->seed);
    if (lab_recall(b->lab, key, bits))
        return 0;
    if (convert)
        err = need_softmax(b, key, unused, why);
    if (err)
        return err;
    snprintf(entry, sizeof entry, "%.80s+rope", arm);
    t = task_of(b, entry, b->size->tune);
    t.start = convert ? &b->softmax : NULL;
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

static enum fail run_seed(struct lab *l, const struct size *s, struct table *t, int k,
                          struct why *why)
{
    struct bench b = {.lab = l, .size = s, .seed = lab_seed(l, k)};
    double       bits[MARKS], by = 1.0 / lab_seeds(l);
    enum fail    err = corpus_open(&b.corpus, s->bytes, HELD_OUT, b.seed, why);

    if (!err && !(err = run_softmax(&b, bits, why)))
        t->softmax += by * bits[MARKS - 1];
    for (int i = 0; !err && i < 2 * t->n; i++) {
        struct result *r = &t->r[i / 2];
        double        *to = i % 2 ? r->scratch : r->converted;

        err = run_arm(&b, r->arm, i % 2 == 0, bits, why);
        for (int j = 0; !err && j < MARKS; j++)
            to[j] += by * bits[j];
    }
    model_close(&b.softmax);
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

    for (int i = 0; i < MARKS; i++)
        n += snprintf(row + n, sizeof row - (size_t)n, " %7ld",
                      lround(share[i] * (double)s->tune));
    lab_say(l, "%d layers of width %d, %d x %d bytes a step; learning rate %g\n"
            "softmax, %ld steps: %.3f bits per byte; after steps of fine-tuning:\n",
            s->layers, WIDTH, s->batch, LENGTH, lr, s->base, t->softmax);
    lab_say(l, "%-26s %-9s%s", "", "steps", row);
    for (int i = 0; i < t->n; i++) {
        say_row(l, t->r[i].arm, "converted", t->r[i].converted);
        say_row(l, "", "scratch", t->r[i].scratch);
    }
}

static double end_of(const struct result *r) { return r->converted[MARKS - 1]; }

static void judge(struct lab *l, const struct size *s, const struct table *t)
{
    const struct result *best = t->r, *worst = t->r, *luna = NULL;
    int  ahead = 0;
    char measured[256], line[96];

    for (const struct result *r = t->r; r < t->r + t->n; r++) {
        best = end_of(r) < end_of(best) ? r : best;
        worst = end_of(r) > end_of(worst) ? r : worst;
        luna = strncmp(r->arm, "luna", 4) ? luna : r;
        ahead += end_of(r) < r->scratch[MARKS - 1];
    }
    snprintf(line, sizeof line, "softmax's own %.3f bits per byte", t->softmax);
    snprintf(measured, sizeof measured, "%d of %d arms; best %s %.3f, from scratch %.3f",
             ahead, t->n, best->arm, end_of(best), best->scratch[MARKS - 1]);
    lab_verdict(l, ahead == t->n,
                "a converted model beats one trained from scratch as long",
                measured, line);
    if (!luna)
        return;
    snprintf(measured, sizeof measured, "%.3f at once, %.3f after %ld steps",
             luna->converted[0], end_of(luna), s->tune);
    lab_verdict(l, end_of(luna) < 1.1 * t->softmax,
                "luna comes within a tenth of the softmax it was converted from",
                measured, line);
    snprintf(measured, sizeof measured, "best %s %.3f, luna %.3f, worst %s %.3f",
             best->arm, end_of(best), end_of(luna), worst->arm, end_of(worst));
    lab_verdict(l, best == luna || strstr(best->arm, "hedgehog"),
                "a learned feature map (luna, hedgehog) recovers more than fixed ones "
                "or a gate",
                measured, line);
}

static enum fail draw(struct lab *l, const struct size *s, const struct table *t,
                      struct why *why)
{
    struct chart_series series[ARMS];
    struct chart_line   line = {"softmax", t->softmax};
    double              x[MARKS];
    struct chart        c = {.title = "Softmax converted to other mixers",
                             .series = series, .xlabel = "steps of fine-tuning",
                             .ylabel = "bits per byte", .nseries = t->n, .lines = &line,
                             .nlines = 1};

    for (int i = 0; i < MARKS; i++)
        x[i] = share[i] * (double)s->tune;
    for (int a = 0; a < t->n; a++)
        series[a] = (struct chart_series){.name = t->r[a].arm, .x = x,
                                          .y = t->r[a].converted, .n = MARKS,
                                          .colour = a};
    return lab_chart(l, "convert", &c, why);
}

static enum fail run(struct lab *l, struct why *why)
{
    const struct size *s = &sizes[lab_form(l)];
    struct table       t = {0};
    enum fail          err = 0;

    while (t.n < ARMS && lab_arch(l, standard, t.n, t.r[t.n].arm, sizeof t.r[0].arm))
        t.n++;
    lab_plan(l, lab_seeds(l) * (1 + 2 * t.n));
    for (int k = 0; !err && k < lab_seeds(l); k++)
        err = run_seed(l, s, &t, k, why);
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
};
