/* Single-location regression (arXiv:2509.21936): softmax attention reaches the Bayes
 * risk, linear and element-wise attention only their own bounds, all of them known
 * exactly (oracle.h).
 *
 * Every predictor starts from small random k and v and sees the same fresh samples.
 * Its risk is that of its order parameters; a panel of finite samples follows
 * (slr_samples.c). */
#include "tools/lab/lab.h"
#include "tools/lab/theory/slr_cells.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 100, MAX_SETTINGS = 32, MAX_RESULTS = 2048, KEY = 192 };

static const double start = 0.1;

/* ---- what is run ------------------------------------------------------------------- */

struct plan {
    int  D, steps, batch;
    long draws;                     // for a risk
    int  n;
    struct slr setting[MAX_SETTINGS];
};

static void add(struct plan *p, enum slr_kind kind, double nu, int lo, int hi)
{
    p->setting[p->n++] = (struct slr){kind, nu, lo, hi};
}

/* Between two tokens the risk hardly feels how long k is, and with one not at all: its
 * length is still on its way after as many steps as do for more, and the noise of large
 * ones lengthens it. */
static bool is_flat(const struct slr *s) { return s->lo <= 2; }

static double rate_of(const struct slr *s) { return is_flat(s) ? 0.01 : 0.02; }

static int steps_of(const struct plan *p, const struct slr *s)
{
    return is_flat(s) ? 3 * p->steps : p->steps;
}

static void plan_for(enum form form, struct plan *p)
{
    static const double nus[] = {1, 2, 5, 10};

    *p = (struct plan){.D = 64, .steps = 6000, .batch = 1024, .draws = 1 << 17};
    if (form == LAB_BRIEF) {
        p->D = 16, p->steps = 3000, p->draws = 1 << 15;
        add(p, SLR_SPIKED, 2, 2, 2), add(p, SLR_SPIKED, 5, 1, 3),
            add(p, SLR_MAX, 3, 2, 2);
        return;
    }
    if (form == LAB_FULL)
        p->draws = 1 << 19;
    for (int L = 2; L <= (form == LAB_FULL ? 8 : 3); L += L == 2 ? 1 : 5)
        for (int i = 0; i < 4; i++)
            if (form == LAB_FULL || nus[i] == 5 || (L == 3 && nus[i] != 2))
                add(p, SLR_SPIKED, nus[i], L, L);
    add(p, SLR_SPIKED, 5, 1, 3);
    add(p, SLR_MAX, 3, 3, 3);
    add(p, SLR_MAX, INFINITY, 3, 3);
    if (form == LAB_FULL)
        add(p, SLR_MAX, 3, 1, 3), add(p, SLR_MAX, INFINITY, 8, 8);
}

/* The setting whose order parameters are followed. */
static bool followed(const struct slr *s)
{
    return s->kind == SLR_SPIKED && s->nu == 5 && s->lo == 3;
}

/* At the end, or at `step` on the way. */
static void key_of(char key[KEY], const struct plan *p, const struct slr *s,
                   enum slr_arm arm, uint64_t seed, int step)
{
    char name[64], after[24] = "";

    slr_name(name, sizeof name, s);
    if (step)
        snprintf(after, sizeof after, " step=%d", step);
    snprintf(key, KEY, "%s %s D=%d B=%d steps=%d lr=%g draws=%ld seed=%llu%s", name,
             slr_arm_name[arm], p->D, p->batch, steps_of(p, s), rate_of(s), p->draws,
             (unsigned long long)seed, after);
}

/* ---- training ---------------------------------------------------------------------- */

/* The arms of one setting and seed; all of them see the same samples. */
struct class {
    const struct slr *s;
    struct slr_batch  batch;
    real             *k, *v;                // the teacher
    double            bayes;
    struct learner {
        enum slr_arm arm;
        real        *w, *g, *moments;       // (2 D + 1), (2 D + 1), (2, 2 D + 1)
        double       oracle;
    } learner[SLR_ARMS];
    int               n;                    // of them
    void             *memory;
};

static bool class_open(struct class *a, const struct slr *s, const struct plan *p,
                       uint64_t seed)
{
    int        D = p->D, B = p->batch, n = 2 * D + 1, L = s->hi;
    size_t     samples = slr_reals(B, L, D), learner = 4 * (size_t)n;
    size_t     reals = samples + B + 2 * D + SLR_ARMS * learner;
    struct rng r = rng_open(seed, RNG_LAB, 0);
    real      *x = calloc(1, reals * sizeof(real) + 2 * (size_t)B * sizeof(int));

    *a = (struct class){.s = s, .memory = x, .bayes = slr_bayes(s)};
    if (!x)
        return false;
    a->batch = (struct slr_batch){.n = B, .L = L, .D = D, .x = x, .y = x + samples};
    a->k = a->batch.y + B, a->v = a->k + D;
    slr_teacher(a->k, a->v, D, &r);
    for (int i = 0; i < SLR_ARMS; i++) {
        real *w = a->v + D + i * learner;

        a->learner[i] = (struct learner){.w = w, .g = w + n, .moments = w + 2 * n};
    }
    a->batch.length = (int *)(x + reals);
    a->batch.at = a->batch.length + B;
    normals(&r, a->learner[0].w, 2 * D);
    for (int i = 0; i < 2 * D; i++)
        a->learner[0].w[i] *= (real)start;
    return true;
}

/* One more, from the start that the arms share. */
static void enroll(struct class *a, enum slr_arm arm)
{
    struct learner *e = &a->learner[a->n++];
    const int       D = a->batch.D;

    e->arm = arm;
    e->oracle = slr_oracle(a->s, arm);
    if (e != a->learner)
        memcpy(e->w, a->learner[0].w, 2 * (size_t)D * sizeof *e->w);
    e->w[2 * D] = arm == SLR_RELU;              // so that it begins linear, not dead
}

static void learn(struct class *a, int from, int to, int steps, uint64_t seed)
{
    int n = 2 * a->batch.D + 1;

    for (int t = from; t < to; t++) {
        struct rng r = rng_open(seed, RNG_LAB, t + 1);

        slr_draw(a->s, &a->batch, a->k, a->v, &r);
        #pragma omp parallel for schedule(dynamic, 1)
        for (int i = 0; i < a->n; i++) {
            struct learner *e = &a->learner[i];

            memset(e->g, 0, n * sizeof *e->g);
            slr_loss(e->arm, &a->batch, e->w, e->g);
            adam(e->w, e->g, e->moments, n, cooled(rate_of(a->s), t, steps), t + 1);
        }
    }
}

static void measure(const struct class *a, long draws, uint64_t seed,
                    double value[SLR_ARMS][SLR_VALUES])
{
    #pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < a->n; i++) {
        const struct learner *e = &a->learner[i];
        struct slr_order      o = slr_order(e->w, a->k, a->v, a->batch.D);

        slr_values(value[i], slr_risk(a->s, e->arm, &o, draws, seed), &o, e->oracle,
                   a->bayes);
    }
}

/* Steps at which a followed setting is looked at: every CHUNK at first,
 * then ever rarer. */
static bool milestone(int step)
{
    return step <= 10 * CHUNK || step % (5 * CHUNK) == 0;
}

/* Cells of one seed. */
static int cells(const struct plan *p)
{
    int n = 0;

    for (int i = 0; i < p->n; i++) {
        n += SLR_ARMS;
        for (int t = CHUNK; followed(&p->setting[i]) && t <= p->steps; t += CHUNK)
            n += SLR_ARMS * milestone(t);
    }
    return n;
}

/* Record what was measured at a step on the way, or at the end (0). */
static enum fail record(struct lab *l, const struct plan *p, const struct class *a,
                        uint64_t seed, int step, double value[SLR_ARMS][SLR_VALUES],
                        struct why *why)
{
    double    known[SLR_VALUES];
    char      key[KEY];
    enum fail err = FAIL_NONE;

    for (int i = 0; i < a->n && !err; i++) {
        key_of(key, p, a->s, a->learner[i].arm, seed, step);
        err = step && lab_recall(l, key, known) ? FAIL_NONE
                                                : lab_record(l, key, value[i], why);
    }
    return err;
}

static enum fail run_class(struct lab *l, const struct plan *p, struct class *a,
                           uint64_t seed, struct why *why)
{
    double    value[SLR_ARMS][SLR_VALUES];
    char      key[KEY];
    const int steps = steps_of(p, a->s);
    enum fail err = FAIL_NONE;

    key_of(key, p, a->s, a->learner[0].arm, seed, 0);
    for (int t = 0; t < steps && !err; t += CHUNK) {
        bool last = t + CHUNK >= steps, look = followed(a->s) && milestone(t + CHUNK);

        learn(a, t, t + CHUNK, steps, seed);
        if (last || look)
            measure(a, p->draws, seed, value);
        if (!lab_progress(l, key, (double)(t + CHUNK) / steps))
            return FAIL_INTERRUPTED;
        if (look)
            err = record(l, p, a, seed, t + CHUNK, value, why);
    }
    return err ? err : record(l, p, a, seed, 0, value, why);
}

/* The arms of one setting and seed that are not known yet. */
static enum fail run_setting(struct lab *l, const struct plan *p, const struct slr *s,
                             uint64_t seed, struct why *why)
{
    struct class a = {0};
    double       known[SLR_VALUES];
    char         key[KEY];
    enum fail    err = FAIL_NONE;

    for (int arm = 0; arm < SLR_ARMS && !err; arm++) {
        key_of(key, p, s, arm, seed, 0);
        if (lab_recall(l, key, known))
            continue;
        if (!a.memory && !class_open(&a, s, p, seed))
            err = fail(why, FAIL_MEMORY, "%s: not enough memory for its samples", key);
        else
            enroll(&a, arm);
    }
    if (!err && a.n > 0)
        err = run_class(l, p, &a, seed, why);
    free(a.memory);
    return err;
}

/* ---- results ----------------------------------------------------------------------- */

static int gather(struct lab *l, const struct plan *p, struct slr_result *r)
{
    char key[KEY];
    int  n = 0;

    for (int k = 0; k < lab_seeds(l); k++)
        for (int i = 0; i < p->n; i++)
            for (int arm = 0; arm < SLR_ARMS && n < MAX_RESULTS; arm++) {
                key_of(key, p, &p->setting[i], arm, lab_seed(l, k), 0);
                r[n] = (struct slr_result){.s = &p->setting[i], .arm = arm};
                n += lab_recall(l, key, r[n].value);
            }
    return n;
}

static void say_table(struct lab *l, const struct slr_result *r, int n)
{
    lab_say(l, "%-20s %-9s %9s %8s %9s %9s %7s %7s", "data", "predictor", "risk", "+-",
            "its best", "Bayes", "|k|", "k.k*");
    for (int i = 0; i < n; i++) {
        const double *v = r[i].value;
        char          name[64], best[16] = "-";

        slr_name(name, sizeof name, r[i].s);
        if (isfinite(v[SLR_ORACLE]))
            snprintf(best, sizeof best, "%.5f", v[SLR_ORACLE]);
        lab_say(l, "%-20s %-9s %9.5f %8.5f %9s %9.5f %7.3f %7.3f", name,
                slr_arm_name[r[i].arm], v[SLR_RISK], v[SLR_SE], best, v[SLR_BAYES],
                sqrt(v[SLR_QKK]), v[SLR_MKK]);
    }
}

/* Order parameters of softmax and linear attention during training. */
static enum fail chart_orders(struct lab *l, const struct plan *p, struct why *why)
{
    enum { POINTS = 64, LINES = 5 };
    static const struct { const char *name; enum slr_arm arm; int value; } line[LINES] = {
        {"softmax k.k*", SLR_SOFTMAX, SLR_MKK}, {"softmax v.v*", SLR_SOFTMAX, SLR_MVV},
        {"softmax risk", SLR_SOFTMAX, SLR_RISK}, {"linear k.k*", SLR_LINEAR, SLR_MKK},
        {"linear risk", SLR_LINEAR, SLR_RISK},
    };
    struct chart_series series[LINES];
    double x[LINES][POINTS], y[LINES][POINTS], value[SLR_VALUES];
    const struct slr *s = NULL;
    char   key[KEY];

    for (int i = 0; i < p->n; i++)
        s = followed(&p->setting[i]) ? &p->setting[i] : s;
    for (int i = 0; s && i < LINES; i++) {
        int n = 0;

        for (int t = CHUNK; t <= p->steps && n < POINTS; t += CHUNK) {
            key_of(key, p, s, line[i].arm, lab_seed(l, 0), t);
            if (milestone(t) && lab_recall(l, key, value))
                x[i][n] = t, y[i][n++] = value[line[i].value];
        }
        series[i] = (struct chart_series){.name = line[i].name, .x = x[i],
                                          .y = y[i], .n = n, .colour = i};
    }
    struct chart_line root = {"sqrt(nu)", sqrt(5)};

    return !s ? 0 : lab_chart(l, "slr-order", &(struct chart){
        .title = "Order parameters during training, spiked, L = 3, nu = 5",
        .xlabel = "step", .ylabel = "overlap, risk", .series = series, .nseries = LINES,
        .lines = &root, .nlines = 1}, why);
}

static enum fail run(struct lab *l, struct why *why)
{
    struct plan        p;
    struct slr_result *r;
    int                n;
    enum fail          err = 0;

    plan_for(lab_form(l), &p);
    lab_plan(l, cells(&p) * lab_seeds(l) + slr_samples_cells(l));
    for (int k = 0; k < lab_seeds(l) && !err; k++)
        for (int i = 0; i < p.n && !err; i++)
            err = run_setting(l, &p, &p.setting[i], lab_seed(l, k), why);
    if (err)
        return err;
    r = calloc(MAX_RESULTS, sizeof *r);
    if (!r)
        return fail(why, FAIL_MEMORY, "slr: not enough memory for its results");
    n = gather(l, &p, r);
    say_table(l, r, n);
    slr_verdicts(l, r, n);
    err = slr_chart_risks(l, r, n, why);
    free(r);
    if (!err)
        err = chart_orders(l, &p, why);
    return err ? err : slr_samples(l, why);
}

static const struct lab_claim claims[] = {
    {"bayes", "trained softmax attention has the Bayes risk", "Proposition 4.2",
     "softmax", "risk over all settings"},
    {"key-norm", "softmax's key norm goes to sqrt(nu) (spiked), nu (max)",
     "Proposition 4.2", "softmax", "|k|"},
    {"linear", "trained linear attention has the risk of the best linear attention",
     "Corollary 4.3", "linear", "risk"},
    {"family", "erf, sigmoid and ReLU reach the best of their family", NULL,
     "erf, sigmoid, relu", "risk"},
    {"linear-bound", "linear attention is never below its bound", "Corollary 4.3",
     "linear", "risk"},
    {"element-bound", "no un-normalised activation beats the best function of one score",
     NULL, "linear, erf, sigmoid, relu", "risk"},
    {"nothing-beats", "nothing beats Bayes", NULL, "all", "risk"},
    {"lengths", "varying length costs linear attention, not softmax", "Corollary 4.4",
     "linear, softmax", "risk at L = 1 to 3"},
    {"decay", "with the signal nu linear's risk falls no faster than 1/nu, softmax's "
     "faster", "Corollary 4.3", "linear, softmax", "risk at nu = 1 and 10"},
    {"samples", "from finite samples softmax is below linear attention at each alpha",
     "Result 5.1", "softmax, linear", "risk at alpha = 2 to 20"},
    {"short", "from finite samples softmax is not as good as Bayes any more",
     "Result 5.1", "softmax", "risk at alpha = 2 to 20"},
    {"replica", "the replica's equations foretell the risk from finite samples",
     "Result 5.1", "softmax, decay 0.3", "risk at alpha = 10 and 20, over the equations'",
     ANSWER_EQUAL, 0.05, NULL},
    {0},
};

const struct experiment experiment_slr = {
    .name = "slr",
    .claim = "softmax attention reads one location as well as Bayes; "
             "linear and element-wise attention cannot",
    .paper = "arXiv:2509.21936",
    .columns = SLR_COLUMNS,
    .seeds = 1,
    .run = run,
    .exact = true,
    .claims = claims,
};
