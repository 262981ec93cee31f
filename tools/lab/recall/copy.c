/* Repeating strings: attention does it at any length, a state of fixed size cannot. */
#include "tools/lab/recall/recall.h"
#include "tools/lab/recall/strings.h"

#include <math.h>
#include <stdio.h>

enum { ARM = 128, LENGTHS = 4, SEEDS = 32 };     // SEEDS: judged, at most
enum { TRAINED = 1 };                   // length[TRAINED] is the longest trained on

static const char standard[] = "softmax+none,gla,mlstm,s6";
static const char shift[] = RECALL_SHIFT;       // before every arm, as in mqar
static const int  length[LENGTHS] = {8, 16, 32, 64};
static const struct strings trained = {26, 4, 16};

static const struct size {
    int    width, heads, batch, tests;
    long   steps;
    double lr;
} sizes[] = {
    [LAB_BRIEF] = {32, 1, 8, 16, 8, 3e-3},
    [LAB_QUICK] = {32, 1, 16, 128, 1000, 5e-3},
    [LAB_FULL]  = {32, 1, 16, 512, 1000, 5e-3},
};

struct result {
    double letters[LENGTHS], whole[LENGTHS];    // share of letters, and of strings, right
    double state;
    double seed[LENGTHS][SEEDS];                // letters, of each
};

struct table {
    char          arm[LAB_ARMS][ARM];
    struct result r[LAB_ARMS];
    int           n;
};

/* ---- strings ---- */

void strings_fill(const void *user, struct rng *r, int T, int32_t *tokens,
                  int32_t *targets)
{
    const struct strings *o = user;
    int t = 0;

    for (int i = 0; i < T; i++) {
        tokens[i] = STRING_PAD;
        targets[i] = -1;
    }
    for (;;) {
        int L = o->low + (int)rng_below(r, (uint64_t)(o->high - o->low) + 1);

        if (t + string_tokens(L) > T)
            return;
        tokens[t] = STRING_BEGIN;
        tokens[t + L + 1] = STRING_TURN;
        tokens[t + 2 * L + 2] = STRING_END;
        for (int i = 0; i < L; i++) {
            int32_t letter = STRING_LETTERS + (int32_t)rng_below(r, (uint64_t)o->letters);

            tokens[t + 1 + i] = tokens[t + L + 2 + i] = targets[t + L + 1 + i] = letter;
        }
        t += string_tokens(L);
    }
}

/* ---- one arm ---- */

static struct task task_of(const struct size *s, const char *list, uint64_t seed)
{
    return (struct task){
        .mixers = list,
        .layers = 2,
        .width = s->width,
        .heads = s->heads,
        .vocab = STRING_LETTERS + trained.letters,
        .batch = s->batch,
        .length = 2 * string_tokens(trained.high),
        .steps = s->steps,
        .lr = s->lr,
        .weight_decay = 0.1,
        .clip = 1,
        .seed = seed,
        .fill = strings_fill,
        .user = &trained,
    };
}

static enum fail test(const struct size *s, const struct task *t, const struct model *m,
                      struct result *out, struct why *why)
{
    enum fail err = FAIL_NONE;

    for (int i = 0; !err && i < LENGTHS; i++) {
        struct strings    one = {trained.letters, length[i], length[i]};
        struct task       u = *t;
        struct task_count c = {0};

        u.user = &one;
        err = task_test(&u, m, string_tokens(length[i]), s->tests, task_count_each, &c,
                        why);
        out->letters[i] = task_accuracy(&c);
        out->whole[i] = (double)c.whole / (double)c.strings;
    }
    out->state = (double)model_state_bytes(m);
    return err;
}

static enum fail run_cell(struct lab *l, const struct size *s, const char *arm,
                          uint64_t seed, struct result *out, struct why *why)
{
    char         list[ARM + 32], key[ARM + 96];
    struct task  t = task_of(s, list, seed);
    struct model m;
    enum fail    err;

    snprintf(list, sizeof list, "%s/%s", shift, arm);
    snprintf(key, sizeof key, "%s d%d h%d B%d steps %ld lr %g seed %llu", arm, s->width,
             s->heads, s->batch, s->steps, s->lr, (unsigned long long)seed);
    if (lab_recall(l, key, out->letters))
        return FAIL_NONE;
    err = task_train(&t, &m, l, key, 1, why);
    if (err)
        return err;
    err = test(s, &t, &m, out, why);
    model_close(&m);
    return err ? err : lab_record(l, key, out->letters, why);
}

static enum fail run_arm(struct lab *l, const struct size *s, const char *arm,
                         struct result *out, struct why *why)
{
    int       seeds = lab_seeds(l);
    enum fail err = FAIL_NONE;

    *out = (struct result){0};
    for (int k = 0; !err && k < seeds; k++) {
        struct result one = {0};

        err = run_cell(l, s, arm, lab_seed(l, k), &one, why);
        for (int i = 0; i < LENGTHS; i++) {
            out->letters[i] += one.letters[i] / seeds;
            if (k < SEEDS)
                out->seed[i][k] = one.letters[i];
            out->whole[i] += one.whole[i] / seeds;
        }
        out->state = one.state;
    }
    return err;
}

static enum fail read_arms(struct lab *l, const struct size *s, struct table *t,
                           struct why *why)
{
    char        list[ARM + 32];
    struct task task = task_of(s, list, 1);
    enum fail   err = FAIL_NONE;

    t->n = 0;
    while (!err && t->n < LAB_ARMS && lab_arch(l, standard, t->n, t->arm[t->n], ARM)) {
        snprintf(list, sizeof list, "%s/%s", shift, t->arm[t->n++]);
        err = task_check(&task, why);
    }
    return err;
}

/* ---- what is shown ---- */

static void say_row(struct lab *l, const char *name, const struct result *r)
{
    char row[128];
    int  n = 0;

    for (int i = 0; i < LENGTHS; i++)
        n += snprintf(row + n, sizeof row - (size_t)n, "  %5.1f%% %5.1f%%",
                      100 * r->letters[i], 100 * r->whole[i]);
    lab_say(l, "%-16s%s", name, row);
}

static void say_head(struct lab *l, const struct size *s)
{
    lab_say(l,
            "strings of %d to %d of %d letters, width %d, %ld steps of %d sequences; "
            "every\narm follows a layer %s; letters right, strings right by length:\n",
            trained.low, trained.high, trained.letters, s->width, s->steps, s->batch,
            shift);
    lab_say(l, "%-16s  %-14d  %-14d  %-14d  %-14d", "", length[0], length[1], length[2],
            length[3]);
}

static void say_chance(struct lab *l)
{
    struct result r;

    for (int i = 0; i < LENGTHS; i++) {
        r.letters[i] = 1.0 / trained.letters;
        r.whole[i] = pow(r.letters[i], length[i]);
    }
    say_row(l, "chance", &r);
}

static enum fail draw(struct lab *l, const struct table *t, struct why *why)
{
    struct chart_series series[LAB_ARMS];
    struct chart_line   line = {"chance", 1.0 / trained.letters};
    double              x[LENGTHS];
    struct chart        c = {.title = "Copying strings (trained up to 16 letters)",
                             .xlabel = "length of the string", .ylabel = "letters right",
                             .logx = 1, .series = series, .nseries = t->n, .lines = &line,
                             .nlines = 1, .ymin = 0, .ymax = 1};

    for (int i = 0; i < LENGTHS; i++)
        x[i] = length[i];
    for (int a = 0; a < t->n; a++)
        series[a] = (struct chart_series){.name = t->arm[a], .x = x, .y = t->r[a].letters,
                                          .n = LENGTHS, .colour = a};
    return lab_chart(l, "copy", &c, why);
}

/* ---- verdicts ---- */

static const struct lab_claim claims[] = {
    {"trained", "attention copies strings of trained lengths", "1.00", "softmax+none",
     "letters right of 16", ANSWER_ABOVE, 0.95, NULL},
    {"fixed", "attention copies better than any state of fixed size",
     "Mamba needs 100 times the samples", "softmax+none; all arms of fixed state",
     "letters right of 16", ANSWER_MORE, 0.05, "attention at 0.95 of 16 letters"},
    {"longer", "attention copies better at four times the trained length, too",
     "attention goes on, Mamba does not", "softmax+none; all arms of fixed state",
     "letters right of 64", ANSWER_MORE, 0.05, "attention at 0.95 of 16 letters"},
    {0},
};

/* The first arm with attention, or -1. */
static int attention_of(const struct table *t)
{
    for (int a = 0; a < t->n; a++)
        if (task_grows(t->arm[a]))
            return a;
    return -1;
}

/* Attention against every arm of fixed state at length[at]. */
static void judge_fixed(struct lab *l, const struct table *t, int a, int at,
                        const char *name, int seeds)
{
    struct finding all[LAB_ARMS];
    const double  *mine = t->r[a].seed[at];
    int            n = 0, best = -1;
    char           measured[320];

    for (int f = 0; f < t->n; f++)
        if (!task_grows(t->arm[f])) {
            all[n++] = find_more(t->r[f].seed[at], mine, seeds, 0.05);
            best = best < 0 || t->r[f].letters[at] > t->r[best].letters[at] ? f : best;
        }
    if (!n)
        return;
    all[0] = find_all(all, n);
    gate_learnt(&all[0], t->arm[a], t->r[a].seed[TRAINED], seeds, 0.95, INFINITY);
    snprintf(measured, sizeof measured, "length %d: %s %.1f%%, the best of %d, %s, "
             "%.1f%% of letters", length[at], t->arm[a], 100 * t->r[a].letters[at], n,
             t->arm[best], 100 * t->r[best].letters[at]);
    lab_trained(l, name, &all[0], measured, "more than each; refuted below 5%");
}

static void judge(struct lab *l, const struct table *t)
{
    int            a = attention_of(t);
    int            seeds = lab_seeds(l) < SEEDS ? lab_seeds(l) : SEEDS;
    struct finding f;
    char           measured[200], line[64];

    if (a < 0)
        return;
    f = find_above(t->r[a].seed[TRAINED], seeds, 0.95);
    snprintf(line, sizeof line, "above 95%%; chance: %.1f%%", 100.0 / trained.letters);
    snprintf(measured, sizeof measured, "%s: %.1f%% of letters, %.1f%% of strings of %d",
             t->arm[a], 100 * t->r[a].letters[TRAINED], 100 * t->r[a].whole[TRAINED],
             length[TRAINED]);
    lab_trained(l, "trained", &f, measured, line);
    judge_fixed(l, t, a, TRAINED, "fixed", seeds);
    judge_fixed(l, t, a, LENGTHS - 1, "longer", seeds);
}

static enum fail run(struct lab *l, struct why *why)
{
    const struct size *s = &sizes[lab_form(l)];
    struct table       t;
    enum fail          err = read_arms(l, s, &t, why);

    if (err)
        return err;
    lab_plan(l, t.n * lab_seeds(l));
    say_head(l, s);
    for (int a = 0; a < t.n; a++) {
        if ((err = run_arm(l, s, t.arm[a], &t.r[a], why)))
            return err;
        say_row(l, t.arm[a], &t.r[a]);
    }
    say_chance(l);
    judge(l, &t);
    return draw(l, &t, why);
}

const struct experiment experiment_copy = {
    .name = "copy",
    .claim = "attention copies strings, also longer than any trained on; a fixed state "
             "does not",
    .paper = "Repeat After Me, arXiv:2402.01032",
    .columns = "letters8,letters16,letters32,letters64,strings8,strings16,strings32,"
               "strings64,state",
    .seeds = 10,
    .quick = 5,
    .run = run,
    .arch = true,
    .claims = claims,
    .at = "2 layers of width 32, 1000 steps of 16 x 70 tokens",
};
