/* Long prompts (arXiv:2512.11784): over n Gaussian tokens softmax attention tends to
 * the linear map G U z, its outputs and gradients at the rate 1/n; trained on in-context
 * regression it tends to the solution of an endless prompt,
 *
 *     R(A, b) = tr((b S A - I) S (b S A - I)ᵀ) / 2,   b = tr(S^-2)^(1/4),  A = S^-1 / b.
 *
 * Attention is that of model/cores/attention.h, forward and backward. */
#include "tools/lab/lab.h"
#include "tools/lab/theory/icl_net.h"
#include "tools/lab/theory/prompt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS "n,output,output_se,query,query_se,value,value_se,exact,b,distance," \
                "gap,risk,risk_se"

enum {
    N, OUTPUT, OUTPUT_SE, QUERY, QUERY_SE, VALUE, VALUE_SE, EXACT, B, DISTANCE,
    GAP, RISK, RISK_SE, VALUES
};

static void clear(double *v)
{
    for (int i = 0; i < VALUES; i++)
        v[i] = NAN;
}

static enum fail no_memory(struct why *why, const char *key)
{
    return fail(why, FAIL_MEMORY, "%s: not enough memory for its prompts", key);
}

/* ---- concentration ----------------------------------------------------------------- */

static const struct prompt gauss = {.d = 4, .G = {1, 0.5, 2, 1.5}};
static const double        query[] = {1, -1, 0.5, 0.7}, back[] = {0.5, 1, -1, 0.25};
static const double        scales[] = {0.15, 0.3, 0.6};

enum { SCALES = 3, MAX_SIZES = 8 };

struct sizes {
    int  n, size[MAX_SIZES];
    long tokens, most;              // of a cell; prompts of a cell
};

static void sizes_for(enum form form, struct sizes *s)
{
    *s = (struct sizes){.tokens = 4 << 20, .most = 32768};
    if (form == LAB_BRIEF)
        s->tokens = 1 << 21, s->most = 4096;
    if (form == LAB_FULL)
        s->tokens = 8 << 20, s->most = 1 << 16;
    for (int n = 16; n <= (form == LAB_FULL ? 16384 : 4096); n *= 4)
        s->size[s->n++] = n;
}

static enum fail cell(struct lab *l, const struct sizes *s, double scale, int n,
                      uint64_t seed, double *v, struct why *why)
{
    double              a[4];
    long                prompts = s->tokens / n < s->most ? s->tokens / n : s->most;
    struct prompt_error e;
    char                key[96];

    snprintf(key, sizeof key, "gauss U=%g n=%d prompts=%ld seed=%llu", scale, n, prompts,
             (unsigned long long)seed);
    if (lab_recall(l, key, v))
        return 0;
    if (!lab_progress(l, key, 0))
        return FAIL_INTERRUPTED;
    for (int i = 0; i < 4; i++)
        a[i] = scale * query[i];
    if (!prompt_measure(&gauss, a, back, n, prompts, seed, &e))
        return no_memory(why, key);
    clear(v);
    v[N] = n, v[EXACT] = prompt_constant(&gauss, a) / n;
    v[OUTPUT] = e.output.mean, v[OUTPUT_SE] = e.output.se;
    v[QUERY] = e.query.mean, v[QUERY_SE] = e.query.se;
    v[VALUE] = e.value.mean, v[VALUE_SE] = e.value.se;
    return lab_record(l, key, v, why);
}

/* Means over the seeds and their errors, of output, query and value, (SCALES, sizes). */
struct curves {
    double x[MAX_SIZES], y[3][SCALES][MAX_SIZES], se[3][SCALES][MAX_SIZES],
           exact[SCALES][MAX_SIZES];
};

static enum fail measure(struct lab *l, const struct sizes *s, struct curves *c,
                         struct why *why)
{
    int    seeds = lab_seeds(l);
    double v[VALUES];

    for (int i = 0; i < SCALES; i++)
        for (int j = 0; j < s->n; j++)
            for (int k = 0; k < seeds; k++) {
                enum fail err = cell(l, s, scales[i], s->size[j], lab_seed(l, k), v, why);

                if (err)
                    return err;
                c->x[j] = s->size[j];
                c->exact[i][j] = v[EXACT];
                for (int q = 0; q < 3; q++) {
                    c->y[q][i][j] += v[OUTPUT + 2 * q] / seeds;
                    c->se[q][i][j] = hypot(c->se[q][i][j], v[OUTPUT_SE + 2 * q] / seeds);
                }
            }
    return 0;
}

/* The slope between the two largest sizes, and its error. */
static struct estimate last_slope(const struct curves *c, int q, int i, int last)
{
    const double *y = c->y[q][i], *se = c->se[q][i];
    double        span = log(c->x[last] / c->x[last - 1]),
                  error = hypot(se[last] / y[last], se[last - 1] / y[last - 1]);

    return (struct estimate){log(y[last] / y[last - 1]) / span, error / span};
}

static void judge_slopes(struct lab *l, const struct sizes *s, const struct curves *c)
{
    static const char *const what[] = {"output", "U-gradient", "V-gradient"};
    struct estimate          at = {0, 1};
    double                   worst = -1;
    char                     measured[200];
    int                      last = s->n - 1, from = 0;

    lab_say(l, "slope of log error against log n over all n, and between the last two");
    for (int k = 0; k < 3 * SCALES; k++) {
        int             q = k / SCALES, i = k % SCALES;
        struct estimate e = last_slope(c, q, i, last);
        double          off = fabs(e.mean + 1) / (3 * e.se + 0.02);

        lab_say(l, "%-10s  U=%-5g %8.3f %8.3f +- %.3f", what[q], scales[i],
                log_slope(c->x, c->y[q][i], s->n), e.mean, e.se);
        if (off > worst)
            worst = off, at = e, from = k;
    }
    snprintf(measured, sizeof measured,
             "furthest of 9: %s, U = %g, n = %d to %d: %.3f +- %.3f",
             what[from / SCALES], scales[from % SCALES], s->size[last - 1],
             s->size[last], at.mean, at.se);
    lab_exact(l, "rate", worst <= 1,
              measured, "slope -1, within 3 standard errors + 2 %");
}

static void judge_constant(struct lab *l, const struct sizes *s, const struct curves *c)
{
    int    last = s->n - 1, at = 0;
    double worst = -1, n = s->size[last];
    char   measured[200];

    for (int i = 0; i < SCALES; i++) {
        double exact = c->exact[i][last],
               off = fabs(c->y[0][i][last] - exact) /
                     (3 * c->se[0][i][last] + 0.02 * exact);

        if (off > worst)
            worst = off, at = i;
    }
    snprintf(measured, sizeof measured,
             "furthest of %d: U = %g, n = %g: n x error %.3f +- %.3f, exact %.4f", SCALES,
             scales[at], n, n * c->y[0][at][last], n * c->se[0][at][last],
             n * c->exact[at][last]);
    lab_exact(l, "constant", worst <= 1, measured,
              "e^(a.Ga) (tr G + |Ga|^2), within 3 standard errors + 2 %");
}

static enum fail chart_rates(struct lab *l, const struct sizes *s, const struct curves *c,
                             struct why *why)
{
    static const char *const names[] = {"output", "query gradient", "value gradient"};
    struct chart_series      series[4];

    for (int q = 0; q < 3; q++)
        series[q] = (struct chart_series){.name = names[q], .x = c->x, .y = c->y[q][1],
                                          .n = s->n, .points = 1, .colour = q};
    series[3] = (struct chart_series){.name = "exact constant / n", .x = c->x,
                                      .y = c->exact[1], .n = s->n, .colour = 0};
    return lab_chart(l, "prompts-rate", &(struct chart){
        .title = "Distance from the linear map, U = 0.3", .xlabel = "tokens n",
        .ylabel = "mean squared error", .logx = 1, .logy = 1, .series = series,
        .nseries = 4}, why);
}

/* ---- controls ---------------------------------------------------------------------- */

static const struct control {
    const char   *name;
    struct prompt p;
    double        a[2];
} controls[] = {
    {"signs", {.d = 1, .signs = true}, {2}},
    {"mixture a", {.d = 2, .parts = 2, .G = {1, 1}, .m = {{3, 0}, {0, 3}}}, {0.4, 0.1}},
    {"mixture b", {.d = 2, .parts = 2, .G = {1, 1}, .m = {{3, 0}, {0, 3}}}, {-0.3, 0.3}},
    {"mixture c", {.d = 2, .parts = 2, .G = {1, 1}, .m = {{3, 0}, {0, 3}}}, {0.2, 0.5}},
};

enum { CONTROLS = sizeof controls / sizeof *controls };
enum { CONTROL_N = 4096, CONTROL_PROMPTS = 256 };

/* One coordinate of a control's output: mean, its error and the limit. */
static enum fail control_cell(struct lab *l, const struct control *c, int j, double *v,
                              struct why *why)
{
    static const double e[] = {1, 0.5};
    struct prompt_error found;
    double              T[PROMPT_MAX], da[PROMPT_MAX];
    uint64_t            seed = lab_seed(l, 0);
    char                key[96];

    snprintf(key, sizeof key, "%s coordinate %d n=%d prompts=%d seed=%llu", c->name, j,
             CONTROL_N, CONTROL_PROMPTS, (unsigned long long)seed);
    if (lab_recall(l, key, v))
        return 0;
    if (!prompt_measure(&c->p, c->a, e, CONTROL_N, CONTROL_PROMPTS, seed, &found))
        return no_memory(why, key);
    prompt_limit(&c->p, c->a, e, T, da);
    clear(v);
    v[N] = CONTROL_N, v[EXACT] = T[j];
    v[OUTPUT] = found.mean[j], v[OUTPUT_SE] = found.se[j];
    return lab_record(l, key, v, why);
}

static enum fail run_controls(struct lab *l, struct why *why)
{
    double v[VALUES], worst = 0, at[3] = {0};
    char   measured[160];

    for (int i = 0; i < CONTROLS; i++)
        for (int j = 0; j < controls[i].p.d; j++) {
            enum fail err = control_cell(l, &controls[i], j, v, why);

            if (err)
                return err;

            double off = fabs(v[OUTPUT] - v[EXACT]) / v[OUTPUT_SE];

            if (controls[i].p.signs) {
                snprintf(measured, sizeof measured, "%.5f +- %.5f at U z = 2", v[OUTPUT],
                         v[OUTPUT_SE]);
                lab_exact(l, "signs", off < 4, measured,
                          "tanh(2) = 0.96403 (the Gaussian formula says 2)");
            } else if (off >= worst) {
                worst = off, at[0] = v[OUTPUT], at[1] = v[OUTPUT_SE], at[2] = v[EXACT];
            }
        }
    snprintf(measured, sizeof measured, "furthest of 6: %.5f +- %.5f, exact %.5f",
             at[0], at[1], at[2]);
    lab_exact(l, "mixture", worst < 4, measured,
              "G U z + sum of w_k m_k, within 4 standard errors");
    return 0;
}

/* ---- training ---------------------------------------------------------------------- */

enum { D = 5, BATCH = 128, TRAIN_SIZES = 4, TESTS = 1 << 14 };

static const double S[D] = {1, 0.8, 0.6, 0.5, 0.4};
static const double rate = 0.1, start = 0.3;

struct endless {
    double A[D], b;                 // A is diagonal as S is
};

/* One step of descent on R. */
static void endless_step(struct endless *e, double lr)
{
    double db = 0;

    for (int i = 0; i < D; i++) {
        double s = S[i], a = e->A[i];

        db += a * s * s - e->b * a * a * s * s * s;
        e->A[i] += lr * (e->b * s * s - e->b * e->b * s * s * s * a);
    }
    e->b += lr * db;
}

/* |b A - M|_F / |S^-1|_F, M diagonal. */
static double distance(const struct icl_net *a, const double *M)
{
    double sum = 0, norm = 0, b = a->ov[D];

    for (int i = 0; i < D; i++) {
        for (int j = 0; j < D; j++) {
            double gap = b * a->kq[i * D + j] - (i == j ? M[i] : 0);

            sum += gap * gap;
        }
        norm += 1 / (S[i] * S[i]);
    }
    return sqrt(sum / norm);
}

/* tr(S - bA S^2): the risk of the best linear attention over n tokens,
 * bA = ((1 + 1/n) S + tr(S) I / n)^-1. */
static double linear_risk(int n)
{
    double trace = 0, risk = 0;

    for (int i = 0; i < D; i++)
        trace += S[i];
    for (int i = 0; i < D; i++)
        risk += S[i] - S[i] * S[i] / (S[i] + (S[i] + trace) / n);
    return risk;
}

/* Only A, the block of x, and b, which reads y, are free; A = start I and b balanced. */
static void restrict_to(struct icl_net *a)
{
    memset(a->mask, 0, a->n * sizeof *a->mask);
    for (int i = 0; i < D * D; i++)
        a->mask[i] = 1;
    for (int i = 0; i < D; i++)
        a->kq[i * D + i] = (real)start;
    a->mask[(D + 1) * D + D] = 1;
    a->ov[D] = (real)(start * sqrt(D));
}

static long train_steps(const struct lab *l)
{
    return lab_form(l) == LAB_BRIEF ? 300 : 500;
}

static int train(struct lab *l, const char *key, struct icl_net *a, uint64_t seed,
                 double *v)
{
    struct icl_course course = {
        .steps = train_steps(l), .lr = rate, .sgd = true, .seed = seed};
    struct endless    e = {.b = start * sqrt(D)};
    double            M[D];

    for (int i = 0; i < D; i++)
        e.A[i] = start;
    for (long t = 0; t < course.steps; t += 20) {
        icl_learn(a, &course, t, t + 20);
        for (long u = t; u < t + 20; u++)
            endless_step(&e, cooled(rate, u, course.steps));
        for (int i = 0; i < D; i++)
            M[i] = e.b * e.A[i];
        v[GAP] = fmax(isnan(v[GAP]) ? 0 : v[GAP], distance(a, M));
        if (!lab_progress(l, key, (double)t / course.steps))
            return FAIL_INTERRUPTED;
    }
    for (int i = 0; i < D; i++)
        M[i] = 1 / S[i];
    struct estimate risk = icl_risk(a, a->task.L, TESTS, seed);

    v[B] = a->ov[D], v[DISTANCE] = distance(a, M);
    v[RISK] = risk.mean, v[RISK_SE] = risk.se;
    if (a->linear)
        v[EXACT] = linear_risk(a->task.L);
    return 0;
}

static enum fail train_cell(struct lab *l, int n, bool linear, uint64_t seed, double *v,
                            struct why *why)
{
    double          spread[D];
    struct icl_task task = {.d = D, .t = 1, .L = n, .beta = 1, .spread = spread};
    struct icl_net  a;
    char            key[128];
    enum fail       err;

    snprintf(key, sizeof key, "train %s n=%d B=%d steps=%ld lr=%g tests=%d seed=%llu",
             linear ? "linear" : "softmax", n, BATCH, train_steps(l), rate, TESTS,
             (unsigned long long)seed);
    if (lab_recall(l, key, v))
        return 0;
    for (int i = 0; i < D; i++)
        spread[i] = sqrt(S[i]);
    if (!icl_open(&a, &task, 1, BATCH, linear))
        return no_memory(why, key);
    restrict_to(&a);
    clear(v);
    v[N] = n;
    err = train(l, key, &a, seed, v);
    icl_close(&a);
    return err ? err : lab_record(l, key, v, why);
}

static int train_sizes(const struct lab *l, int *n)
{
    int sizes = lab_form(l) == LAB_BRIEF ? 3 : TRAIN_SIZES;

    for (int i = 0; i < sizes; i++)
        n[i] = 16 << (2 * i);
    return sizes;
}

/* Means over the seeds: [0] softmax, [1] linear; by size. */
struct trained {
    double x[TRAIN_SIZES], distance[2][TRAIN_SIZES], gap[2][TRAIN_SIZES],
           risk[2][TRAIN_SIZES], se[2][TRAIN_SIZES], b[2][TRAIN_SIZES];
};

static enum fail train_all(struct lab *l, const int *n, int sizes, struct trained *t,
                           struct why *why)
{
    int    seeds = lab_seeds(l);
    double v[VALUES];

    for (int k = 0; k < 2 * sizes * seeds; k++) {
        int i = k / seeds % sizes, linear = k / seeds / sizes;
        enum fail err = train_cell(l, n[i], linear, lab_seed(l, k % seeds), v, why);

        if (err)
            return err;
        t->x[i] = n[i];
        t->distance[linear][i] += v[DISTANCE] / seeds;
        t->gap[linear][i] += v[GAP] / seeds;
        t->risk[linear][i] += v[RISK] / seeds;
        t->se[linear][i] = hypot(t->se[linear][i], v[RISK_SE] / seeds);
        t->b[linear][i] += v[B] / seeds;
    }
    return 0;
}

static bool falls(const double *y, int n)
{
    for (int i = 1; i < n; i++)
        if (!(y[i] < y[i - 1]))
            return false;
    return true;
}

static void say_training(struct lab *l, const struct trained *t, int sizes)
{
    lab_say(l, "\n%-9s %6s %18s %10s %8s %8s", "trained", "n", "|bA - S^-1|/|S^-1|",
            "path gap", "risk", "b");
    for (int k = 0; k < 2 * sizes; k++) {
        int linear = k / sizes, i = k % sizes;

        lab_say(l, "%-9s %6g %18.4f %10.4f %8.4f %8.4f", linear ? "linear" : "softmax",
                t->x[i], t->distance[linear][i], t->gap[linear][i], t->risk[linear][i],
                t->b[linear][i]);
    }
}

static void judge_endless(struct lab *l, const struct trained *t, int sizes)
{
    int  last = sizes - 1;
    char measured[200];

    snprintf(measured, sizeof measured, "n = %g to %g: distance %.3f to %.3f, path gap "
             "%.3f to %.3f, risk %.3f to %.3f", t->x[0], t->x[last], t->distance[0][0],
             t->distance[0][last], t->gap[0][0], t->gap[0][last], t->risk[0][0],
             t->risk[0][last]);
    lab_exact(l, "trained", falls(t->distance[0], sizes) && falls(t->gap[0], sizes) &&
              falls(t->risk[0], sizes), measured,
              "all three fall with every fourfold n; bA = S^-1, risk 0 without end");
}

static void judge_linear(struct lab *l, const struct trained *t, int sizes)
{
    double worst = -1;
    int    at = 0;
    char   measured[200];

    for (int i = 0; i < sizes; i++) {
        double exact = linear_risk((int)t->x[i]),
               off = fabs(t->risk[1][i] - exact) / (3 * t->se[1][i] + 0.02 * exact);

        if (off > worst)
            worst = off, at = i;
    }
    snprintf(measured, sizeof measured,
             "furthest of %d: n = %g: risk %.4f +- %.4f, exact %.4f", sizes, t->x[at],
             t->risk[1][at], t->se[1][at], linear_risk((int)t->x[at]));
    lab_exact(l, "optimum", worst <= 1, measured,
              "bA = ((1 + 1/n) S + tr(S) I / n)^-1, within 3 standard errors + 2 %");
}

/* Of an endless prompt. */
static double endless_value(void)
{
    double sum = 0;

    for (int i = 0; i < D; i++)
        sum += 1 / (S[i] * S[i]);
    return pow(sum, 0.25);
}

/* Of the least risk over n tokens: see the valley. */
static double tilted_value(void) { return sqrt((D + 4 + sqrt(D * D + 4 * D + 8)) / 2); }

static void judge_value(struct lab *l, const struct trained *t, int last)
{
    double b = t->b[0][last], endless = endless_value(), tilted = tilted_value();
    char   measured[120], yardstick[160];

    snprintf(measured, sizeof measured, "n = %g, after %ld steps: softmax %.4f, linear "
             "%.4f", t->x[last], train_steps(l), b, t->b[1][last]);
    snprintf(yardstick, sizeof yardstick, "softmax's between tr(S^-2)^(1/4) = %.4f and "
             "%.4f, of the least risk; linear's at the first, within 2 %%", endless,
             tilted);
    lab_exact(l, "value", b > endless && b < tilted &&
              fabs(t->b[1][last] / endless - 1) <= 0.02, measured, yardstick);
}

/* ---- the valley -------------------------------------------------------------------- */

/* Along bA = S^-1 an endless prompt has no risk, whatever b. Over n tokens there remains,
 * by the central limit theorem,
 *
 *     E[e^(x.S^-1 x / b^2) (b^2 w.S w + (w.x)^2)] / n
 *         = tr(S) (1 - 2/u)^(-D/2) u (u - 1) / (u - 2) / n,   u = b^2,
 *
 * which is least at u = (D + 4 + sqrt(D^2 + 4 D + 8)) / 2.
 */
enum { VALLEY = 3 };
static const double valley[VALLEY] = {2.85, 3.5, 5};

static enum fail valley_cell(struct lab *l, int n, double b, double *v, struct why *why)
{
    double          spread[D];
    struct icl_task task = {.d = D, .t = 1, .L = n, .beta = 1, .spread = spread};
    uint64_t        seed = lab_seed(l, 0);
    struct icl_net  a;
    char            key[96];

    snprintf(key, sizeof key, "valley b=%g n=%d tests=%d seed=%llu", b, n, TESTS,
             (unsigned long long)seed);
    if (lab_recall(l, key, v))
        return FAIL_NONE;
    for (int i = 0; i < D; i++)
        spread[i] = sqrt(S[i]);
    if (!icl_open(&a, &task, 1, BATCH, false))
        return no_memory(why, key);
    restrict_to(&a);
    a.ov[D] = (real)b;
    for (int i = 0; i < D; i++)
        a.kq[i * D + i] = (real)(1 / (b * S[i]));
    struct estimate risk = icl_risk(&a, n, TESTS, seed);

    icl_close(&a);
    clear(v);
    v[N] = n, v[B] = b, v[RISK] = risk.mean, v[RISK_SE] = risk.se;
    return lab_record(l, key, v, why);
}

static double valley_risk(double b, int n)
{
    double u = b * b, trace = 0;

    for (int i = 0; i < D; i++)
        trace += S[i];
    return trace * pow(1 - 2 / u, -D / 2.0) * u * (u - 1) / (u - 2) / n;
}

static enum fail run_valley(struct lab *l, struct why *why)
{
    const int n = lab_form(l) == LAB_BRIEF ? 1024 : 2048;
    double    v[VALUES], worst = -1;
    char      measured[120] = "", yardstick[160];

    for (int i = 0; i < VALLEY; i++) {
        enum fail err = valley_cell(l, n, valley[i], v, why);
        double    exact = valley_risk(valley[i], n), off;

        if (err)
            return err;
        off = fabs(v[RISK] - exact) / (3 * v[RISK_SE] + 0.05 * exact);
        if (off <= worst)
            continue;
        worst = off;
        snprintf(measured, sizeof measured, "furthest of %d: n = %d, b = %g: risk %.5f "
                 "+- %.5f, exact %.5f", VALLEY, n, valley[i], v[RISK], v[RISK_SE], exact);
    }
    snprintf(yardstick, sizeof yardstick, "within 3 standard errors + 5 %%; least at b = "
             "%.4f, an endless prompt's is %.4f", tilted_value(), endless_value());
    lab_exact(l, "valley", worst <= 1, measured, yardstick);
    return FAIL_NONE;
}

static enum fail run_training(struct lab *l, struct why *why)
{
    struct trained t = {{0}};
    int            n[TRAIN_SIZES], sizes = train_sizes(l, n);
    enum fail      err = train_all(l, n, sizes, &t, why);

    if (err)
        return err;
    say_training(l, &t, sizes);
    judge_endless(l, &t, sizes);
    judge_linear(l, &t, sizes);
    if (sizes == TRAIN_SIZES)
        judge_value(l, &t, sizes - 1);
    err = run_valley(l, why);
    return err ? err : lab_chart(l, "prompts-train", &(struct chart){
        .title = "In-context regression: distance of bA from S^-1 after training",
        .xlabel = "tokens n", .ylabel = "relative distance", .logx = 1, .logy = 1,
        .nseries = 2, .series = (struct chart_series[]){
            {.name = "softmax", .x = t.x, .y = t.distance[0], .n = sizes, .colour = 0},
            {.name = "linear", .x = t.x, .y = t.distance[1], .n = sizes, .colour = 1}}},
        why);
}

static enum fail run(struct lab *l, struct why *why)
{
    struct sizes  s;
    struct curves c = {{0}};
    int           n[TRAIN_SIZES];
    enum fail     err;

    sizes_for(lab_form(l), &s);
    lab_plan(l, (SCALES * s.n + 2 * train_sizes(l, n)) * lab_seeds(l) + 7 +
             VALLEY);
    if ((err = measure(l, &s, &c, why)))
        return err;
    judge_slopes(l, &s, &c);
    judge_constant(l, &s, &c);
    err = chart_rates(l, &s, &c, why);
    if (!err)
        err = run_controls(l, why);
    return err ? err : run_training(l, why);
}

static const struct lab_claim claims[] = {
    {"rate", "outputs and gradients approach the linear map as 1/n",
     "Propositions 3.1 and 3.4", "softmax", "slope of the squared error in n"},
    {"constant", "n x squared error tends to the constant of the central limit theorem",
     NULL, "softmax", "n x squared error"},
    {"signs", "control: tokens +-1 give tanh, not the linear map", "Lemma 2.1",
     "softmax", "output"},
    {"mixture", "over a mixture of Gaussians attention is its closed form", NULL,
     "softmax", "output"},
    {"trained", "trained on n tokens, softmax goes where an endless prompt leads",
     "Theorem 4.3", "softmax", "distance, gap of the path, risk"},
    {"optimum", "trained on n tokens, linear attention has the risk of its optimum",
     NULL, "linear", "risk"},
    {"value", "the value weight b passes its limit for an endless prompt, on the way to "
     "where samples vary least", "Theorem 5.1, for an endless prompt only",
     "softmax, linear", "b"},
    {"valley", "of all that solve an endless prompt, some have less risk over n tokens: "
     "by the central limit theorem", "Theorem 5.1, for an endless prompt only", "softmax",
     "risk where bA = S^-1"},
    {0},
};

const struct experiment experiment_prompts = {
    .name = "prompts",
    .claim = "over a long prompt of Gaussian tokens softmax attention is a linear map",
    .paper = "arXiv:2512.11784",
    .columns = COLUMNS,
    .seeds = 2,
    .run = run,
    .exact = true,
    .claims = claims,
};
