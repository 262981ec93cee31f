#include "tools/lab/recall/recall.h"

#include "tools/lab/learn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the generator ---- */

/* K slots of n in the order drawn: the K largest of log p_i + Gumbel noise, largest
 * first, have the law of drawing one after the other without replacement. */
static void draw_slots(struct rng *r, int *slot, int K, int n)
{
    const double a = 0.01;
    double       key[RECALL_SLOTS];

    for (int i = 0; i < n; i++)
        key[i] = (a - 1) * log(i + 1) - log(-log(1 - rng_uniform(r)));
    for (int j = 0; j < K; j++) {
        int best = 0;

        for (int i = 1; i < n; i++)
            best = key[i] > key[best] ? i : best;
        slot[j] = best;
        key[best] = -INFINITY;
    }
}

void recall_fill(const void *user, struct rng *r, int T, int32_t *tokens,
                 int32_t *targets)
{
    const struct recall *o = user;
    int        K = o->pairs[rng_below(r, (uint64_t)o->n)], half = o->vocab / 2;
    struct rng keys = rng_open(rng_next(r), RNG_LAB, 0);
    struct rng values = rng_open(rng_next(r), RNG_LAB, 0);
    int        slot[RECALL_PAIRS];

    draw_slots(r, slot, K, (T - 2 * K) / 2);
    memset(tokens, 0, (size_t)T * sizeof *tokens);
    for (int t = 0; t < T; t++)
        targets[t] = -1;
    for (int j = 0; j < K; j++) {
        int     at = 2 * K + 2 * slot[j];
        int32_t key = 1 + (int32_t)rng_permute(&keys, (uint64_t)j, (uint64_t)half - 1);
        int32_t value = half + (int32_t)rng_permute(&values, (uint64_t)j,
                                                    (uint64_t)(o->vocab - half));

        tokens[2 * j] = tokens[at] = key;
        tokens[2 * j + 1] = targets[at] = value;
    }
}

/* ---- one arm ---- */

static struct task task_of(const struct recall_size *s, const char *list, uint64_t seed)
{
    return (struct task){
        .mixers = list,
        .layers = 2,
        .width = s->width,
        .heads = s->heads,
        .mlp = s->mlp,
        .vocab = s->recall.vocab,
        .batch = s->batch,
        .length = s->length,
        .steps = s->steps,
        .lr = s->lr,
        .weight_decay = 0.1,
        .clip = 1,
        .seed = seed,
        .fill = recall_fill,
        .user = &s->recall,
    };
}

static void mixers_of(const char *arm, char *buf, size_t cap)
{
    snprintf(buf, cap, RECALL_SHIFT "/%s", arm);
}

enum fail recall_check(const struct recall_size *s, const char *arm, struct why *why)
{
    char        list[RECALL_ARM + 32];
    struct task t = task_of(s, list, 1);

    mixers_of(arm, list, sizeof list);
    return task_check(&t, why);
}

static enum fail test(const struct recall_size *s, const struct task *t,
                      const struct model *m, struct recall_result *out, struct why *why)
{
    enum fail err = FAIL_NONE;

    for (int i = 0; i < RECALL_KS; i++)
        out->right[i] = NAN;
    for (int i = 0; !err && i < s->recall.n; i++) {
        struct recall only = {
            .vocab = s->recall.vocab, .pairs = {s->recall.pairs[i]}, .n = 1};
        struct task       u = *t;
        struct task_count c = {0};

        u.user = &only;
        err = task_test(&u, m, s->length, s->tests, task_count_each, &c, why);
        out->right[i] = task_accuracy(&c);
    }
    out->state = (double)model_state_bytes(m);
    return err;
}

static double mean_right(const struct recall_size *s, const double *right)
{
    double sum = 0;

    for (int i = 0; i < s->recall.n; i++)
        sum += right[i];
    return sum / s->recall.n;
}

/* The cell of this arm and seed: recalled, or trained, tested and recorded. Errors
 * are 0. */
static enum fail cell(struct lab *l, const struct recall_size *s, const char *arm,
                      uint64_t seed, struct recall_result *out, struct why *why)
{
    char         list[RECALL_ARM + 32], key[RECALL_ARM + 112], mlp[16] = "";
    double       values[RECALL_KS + 1];
    struct task  t = task_of(s, list, seed);
    struct model m;
    enum fail    err = FAIL_NONE;

    mixers_of(arm, list, sizeof list);
    if (s->mlp)
        snprintf(mlp, sizeof mlp, " mlp%d", s->mlp);
    snprintf(key, sizeof key, "%s%s V%d T%d K%d-%d d%d h%d B%d steps %ld lr %g seed %llu",
             arm, mlp, s->recall.vocab, s->length, s->recall.pairs[0],
             s->recall.pairs[s->recall.n - 1], s->width, s->heads, s->batch, s->steps,
             s->lr, (unsigned long long)seed);
    if (!lab_recall(l, key, values)) {
        err = task_train(&t, &m, l, key, 1, why);
        if (err)
            return err;
        err = test(s, &t, &m, out, why);
        model_close(&m);
        memcpy(values, out->right, sizeof out->right);
        values[RECALL_KS] = out->state;
        if (!err)
            err = lab_record(l, key, values, why);
    }
    *out = (struct recall_result){.state = values[RECALL_KS]};
    memcpy(out->right, values, sizeof out->right);
    out->mean = mean_right(s, out->right);
    return err;
}

int recall_starts(const struct lab *l, const struct recall_size *s)
{
    return lab_starts(l, s->seeds);
}

static enum fail mean_over_seeds(struct lab *l, const struct recall_size *s,
                                 const char *arm, struct recall_result *out,
                                 struct why *why)
{
    int       seeds = recall_starts(l, s);
    enum fail err;

    *out = (struct recall_result){0};
    for (int k = 0; k < seeds; k++) {
        struct recall_result one;

        if ((err = cell(l, s, arm, lab_seed(l, k), &one, why)))
            return err;
        for (int i = 0; i < RECALL_KS; i++)
            out->right[i] += one.right[i] / seeds;
        out->mean += one.mean / seeds;
        out->state = one.state;
        if (k < RECALL_SEEDS)
            memcpy(out->seed[k], one.right, sizeof one.right);
    }
    return FAIL_NONE;
}

int recall_rates(const struct lab *l, int n_rates)
{
    return lab_develops(l) ? n_rates : 1;
}

enum fail recall_arm(struct lab *l, const struct recall_size *s, const double *rates,
                     int n_rates, const char *arm, struct recall_result *out,
                     struct why *why)
{
    int       last = s->recall.n - 1, n = recall_rates(l, n_rates);
    enum fail err = FAIL_NONE;

    for (int i = 0; !err && i < n; i++) {
        struct recall_size   now = *s;
        struct recall_result r;

        now.lr = rates[i];
        err = mean_over_seeds(l, &now, arm, &r, why);
        if (!err && n > 1)
            lab_say(l, "%s at %g: %.3f", arm, rates[i], r.right[last]);
        if (!err && (i == 0 || r.right[last] > out->right[last]))
            *out = r;
    }
    return err;
}

int recall_seeds(const struct lab *l, const struct recall_size *s,
                 const struct recall_result *r, int i, double x[RECALL_SEEDS])
{
    int n = recall_starts(l, s) < RECALL_SEEDS ? recall_starts(l, s) : RECALL_SEEDS;

    for (int k = 0; k < n; k++) {
        double least = 1;

        for (int j = 0; j < s->recall.n; j++)
            least = fmin(least, r->seed[k][j]);
        x[k] = i == RECALL_LEAST ? least
               : i == RECALL_MEAN ? mean_right(s, r->seed[k]) : r->seed[k][i];
    }
    return n;
}

double recall_bag(const struct recall_size *s, int i)
{
    double bag[RECALL_KS];

    for (int j = 0; j < s->recall.n; j++)
        bag[j] = 1.0 / s->recall.pairs[j];
    return i < 0 ? mean_right(s, bag) : bag[i];
}

enum fail recall_chart(struct lab *l, const char *name, const struct recall_size *s,
                       const char (*arm)[RECALL_ARM], const struct recall_result *r,
                       int n, struct why *why)
{
    const int           last = s->recall.n - 1;
    struct chart_series series[RECALL_ARMS];
    struct chart_line   line = {"1/K", 1.0 / s->recall.pairs[last]};
    char                title[64];
    struct chart c = {.title = title, .xlabel = "decode state, bytes",
                      .ylabel = "accuracy", .logx = 1, .series = series, .nseries = n,
                      .lines = &line, .nlines = 1, .ymin = 0, .ymax = 1};

    snprintf(title, sizeof title, "Recall of %d pairs against state",
             s->recall.pairs[last]);
    for (int a = 0; a < n; a++)
        series[a] = (struct chart_series){.name = arm[a], .x = &r[a].state,
                                          .y = &r[a].right[last], .n = 1, .points = 1,
                                          .colour = a};
    return lab_chart(l, name, &c, why);
}
