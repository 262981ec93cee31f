/* ListOps (arXiv:1804.06028), a small setting of the Long Range Arena's: nested MIN, MAX,
 * MED and sums modulo 10, one digit as the answer.
 *
 * Published accuracies near 0.17 are the commonest digit, those near 0.36 the commonest
 * digit given the outermost operator. Both, and a guess from the digits directly below
 * the root, are measured here beside every model.
 */
#include "tools/lab/panel.h"
#include "tools/lab/task.h"
#include "tools/lab/text/trees.h"

#include <math.h>
#include <stdio.h>

enum { GUESSES = 3 };
enum { ROOT, EVERY, MAJORITY, OPERATOR, DIGITS, OPERATORS };      // columns

static const struct tree_form published = {10, 10, 500, 2000};

/* Trained on the value of every subtree at its closing bracket, tested on the root's. */
static const struct tree_task every = {{4, 3, 8, 40}, true},
                              root = {{4, 3, 8, 40}, false};

static const char standard[] = "softmax,deltanet";

struct setting {
    struct task task;
    int         tests;
};

static struct setting settings(const struct lab *l)
{
    bool full = lab_form(l) == LAB_FULL;

    return (struct setting){
        .tests = full ? 4000 : 1000,
        .task = {.layers = full ? 4 : 2, .width = 64, .heads = 4, .mlp = 128,
                 .vocab = TREE_VOCAB, .batch = 8, .length = every.form.max,
                 .steps = full ? 5000 : 300, .lr = 3e-3, .weight_decay = 0.1, .clip = 1,
                 .fill = tree_fill, .user = &every},
    };
}

static enum fail cell(const struct panel *p, struct lab *l, int arm, uint64_t seed,
                      const char *key, double *values, struct why *why)
{
    const struct setting *s = p->user;
    struct task           t = s->task;
    struct task_count     c = {0}, each = {0};
    struct model          m;
    enum fail             err;

    t.mixers = p->arm[arm], t.seed = seed;
    if ((err = task_train(&t, &m, l, key, 0.9, why)))
        return err;
    err = task_test(&t, &m, t.length, s->tests, task_count_each, &each, why);
    t.user = &root;
    if (!err)
        err = task_test(&t, &m, t.length, s->tests, task_count_each, &c, why);
    model_close(&m);
    values[ROOT] = task_accuracy(&c);
    values[EVERY] = task_accuracy(&each);
    values[MAJORITY] = values[OPERATOR] = values[DIGITS] = values[OPERATORS] = NAN;
    return err;
}

/* ---- what can be guessed ---------------------------------------------------------- */

/* What can be guessed of a form, as a cell. */
static enum fail guess(struct lab *l, const struct tree_form *f, int samples,
                       struct tree_baselines *b, struct why *why)
{
    double v[LAB_VALUES] = {[ROOT] = NAN, [EVERY] = NAN};
    char   key[128];
    enum fail err = FAIL_NONE;

    snprintf(key, sizeof key,
             "guesses at depth %d, %d arguments, %d to %d tokens, %d samples, seed %llu",
             f->depth, f->args, f->min + 1, f->max - 1, samples,
             (unsigned long long)lab_seed(l, 0));
    if (!lab_recall(l, key, v)) {
        *b = tree_guess(f, lab_seed(l, 0), samples);
        v[MAJORITY] = b->majority, v[OPERATOR] = b->root, v[DIGITS] = b->digits;
        v[OPERATORS] = b->every;
        err = lab_record(l, key, v, why);
    }
    *b = (struct tree_baselines){v[MAJORITY], v[OPERATOR], v[DIGITS], v[OPERATORS], NAN};
    return err;
}

/* The published generator against its known figures. */
static enum fail judge_guesses(struct lab *l, struct why *why)
{
    int                   n = lab_form(l) == LAB_BRIEF ? 4000 : 10000;
    double                limit = 4 * sqrt(0.24 / n);
    struct tree_baselines b;
    char                  measured[160];
    enum fail             err = guess(l, &published, n, &b, why);

    if (err)
        return err;
    snprintf(measured, sizeof measured,
             "commonest digit %.3f, given the root's operator %.3f, "
             "given its digits too %.3f", b.majority, b.root, b.digits);
    lab_exact(l, "root",
              fabs(b.majority - 0.168) < limit && fabs(b.root - 0.359) < limit &&
              b.digits > 0.455 - limit, measured,
              "0.168, 0.359, at least 0.455; reported: Linear Transformer 0.161, "
              "Transformer 0.364");
    return FAIL_NONE;
}

static int best_arm(const struct panel *p)
{
    int best = 0;

    for (int a = 1; a < p->arms; a++)
        if (panel_mean(p, a, 0) > panel_mean(p, best, 0))
            best = a;
    return best;
}

static void judge_models(const struct panel *p, const struct tree_baselines *b,
                         struct lab *l)
{
    int            best = best_arm(p);
    double         roots[LAB_SEEDS], all[LAB_SEEDS];
    char           measured[256], yardstick[128], text[32];
    int            n = panel_count(p, best);
    struct finding f = find_above(panel_seeds(p, best, ROOT, roots), n, b->digits + 0.02);

    of_several(&f, p->arms);
    gate_learnt(&f, p->arm[best], panel_seeds(p, best, EVERY, all), n, 0.95, b->every);

    snprintf(measured, sizeof measured, "%s %s is the best of %d arms", p->arm[best],
             panel_text(p, best, 0, text), p->arms);
    snprintf(yardstick, sizeof yardstick,
             "%.3f from the root's operator, %.3f with its digits; 0.02 counts as "
             "further",
             b->root, b->digits);
    lab_trained(l, "further", &f, measured, yardstick);
}

static const struct lab_claim claims[] = {
    {"root", "the Long Range Arena's ListOps: 0.17 and 0.36 need no more than the root",
     "0.161 and 0.364", "guesses from the generator", "answers right"},
    {"further", "a model of this size looks further into the tree than the root and its "
     "digits", NULL, "the best arm", "roots right", ANSWER_ABOVE, 0.02,
     "more of all subtrees than their operators tell, by 3 standard errors"},
    {0},
};

static enum fail measure(struct panel *p, struct lab *l, struct why *why)
{
    struct tree_baselines b;
    enum fail             err = panel_open(p, l, why);

    if (!err)
        err = guess(l, &root.form, 20000, &b, why);
    if (!err)
        err = panel_run(p, l, why);
    if (err)
        return err;

    const struct chart_line lines[GUESSES] = {
        {"commonest digit", b.majority}, {"by the root's operator", b.root},
        {"and by its digits", b.digits},
    };
    panel_table(p, l, lines, GUESSES);
    lab_say(l, "column 1: the root's value; column 2: of every subtree, most of them "
               "shallow (%.3f by their operators)", b.every);
    judge_models(p, &b, l);
    return panel_chart(p, l, lines, GUESSES, why);
}

static enum fail run(struct lab *l, struct why *why)
{
    static const double columns[] = {1, 2};
    struct setting      s = settings(l);
    struct panel_arms   arms;
    struct panel        p = {.title = "ListOps of 9 to 39 tokens, depth 4: values right",
                             .name = "listops", .xlabel = "measure", .ylabel = "accuracy",
                             .arm = arms.name, .n = 2, .x = columns, .cell = cell,
                             .user = &s, .task = &s.task};
    enum fail           err;

    lab_plan(l, lab_form(l) == LAB_FULL ? 2 : 1);
    err = judge_guesses(l, why);
    if (err || lab_form(l) != LAB_FULL)
        return err;                     // 5000 steps are no quick form's
    err = panel_list(&arms, l, standard, &s.task, why);
    p.arms = arms.n;
    if (!err)
        err = measure(&p, l, why);
    panel_close(&p);
    return err;
}

const struct experiment experiment_listops = {
    .name    = "listops",
    .claim   = "much of what is reported on ListOps can be guessed from the root alone",
    .paper   = "ListOps, arXiv:1804.06028; Long Range Arena, arXiv:2011.04006",
    .columns = "root,every,commonest,operator,digits,operators",
    .seeds   = 4,
    .run     = run,
    .exact   = true,
    .arch    = true,
    .claims  = claims,
    .at      = "4 layers of width 64, 5000 steps of 8 x 40 tokens",
};
