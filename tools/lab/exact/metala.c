/* MetaLA (arXiv:2411.10741): the least parameters of a linear model that still can
 * approximate any attention map. By hand: with k = 1 - a and a state of T rows, token j
 * opens row j alone,
 *
 *     a_t = 1 - e_t,  k_t = e_t         S_t = diag(a_t) S + k_t v_t'
 *
 * so that row j holds v_j from then on, and q_i = the weights of token i read any causal
 * map off exactly. A decay that does not see the token, the same a for all, cannot: with
 * k = 1 - a the weight of token j is sum_c q_ic (1 - a_c) a_c^(i-j), for every map a sum
 * of the same n falling powers. The best of these is found by least squares for each row.
 */
#include "model/model.h"
#include "tools/lab/text/ablation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { T = 16, TRIALS = 20, TRAINED = 3 };   // TRAINED: claims from there on

static const struct lab_claim claims[] = {
    {"static", "with decays that see the token, and without keys, a linear model "
     "represents any causal attention map", "Proposition on static approximation",
     "metala's recurrence by hand, a state of T rows", "largest error of a weight"},
    {"dynamic", "with decays that do not see the token it cannot", "dynamic memory",
     "the same with fixed decays, best q", "mean error of a weight, of softmax's maps"},
    {"least", "without a projection for keys it has the fewest parameters",
     "least parameters",
     "metala and gla at dk = 16; retention, ssd, deltanet as they are",
     "parameters"},
    {"augmentation", "self-augmentation predicts text better", "perplexity falls",
     "metala, aug = 0, 1", "bits per byte of stories", ANSWER_MORE, 0.005, ABLATION_GATE},
    {"convolution", "and so does the short convolution", "perplexity falls",
     "metala, conv = 0, 4", "bits per byte of stories", ANSWER_MORE, 0.005,
     ABLATION_GATE},
    {0},
};

/* A causal softmax map of random scores: row i has i + 1 weights. */
static void draw_map(struct rng *r, double (*w)[T])
{
    for (int i = 0; i < T; i++) {
        double sum = 0;

        for (int j = 0; j <= i; j++)
            sum += w[i][j] = exp(2 * rng_normal(r));
        for (int j = 0; j <= i; j++)
            w[i][j] /= sum;
    }
}

/* The map that the recurrence makes with q_i = row i of w. */
static double by_gates(double (*w)[T])
{
    double state[T][T] = {{0}}, worst = 0;      // (rows, tokens): v_j is e_j

    for (int i = 0; i < T; i++) {
        for (int c = 0; c < T; c++)
            for (int j = 0; j < T; j++)
                state[c][j] = (c != i) * state[c][j] + (c == i && j == i);
        for (int j = 0; j <= i; j++) {
            double sum = 0;

            for (int c = 0; c <= i; c++)
                sum += w[i][c] * state[c][j];
            worst = fmax(worst, fabs(sum - w[i][j]));
        }
    }
    return worst;
}

/* Least squares by Gram and Schmidt: what of y (n) lies outside the columns of a
 * (cols, n). */
static double outside(double (*a)[T], int cols, double *y, int n)
{
    double sum = 0;

    for (int c = 0; c < cols; c++) {
        double norm = 0, by = 0;

        for (int b = 0; b < c; b++) {
            double along = 0;

            for (int i = 0; i < n; i++)
                along += a[c][i] * a[b][i];
            for (int i = 0; i < n; i++)
                a[c][i] -= along * a[b][i];
        }
        for (int i = 0; i < n; i++)
            norm += a[c][i] * a[c][i];
        norm = norm > 1e-20 ? 1 / sqrt(norm) : 0;
        for (int i = 0; i < n; i++)
            by += (a[c][i] *= norm) * y[i];
        for (int i = 0; i < n; i++)
            y[i] -= by * a[c][i];
    }
    for (int i = 0; i < n; i++)
        sum += fabs(y[i]);
    return sum / n;
}

/* The same with T / 2 decays that all tokens share. */
static double by_fixed(double (*w)[T])
{
    double sum = 0;

    for (int i = T / 2 + 1; i < T; i++) {
        double a[T / 2][T], y[T];

        for (int c = 0; c < T / 2; c++)
            for (int j = 0; j <= i; j++)
                a[c][j] = pow(0.1 + 0.89 * c / (T / 2 - 1), i - j);
        memcpy(y, w[i], sizeof y);
        sum += outside(a, T / 2, y, i + 1) / (T - T / 2 - 1);
    }
    return sum;
}

static enum fail map_cell(struct lab *l, double *v, struct why *why)
{
    char key[64];

    snprintf(key, sizeof key, "maps of %d tokens, %d trials, seed %llu", T, TRIALS,
             (unsigned long long)lab_seed(l, 0));
    if (lab_recall(l, key, v))
        return FAIL_NONE;
    v[0] = v[1] = v[2] = 0;
    for (int i = 0; i < TRIALS; i++) {
        struct rng r = rng_open(lab_seed(l, 0), RNG_LAB, (uint64_t)i);
        double     w[T][T] = {{0}};

        draw_map(&r, w);
        v[0] = fmax(v[0], by_gates(w));
        v[1] += by_fixed(w) / TRIALS;
        v[2] = v[3] = NAN;
    }
    return lab_record(l, key, v, why);
}

/* Parameters of a layer of this mixer. */
static double count(const char *entry)
{
    struct config    c;
    struct mixer_cfg m;
    struct param     p[MIXER_PARAMS];
    struct why       why;
    double           sum = 0;

    config_defaults(&c);
    c.layers = 1, c.width = 64, c.heads = 2;
    if (config_set(&c, "mixers", entry, &why) || config_resolve(&c, &why))
        return NAN;
    config_layer(&c, 0, &m);
    for (int i = mixer_params(&m, p) - 1; i >= 0; i--)
        sum += p[i].buffer ? 0 : (double)param_size(&p[i]);
    return sum;
}

static enum fail judge_parameters(struct lab *l, struct why *why)
{
    static const char *const arm[] = {"metala(dk=16)", "gla(dk=16)", "retention",
                                      "ssd", "deltanet"};
    double v[4], first = 0;
    bool   least = true;
    char   measured[200];
    int    n = 0;

    for (int i = 0; i < 5; i++) {
        char      key[64];
        enum fail err = FAIL_NONE;

        snprintf(key, sizeof key, "parameters of %s", arm[i]);
        if (!lab_recall(l, key, v)) {
            v[0] = v[1] = v[3] = NAN, v[2] = count(arm[i]);
            err = lab_record(l, key, v, why);
        }
        if (err)
            return err;
        first = i ? first : v[2];
        least = least && first <= v[2];
        n += snprintf(measured + n, sizeof measured - (size_t)n, "%s%s %.0f",
                      i ? ", " : "", arm[i], v[2]);
    }
    lab_exact(l, "least", least, measured,
              "a layer of width 64, 2 heads: none has fewer");
    return FAIL_NONE;
}

/* In language modelling, a part of it left out. */
static enum fail run_text(struct lab *l, struct why *why)
{
    enum { WHOLE, NO_AUG, NO_CONV, ARMS };
    static const char *const arms[ARMS] = {"metala", "metala(aug=0)", "metala(conv=0)"};
    static const struct ablation_pair pairs[] = {
        {{NO_AUG}, {WHOLE}}, {{NO_CONV}, {WHOLE}},
    };
    static const int starts[ARMS] = {[NO_AUG] = 4};     // so near that ten would not do

    return ablation_run(&(struct ablation){
        .name = "metala-text", .title = "MetaLA in parts, bits per byte", .arm = arms,
        .arms = ARMS, .starts = starts, .column = 3, .claims = claims + TRAINED,
        .pairs = pairs, .n = 2},
        l, why);
}

static enum fail run(struct lab *l, struct why *why)
{
    double    v[4];
    char      measured[96];
    enum fail err;

    lab_plan(l, 6);
    err = map_cell(l, v, why);
    if (err)
        return err;
    snprintf(measured, sizeof measured, "%.1e over %d maps of %d tokens", v[0], TRIALS,
             T);
    lab_exact(l, "static", v[0] < 1e-12, measured, "0, but for rounding");
    snprintf(measured, sizeof measured, "%.4f a weight, which is 1/%d to 1/%d in the "
             "mean", v[1], T / 2 + 1, T);
    lab_exact(l, "dynamic", v[1] > 1e-3, measured, "more than 0.001");
    err = judge_parameters(l, why);
    return err ? err : run_text(l, why);
}

const struct experiment experiment_metala = {
    .name = "metala",
    .claim = "decays that see the token represent any attention map, without keys",
    .paper = "MetaLA, arXiv:2411.10741",
    .columns = "gates,fixed,parameters,bits",
    .seeds = 6,
    .run = run,
    .exact = true,
    .claims = claims,
    .at = ABLATION_AT,
};
