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
    "linear(feature=id,normalise=0,dk=4)", "linear(feature=id,normalise=0)",
    "linear(feature=id,normalise=0,dk=128)", "normattn(eta=exp)+none",
    "normattn(eta=sigmoid)+none", "qlstm(reversed=1)",
};
enum { N_MORE = sizeof more / sizeof *more };

static const struct recall_size sizes[] = {
    [LAB_BRIEF] = {{32, {2, 4, 8}, 3}, 32, 32, 1, 8, 16, 4, 0},
    [LAB_QUICK] = {{32, {2, 4, 8}, 3}, 32, 32, 1, 96, 512, 400, 0},
    [LAB_FULL]  = {{64, {2, 4, 8, 16}, 4}, 64, 64, 1, 64, 512, 2000, 0},
};
static const double rates[] = {5e-3, 2e-3};

struct table {
    char                 arm[ARMS][RECALL_ARM];
    struct recall_result r[ARMS];
    int                  n;
};

/* Recall asks for content, not for place: mixers that rotate by default do not here. */
static void list_arms(struct table *t)
{
    t->n = 0;
    for (int i = 0; i < n_mixers && t->n < ARMS; i++)
        snprintf(t->arm[t->n++], RECALL_ARM, "%s%s", mixers[i]->name,
                 strcmp(mixers[i]->position, "none") ? "+none" : "");
    for (int i = 0; i < N_MORE && t->n < ARMS; i++)
        snprintf(t->arm[t->n++], RECALL_ARM, "%s", more[i]);
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

/* What naming any of the values shown would get. */
static double bag_of_values(const struct recall_size *s)
{
    double sum = 0;

    for (int i = 0; i < s->recall.n; i++)
        sum += 1.0 / s->recall.pairs[i];
    return sum / s->recall.n;
}

/* The arms (ending with NULL) recall ever more, in the order given, each by more than 3
 * standard errors; and the last more than naming any value shown. */
static void judge_order(struct lab *l, const struct recall_size *s, const struct table *t,
                        const char *claim, const char *const *arm)
{
    char   measured[320] = "", yardstick[192];
    bool   holds = true;
    int    seeds = lab_seeds(l);
    double before = 0, error = 0, most = 0, bag = bag_of_values(s);

    for (int n = 0, first = 1; *arm; arm++, first = 0) {
        const struct recall_result *r = result_of(t, *arm);
        double now = r->mean, more_error = recall_mean_error(s, r, seeds);

        holds = holds && (first || now - before > 3 * hypot(error, more_error));
        n += snprintf(measured + n, sizeof measured - (size_t)n, "%s%s %.1f%%",
                      n ? ", " : "", *arm, 100 * now);
        before = now, error = more_error, most = fmax(most, error);
    }
    bool learnt = before > bag + 3 * error;

    snprintf(yardstick, sizeof yardstick,
             "each more by 3 %s (each %.1f%% at most); any value shown: %.1f%%%s",
             recall_error_name(seeds), 100 * most * sqrt(2), 100 * bag,
             learnt ? "" : ", so the last has not learnt to recall");
    lab_verdict(l, holds && learnt, claim, measured, yardstick);
}

/* Pairs of arms whose states are of fixed size, and of different ones. */
struct pairs {
    int    n, more_right;           // more_right: where the larger state recalls more
    double error;                   // standard error of their share, were size no matter
};

/* The share is (1 + S / n) / 2 with Kendall's S, right less wrong pairs. Of m arms, in
 * groups of t with states of equal size, S has the variance
 *     (m (m - 1) (2 m + 5) - sum of t (t - 1) (2 t + 5)) / 18. */
static struct pairs compare_states(const struct table *t)
{
    struct pairs p = {0};
    double       arms = 0, ties = 0;

    for (int a = 0; a < t->n; a++) {
        int same = 0;                           // arms as large, itself included

        if (task_grows(t->arm[a]))
            continue;
        for (int b = 0; b < t->n; b++) {
            bool larger = t->r[a].state > t->r[b].state;

            if (task_grows(t->arm[b]))
                continue;
            same += t->r[a].state == t->r[b].state;
            p.n += larger;
            p.more_right += larger && t->r[a].mean > t->r[b].mean;
        }
        arms++;
        ties += (same - 1.0) * (2 * same + 5);
    }
    p.error = sqrt((arms * (arms - 1) * (2 * arms + 5) - ties) / 18) / (2 * p.n);
    return p;
}

static void judge_state(struct lab *l, const struct table *t)
{
    struct pairs p = compare_states(t);
    double       share = (double)p.more_right / p.n;
    char         measured[128], yardstick[96];

    snprintf(measured, sizeof measured,
             "in %d of %d pairs of arms with fixed states, unequal in size (%.0f%%)",
             p.more_right, p.n, 100 * share);
    snprintf(yardstick, sizeof yardstick,
             "50%% if size did not matter; more by 3 standard errors: %.0f%%",
             50 + 300 * p.error);
    lab_verdict(l, share > 0.5 + 3 * p.error, "the larger state recalls more", measured,
                yardstick);
}

static void judge(struct lab *l, const struct recall_size *s, const struct table *t)
{
    static const char *const between[] = {"linear", "normattn+none", "softmax+none",
                                          NULL};
    const char *const expand[] = {more[0], more[1], more[2], "softmax+none", NULL};
    static const char *const eta[] = {"normattn(eta=sigmoid)+none", "normattn+none",
                                      "normattn(eta=exp)+none", NULL};
    static const char *const reversed[] = {"qlstm", "qlstm(reversed=1)", NULL};

    judge_state(l, t);
    judge_order(l, s, t, "normalised attention lies between linear and softmax attention",
                between);
    judge_order(l, s, t, "linear attention comes nearer to softmax as its keys widen",
                expand);
    judge_order(l, s, t,
                "the exp normaliser recalls more than softplus, that more than sigmoid",
                eta);
    judge_order(l, s, t, "qLSTM recalls more with the reversed sigmoid", reversed);
}

static enum fail run(struct lab *l, struct why *why)
{
    const struct recall_size *s = &sizes[lab_form(l)];
    int                       n_rates = lab_form(l) == LAB_FULL ? 2 : 1;
    enum fail                 err;
    struct table t;

    list_arms(&t);
    lab_plan(l, t.n * n_rates * lab_seeds(l));
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
    .seeds = 3,
    .run = run,
};
