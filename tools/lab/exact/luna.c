/* LUNA (arXiv:2512.08061): a learned feature map is as universal as softmax's kernel
 * asks, and stays positive definite whatever it learns.
 *
 *     K(q, k) = phi(q).phi(k),   phi_i(z) = c_i e^(w_i.z - b)         i = 1 .. m
 *
 * FAVOR draws w_i ~ N(0, I) and c_i = m^(-1/2); here both are then fitted to e^(q.k) on a
 * sphere by descent. Universal: the error falls with m. Learned: below the error of
 * twice as many random ones. Positive definite: no eigenvalue of a Gram matrix below 0.
 * And the cost of the mixer grows as its length, where softmax's grows as the square.
 *
 * In the full form the mixer learns stories beside linear attention with as many features
 * that are fixed, and beside softmax.
 */
#include "model/model.h"
#include "tools/lab/lab.h"
#include "tools/lab/learn.h"
#include "tools/lab/text/ablation.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { D = 3, SIZES = 4, MOST = 32, PAIRS = 256, POINTS = 24 };
enum { TRAINED = 4, BITS = 3 };         // claims from there on; their column

static const int sizes[SIZES] = {4, 8, 16, 32};

static const struct lab_claim claims[] = {
    {"universal", "a learned feature map comes as near to softmax's kernel as its size "
     "allows", "universal approximation", "m = 4 to 32 learned features",
     "error of e^(q.k), relative"},
    {"learned", "of learned features half as many do as of random ones", NULL,
     "learned against twice as many of FAVOR's", "error of e^(q.k), relative"},
    {"definite", "the learned kernel is positive definite", "Proposition",
     "the learned features", "least eigenvalue of a Gram matrix over its largest"},
    {"parity", "its cost grows as the length, softmax's as the square", NULL,
     "luna, softmax", "FLOPs at 1024 and 8192 tokens"},
    [TRAINED] = {"random", "a learned map predicts text better than random features",
     "learned kernels replace fixed ones",
     "luna, linear(feature=favor), 64 features each",
     "bits per byte of stories", ANSWER_MORE, 0.005, ABLATION_GATE},
    {"fixed", "and better than a fixed map", NULL, "luna, linear(feature=elu1)",
     "bits per byte of stories", ANSWER_MORE, 0.005, ABLATION_GATE},
    {"softmax", "it surpasses quadratic attention", "best of all under compute parity",
     "luna, softmax", "bits per byte of stories", ANSWER_MORE, 0.005, ABLATION_GATE},
    {0},
};

struct map {
    int  m;
    real w[MOST][D], c[MOST];       // in this order: one vector of parameters
};

static void draw_point(struct rng *r, double *x)
{
    double norm = 0;

    for (int i = 0; i < D; i++)
        x[i] = rng_normal(r), norm += x[i] * x[i];
    for (int i = 0; i < D; i++)
        x[i] *= 1.2 / sqrt(norm);
}

static double exponent(const struct map *f, int i, const double *z)
{
    double sum = -0.72;                 // |z|^2 / 2 on this sphere

    for (int j = 0; j < D; j++)
        sum += (double)f->w[i][j] * z[j];
    return sum;
}

static double kernel(const struct map *f, const double *q, const double *k)
{
    double sum = 0;

    for (int i = 0; i < f->m; i++)
        sum += (double)(f->c[i] * f->c[i]) * exp(exponent(f, i, q) + exponent(f, i, k));
    return sum;
}

static void random_map(struct map *f, int m, struct rng *r)
{
    *f = (struct map){.m = m};
    for (int i = 0; i < m; i++) {
        f->c[i] = 1 / (real)sqrt(m);
        for (int j = 0; j < D; j++)
            f->w[i][j] = (real)rng_normal(r);
    }
}

/* One pair's squared relative error, and its gradient added to g. */
static double add_gradient(const struct map *f, struct map *g, const double *q,
                           const double *k)
{
    double want = 0, off;

    for (int j = 0; j < D; j++)
        want += q[j] * k[j];
    want = exp(want);
    off = kernel(f, q, k) / want - 1;
    for (int i = 0; i < f->m; i++) {
        double e = exp(exponent(f, i, q) + exponent(f, i, k)) / want, c = f->c[i];

        g->c[i] += (real)(2 * off * 2 * c * e / PAIRS);
        for (int j = 0; j < D; j++)
            g->w[i][j] += (real)(2 * off * c * c * e * (q[j] + k[j]) / PAIRS);
    }
    return off * off;
}

/* The root of the mean squared relative error over fresh pairs. */
static double error_of(const struct map *f, uint64_t seed)
{
    struct rng r = rng_open(seed, RNG_LAB, 7);
    struct map unused = {0};
    double     sum = 0, q[D], k[D];

    for (int i = 0; i < 4 * PAIRS; i++) {
        draw_point(&r, q);
        draw_point(&r, k);
        sum += add_gradient(f, &unused, q, k);
    }
    return sqrt(sum / (4 * PAIRS));
}

static void learn(struct map *f, int steps, uint64_t seed)
{
    enum { N = MOST * (D + 1) };
    real moments[2 * N] = {0};

    for (int t = 1; t <= steps; t++) {
        struct rng r = rng_open(seed, RNG_LAB, 1000 + (uint64_t)t);
        struct map g = {0};
        double     q[D], k[D];

        for (int i = 0; i < PAIRS; i++) {
            draw_point(&r, q);
            draw_point(&r, k);
            add_gradient(f, &g, q, k);
        }
        adam(f->w[0], g.w[0], moments, N, cooled(0.02, t, steps), t);
    }
}

/* The least eigenvalue of the Gram matrix of POINTS over its largest, by Jacobi's
 * rotations. */
static double least_eigenvalue(const struct map *f, uint64_t seed)
{
    struct rng r = rng_open(seed, RNG_LAB, 9);
    double     x[POINTS][D], a[POINTS][POINTS], low = INFINITY, high = 0;

    for (int i = 0; i < POINTS; i++)
        draw_point(&r, x[i]);
    for (int i = 0; i < POINTS * POINTS; i++)
        a[i / POINTS][i % POINTS] = kernel(f, x[i / POINTS], x[i % POINTS]);
    for (int sweep = 0; sweep < 30; sweep++)
        for (int p = 0; p < POINTS; p++)
            for (int q = p + 1; q < POINTS; q++) {
                double angle = 0.5 * atan2(2 * a[p][q], a[q][q] - a[p][p]);
                double c = cos(angle), s = sin(angle);

                for (int i = 0; i < POINTS; i++) {
                    double u = a[i][p], v = a[i][q];

                    a[i][p] = c * u - s * v, a[i][q] = s * u + c * v;
                }
                for (int i = 0; i < POINTS; i++) {
                    double u = a[p][i], v = a[q][i];

                    a[p][i] = c * u - s * v, a[q][i] = s * u + c * v;
                }
            }
    for (int i = 0; i < POINTS; i++)
        low = fmin(low, a[i][i]), high = fmax(high, a[i][i]);
    return low / high;
}

static enum fail cell(struct lab *l, int m, double *v, struct why *why)
{
    char       key[64];
    struct map f;
    int        steps = lab_form(l) == LAB_BRIEF ? 300 : 1500;
    struct rng r = rng_open(lab_seed(l, 0), RNG_LAB, 0);

    snprintf(key, sizeof key, "m=%d steps=%d seed=%llu", m, steps,
             (unsigned long long)lab_seed(l, 0));
    if (lab_recall(l, key, v))
        return FAIL_NONE;
    random_map(&f, m, &r);
    v[0] = error_of(&f, lab_seed(l, 0));
    learn(&f, steps, lab_seed(l, 0));
    v[1] = error_of(&f, lab_seed(l, 0));
    v[2] = least_eigenvalue(&f, lab_seed(l, 0));
    v[BITS] = NAN;
    if (!lab_progress(l, key, 1))
        return FAIL_INTERRUPTED;
    return lab_record(l, key, v, why);
}

static double flops(const char *entry, int length)
{
    struct mixer_cfg c = {.C = 64, .H = 2, .Hk = 2, .layers = 1, .context = length};
    struct why       why;

    return mixer_parse(&c, entry, &why) ? NAN : mixer_flops(&c, length, 0);
}

static void judge_cost(struct lab *l)
{
    double luna = flops("luna", 8192) / flops("luna", 1024);
    double softmax = flops("softmax", 8192) / flops("softmax", 1024);
    char   measured[96];

    snprintf(measured, sizeof measured, "8 times the tokens: luna %.2f, softmax %.2f "
             "times", luna, softmax);
    lab_exact(l, "parity", fabs(luna - 8) < 0.01 && softmax > 30, measured,
              "8 times; softmax's comes near 64");
}

/* In language modelling, beside fixed features, as many of them, and beside softmax. */
static enum fail run_text(struct lab *l, struct why *why)
{
    enum { LUNA, FAVOR, ELU1, ATTENTION, ARMS };
    static const char *const arms[ARMS] = {
        "luna(psi=exp)+rope", "linear(feature=favor,m=64)+rope",
        "linear(feature=elu1)+rope", "softmax",
    };
    static const struct ablation_pair pairs[] = {
        {{FAVOR}, {LUNA}}, {{ELU1}, {LUNA}}, {{ATTENTION}, {LUNA}},
    };
    static const int starts[ARMS] = {[FAVOR] = 6, [ELU1] = 6};      // far from luna

    return ablation_run(&(struct ablation){
        .name = "luna-text", .title = "LUNA and others, bits per byte", .arm = arms,
        .arms = ARMS, .starts = starts, .column = BITS, .claims = claims + TRAINED,
        .pairs = pairs, .n = 3}, l, why);
}

static enum fail run(struct lab *l, struct why *why)
{
    double    x[SIZES], y[2][SIZES], v[BITS + 1], least = 0;
    bool      falls = true, below = true;
    char      measured[160];
    enum fail err;

    lab_plan(l, SIZES);
    for (int i = 0; i < SIZES; i++) {
        if ((err = cell(l, sizes[i], v, why)))
            return err;
        x[i] = sizes[i], y[0][i] = v[0], y[1][i] = v[1], least = fmin(least, v[2]);
        falls = falls && (i == 0 || y[1][i] < y[1][i - 1]);
        below = below && (i == 0 || y[1][i - 1] < v[0]);
        lab_say(l, "m = %2d: random %.4f, learned %.4f; least eigenvalue %.1e", sizes[i],
                v[0], v[1], v[2]);
    }
    snprintf(measured, sizeof measured, "%.4f, %.4f, %.4f, %.4f with m = 4, 8, 16, 32",
             y[1][0], y[1][1], y[1][2], y[1][3]);
    lab_exact(l, "universal", falls && y[1][SIZES - 1] < 0.05, measured,
              "falls at each m, to below 0.05");
    snprintf(measured, sizeof measured, "learned with 4 %.4f, random with 4 %.4f, with "
             "32 %.4f", y[1][0], y[0][0], y[0][SIZES - 1]);
    lab_exact(l, "learned", below, measured,
              "below the error of twice as many random ones, each m");
    snprintf(measured, sizeof measured, "%.1e", least);
    lab_exact(l, "definite", least > -1e-9, measured, "0, but for rounding");
    judge_cost(l);

    struct chart_series s[] = {{.name = "random", .x = x, .y = y[0], .n = SIZES},
                               {.name = "learned", .x = x, .y = y[1], .n = SIZES,
                                .colour = 1}};

    err = lab_chart(l, "luna", &(struct chart){
        .title = "Softmax's kernel by m features", .xlabel = "features",
        .ylabel = "relative error", .logx = 1, .logy = 1, .series = s, .nseries = 2},
        why);
    return err ? err : run_text(l, why);
}

const struct experiment experiment_luna = {
    .name = "luna",
    .claim = "a learned feature map approximates softmax's kernel, positive definite",
    .paper = "LUNA, arXiv:2512.08061",
    .columns = "random,learned,eigenvalue,bits",
    .seeds = 10,
    .run = run,
    .exact = true,
    .claims = claims,
    .at = ABLATION_AT,
};
