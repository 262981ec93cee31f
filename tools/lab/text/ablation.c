#include "tools/lab/text/ablation.h"

#include "tools/lab/panel.h"
#include "tools/lab/text/corpus.h"
#include "tools/lab/text/plain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH = 48 };
static const double enough = 3;             // bits per byte

static struct task settings(const struct lab *l)
{
    return (struct task){
        .layers = 2, .width = 64, .heads = 2, .mlp = 192, .vocab = CORPUS_VOCAB,
        .batch = 16, .length = LENGTH, .steps = lab_form(l) == LAB_BRIEF ? 2 : 1500,
        .lr = 5e-3, .weight_decay = 0.1, .clip = 1, .fill = corpus_fill,
    };
}

/* What the model attends to in text. */
static enum fail look(const struct corpus *c, const struct model *m, uint64_t seed,
                      double *zeros, double *apart, struct why *why)
{
    enum { TEXTS = 64 };
    int32_t         tokens[TEXTS * LENGTH], targets[LENGTH];
    struct attended seen;
    struct rng      r = rng_open(seed, RNG_LAB, 1);
    enum fail       err;

    for (int i = 0; i < TEXTS; i++)
        corpus_fill(c, &r, LENGTH, tokens + i * LENGTH, targets);
    err = task_attended(m, TEXTS, LENGTH, tokens, &seen, why);
    *zeros = seen.zeros / seen.pairs;
    *apart = seen.apart / seen.met;
    return err;
}

/* Hide ABLATION_HIDDEN keys of each query: the nearest before it, or any. */
static void hide(struct rng *r, bool near, unsigned char *hidden)
{
    memset(hidden, 0, LENGTH * LENGTH);
    for (int t = 0; t < LENGTH; t++)
        for (int i = 0; i < ABLATION_HIDDEN && i < t; i++) {
            int u = near ? t - 1 - i : (int)rng_below(r, (uint64_t)t);

            while (hidden[t * LENGTH + u])
                u = (u + 1) % t;
            hidden[t * LENGTH + u] = 1;
        }
}

/* Bits per byte of text held out where a query has at least twice as many keys as are
 * hidden from it. */
static enum fail score_hidden(const struct corpus *c, const struct model *m,
                              uint64_t seed, bool near, double *bits, struct why *why)
{
    enum { TEXTS = 96 };
    unsigned char hidden[LENGTH * LENGTH];
    double        nats[LENGTH], sum = 0, bytes = 0;
    struct rng    r = rng_open(seed, RNG_LAB, 2);
    enum fail     err = FAIL_NONE;

    for (int i = 0; !err && i < TEXTS; i++) {
        const int32_t *text = c->id + c->held + (long)i * LENGTH;

        if (c->held + (long)(i + 1) * LENGTH >= c->n)
            break;
        hide(&r, near, hidden);
        err = plain_nats(m, LENGTH, text, text + 1, hidden, nats, why);
        for (int t = 2 * ABLATION_HIDDEN; !err && t < LENGTH; t++)
            sum += nats[t], bytes += text[t + 1] != CORPUS_EOS;
    }
    *bits = sum / bytes / M_LN2;
    return err;
}

static enum fail measure(const struct ablation *a, const struct corpus *c,
                         const struct model *m, const char *entry, uint64_t seed,
                         double *values, struct why *why)
{
    double    nats[LENGTH], bytes[LENGTH];
    enum fail err = corpus_score(c, m, LENGTH, nats, bytes, why);

    values[ABLATION_BITS] = corpus_bits(nats, bytes, 0, LENGTH);
    if (!err && a->attends)
        err = look(c, m, seed, &values[ABLATION_ZEROS], &values[ABLATION_APART], why);
    if (!a->hides || strcmp(entry, "softmax"))
        return err;
    if (!err)
        err = score_hidden(c, m, seed, true, &values[ABLATION_NEAR], why);
    return err ? err : score_hidden(c, m, seed, false, &values[ABLATION_FAR], why);
}

static enum fail cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                      const char *key, double *values, struct why *why)
{
    const bool    brief = lab_form(l) == LAB_BRIEF;
    struct task   t = *p->task;
    struct corpus c;
    struct model  m;
    enum fail     err = corpus_open(&c, brief ? 100000 : 4000000,
                                    (brief ? 16 : 1024) * LENGTH, seed, why);

    if (err)
        return err;
    for (int i = 0; i < LAB_VALUES; i++)
        values[i] = NAN;
    t.mixers = p->arm[arm], t.seed = seed, t.user = &c;
    err = task_train(&t, &m, l, key, 0.95, why);
    if (!err) {
        err = measure(p->user, &c, &m, t.mixers, seed, values + p->from, why);
        model_close(&m);
    }
    corpus_close(&c);
    return err;
}

static double *seeds_of(const struct panel *p, struct ablation_side side, double *x)
{
    return panel_seeds(p, side.arm, p->from + (int)side.value, x);
}

static struct finding find(const struct panel *p, const struct lab_claim *claim,
                           const struct ablation_pair *pair)
{
    double  x[LAB_SEEDS], y[LAB_SEEDS];
    double *fewer = seeds_of(p, pair->fewer, x), *more = seeds_of(p, pair->more, y);
    int     n = panel_both(p, pair->fewer.arm, pair->more.arm);

    switch (claim->answer) {
    case ANSWER_ABOVE:
        return find_above(fewer, panel_count(p, pair->fewer.arm), claim->limit);
    case ANSWER_EQUAL:
        return find_equal(fewer, more, n, claim->limit);
    default:
        return find_more(fewer, more, n, claim->limit);
    }
}

/* "rela 0.301 +- 0.012" */
static void say_side(const struct panel *p, struct ablation_side side, char *buf,
                     size_t cap)
{
    char text[32];

    snprintf(buf, cap, "%s %s", p->arm[side.arm],
             panel_text(p, side.arm, p->from + (int)side.value, text));
}

static int worse_of(const struct panel *p, const struct ablation_pair *pair)
{
    int a = pair->more.arm, b = pair->fewer.arm;

    return panel_mean(p, a, p->from) > panel_mean(p, b, p->from) ? a : b;
}

/* Where bits are compared the better arm must have learnt, else both. */
static void judge(const struct panel *p, struct lab *l, const struct lab_claim *claim,
                  const struct ablation_pair *pair)
{
    int            worse = claim->answer == ANSWER_MORE && !pair->more.value
                               ? pair->fewer.arm : worse_of(p, pair);
    double         bits = panel_mean(p, worse, p->from);
    char           a[80], b[80], measured[280], yardstick[80];
    struct finding f = find(p, claim, pair);

    f.learnt = bits < enough;
    snprintf(f.gate, sizeof f.gate, "%.40s %.3f bits per byte, not %g", p->arm[worse],
             bits, enough);
    say_side(p, pair->fewer, a, sizeof a);
    say_side(p, pair->more, b, sizeof b);
    if (claim->answer == ANSWER_ABOVE)
        snprintf(measured, sizeof measured, "%s: %s", a, claim->column);
    else
        snprintf(measured, sizeof measured, "%s, %s: %s", a, b, claim->column);
    snprintf(yardstick, sizeof yardstick,
             claim->answer == ANSWER_ABOVE   ? "above %g"
             : claim->answer == ANSWER_EQUAL ? "as many, seed by seed; margin %g"
                                             : "the first fewer, seed by seed; refuted "
                                               "below %g",
             claim->limit);
    lab_trained(l, claim->name, &f, measured, yardstick);
}

enum fail ablation_run(const struct ablation *a, struct lab *l, struct why *why)
{
    static const double where[] = {1};
    struct task         t = settings(l);
    struct panel        p = {.title = a->title, .name = a->name, .xlabel = "all of it",
                             .ylabel = "bits per byte", .arm = a->arm, .arms = a->arms,
                             .starts = a->starts,
                             .from = a->column, .n = 1, .x = where, .unbounded = true,
                             .cell = cell, .task = &t, .user = a};
    enum fail           err;

    if (lab_form(l) == LAB_QUICK)
        return FAIL_NONE;
    err = panel_open(&p, l, why);
    if (!err)
        err = panel_run(&p, l, why);
    if (!err)
        panel_table(&p, l, NULL, 0);
    for (int i = 0; !err && i < a->n; i++)
        judge(&p, l, &a->claims[i], &a->pairs[i]);
    panel_close(&p);
    return err;
}
