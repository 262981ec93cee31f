/* Recall against the size of the state, and the comparisons that the view of mixers as
 * dynamical systems suggests, within families. The published settings gave normalised
 * attention an MLP and linear attention none; here both are run with and without. */
#include "tools/compare/stats.h"
#include "tools/lab/recall/recall.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The quick form trains the first QUICK, which the claims about the size of the state
 * read; in the full form these meet up to 32 pairs. The others leave 1/K or do not, by
 * their start: many starts, and a difference below a tenth refutes. Recall asks for
 * content, not for place: what rotates by default does not here. */
enum {
    DK2, DK4, DK16, SOFTMAX, QUICK,
    LINEAR = QUICK, EXP, LINEAR_MLP, EXP_MLP, SIGMOID, SOFTPLUS, PLAIN, REVERSED, ARMS
};
static const struct arm {
    const char *mixer, *name;
    bool        mlp;                // in both blocks
    bool        few;                // pairs, since it learns no more of them
    bool        slow;               // learns more at 2e-3, on development seeds
    int         starts;             // that do, in the full form; 0: all
    int         quick;              // the same of the quick one
} arms[ARMS] = {
    [DK2]        = {"linear(feature=id,normalise=0,dk=2)", "linear, dk=2", .starts = 8,
                    .quick = 6},
    [DK4]        = {"linear(feature=id,normalise=0,dk=4)", "linear, dk=4", .starts = 8,
                    .quick = 6},
    [DK16]       = {"linear(feature=id,normalise=0,dk=16)", "linear, dk=16", .starts = 8},
    [SOFTMAX]    = {"softmax+none", "softmax", .starts = 6},
    [LINEAR]     = {"linear", "linear, elu1"},
    [EXP]        = {"normattn(eta=exp)+none", "normalised, exp", .slow = true},
    [LINEAR_MLP] = {"linear", "linear, elu1, with an MLP", true, .starts = 8},
    [EXP_MLP]    = {"normattn(eta=exp)+none", "normalised, exp, with an MLP", true,
                    .slow = true, .starts = 20},
    [SIGMOID]    = {"normattn(eta=sigmoid)+none", "normalised, sigmoid", .slow = true,
                    .starts = 20},
    [SOFTPLUS]   = {"normattn+none", "normalised, softplus", .starts = 12},
    [PLAIN]      = {"qlstm", "qlstm", .few = true, .slow = true, .starts = 8},
    [REVERSED]   = {"qlstm(reversed=1)", "qlstm, reversed", .few = true, .starts = 8},
};

static const struct recall_size sizes[] = {
    [LAB_BRIEF] = {{32, {2, 4, 8}, 3}, 32, 32, 1, 8, 16, 4, 0},
    [LAB_QUICK] = {{64, {4, 8, 16}, 3}, 64, 32, 1, 16, 256, 1500, 0},
    [LAB_FULL]  = {{64, {4, 8, 16}, 3}, 64, 32, 1, 16, 512, 3000, 0},
};
static const double rates[2][2] = {{5e-3, 2e-3}, {2e-3, 5e-3}};     // fast, slow

static struct recall_size size_of(int arm, enum form form)
{
    static const struct recall few = {24, {2, 4}, 2}, many = {128, {8, 16, 32}, 3};
    struct recall_size         s = sizes[form];

    s.mlp = arms[arm].mlp ? 2 * s.width : 0;
    if (arms[arm].few)
        s.recall = few, s.length = 24;
    if (form == LAB_FULL && arm < QUICK)
        s.recall = many, s.length = 128;
    s.seeds = form == LAB_FULL ? arms[arm].starts : arms[arm].quick;
    return s;
}

struct table {
    char                 name[ARMS][RECALL_ARM];
    struct recall_result r[ARMS];
    int                  n;
};

/* ---- what is shown ---- */

static void say_row(struct lab *l, const struct table *t, const struct recall_size *s,
                    int a)
{
    char row[128];
    int  n = 0;

    for (int i = 0; i < s->recall.n; i++)
        n += snprintf(row + n, sizeof row - (size_t)n, "  %5.1f%%",
                      100 * t->r[a].right[i]);
    lab_say(l, "%-40s %6.1f KiB%s", t->name[a], t->r[a].state / 1024, row);
}

static void say_head(struct lab *l, const struct recall_size *s)
{
    lab_say(l,
            "recall of up to %d pairs in %d tokens (weft lab mqar), width %d, %ld steps "
            "of %d\nsequences; accuracy from the fewest pairs to the most, where 1/K "
            "would be %.1f%%:\n",
            s->recall.pairs[s->recall.n - 1], s->length, s->width, s->steps, s->batch,
            100.0 / s->recall.pairs[s->recall.n - 1]);
    if (lab_form(l) == LAB_FULL)
        lab_say(l, "the first %d: up to 32 pairs in 128 tokens; qlstm 4 in 24\n", QUICK);
}

/* ---- verdicts ---- */

static const struct lab_claim claims[] = {
    {"state", "linear attention recalls more as its keys widen: the state, in one family",
     "recall rises with n = 32 to 256",
     "linear(feature=id,normalise=0), dk = 2, 4, 16; in the full form 8 starts",
     "accuracy in the mean over K", ANSWER_ORDER, 0, "the widest above 1/K"},
    {"softmax", "and comes nearer to softmax, which has a state without end, not there",
     "softmax above all",
     "dk = 16, softmax+none; in the full form 6 starts", "accuracy in the mean over K",
     ANSWER_MORE, 0.01, "softmax at 0.95"},
    {"published", "normalised attention recalls more than linear attention: as "
     "published, with an MLP in the normalised arm only", "linear < normalised",
     "linear, normattn(eta=exp)+none with an MLP; 20 starts",
     "accuracy in the mean over K", ANSWER_MORE, 0.1, "the normalised arm above 1/K"},
    {"unconfounded", "normalised attention recalls more than linear attention: with an "
     "MLP in neither", "linear < normalised", "linear, normattn(eta=exp)+none",
     "accuracy in the mean over K", ANSWER_MORE, 0.1, "the normalised arm above 1/K"},
    {"both", "normalised attention recalls more than linear attention: with an MLP in "
     "both", "linear < normalised",
     "linear, normattn(eta=exp)+none, both with an MLP; 8 starts",
     "accuracy in the mean over K", ANSWER_MORE, 0.1, "the normalised arm above 1/K"},
    {"eta", "the exp normaliser recalls more than the sigmoid one",
     "exp > softplus > sigmoid", "normattn, eta = sigmoid, exp; 20 starts",
     "accuracy in the mean over K", ANSWER_MORE, 0.1, "exp above 1/K"},
    {"softplus", "the exp normaliser recalls more than softplus",
     "exp > softplus > sigmoid", "normattn, eta = softplus, exp; 12 starts",
     "accuracy in the mean over K", ANSWER_MORE, 0.1, "exp above 1/K"},
    {"reversed", "qLSTM recalls more with the reversed sigmoid", "reversed > plain",
     "qlstm, qlstm(reversed=1); 8 starts", "accuracy in the mean over K", ANSWER_MORE,
     0.1, "the reversed above 1/K"},
    {0},
};

/* The arms of each claim, from the least to the most, which must have learnt: n of them,
 * to `enough`, or above 1/K (NAN). */
static const struct compared {
    int    arm[3], n;
    double enough;
} compared[] = {
    {{DK2, DK4, DK16}, 3, NAN}, {{DK16, SOFTMAX}, 2, 0.95}, {{LINEAR, EXP_MLP}, 2, NAN},
    {{LINEAR, EXP}, 2, NAN},    {{LINEAR_MLP, EXP_MLP}, 2, NAN}, {{SIGMOID, EXP}, 2, NAN},
    {{SOFTPLUS, EXP}, 2, NAN},  {{PLAIN, REVERSED}, 2, NAN},
};
enum { CLAIMS = sizeof compared / sizeof *compared };

/* What the arms of a claim did from the starts that all of them have, seed by seed in x
 * (n, seeds), and in words. Returns the seeds. */
static int gather(struct lab *l, const struct table *t, const struct compared *c,
                  double *x, char *measured, size_t cap)
{
    double one[JUDGE_ORDER][RECALL_SEEDS];
    int    seeds = RECALL_SEEDS;
    size_t len = 0;

    for (int a = 0; a < c->n; a++) {
        struct recall_size mine = size_of(c->arm[a], lab_form(l));
        int n = recall_seeds(l, &mine, &t->r[c->arm[a]], RECALL_MEAN, one[a]);

        seeds = n < seeds ? n : seeds;
    }
    for (int a = 0; a < c->n; a++) {
        memcpy(x + a * seeds, one[a], (size_t)seeds * sizeof *x);
        len += (size_t)snprintf(measured + len, cap - len, "%s%s %.1f%%", a ? "; " : "",
                                t->name[c->arm[a]], 100 * mean_of(one[a], seeds).mean);
    }
    return seeds;
}

static void judge(struct lab *l, const struct table *t, const struct lab_claim *claim,
                  const struct compared *c)
{
    const struct recall_size s = size_of(c->arm[0], lab_form(l));
    double         x[JUDGE_ORDER * RECALL_SEEDS], bag = recall_bag(&s, RECALL_MEAN);
    char           measured[400], yardstick[96], refuted[32];
    int            seeds = gather(l, t, c, x, measured, sizeof measured);
    int            last = c->n - 1;
    struct finding f = claim->answer == ANSWER_ORDER
                           ? find_order(x, c->n, seeds)
                           : find_more(x, x + seeds, seeds, claim->limit);

    gate_learnt(&f, t->name[c->arm[last]], x + last * seeds, seeds, c->enough,
                isnan(c->enough) ? bag : INFINITY);
    snprintf(refuted, sizeof refuted, "; refuted below %g%%", 100 * claim->limit);
    snprintf(yardstick, sizeof yardstick, "in this order over the seeds%s; any value "
             "shown: %.1f%%", claim->limit > 0 ? refuted : "", 100 * bag);
    lab_trained(l, claim->name, &f, measured, yardstick);
}

/* Only what this form has trained. */
static void judge_all(struct lab *l, const struct table *t)
{
    for (int i = 0; i < CLAIMS; i++)
        if (compared[i].arm[compared[i].n - 1] < t->n)
            judge(l, t, &claims[i], &compared[i]);
}

static enum fail run(struct lab *l, struct why *why)
{
    const struct recall_size *s = &sizes[lab_form(l)];
    const int                 n_rates = sizeof rates[0] / sizeof rates[0][0];
    struct table              t = {.n = lab_form(l) == LAB_QUICK ? QUICK : ARMS};
    struct recall_size        state;
    enum fail                 err;

    for (int a = 0; a < t.n; a++) {
        struct recall_size mine = size_of(a, lab_form(l));

        lab_plan(l, recall_rates(l, n_rates) * recall_starts(l, &mine));
    }
    say_head(l, s);
    for (int a = 0; a < t.n; a++) {
        struct recall_size mine = size_of(a, lab_form(l));

        snprintf(t.name[a], sizeof t.name[a], "%s", arms[a].name);
        if ((err = recall_arm(l, &mine, rates[arms[a].slow], n_rates, arms[a].mixer,
                              &t.r[a], why)))
            return err;
        say_row(l, &t, &mine, a);
    }
    judge_all(l, &t);
    state = size_of(DK2, lab_form(l));
    return recall_chart(l, "dsf", &state, t.name, t.r, QUICK, why);
}

const struct experiment experiment_dsf = {
    .name = "dsf",
    .claim = "as dynamical systems, mixers recall by the size and form of their state",
    .paper = "Understanding the differences in foundation models, arXiv:2405.15731",
    .columns = RECALL_COLUMNS,
    .seeds = 28,
    .quick = 10,
    .run = run,
    .claims = claims,
    .at = "2 layers of width 32, 3000 steps of 16 x 64 tokens (linear by dk and softmax "
          "128, qlstm 24)",
};
