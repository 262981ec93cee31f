/* Finite samples: softmax and linear attention fitted to N = alpha D of them by
 * full-batch Adam on the mean loss + decay / (2 N) |w|^2, spiked, L = 3, nu = 5.
 * Both start informed, k near 0.3 k* and v near 0.3 v*, as in the paper; of the decays
 * the one with the least risk counts. What the fits of softmax with one decay come to is
 * known without them as D grows, and so is the best that can be made of the samples
 * (tools/lab/theory/replica.h). */
#include "tools/lab/theory/replica.h"
#include "tools/lab/theory/slr_cells.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct slr setting = {SLR_SPIKED, 5, 3, 3};
static const double     decays[] = {0.03, 0.3, 3}, rate = 0.05;
static const int        alphas[] = {2, 5, 10, 20};

enum { DECAYS = 3, ALPHAS = 4, ARMS = 2, DRAWS = 1 << 16 };
enum { FORETOLD = 1, REPEATS = 32, CONVERGED = 1000 };

static const enum slr_arm arms[ARMS] = {SLR_SOFTMAX, SLR_LINEAR};

static int width(const struct lab *l) { return lab_form(l) == LAB_BRIEF ? 32 : 100; }
static int first_alpha(const struct lab *l) { return lab_form(l) == LAB_BRIEF ? 2 : 0; }
static int steps(const struct lab *l) { return lab_form(l) == LAB_FULL ? 1000 : 300; }

/* Draws over which the replica's means are. */
static int imagined(const struct lab *l)
{
    return lab_form(l) == LAB_BRIEF ? 4000 : 100000;
}

/* Fits with decays[FORETOLD] beside the replica's risk, at all but the first alpha. */
static int repeats(const struct lab *l) { return lab_form(l) == LAB_BRIEF ? 0 : REPEATS; }

int slr_samples_cells(const struct lab *l)
{
    int n = ALPHAS - first_alpha(l), fits = repeats(l);

    return n * (ARMS * lab_seeds(l) + 1) + (ALPHAS - 1) * (fits + (fits > 0));
}

struct fit {
    struct slr_batch batch;
    real *k, *v, *w, *g, *moments;
    void *memory;
};

static bool fit_open(struct fit *f, int D, int N, uint64_t seed)
{
    int        n = 2 * D + 1;
    size_t     samples = slr_reals(N, setting.hi, D);
    size_t     reals = samples + N + 2 * D + 4 * (size_t)n;
    struct rng r = rng_open(seed, RNG_LAB, (1ull << 41) + N);
    char      *p = calloc(1, reals * sizeof(real) + 2 * (size_t)N * sizeof(int));

    *f = (struct fit){.memory = p};
    if (!p)
        return false;
    f->k = (real *)p, f->v = f->k + D, f->w = f->v + D, f->g = f->w + n,
        f->moments = f->g + n;
    f->batch = (struct slr_batch){.n = N, .L = setting.hi, .D = D,
                                  .x = f->moments + 2 * n};
    f->batch.y = f->batch.x + samples;
    f->batch.length = (int *)(f->batch.y + N);
    f->batch.at = f->batch.length + N;
    slr_teacher(f->k, f->v, D, &r);
    slr_draw(&setting, &f->batch, f->k, f->v, &r);
    return true;
}

static void fit(struct fit *f, enum slr_arm arm, double decay, int count, uint64_t seed)
{
    int        D = f->batch.D, n = 2 * D + 1;
    struct rng r = rng_open(seed, RNG_LAB, 1ull << 42);

    memset(f->moments, 0, 2 * (size_t)n * sizeof *f->moments);
    normals(&r, f->w, 2 * D);
    for (int i = 0; i < 2 * D; i++)
        f->w[i] = (real)0.1 * f->w[i] + (real)0.3 * (i < D ? f->k[i] : f->v[i - D]);
    f->w[2 * D] = 0;
    for (int t = 0; t < count; t++) {
        for (int i = 0; i < n; i++)
            f->g[i] = (real)(decay / f->batch.n) * f->w[i];
        slr_loss(arm, &f->batch, f->w, f->g);
        adam(f->w, f->g, f->moments, n, cooled(rate, t, count), t + 1);
    }
}

/* Fits of an arm to alpha D samples, with n decays. */
struct fits {
    enum slr_arm  arm;
    int           alpha, D, steps;
    const double *decay;
    int           n;
};

/* Fit with every decay at once, each on a thread of its own; values of the best. */
static bool best_fit(const struct fits *s, uint64_t seed, double *value)
{
    double found[DECAYS][SLR_VALUES];
    bool   ok = true;

    #pragma omp parallel for schedule(dynamic, 1) reduction(&& : ok)
    for (int i = 0; i < s->n; i++) {
        struct fit f;

        ok = ok && fit_open(&f, s->D, s->alpha * s->D, seed);
        if (ok) {
            fit(&f, s->arm, s->decay[i], s->steps, seed);
            struct slr_order o = slr_order(f.w, f.k, f.v, s->D);

            slr_values(found[i], slr_risk(&setting, s->arm, &o, DRAWS, seed), &o,
                       slr_oracle(&setting, s->arm), slr_bayes(&setting));
        }
        free(f.memory);
    }
    memcpy(value, found[0], sizeof found[0]);
    for (int i = 1; ok && i < s->n; i++)
        if (found[i][SLR_RISK] < value[SLR_RISK])
            memcpy(value, found[i], sizeof found[i]);
    return ok;
}

static enum fail cell(struct lab *l, const struct fits *s, uint64_t seed, double *value,
                      struct why *why)
{
    char key[128];

    snprintf(key, sizeof key,
             "samples alpha=%d %s D=%d steps=%d lr=%g decay=%g-%g draws=%d seed=%llu",
             s->alpha, slr_arm_name[s->arm], s->D, s->steps, rate, s->decay[0],
             s->decay[s->n - 1], DRAWS, (unsigned long long)seed);
    if (lab_recall(l, key, value))
        return 0;
    if (!best_fit(s, seed, value))
        return fail(why, FAIL_MEMORY, "%s: not enough memory for its samples", key);
    if (!lab_progress(l, key, 1))
        return FAIL_INTERRUPTED;
    return lab_record(l, key, value, why);
}

/* The risk of softmax fitted with this decay, or with none the least of any predictor, as
 * the replica's equations have it. */
static enum fail foretold(struct lab *l, int alpha, double decay, double *risk,
                          struct why *why)
{
    const uint64_t   seed = lab_seed(l, 0);
    const int        n = imagined(l);
    struct slr_order o;
    double           value[SLR_VALUES];
    char             key[96];

    snprintf(key, sizeof key, "%s alpha=%d decay=%g draws=%d seed=%llu",
             decay > 0 ? "replica" : "best", alpha, decay, n, (unsigned long long)seed);
    if (!lab_recall(l, key, value)) {
        enum fail err;

        o = decay > 0 ? replica_fit(&setting, alpha, decay, n, seed)
                      : replica_bayes(&setting, alpha, n, seed);
        slr_values(value, slr_risk(&setting, SLR_SOFTMAX, &o, DRAWS, seed), &o,
                   slr_oracle(&setting, SLR_SOFTMAX), slr_bayes(&setting));
        if (!lab_progress(l, key, 1))
            return FAIL_INTERRUPTED;
        if ((err = lab_record(l, key, value, why)))
            return err;
    }
    *risk = value[SLR_RISK];
    return FAIL_NONE;
}

static enum fail chart(struct lab *l, double (*risk)[ALPHAS], struct why *why)
{
    double              x[ALPHAS];
    int                 first = first_alpha(l), n = ALPHAS - first;
    struct chart_series series[ARMS];
    struct chart_line   lines[] = {{"Bayes", slr_bayes(&setting)},
                                   {"best linear", slr_linear(&setting)}};

    for (int i = 0; i < n; i++)
        x[i] = alphas[first + i];
    for (int a = 0; a < ARMS; a++)
        series[a] = (struct chart_series){.name = slr_arm_name[arms[a]], .x = x,
                                          .y = risk[a] + first, .n = n, .colour = a};
    return lab_chart(l, "slr-samples", &(struct chart){
        .title = "Risk against samples, spiked, L = 3, nu = 5", .xlabel = "samples / D",
        .ylabel = "risk", .logx = 1, .series = series, .nseries = ARMS, .lines = lines,
        .nlines = 2}, why);
}

static enum fail judge(struct lab *l, double (*risk)[ALPHAS], struct why *why)
{
    char measured[200] = "", least[200] = "", yardstick[80];
    bool below = true, above = true;
    int  at = 0, to = 0;

    for (int i = first_alpha(l); i < ALPHAS; i++) {
        double    bayes;
        enum fail err = foretold(l, alphas[i], 0, &bayes, why);

        if (err)
            return err;
        below = below && risk[0][i] < risk[1][i];
        above = above && risk[0][i] > bayes;
        at += snprintf(measured + at, sizeof measured - at, "%salpha %d: %.4f / %.4f",
                       at ? ", " : "softmax / linear at ", alphas[i], risk[0][i],
                       risk[1][i]);
        to += snprintf(least + to, sizeof least - to, "%salpha %d: %.4f / %.4f",
                       to ? ", " : "softmax / best at ", alphas[i], risk[0][i], bayes);
    }
    snprintf(yardstick, sizeof yardstick, "without end of samples %.4f / %.4f (exact)",
             slr_bayes(&setting), slr_linear(&setting));
    lab_exact(l, "samples", below, measured, yardstick);
    lab_exact(l, "short", above, least, "the best that can be made of as many samples, "
              "D without end");
    return FAIL_NONE;
}

/* The risk that the fits come to, and what the replica's equations say. Fits to fewer
 * samples differ more from one another, and are told but not judged. */
static enum fail foretell(struct lab *l, struct why *why)
{
    struct finding f[ALPHAS];
    double         one[REPEATS], ratio[REPEATS], value[SLR_VALUES];
    char           measured[200] = "";
    int            at = 0;

    for (int i = 1; i < ALPHAS; i++) {
        struct fits s = {SLR_SOFTMAX, alphas[i], width(l), CONVERGED, &decays[FORETOLD],
                         1};
        double      said, mean = 0;
        enum fail   err = foretold(l, alphas[i], decays[FORETOLD], &said, why);

        for (int k = 0; !err && k < REPEATS; k++) {
            err = cell(l, &s, lab_seed(l, k), value, why);
            one[k] = 1, ratio[k] = value[SLR_RISK] / said;
            mean += value[SLR_RISK] / REPEATS;
        }
        if (err)
            return err;
        f[i] = find_equal(one, ratio, REPEATS, 0.05);
        at += snprintf(measured + at, sizeof measured - at, "%salpha %d: %.4f / %.4f",
                       at ? ", " : "fits / replica at ", alphas[i], mean, said);
    }
    f[0] = find_all(f + 2, ALPHAS - 2);
    f[0].learnt = true;
    lab_trained(l, "replica", &f[0], measured,
                "at alpha 10 and 20 the same, within a twentieth");
    return FAIL_NONE;
}

enum fail slr_samples(struct lab *l, struct why *why)
{
    double    risk[ARMS][ALPHAS] = {{0}}, value[SLR_VALUES];
    enum fail err;

    for (int k = 0; k < lab_seeds(l); k++)
        for (int i = first_alpha(l); i < ALPHAS; i++)
            for (int a = 0; a < ARMS; a++) {
                struct fits s = {arms[a], alphas[i], width(l), steps(l), decays, DECAYS};

                if ((err = cell(l, &s, lab_seed(l, k), value, why)))
                    return err;
                risk[a][i] += value[SLR_RISK] / lab_seeds(l);
            }
    err = judge(l, risk, why);
    if (!err && repeats(l))
        err = foretell(l, why);
    return err ? err : chart(l, risk, why);
}
