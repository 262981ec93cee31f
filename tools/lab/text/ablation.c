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

static enum fail cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                      const char *key, double *values, struct why *why)
{
    const bool    brief = lab_form(l) == LAB_BRIEF;
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
        model_close(&m);
    }
    corpus_close(&c);
    return err;
}

static void judge(const struct panel *p, struct lab *l, const struct lab_claim *claim,
                  const struct ablation_pair *pair)
{
    double         x[LAB_SEEDS], y[LAB_SEEDS];
    double         fewer = panel_mean(p, pair->fewer, p->from);
    char           a[32], b[32], measured[240], yardstick[80];
    struct finding f = find_more(panel_seeds(p, pair->fewer, p->from, x),
                                 panel_seeds(p, pair->more, p->from, y), p->seeds,
                                 claim->limit);

    f.learnt = fewer < enough;
    snprintf(f.gate, sizeof f.gate, "%.40s %.3f bits per byte, not %g",
             p->arm[pair->fewer], fewer, enough);
    snprintf(measured, sizeof measured, "%s %s, %s %s bits per byte",
             p->arm[pair->fewer], panel_text(p, pair->fewer, p->from, a),
             p->arm[pair->more], panel_text(p, pair->more, p->from, b));
    snprintf(yardstick, sizeof yardstick, "fewer, seed by seed; refuted below %g",
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
                             .cell = cell, .task = &t};
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
