/* Task allocation (arXiv:2402.19442): regressions on disjoint coordinates, more heads
 * than tasks. Descent of constant rate on Q, K, O and V, from a small start, is said to
 * give each task one head, the one whose value weight for it began largest, with KQ about
 * 1/sqrt(d_task) on the task's coordinates and 0 elsewhere. That the factors learn, and
 * not their products, matters: they grow in proportion to themselves, so that the head
 * which is ahead takes all. */
#include "tools/lab/learn.h"
#include "tools/lab/theory/icl_cells.h"
#include "tools/lab/theory/icl_net.h"

#include <math.h>
#include <stdio.h>

enum { D = 12, TASKS = 3, GROUP = D / TASKS, LENGTH = 60, H = 4, E = D + TASKS };

enum { BATCH = 128, STEPS = 2000, CHUNK = 20 };

static const double rate = 0.2;

/* None in the brief form: it takes too long. */
int icl_tasks_cells(const struct lab *l)
{
    return lab_form(l) == LAB_BRIEF ? 0 : lab_seeds(l);
}

/* KQ_h = L^(-3/4) I, OV_h diagonal with twice that for task h, once for the others, as
 * the paper's code has it; only KQ's x block and OV's y block learn. */
static void begin(struct icl_net *a)
{
    double small = pow(LENGTH, -0.75);

    for (int h = 0; h < H; h++) {
        for (int i = 0; i < D; i++)
            a->kq[(h * E + i) * D + i] = (real)small;
        for (int i = D * D; i < E * D; i++)
            a->mask[h * E * D + i] = 0;
        for (int j = 0; j < TASKS; j++) {
            for (int i = 0; i < D; i++)
                a->mask[H * E * D + (j * H + h) * E + i] = 0;
            a->ov[(j * H + h) * E + D + j] = (real)(small * (1 + (h == j)));
        }
    }
}

static real value_of(const struct icl_net *a, int h, int j)
{
    return a->ov[(j * H + h) * E + D + j];
}

/* Mean of KQ_h's diagonal over the coordinates of task j. */
static double score_of(const struct icl_net *a, int h, int j)
{
    double sum = 0;

    for (int i = j * GROUP; i < (j + 1) * GROUP; i++)
        sum += a->kq[(h * E + i) * D + i] / GROUP;
    return sum;
}

/* The head with the largest value weight for task j. */
static int leader(const struct icl_net *a, int j)
{
    int best = 0;

    for (int h = 1; h < H; h++)
        best = value_of(a, h, j) > value_of(a, best, j) ? h : best;
    return best;
}

/* The share of task j's value weight in its strongest head; *head is that head. */
static double strongest(const double *v, int j, int *head)
{
    double sum = 0, top = 0;

    for (int h = 0; h < H; h++) {
        double mass = fabs(v[ICL_OV + h * TASKS + j]);

        sum += mass;
        if (mass > top)
            top = mass, *head = h;
    }
    return top / sum;
}

/* Of the task whose strongest head has the smallest share of it. */
static double least_share(const double *v)
{
    double least = 1;
    int    head;

    for (int j = 0; j < TASKS; j++)
        least = fmin(least, strongest(v, j, &head));
    return least;
}

static void read_heads(const struct icl_net *a, double *v)
{
    for (int i = 0; i < H * TASKS; i++) {
        v[ICL_KQ + i] = score_of(a, i / TASKS, i % TASKS);
        v[ICL_OV + i] = value_of(a, i / TASKS, i % TASKS);
    }
}

static enum fail cell(struct lab *l, uint64_t seed, double *v, struct why *why)
{
    struct icl_task   task = {.d = D, .t = TASKS, .L = LENGTH, .beta = 1, .groups = true};
    struct icl_course course = {
        .steps = STEPS, .lr = rate, .sgd = true, .steady = true,
        .factored = true, .seed = seed};
    struct icl_net    a;
    int               first[TASKS];
    char              key[96];

    snprintf(key, sizeof key, "factored tasks=%d d=%d L=%d H=%d B=%d steps=%d lr=%g "
             "seed=%llu", TASKS, D, LENGTH, H, BATCH, STEPS, rate,
             (unsigned long long)seed);
    if (lab_recall(l, key, v))
        return 0;
    if (!icl_open(&a, &task, H, BATCH, false))
        return fail(why, FAIL_MEMORY, "%s: not enough memory for its prompts", key);
    begin(&a);
    for (int j = 0; j < TASKS; j++)
        first[j] = leader(&a, j);
    for (int i = 0; i < ICL_VALUES; i++)
        v[i] = NAN;
    v[ICL_BEST] = 0;
    for (long t = 0; t < STEPS; t += CHUNK) {
        icl_learn(&a, &course, t, t + CHUNK);
        read_heads(&a, v);
        v[ICL_BEST] = fmax(v[ICL_BEST], least_share(v));
        if (!lab_progress(l, key, (double)t / STEPS)) {
            icl_close(&a);
            return FAIL_INTERRUPTED;
        }
    }
    struct estimate e = icl_risk(&a, LENGTH, 4096, seed);

    v[ICL_RISK] = e.mean / D, v[ICL_SE] = e.se / D, v[ICL_OFF] = 0;
    for (int j = 0; j < TASKS; j++)
        v[ICL_OFF] += leader(&a, j) != first[j];
    icl_close(&a);
    return lab_record(l, key, v, why);
}

/* What the seeds did: the least share of a task's value weight in its strongest head at
 * the end, and at its best on the way; the mean of the risk and of those heads' KQ on and
 * off the task; how many tasks lost the head that led them. */
struct outcome {
    double least, best, risk, on, off, lost;
};

static void judge(struct lab *l, const struct outcome *o)
{
    int  tasks = TASKS * lab_seeds(l);
    char measured[240], yardstick[120];

    snprintf(measured, sizeof measured,
             "least share of a task's value weight in one head, of %d tasks: %.3f at the "
             "end, %.3f at its best; in the mean, that head's KQ %.3f on the task, %.3f "
             "off it; risk %.3f of the variance", tasks, o->least, o->best, o->on, o->off,
             o->risk);
    snprintf(yardstick, sizeof yardstick,
             "share > 0.9 (even: %.2f); KQ 1/sqrt(%d) = %.3f on, 0 off", 1.0 / H, GROUP,
             1 / sqrt(GROUP));
    lab_exact(l, "one-head", o->least > 0.9, measured, yardstick);
    snprintf(measured, sizeof measured, "%.0f of %d tasks", tasks - o->lost, tasks);
    snprintf(yardstick, sizeof yardstick, "all; by chance %.2f of them", 1.0 / H);
    lab_exact(l, "leader", o->lost == 0, measured, yardstick);
}

static void add_seed(struct outcome *o, const double *v, int seeds)
{
    int head = 0;

    o->least = fmin(o->least, least_share(v)), o->best = fmin(o->best, v[ICL_BEST]);
    o->risk += v[ICL_RISK] / seeds, o->lost += v[ICL_OFF];
    for (int i = 0; i < TASKS * TASKS; i++) {
        bool   on = i / TASKS == i % TASKS;
        double weight = (on ? TASKS : TASKS * (TASKS - 1)) * seeds;

        strongest(v, i / TASKS, &head);
        *(on ? &o->on : &o->off) += fabs(v[ICL_KQ + head * TASKS + i % TASKS]) / weight;
    }
}

enum fail icl_tasks(struct lab *l, struct why *why)
{
    struct outcome o = {.least = 1, .best = 1};
    double         v[ICL_VALUES];
    int            seeds = lab_seeds(l);

    if (!icl_tasks_cells(l))
        return 0;
    for (int k = 0; k < seeds; k++) {
        enum fail err = cell(l, lab_seed(l, k), v, why);

        if (err)
            return err;
        add_seed(&o, v, seeds);
    }
    lab_say(l, "\nvalue weight of each head (of the last seed) for each of %d tasks",
            TASKS);
    for (int h = 0; h < H; h++)
        lab_say(l, "  head %d  %8.3f %8.3f %8.3f", h, v[ICL_OV + h * TASKS],
                v[ICL_OV + h * TASKS + 1], v[ICL_OV + h * TASKS + 2]);
    judge(l, &o);
    return 0;
}
