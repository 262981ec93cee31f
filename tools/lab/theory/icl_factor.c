/* Preconditioned against plain descent on the loss of tools/lab/theory/factor.h, all
 * from the same spectral start; plain descent and Adam with the best of ten rates. Near
 * the optimum one preconditioned step of rate h leaves 1 - 2 h of the residual, whatever
 * S is: the log of the loss falls by 2 log(1 - 2 h). */
#include "tools/lab/learn.h"
#include "tools/lab/theory/factor.h"
#include "tools/lab/theory/icl_cells.h"

#include <math.h>
#include <stdio.h>

enum { CONDITIONS = 3, RATES = 10, POINTS = 12, SAMPLES = 200 };

static const double      conditions[CONDITIONS] = {1, 10, 100}, goal = 1e-8, h = 0.1;
static const char *const names[DESCENTS] = {"plain", "adam", "preconditioned"};
static const int         at[POINTS] = {0, 5, 10, 20, 40, 80, 160, 320, 640, 1280,
                                       2560, 5120};

static int most(const struct lab *l) { return lab_form(l) == LAB_BRIEF ? 5120 : 40000; }

int icl_factor_cells(const struct lab *l)
{
    return DESCENTS * CONDITIONS * lab_seeds(l) + 2;
}

/* Plain descent's rates are powers of two around 1, Adam's below a tenth. */
static double rate_of(enum descent how, int i)
{
    return how == DESCENT_PRECONDITIONED ? h : ldexp(how == DESCENT_ADAM ? 0.1 : 4, -i);
}

static enum fail cell(struct lab *l, enum descent how, double condition, uint64_t seed,
                      double *v, struct why *why)
{
    struct factor f;
    int           rates = how == DESCENT_PRECONDITIONED ? 1 : RATES, took[RATES],
                  best = 0;
    char          key[128];

    snprintf(key, sizeof key,
             "factor %s condition=%g samples=%d goal=%g most=%d lr=%g-%g seed=%llu",
             names[how], condition, SAMPLES, goal, most(l), rate_of(how, rates - 1),
             rate_of(how, 0), (unsigned long long)seed);
    if (lab_recall(l, key, v))
        return 0;
    factor_open(&f, condition, SAMPLES, seed);
    #pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < rates; i++)
        took[i] = factor_run(&f, how, rate_of(how, i), goal, most(l), NULL, NULL, 0);
    for (int i = 1; i < rates; i++)
        best = took[i] < took[best] ? i : best;
    for (int i = 0; i < ICL_VALUES; i++)
        v[i] = NAN;
    v[ICL_LONGER] = took[best], v[ICL_UNSCALED] = rate_of(how, best);
    factor_run(&f, how, rate_of(how, best), goal, most(l), at, v + ICL_KQ, POINTS);
    v[ICL_RISK] = v[ICL_KQ + POINTS - 1];
    if (!lab_progress(l, key, 1))
        return FAIL_INTERRUPTED;
    return lab_record(l, key, v, why);
}

static enum fail chart(struct lab *l, double (*curve)[CONDITIONS][POINTS],
                       struct why *why)
{
    static char         label[DESCENTS * CONDITIONS][40];
    struct chart_series series[DESCENTS * CONDITIONS];
    double              x[POINTS];

    for (int i = 0; i < POINTS; i++)
        x[i] = at[i];
    for (int i = 0; i < DESCENTS * CONDITIONS; i++) {
        double *y = curve[i / CONDITIONS][i % CONDITIONS];

        snprintf(label[i], sizeof label[i], "%s, condition %g", names[i / CONDITIONS],
                 conditions[i % CONDITIONS]);
        for (int j = 0; j < POINTS; j++)
            y[j] = y[j] > 1e-12 ? y[j] : NAN;
        series[i] = (struct chart_series){.name = label[i], .x = x + 1, .y = y + 1,
                                          .n = POINTS - 1, .colour = i};
    }
    return lab_chart(l, "icl-factor", &(struct chart){
        .title = "Share of the first loss", .xlabel = "step",
        .ylabel = "loss / first loss", .logx = 1, .logy = 1, .series = series,
        .nseries = DESCENTS * CONDITIONS}, why);
}

/* Fall of the log of the loss a step, from step 10 to step 40. */
static double slope_of(const double *v)
{
    return log(v[ICL_KQ + 4] / v[ICL_KQ + 2]) / (at[4] - at[2]);
}

static void judge_slopes(struct lab *l, const double *slope)
{
    double exact = 2 * log(1 - 2 * h), worst = 0;
    char   measured[120], yardstick[80];

    for (int c = 0; c < CONDITIONS; c++)
        worst = fmax(worst, fabs(slope[c] / exact - 1));
    snprintf(measured, sizeof measured,
             "log loss a step at condition 1, 10, 100: %.4f, %.4f, %.4f", slope[0],
             slope[1], slope[2]);
    snprintf(yardstick, sizeof yardstick, "2 log(1 - 2 h) = %.4f, within 2 %%", exact);
    lab_exact(l, "preconditioned", worst <= 0.02, measured, yardstick);
}

/* ---- the layer itself ---- */

enum { PROMPTS = 2000, FEW = 128, MANY = 2048 };

/* What the layer's loss over n tokens has above the formula, in the mean over prompts. */
static enum fail layer_cell(struct lab *l, const struct factor *f, int n, double *v,
                            struct why *why)
{
    char       key[64];
    uint64_t   seed = lab_seed(l, 0);
    struct rng r = rng_open(seed, RNG_LAB, (1ull << 42) + (uint64_t)n);
    double     sum = 0, squares = 0;

    snprintf(key, sizeof key, "factor layer n=%d prompts=%d seed=%llu", n, PROMPTS,
             (unsigned long long)seed);
    if (lab_recall(l, key, v))
        return FAIL_NONE;
    for (int i = 0; i < PROMPTS; i++) {
        double loss = factor_layer_loss(f, n, &r);

        sum += loss, squares += loss * loss;
    }
    struct estimate e = estimate_of(sum, squares, PROMPTS);

    for (int i = 0; i < ICL_VALUES; i++)
        v[i] = NAN;
    v[ICL_RISK] = e.mean - factor_loss(f, NULL, NULL), v[ICL_SE] = e.se;
    return lab_progress(l, key, 1) ? lab_record(l, key, v, why) : FAIL_INTERRUPTED;
}

/* Scores a third of the start's, small enough for short prompts. */
static enum fail judge_layer(struct lab *l, struct why *why)
{
    struct factor f;
    double        few[ICL_VALUES], many[ICL_VALUES], ratio = (double)FEW / MANY;
    char          measured[128];
    enum fail     err;

    factor_open(&f, 10, 20, lab_seed(l, 0));
    for (int i = 0; i < FACTOR2; i++)
        f.B[i] /= 3, f.A[i] *= 3;
    err = layer_cell(l, &f, FEW, few, why);
    if (!err)
        err = layer_cell(l, &f, MANY, many, why);
    if (err)
        return err;
    snprintf(measured, sizeof measured, "loss above the formula: %.4f +- %.4f over %d "
             "tokens, %.4f +- %.4f over %d", few[ICL_RISK], few[ICL_SE], FEW,
             many[ICL_RISK], many[ICL_SE], MANY);
    lab_exact(l, "layer", few[ICL_RISK] > 0 &&
              fabs(many[ICL_RISK] - ratio * few[ICL_RISK]) <
                  4 * hypot(many[ICL_SE], ratio * few[ICL_SE]),
              measured, "a sixteenth of it over 16 times the tokens, 4 standard errors");
    return FAIL_NONE;
}

/* At A = B = 0 plain descent stays for ever, far from the minimum 0. */
static void judge_origin(struct lab *l)
{
    struct factor f;
    double        dA[FACTOR2], dB[FACTOR2], largest = 0, loss;
    char          measured[96];

    factor_open(&f, 10, SAMPLES, lab_seed(l, 0));
    for (int i = 0; i < FACTOR2; i++)
        f.A[i] = f.B[i] = 0;
    loss = factor_loss(&f, dA, dB);
    for (int i = 0; i < FACTOR2; i++)
        largest = fmax(largest, fmax(fabs(dA[i]), fabs(dB[i])));
    snprintf(measured, sizeof measured, "gradient %g, loss %.3f", largest, loss);
    lab_exact(l, "origin", largest == 0 && loss > 1, measured,
              "gradient 0, least loss 0");
}

enum fail icl_factor(struct lab *l, struct why *why)
{
    double v[ICL_VALUES], took[DESCENTS][CONDITIONS] = {{0}},
           curve[DESCENTS][CONDITIONS][POINTS], slope[CONDITIONS] = {0};
    char   measured[220];
    int    seeds = lab_seeds(l), at_text = 0;

    for (int i = 0; i < DESCENTS * CONDITIONS * seeds; i++) {
        int how = i / CONDITIONS / seeds, c = i / seeds % CONDITIONS;
        enum fail err = cell(l, how, conditions[c], lab_seed(l, i % seeds), v, why);

        if (err)
            return err;
        took[how][c] += v[ICL_LONGER] / seeds;
        if (how == DESCENT_PRECONDITIONED)
            slope[c] += slope_of(v) / seeds;
        for (int j = 0; j < POINTS; j++)
            curve[how][c][j] = v[ICL_KQ + j];
    }
    lab_say(l, "\nsteps to %g of the first loss (more than %d: not reached)", goal,
            most(l));
    lab_say(l, "%-16s %12s %12s %12s", "condition", "1", "10", "100");
    for (int how = 0; how < DESCENTS; how++) {
        lab_say(l, "%-16s %12.0f %12.0f %12.0f", names[how], took[how][0], took[how][1],
                took[how][2]);
        at_text += snprintf(measured + at_text, sizeof measured - at_text,
                            "%s%s %.0f, %.0f, %.0f", how ? "; " : "", names[how],
                            took[how][0], took[how][1], took[how][2]);
    }
    lab_exact(l, "plain", took[DESCENT_PLAIN][2] > 10 * took[DESCENT_PLAIN][0], measured,
              "steps to 1e-8 of the loss at condition 1, 10, 100: plain more than 10 "
              "times as many at 100 as at 1");
    judge_slopes(l, slope);
    judge_origin(l);

    enum fail err = judge_layer(l, why);

    return err ? err : chart(l, curve, why);
}
