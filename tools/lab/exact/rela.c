/* Sparse attention by ReLU (ReLA, arXiv:2104.07012): weights max(q.k, 0) are exactly zero
 * where the score is not positive, and a query may attend to nothing at all. Of a model
 * whose weights are still random, scores are as often negative as not, whatever the
 * query: half of the weights are zero, and a row of n keys is empty with chance 2^-n.
 */
#include "model/mixer_instruments.h"
#include "model/pass.h"
#include "tools/lab/lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { T = 64, TEXTS = 8, VOCAB = 2048 };

static const struct lab_claim claims[] = {
    {"sparse", "ReLU makes attention sparse: weights are exactly zero",
     "most weights of a trained model", "rela with random weights", "share of zeros"},
    {"softmax", "control: softmax has none", NULL, "softmax with random weights",
     "share of zeros"},
    {"empty", "a query may attend to nothing", "null attention, by head",
     "rela with random weights", "share of empty rows"},
    {0},
};

struct seen {
    struct zeros sum;
};

static void watch(void *user, int layer, struct mixer_layer *l)
{
    (void)layer;
    mixer_zeros(l, &((struct seen *)user)->sum);
}

static enum fail score(const struct model *m, uint64_t seed, struct seen *seen,
                       struct why *why)
{
    struct pass p = {0};
    int32_t     tokens[TEXTS * T], targets[TEXTS * T];
    real        nats[TEXTS * T];
    struct rng  r = rng_open(seed, RNG_LAB, 0);
    enum fail   err = pass_open(&p, m, TEXTS, T, PASS_SCORE, why);

    if (err)
        return err;
    for (int i = 0; i < TEXTS * T; i++) {
        tokens[i] = (int32_t)rng_below(&r, VOCAB);
        targets[i] = 0;
    }
    p.watch = watch, p.user = seen;
    model_score(m, &p, TEXTS, T, tokens, targets, 0, nats);
    pass_close(&p);
    return FAIL_NONE;
}

/* Shares of zeros and of empty rows of a model with these random weights. */
static enum fail cell(struct lab *l, const char *entry, uint64_t seed, double *v,
                      struct why *why)
{
    struct config c;
    struct model  m = {0};
    struct seen   seen = {{0}};
    char          key[64];
    enum fail     err;

    snprintf(key, sizeof key, "%s seed %llu", entry, (unsigned long long)seed);
    if (lab_recall(l, key, v))
        return FAIL_NONE;
    config_defaults(&c);
    c.layers = 1, c.width = 128, c.heads = 8, c.vocab = VOCAB, c.context = T;
    err = config_set(&c, "mixers", entry, why);
    if (!err)
        err = config_resolve(&c, why);
    if (!err)
        err = model_open(&m, &c, why);
    if (err)
        return err;
    model_init(&m, seed);
    err = score(&m, seed, &seen, why);
    model_close(&m);
    v[0] = seen.sum.pairs > 0 ? seen.sum.zeros / seen.sum.pairs : 0;
    v[1] = seen.sum.rows > 0 ? seen.sum.nulls / seen.sum.rows : 0;
    return err ? err : lab_record(l, key, v, why);
}

static enum fail means(struct lab *l, const char *entry, int n, double *zeros,
                       double *empty, struct why *why)
{
    enum fail err = FAIL_NONE;

    *zeros = *empty = 0;
    for (int i = 0; !err && i < n; i++) {
        double v[2];

        err = cell(l, entry, lab_seed(l, 0) + (uint64_t)i, v, why);
        *zeros += v[0] / n, *empty += v[1] / n;
    }
    return err;
}

static enum fail run(struct lab *l, struct why *why)
{
    const double expected = (1 - pow(2, -T)) / T;       // mean of 2^-n, n = 1 .. T
    int          n = lab_form(l) == LAB_BRIEF ? 8 : 32;
    double       zeros, empty, none, unused;
    char         measured[96], yardstick[96];
    enum fail    err;

    lab_plan(l, 2 * n);
    err = means(l, "rela+none", n, &zeros, &empty, why);
    if (!err)
        err = means(l, "softmax+none", n, &none, &unused, why);
    if (err)
        return err;
    snprintf(measured, sizeof measured, "%.4f of the weights, %d models", zeros, n);
    lab_exact(l, "sparse", fabs(zeros - 0.5) < 0.02, measured, "1/2, within 0.02");
    snprintf(measured, sizeof measured, "%.4f of the weights", none);
    lab_exact(l, "softmax", none == 0, measured, "none");
    snprintf(measured, sizeof measured, "%.4f of the rows", empty);
    snprintf(yardstick, sizeof yardstick, "the mean of 2^-n over n = 1 to %d, %.4f, "
             "within a quarter", T, expected);
    lab_exact(l, "empty", fabs(empty / expected - 1) < 0.25, measured, yardstick);
    return FAIL_NONE;
}

const struct experiment experiment_rela = {
    .name = "rela",
    .claim = "ReLU attention is sparse, and may attend to nothing",
    .paper = "Sparse Attention with Linear Units, arXiv:2104.07012",
    .columns = "zeros,empty",
    .seeds = 1,
    .run = run,
    .exact = true,
    .claims = claims,
};
