/* Multi-query associative recall by number of pairs, for any list of mixers. In the full
 * form also gla with each position encoding (arXiv:2511.17388), and MetaLA beside Mamba's
 * scan (arXiv:2411.10741). */
#include "tools/lab/recall/recall.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define STANDARD "softmax+none,linear,linear(feature=id,normalise=0),gla,mlstm"
enum { STANDARDS = 5 };                 // arms of it
#define BESIDE "gla+rope,gla+srope(bias=1),metala,s6"
enum { FEW_STARTS = 9 };                // of arms that are not near to those beside them

static const struct recall_size sizes[] = {
    [LAB_BRIEF] = {{32, {2, 4, 8}, 3}, 32, 32, 1, 16, 32, 10, 0},
    [LAB_QUICK] = {{64, {2, 4, 8, 16}, 4}, 64, 32, 1, 16, 256, 1500, 0},
    [LAB_FULL]  = {{64, {2, 4, 8, 16}, 4}, 64, 32, 1, 16, 512, 1500, 0},
};
static const double rates[] = {5e-3, 2e-3};

/* The arms and what they did. */
struct table {
    char                 arm[LAB_ARMS][RECALL_ARM];
    struct recall_size   size[LAB_ARMS];
    struct recall_result r[LAB_ARMS];
    int                  n;
    int                  pairs;         // of them, those judged by the number of pairs
};

/* gla's encodings differ less than its starts: it takes all of them. */
static struct recall_size size_of(const struct lab *l, const char *arm)
{
    struct recall_size s = sizes[lab_form(l)];

    s.seeds = strncmp(arm, "gla", 3) ? FEW_STARTS : 0;
    return s;
}

static enum fail read_arms(struct lab *l, struct table *t, struct why *why)
{
    const char *standard = lab_form(l) == LAB_FULL ? STANDARD "," BESIDE : STANDARD;
    bool        chosen = lab_arch(l, "", 0, t->arm[0], RECALL_ARM);
    enum fail   err = FAIL_NONE;

    t->n = 0;
    while (!err && t->n < LAB_ARMS &&
           lab_arch(l, standard, t->n, t->arm[t->n], RECALL_ARM)) {
        t->size[t->n] = size_of(l, t->arm[t->n]);
        err = recall_check(&t->size[t->n], t->arm[t->n], why);
        t->n++;
    }
    t->pairs = chosen ? t->n : STANDARDS;
    return err;
}

static void say_head(struct lab *l, const struct recall_size *s)
{
    char head[128] = "";
    int  n = 0;

    lab_say(l,
            "%d tokens, vocabulary %d, width %d, %ld steps of %d sequences; every arm\n"
            "follows a layer %s; accuracy at the queries:\n",
            s->length, s->recall.vocab, s->width, s->steps, s->batch, RECALL_SHIFT);
    for (int i = 0; i < s->recall.n; i++)
        n += snprintf(head + n, sizeof head - (size_t)n, "  K=%-4d", s->recall.pairs[i]);
    lab_say(l, "%-36s %9s %s", "", "state", head);
}

static void say_row(struct lab *l, const char *name, const struct recall_size *s,
                    const struct recall_result *r)
{
    char row[128] = "", state[16] = "";
    int  n = 0;

    for (int i = 0; i < s->recall.n; i++)
        n += snprintf(row + n, sizeof row - (size_t)n, "  %5.1f%%", 100 * r->right[i]);
    if (r->state > 0)
        snprintf(state, sizeof state, "%.1f KiB", r->state / 1024);
    lab_say(l, "%-36s %9s %s", name, state, row);
}

/* Answering at random among the values, and naming any of the K that were shown. */
static void say_yardsticks(struct lab *l, const struct recall_size *s)
{
    struct recall_result chance = {{0}}, bag = {{0}};

    for (int i = 0; i < s->recall.n; i++) {
        chance.right[i] = 2.0 / s->recall.vocab;
        bag.right[i] = 1.0 / s->recall.pairs[i];
    }
    say_row(l, "one of the values shown, 1/K", s, &bag);
    say_row(l, "one of all values, 2/V", s, &chance);
}

/* ---- charts ---- */

static enum fail chart_pairs(struct lab *l, const struct recall_size *s,
                             const struct table *t, struct why *why)
{
    struct chart_series series[LAB_ARMS + 1];
    double              x[RECALL_KS], bag[RECALL_KS];
    struct chart        c = {.title = "Recall by number of pairs", .xlabel = "pairs K",
                             .ylabel = "accuracy", .logx = 1, .series = series,
                             .nseries = t->n + 1, .ymin = 0, .ymax = 1};

    for (int i = 0; i < s->recall.n; i++) {
        x[i] = s->recall.pairs[i];
        bag[i] = 1 / x[i];
    }
    for (int a = 0; a < t->n; a++)
        series[a] = (struct chart_series){.name = t->arm[a], .x = x, .y = t->r[a].right,
                                          .n = s->recall.n, .colour = a};
    series[t->n] = (struct chart_series){.name = "1/K: any value shown", .x = x, .y = bag,
                                         .n = s->recall.n, .colour = t->n};
    return lab_chart(l, "mqar", &c, why);
}

/* ---- verdicts ---- */

enum { BY_ARM = 2 };                    // claims from there on compare two arms

static const struct lab_claim claims[] = {
    {"attention", "attention recalls any number of pairs", "above 99 % at every width",
     "softmax+none", "least accuracy over K", ANSWER_ABOVE, 0.95,
     "above 1/K at the fewest pairs"},
    {"fixed", "every mixer with a state of fixed size recalls less as pairs grow",
     "gated convolutions fall with K",
     "linear, linear(feature=id,normalise=0), gla, mlstm",
     "accuracy at the most pairs, less that at the fewest", ANSWER_MORE, 0.02,
     "above 1/K at the fewest pairs, by 3 standard errors"},
    [BY_ARM] = {"rope", "gla recalls more with Selective RoPE than with rope",
     "0.85 and 0.74", "gla + rope, srope(bias=1)", "accuracy in the mean over K",
     ANSWER_MORE, 0.1, "above 1/K at the fewest pairs"},
    {"none", "and than without an encoding", "0.85 and 0.59", "gla + none, srope(bias=1)",
     "accuracy in the mean over K", ANSWER_MORE, 0.1, "above 1/K at the fewest pairs"},
    {"metala", "MetaLA recalls more than Mamba's scan", "0.90 and 0.00 of 80 pairs",
     "s6, metala", "accuracy in the mean over K", ANSWER_MORE, 0.1,
     "above 1/K at the fewest pairs"},
    {0},
};

/* What these compare: the second arm recalls more. */
static const char *const compared[][2] = {
    {"gla+rope", "gla+srope(bias=1)"}, {"gla", "gla+srope(bias=1)"}, {"s6", "metala"},
};

static double lowest(const struct recall_size *s, const struct recall_result *r)
{
    double low = 1;

    for (int i = 0; i < s->recall.n; i++)
        low = fmin(low, r->right[i]);
    return low;
}

/* Did the arm leave 1/K behind at the fewest pairs? */
static void gate(struct lab *l, const struct table *t, int a, struct finding *f)
{
    double few[RECALL_SEEDS];
    int    n = recall_seeds(l, &t->size[a], &t->r[a], 0, few);

    gate_learnt(f, t->arm[a], few, n, NAN, recall_bag(&t->size[a], 0));
}

/* Full attention recalls every pair, however many. */
static void judge_attention(struct lab *l, const struct recall_size *s,
                            const struct table *t)
{
    char   measured[200], line[64];
    double least[RECALL_SEEDS];

    for (int a = 0; a < t->n; a++) {
        int            n = recall_seeds(l, &t->size[a], &t->r[a], RECALL_LEAST, least);
        struct finding f = find_above(least, n, 0.95);

        if (!task_grows(t->arm[a]))
            continue;
        gate(l, t, a, &f);
        snprintf(line, sizeof line, "above 95%%; 1/K is %.1f%%",
                 100 * recall_bag(s, s->recall.n - 1));
        snprintf(measured, sizeof measured, "%s: %.1f%% at its worst K", t->arm[a],
                 100 * lowest(s, &t->r[a]));
        lab_trained(l, "attention", &f, measured, line);
        return;
    }
}

/* With a state of fixed size, more pairs are recalled worse. */
static void judge_fixed(struct lab *l, const struct recall_size *s, const struct table *t)
{
    struct finding all[LAB_ARMS];
    double         few[RECALL_SEEDS], many[RECALL_SEEDS];
    int            last = s->recall.n - 1, n = 0, best = -1;
    char           measured[256];

    for (int a = 0; a < t->pairs; a++) {
        int seeds = recall_seeds(l, &t->size[a], &t->r[a], 0, few);

        if (task_grows(t->arm[a]))
            continue;
        recall_seeds(l, &t->size[a], &t->r[a], last, many);
        all[n] = find_more(many, few, seeds, 0.02);
        gate(l, t, a, &all[n++]);
        if (best < 0 || t->r[a].right[last] > t->r[best].right[last])
            best = a;
    }
    if (!n)
        return;
    all[0] = find_all(all, n);
    snprintf(measured, sizeof measured,
             "best of %d: %s, %.1f%% at K=%d and %.1f%% at K=%d", n, t->arm[best],
             100 * t->r[best].right[0], s->recall.pairs[0], 100 * t->r[best].right[last],
             s->recall.pairs[last]);
    lab_trained(l, "fixed", &all[0], measured,
                "each arm less at the most pairs than at the fewest; less than 2% less "
                "refutes it");
}

static int find_arm(const struct table *t, const char *name)
{
    for (int a = 0; a < t->n; a++)
        if (!strcmp(t->arm[a], name))
            return a;
    return -1;
}

/* Of two arms, where both were trained, the one that should recall more. */
static void judge_two(struct lab *l, const struct table *t, const struct lab_claim *claim,
                      const char *const *names)
{
    int            less = find_arm(t, names[0]), more = find_arm(t, names[1]), n, m;
    double         x[RECALL_SEEDS], y[RECALL_SEEDS];
    char           measured[256];
    struct finding f;

    if (less < 0 || more < 0)
        return;
    n = recall_seeds(l, &t->size[less], &t->r[less], RECALL_MEAN, x);
    m = recall_seeds(l, &t->size[more], &t->r[more], RECALL_MEAN, y);
    f = find_more(x, y, n < m ? n : m, claim->limit);
    gate(l, t, more, &f);
    snprintf(measured, sizeof measured, "%s %.1f%%, %s %.1f%% over all K", names[0],
             100 * t->r[less].mean, names[1], 100 * t->r[more].mean);
    lab_trained(l, claim->name, &f, measured,
                "more, seed by seed; refuted below 10%");
}

static enum fail run(struct lab *l, struct why *why)
{
    const struct recall_size *s = &sizes[lab_form(l)];
    const int                 n_rates = sizeof rates / sizeof *rates;
    enum fail                 err;
    struct table  t;

    if ((err = read_arms(l, &t, why)))
        return err;
    for (int a = 0; a < t.n; a++)
        lab_plan(l, recall_rates(l, n_rates) * recall_starts(l, &t.size[a]));
    say_head(l, s);
    for (int a = 0; a < t.n; a++) {
        if ((err = recall_arm(l, &t.size[a], rates, n_rates, t.arm[a], &t.r[a],
                              why)))
            return err;
        say_row(l, t.arm[a], s, &t.r[a]);
    }
    say_yardsticks(l, s);
    judge_attention(l, s, &t);
    judge_fixed(l, s, &t);
    for (int i = 0; lab_form(l) == LAB_FULL && claims[BY_ARM + i].name; i++)
        judge_two(l, &t, &claims[BY_ARM + i], compared[i]);
    err = chart_pairs(l, s, &t, why);
    return err ? err : recall_chart(l, "mqar-state", s, t.arm, t.r, t.n, why);
}

const struct experiment experiment_mqar = {
    .name = "mqar",
    .claim = "attention recalls any number of pairs; a state of fixed size does not",
    .paper = "Zoology, arXiv:2312.04927; arXiv:2511.17388; arXiv:2411.10741",
    .columns = RECALL_COLUMNS,
    .seeds = 24,
    .quick = 6,
    .run = run,
    .arch = true,
    .claims = claims,
    .at = "2 layers of width 32, 1500 steps of 16 x 64 tokens",
};
