#include "tools/lab/groups/tracking.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const double track_times[TRACK_RANGES] = {0.25, 0.5, 1, 2, 4, 8};

/* Shares of right answers in the ranges that end at track_times of `length`. */
static void by_range(const struct task_places *p, int length, double *values)
{
    int at = 0;

    for (int i = 0; i < TRACK_RANGES; i++) {
        long asked = 0, right = 0;

        for (; at < (int)(track_times[i] * length); at++)
            asked += p->asked[at], right += p->right[at];
        values[i] = (double)right / (double)asked;
    }
}

static enum fail test_words(const struct task *t, const struct model *m, int tests,
                            double *values, struct why *why)
{
    int                T = TRACK_TIMES * t->length;
    enum fail          err;
    struct task_places p = {calloc(2 * (size_t)T, sizeof *p.asked), NULL};

    if (!p.asked)
        return fail(why, FAIL_MEMORY, "out of memory for %d positions", T);
    p.right = p.asked + T;
    err = task_test(t, m, T, tests, task_places_each, &p, why);
    if (!err)
        by_range(&p, t->length, values);
    free(p.asked);
    return err;
}

void track_nothing(double *values)
{
    for (int i = 0; i < LAB_VALUES; i++)
        values[i] = NAN;
}

enum fail track_words(struct task *t, const struct group *g, int tests, struct lab *l,
                      const char *key, double *values, struct why *why)
{
    struct model m;
    enum fail    err;

    t->vocab = group_vocab(g);
    t->fill = group_fill;
    t->user = g;
    err = task_train(t, &m, l, key, 0.9, why);
    if (err)
        return err;
    err = test_words(t, &m, tests, values, why);
    model_close(&m);
    return err;
}

/* ---- by hand ---------------------------------------------------------------------- */

enum { WIDTH = 4, START = 2 };  // channels: 0, 1 and the start token, then the answer

static real *weight(struct model *m, const char *name)
{
    for (int i = 0; i < m->n_param; i++)
        if (!strcmp(m->param[i].name, name))
            return m->w + m->param[i].at;
    abort();                            // a name of this file's own entry
}

static real *mixer_weight(struct model *m, const char *name)
{
    char full[64];

    snprintf(full, sizeof full, "blocks.0.mixer.%s", name);
    return weight(m, full);
}

/* w[row][from .. from + n) = value, of rows WIDTH wide. */
static void set(real *w, int row, int from, int n, double value)
{
    for (int i = 0; i < n; i++)
        w[row * WIDTH + from + i] = (real)value;
}

enum { TURNS = 1, FORGETS = 2 };

/* One head, dk 2: a single pair. All tokens ask with q = (1, 0), the start alone has a
 * key and a value, which its cosine carries into the last channel. What it can: each 1
 * turns by half a turn; the start forgets what was before. */
static void set_by_hand(struct model *m, int can)
{
    const double pi = 3.14159265358979323846;

    memset(m->w, 0, m->n * sizeof *m->w);
    for (int i = 0; i <= START; i++)
        set(weight(m, "embed"), i, i, 1, 1);
    set(weight(m, "head"), 0, WIDTH - 1, 1, 1);
    set(weight(m, "head"), 1, WIDTH - 1, 1, -1);
    for (int i = 0; i < WIDTH; i++)
        weight(m, "norm")[i] = weight(m, "blocks.0.norm1")[i] =
            mixer_weight(m, "norm")[i] = 1;
    set(mixer_weight(m, "wq"), 0, 0, START + 1, 1);
    set(mixer_weight(m, "wk"), 0, START, 1, 1);
    set(mixer_weight(m, "wv"), 0, START, 1, 1);
    set(mixer_weight(m, "wg"), 0, 0, START + 1, 1);
    mixer_weight(m, "wo")[(WIDTH - 1) * WIDTH] = 1;
    mixer_weight(m, "ba")[0] = 40;          // log sigmoid(40) is 0: nothing is forgotten
    set(mixer_weight(m, "sr_w"), 0, 1, 1, 1);
    mixer_weight(m, "sr_s")[0] = 1;
    mixer_weight(m, "sr_conv")[3] = can & TURNS ? (real)pi : 0;
    set(mixer_weight(m, "wa1"), 0, START, 1, 1);
    mixer_weight(m, "wa2")[0] = can & FORGETS ? -1e4 : 0;   // e^(-2e4 / 16) is 0
}

/* A model of one gla layer with Selective RoPE whose weights are set by hand: the start
 * token alone is remembered, and the sign of the cosine is the answer. It is the caller's
 * to close. */
static enum fail by_hand(struct model *m, int can, struct why *why)
{
    struct config c;
    enum fail     err;

    config_defaults(&c);
    c.layers = 1, c.width = WIDTH, c.heads = 1, c.vocab = START + 1, c.tied = 0;
    err = task_mixers_alone(m, &c, "gla(dk=2)+srope(base=1,act=none,gate=0)", why);
    if (!err)
        set_by_hand(m, can);
    return err;
}

/* The hand-set model on one word of T tokens: a cell. */
static enum fail exact_cell(struct lab *l, const struct model *m, int T, double *values,
                            struct why *why)
{
    struct group g;
    struct task  t = {.length = T / TRACK_TIMES, .fill = group_fill,
                      .seed = lab_seed(l, 0)};
    char         key[96];
    enum fail    err;

    snprintf(key, sizeof key, "half turns set by hand, %d tokens, seed %llu", T,
             (unsigned long long)t.seed);
    if (lab_recall(l, key, values))
        return FAIL_NONE;
    group_make(&g, "parity");
    t.user = &g;
    track_nothing(values);
    err = test_words(&t, m, 1, values, why);
    return err ? err : lab_record(l, key, values, why);
}

enum fail track_exact(struct lab *l, struct why *why)
{
    static const int lengths[] = {64, 1024, 16384, 131072};
    double           least = 1, values[LAB_VALUES];
    struct model     m;
    char             text[96];
    enum fail        err = by_hand(&m, TURNS, why);

    lab_plan(l, 4);
    for (int i = 0; !err && i < 4; i++) {
        err = exact_cell(l, &m, lengths[i], values, why);
        for (int j = 0; !err && j < TRACK_RANGES; j++)
            least = fmin(least, values[j]);
    }
    model_close(&m);
    if (err)
        return err;
    snprintf(text, sizeof text, "%.6f of the prefixes right, up to %d elements", least,
             lengths[3] - 1);
    lab_exact(l, "by-hand", least == 1, text, "1, exactly; 0.5 by guessing");
    return FAIL_NONE;
}

/* ---- either part ------------------------------------------------------------------- */

/* task_fill: parity since the last start token, which comes again with chance 1/8. */
static void fill_resets(const void *user, struct rng *r, int T, int32_t *tokens,
                        int32_t *targets)
{
    int odd = 0;

    (void)user;
    for (int t = 0; t < T; t++) {
        bool start = t == 0 || rng_below(r, 8) == 0;

        tokens[t] = start ? START : (int32_t)rng_below(r, 2);
        odd = start ? 0 : odd ^ tokens[t];
        targets[t] = start ? -1 : odd;
    }
}

/* The share of all prefixes that a model which can this gets right. */
static enum fail part_cell(struct lab *l, int can, bool resets, double *right,
                           struct why *why)
{
    static const char *const what[] = {"neither", "turns", "forgets", "both"};
    double       values[LAB_VALUES];
    struct group g;
    struct task  t = {.length = 32, .fill = resets ? fill_resets : group_fill,
                      .user = &g, .seed = lab_seed(l, 0)};
    struct model m;
    char         key[96];
    enum fail    err = FAIL_NONE;

    snprintf(key, sizeof key, "by hand, %s, %s, seed %llu", what[can],
             resets ? "since the last start" : "parity", (unsigned long long)t.seed);
    group_make(&g, "parity");
    if (!lab_recall(l, key, values)) {
        track_nothing(values);
        err = by_hand(&m, can, why);
        if (!err)
            err = test_words(&t, &m, 32, values, why);
        model_close(&m);
        if (!err)
            err = lab_record(l, key, values, why);
    }
    *right = 0;
    for (int i = 0; i < TRACK_RANGES; i++)
        *right += values[i] / TRACK_RANGES;
    return err;
}

enum fail track_parts(struct lab *l, struct why *why)
{
    double    right[2][4];              // parity, with resets; by what it can
    char      measured[200];
    enum fail err = FAIL_NONE;

    lab_plan(l, 8);
    for (int i = 0; !err && i < 8; i++)
        err = part_cell(l, i % 4, i / 4, &right[i / 4][i % 4], why);
    if (err)
        return err;
    snprintf(measured, sizeof measured, "parity: neither %.3f, forgets %.3f, turns %.3f, "
             "both %.3f; since the last start: %.3f, %.3f, %.3f, %.3f", right[0][0],
             right[0][FORGETS], right[0][TURNS], right[0][3], right[1][0],
             right[1][FORGETS], right[1][TURNS], right[1][3]);
    lab_exact(l, "parts",
              fmin(fmin(right[0][TURNS], right[0][3]), right[1][3]) > 1 - 1e-9 &&
              right[1][TURNS] < 0.9 && fmax(right[0][FORGETS], right[1][FORGETS]) < 0.65,
              measured, "1 with turns, without resets; with resets 1 with both alone");
    return FAIL_NONE;
}
