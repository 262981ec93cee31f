#include "tools/lab/text/ablation.h"

#include "tools/lab/panel.h"
#include "tools/lab/text/corpus.h"

#include <math.h>
#include <stdio.h>

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

/* The share of exact zeros among the weights that the model gives to text. */
static enum fail find_zeros(const struct corpus *c, const struct model *m, uint64_t seed,
                            double *share, struct why *why)
{
    enum { TEXTS = 64 };
    int32_t      tokens[TEXTS * LENGTH], targets[LENGTH];
    struct zeros sum;
    struct rng   r = rng_open(seed, RNG_LAB, 1);
    enum fail    err;

    for (int i = 0; i < TEXTS; i++)
        corpus_fill(c, &r, LENGTH, tokens + i * LENGTH, targets);
    err = task_zeros(m, TEXTS, LENGTH, tokens, &sum, why);
    *share = sum.pairs > 0 ? sum.zeros / sum.pairs : 0;
    return err;
}

static enum fail cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                      const char *key, double *values, struct why *why)
{
    const bool    brief = lab_form(l) == LAB_BRIEF;
    const struct ablation *a = p->user;
    struct task   t = *p->task;
    double        nats[LENGTH], bytes[LENGTH];
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
        err = corpus_score(&c, &m, LENGTH, nats, bytes, why);
        values[p->from] = corpus_bits(nats, bytes, 0, LENGTH);
        if (!err && a->zeros)
            err = find_zeros(&c, &m, seed, &values[p->from + 1], why);
        model_close(&m);
    }
    corpus_close(&c);
    return err;
}

static struct finding find(const struct panel *p, const struct lab_claim *claim,
                           const struct ablation_pair *pair)
{
    double  x[LAB_SEEDS], y[LAB_SEEDS];
    double *fewer = panel_seeds(p, pair->fewer, p->from, x),
           *more = panel_seeds(p, pair->more, p->from, y);

    switch (claim->answer) {
    case ANSWER_ABOVE:
        return find_above(panel_seeds(p, pair->fewer, p->from + 1, x), p->seeds,
                          claim->limit);
    case ANSWER_EQUAL:
        return find_equal(fewer, more, p->seeds, claim->limit);
    default:
        return find_more(fewer, more, p->seeds, claim->limit);
    }
}

static void judge(const struct panel *p, struct lab *l, const struct lab_claim *claim,
                  const struct ablation_pair *pair)
{
    const char    *fewer = p->arm[pair->fewer], *more = p->arm[pair->more];
    double         bits = panel_mean(p, pair->fewer, p->from);
    char           a[32], b[32], measured[240], yardstick[80];
    struct finding f = find(p, claim, pair);

    f.learnt = bits < enough;
    snprintf(f.gate, sizeof f.gate, "%.40s %.3f bits per byte, not %g", fewer, bits,
             enough);
    if (claim->answer == ANSWER_ABOVE)
        snprintf(measured, sizeof measured, "%s %s of the weights", fewer,
                 panel_text(p, pair->fewer, p->from + 1, a));
    else
        snprintf(measured, sizeof measured, "%s %s, %s %s bits per byte", fewer,
                 panel_text(p, pair->fewer, p->from, a), more,
                 panel_text(p, pair->more, p->from, b));
    snprintf(yardstick, sizeof yardstick,
             claim->answer == ANSWER_ABOVE   ? "above %g"
             : claim->answer == ANSWER_EQUAL ? "as many, seed by seed; margin %g"
                                             : "fewer, seed by seed; refuted below %g",
             claim->limit);
    lab_trained(l, claim->name, &f, measured, yardstick);
}

enum fail ablation_run(const struct ablation *a, struct lab *l, struct why *why)
{
    static const double where[] = {1};
    struct task         t = settings(l);
    struct panel        p = {.title = a->title, .name = a->name, .xlabel = "all of it",
                             .ylabel = "bits per byte", .arm = a->arm, .arms = a->arms,
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
