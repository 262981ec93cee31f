/* All mixers on one plot, recall against the size of the state, and the comparisons that
 * the view of mixers as dynamical systems suggests. */
#include "tools/lab/recall/recall.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARMS = 32 };

/* Besides one arm for every mixer. */
static const char *const more[] = {
    "linear(feature=id,normalise=0,dk=4)", "linear(feature=id,normalise=0,dk=16)",
    "linear(feature=id,normalise=0,dk=64)", "normattn(eta=exp)+none",
    "normattn(eta=sigmoid)+none", "qlstm(reversed=1)",
};
enum { N_MORE = sizeof more / sizeof *more };

/* Those that a claim is about come first, as the quick form trains no others. */
static const char *const judged[] = {
    "linear", "normattn+none", "softmax+none", "qlstm",
};
enum { N_JUDGED = sizeof judged / sizeof *judged };

static const struct recall_size sizes[] = {
    [LAB_BRIEF] = {{32, {2, 4, 8}, 3}, 32, 32, 1, 8, 16, 4, 0},
    [LAB_QUICK] = {{64, {4, 8, 16}, 3}, 64, 32, 1, 16, 256, 1500, 0},
    [LAB_FULL]  = {{64, {4, 8, 16}, 3}, 64, 64, 1, 16, 512, 4000, 0},
};
static const double rates[] = {5e-3, 2e-3};

struct table {
    char                 arm[ARMS][RECALL_ARM];
    struct recall_result r[ARMS];
    int                  n;
};

static void add_arm(struct table *t, const char *arm)
{
    for (int a = 0; a < t->n; a++)
        if (!strcmp(t->arm[a], arm))
            return;
    if (t->n < ARMS)
        snprintf(t->arm[t->n++], RECALL_ARM, "%s", arm);
}

/* Recall asks for content, not for place: mixers that rotate by default do not here. */
static void list_arms(struct table *t, bool all)
{
    char arm[RECALL_ARM];

    t->n = 0;
    for (int i = 0; i < N_JUDGED; i++)
        add_arm(t, judged[i]);
    for (int i = 0; i < N_MORE; i++)
        add_arm(t, more[i]);
    for (int i = 0; all && i < n_mixers; i++) {
        snprintf(arm, sizeof arm, "%s%s", mixers[i]->name,
                 mixers[i]->position && strcmp(mixers[i]->position, "none")
                     ? "+none" : "");
        add_arm(t, arm);
    }
}

/* ---- what is shown ---- */

static void say_row(struct lab *l, const struct table *t, const struct recall_size *s,
                    int a)
{
    char row[128];
    int  n = 0;

    for (int i = 0; i < s->recall.n; i++)
        n += snprintf(row + n, sizeof row - (size_t)n, "  %5.1f%%",
                      100 * t->r[a].right[i]);
    lab_say(l, "%-40s %6.1f KiB%s", t->arm[a], t->r[a].state / 1024, row);
}

static void say_head(struct lab *l, const struct recall_size *s)
{
    lab_say(l,
            "recall of up to %d pairs in %d tokens (weft lab mqar), width %d, %ld steps "
            "of %d\nsequences; accuracy from the fewest pairs to the most, where 1/K "
            "would be %.1f%%:\n",
            s->recall.pairs[s->recall.n - 1], s->length, s->width, s->steps, s->batch,
            100.0 / s->recall.pairs[s->recall.n - 1]);
}

/* ---- verdicts ---- */

/* What an arm that list_arms lists did. */
static const struct recall_result *result_of(const struct table *t, const char *arm)
{
    for (int a = 0; a < t->n; a++)
        if (!strcmp(t->arm[a], arm))
            return &t->r[a];
    abort();                            // a name of this file's own
}

static const struct lab_claim claims[] = {
    {"state", "linear attention recalls more as its keys widen: the state, in one family",
     "recall rises with n = 32 to 256", "linear(feature=id,normalise=0), dk = 4, 16, 64",
     "accuracy in the mean over K", ANSWER_ORDER, 0, "the widest above 1/K"},
    {"softmax", "and comes nearer to softmax, which has a state without end, not there",
     "softmax above all", "dk = 64, softmax+none", "accuracy in the mean over K",
     ANSWER_MORE, 0.01, "softmax at 0.95"},
    {"between", "normalised attention lies between linear and softmax attention",
     "linear < normalised < softmax", "linear, normattn(eta=exp)+none, softmax+none",
     "accuracy in the mean over K", ANSWER_ORDER, 0, "softmax at 0.95"},
    {"eta", "the exp normaliser recalls more than softplus, that more than sigmoid",
     "exp > softplus > sigmoid", "normattn, eta = sigmoid, softplus, exp",
     "accuracy in the mean over K", ANSWER_ORDER, 0, "exp above 1/K"},
    {"reversed", "qLSTM recalls more with the reversed sigmoid", "reversed > plain",
     "qlstm, qlstm(reversed=1)", "accuracy in the mean over K", ANSWER_MORE, 0.02,
     "the reversed above 1/K"},
    {0},
};

/* What the arms of a claim (n, the last must have learnt) did, seed by seed in x
 * (n, seeds), and in words. Returns the seeds. */
static int gather(struct lab *l, const struct recall_size *s, const struct table *t,
                  const char *const *arm, int n, double *x, char *measured, size_t cap)
{
    double one[RECALL_SEEDS];
    int    seeds = 0;
    size_t len = 0;

    for (int a = 0; a < n; a++) {
        const struct recall_result *r = result_of(t, arm[a]);

        seeds = recall_seeds(l, s, r, RECALL_MEAN, one);
        memcpy(x + a * seeds, one, (size_t)seeds * sizeof *x);
        len += (size_t)snprintf(measured + len, cap - len, "%s%s %.1f%%", a ? ", " : "",
                                arm[a], 100 * r->mean);
    }
    return seeds;
}

static void judge_claim(struct lab *l, const struct recall_size *s, const struct table *t,
                        const struct lab_claim *c, const char *const *arm, int n,
                        double enough)
{
    double         x[JUDGE_ORDER * RECALL_SEEDS], bag = recall_bag(s, RECALL_MEAN);
    char           measured[400], yardstick[96];
    int            seeds = gather(l, s, t, arm, n, x, measured, sizeof measured);
    struct finding f = c->answer == ANSWER_ORDER
                           ? find_order(x, n, seeds)
                           : find_more(x, x + seeds, seeds, c->limit);

    gate_learnt(&f, arm[n - 1], x + (n - 1) * seeds, seeds, enough,
                isnan(enough) ? bag : INFINITY);
    snprintf(yardstick, sizeof yardstick, "in this order over the seeds; any value "
             "shown: %.1f%%", 100 * bag);
    lab_trained(l, c->name, &f, measured, yardstick);
}

static void judge(struct lab *l, const struct recall_size *s, const struct table *t)
{
    static const char *const softmax[] = {"linear(feature=id,normalise=0,dk=64)",
                                          "softmax+none"};
    static const char *const between[] = {"linear", "normattn(eta=exp)+none",
                                          "softmax+none"};
    static const char *const eta[] = {"normattn(eta=sigmoid)+none", "normattn+none",
                                      "normattn(eta=exp)+none"};
    static const char *const reversed[] = {"qlstm", "qlstm(reversed=1)"};

    judge_claim(l, s, t, &claims[0], more, 3, NAN);
    judge_claim(l, s, t, &claims[1], softmax, 2, 0.95);
    judge_claim(l, s, t, &claims[2], between, 3, 0.95);
    judge_claim(l, s, t, &claims[3], eta, 3, NAN);
    judge_claim(l, s, t, &claims[4], reversed, 2, NAN);
}

static enum fail run(struct lab *l, struct why *why)
{
    const struct recall_size *s = &sizes[lab_form(l)];
    const int                 n_rates = sizeof rates / sizeof *rates;
    enum fail                 err;
    struct table t;

    list_arms(&t, lab_form(l) != LAB_QUICK);
    lab_plan(l, t.n * recall_rates(l, n_rates) * lab_seeds(l));
    say_head(l, s);
    for (int a = 0; a < t.n; a++) {
        if ((err = recall_arm(l, s, rates, n_rates, t.arm[a], &t.r[a], why)))
            return err;
        say_row(l, &t, s, a);
    }
    judge(l, s, &t);
    return recall_chart(l, "dsf", s, t.arm, t.r, t.n, why);
}

const struct experiment experiment_dsf = {
    .name = "dsf",
    .claim = "as dynamical systems, mixers recall by the size and form of their state",
    .paper = "Understanding the differences in foundation models, arXiv:2405.15731",
    .columns = RECALL_COLUMNS,
    .seeds = 5,
    .quick = 5,
    .run = run,
    .claims = claims,
};
