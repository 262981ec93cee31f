/* Softmax attention turns its keys in secret (Selective RoPE, arXiv:2511.17388):
 *
 *     e^(q.k) = e^((|q|^2 + |k|^2) / 2)  E cos(w.(q - k)),       w ~ N(0, I)
 *
 * each w turns query and key by angles that depend on the input, and the mean over w is
 * the softmax. So attention weights from m such rotations come as near to softmax's as
 * m^(-1/2).
 */
#include "tools/lab/lab.h"
#include "tools/lab/learn.h"

#include <math.h>
#include <stdio.h>

enum { D = 8, KEYS = 16, SIZES = 6, TRIALS = 200 };

static const int sizes[SIZES] = {256, 512, 1024, 2048, 4096, 8192};

static const struct lab_claim claims[] = {
    {"rotations", "softmax attention already performs rotations that depend on the "
     "input", "Theorem on random Fourier features", "m random rotations",
     "distance to softmax's weights"},
    {0},
};

struct problem {
    double q[D], k[KEYS][D];
};

static void draw(struct rng *r, double *x, double scale)
{
    for (int i = 0; i < D; i++)
        x[i] = scale * rng_normal(r);
}

static double dot(const double *a, const double *b)
{
    double sum = 0;

    for (int i = 0; i < D; i++)
        sum += a[i] * b[i];
    return sum;
}

static void divide(double *w)
{
    double sum = 0;

    for (int j = 0; j < KEYS; j++)
        sum += w[j];
    for (int j = 0; j < KEYS; j++)
        w[j] /= sum;
}

/* Half the sum of the differences of weights: by m rotations, by softmax. */
static double distance(const struct problem *p, struct rng *r, int m)
{
    double by[KEYS] = {0}, exact[KEYS], w[D], sum = 0;

    for (int i = 0; i < m; i++) {
        draw(r, w, 1);
        for (int j = 0; j < KEYS; j++)
            by[j] += cos(dot(w, p->q) - dot(w, p->k[j])) / m;
    }
    for (int j = 0; j < KEYS; j++) {
        by[j] *= exp(dot(p->k[j], p->k[j]) / 2);        // |q| is all weights' own
        exact[j] = exp(dot(p->q, p->k[j]));
    }
    divide(by);
    divide(exact);
    for (int j = 0; j < KEYS; j++)
        sum += fabs(by[j] - exact[j]) / 2;
    return sum;
}

static enum fail cell(struct lab *l, int m, int trials, double *v, struct why *why)
{
    char      key[64];
    double    sum = 0, squares = 0;

    snprintf(key, sizeof key, "m=%d trials=%d seed=%llu", m, trials,
             (unsigned long long)lab_seed(l, 0));
    if (lab_recall(l, key, v))
        return FAIL_NONE;
    for (int i = 0; i < trials; i++) {
        struct rng     r = rng_open(lab_seed(l, 0), RNG_LAB, (uint64_t)i);
        struct problem p;
        double         d;

        draw(&r, p.q, 0.4);
        for (int j = 0; j < KEYS; j++)
            draw(&r, p.k[j], 0.4);
        d = distance(&p, &r, m);
        sum += d, squares += d * d;
    }
    struct estimate e = estimate_of(sum, squares, trials);

    v[0] = e.mean, v[1] = e.se;
    return lab_record(l, key, v, why);
}

static enum fail run(struct lab *l, struct why *why)
{
    double x[SIZES], y[SIZES], v[2], slope;
    int    trials = lab_form(l) == LAB_BRIEF ? TRIALS / 10 : TRIALS;
    char   measured[128];

    lab_plan(l, SIZES);
    for (int i = 0; i < SIZES; i++) {
        enum fail err = cell(l, sizes[i], trials, v, why);

        if (err)
            return err;
        x[i] = sizes[i], y[i] = v[0];
        lab_say(l, "%6d rotations: %.4f +- %.4f", sizes[i], v[0], v[1]);
    }
    slope = log_slope(x, y, SIZES);
    snprintf(measured, sizeof measured, "slope %.3f; %.4f with %d, %.4f with %d", slope,
             y[0], sizes[0], y[SIZES - 1], sizes[SIZES - 1]);
    lab_exact(l, "rotations", fabs(slope + 0.5) < 0.05, measured, "-1/2, within 0.05");

    struct chart_series s = {.name = "by rotations", .x = x, .y = y, .n = SIZES};

    return lab_chart(l, "rotations", &(struct chart){
        .title = "Softmax's weights by random rotations", .xlabel = "rotations",
        .ylabel = "total variation", .logx = 1, .logy = 1, .series = &s, .nseries = 1},
        why);
}

const struct experiment experiment_rotations = {
    .name = "rotations",
    .claim = "softmax attention is a mean over rotations that the input winds up",
    .paper = "Selective Rotary Position Embedding, arXiv:2511.17388",
    .columns = "distance,stderr",
    .seeds = 1,
    .run = run,
    .exact = true,
    .claims = claims,
};
