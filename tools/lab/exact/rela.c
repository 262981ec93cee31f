/* Sparse attention by ReLU (ReLA, arXiv:2104.07012): weights max(q.k, 0) are exactly zero
 * where the score is not positive, and a query may attend to nothing at all. Of a model
 * whose weights are still random, scores are as often negative as not, whatever the
 * query: half of the weights are zero, and a row of n keys is empty with chance 2^-n.
 * In the full form a model learns stories, beside softmax; its zeros are counted, and how
 * far its heads look apart.
 */
#include "tools/lab/lab.h"
#include "tools/lab/task.h"
#include "tools/lab/text/ablation.h"

#include <math.h>
#include <stdio.h>

enum { T = 64, TEXTS = 8, VOCAB = 2048 };
enum { ZEROS, EMPTY, BITS, LEARNT, APART, COLUMNS };  // from BITS on of trained models
enum { TRAINED = 3 };                   // claims from there on

static const struct lab_claim claims[] = {
    {"sparse", "ReLU makes attention sparse: weights are exactly zero",
     "most weights of a trained model", "rela with random weights", "share of zeros"},
    {"softmax", "control: softmax has none", NULL, "softmax with random weights",
     "share of zeros"},
    {"empty", "a query may attend to nothing", "null attention, by head",
     "rela with random weights", "share of empty rows"},
    [TRAINED] = {"trained", "training makes it sparser than chance",
     "most weights of a trained model", "rela", "share of zeros after training",
     ANSWER_ABOVE, 0.5, ABLATION_GATE},
    {"text", "and it predicts text as well as softmax", "on par with softmax",
     "rela, softmax", "bits per byte of stories", ANSWER_EQUAL, 0.06, ABLATION_GATE},
    {"heads", "its heads look at more different places than softmax's",
     "higher head diversity", "softmax, rela",
     "Jensen-Shannon divergence of the heads' weights after training, bits",
     ANSWER_MORE, 0.01, ABLATION_GATE},
    {0},
};

/* Shares of zeros and of empty rows of a model with these random weights. */
static enum fail cell(struct lab *l, const char *entry, uint64_t seed, double *v,
                      struct why *why)
{
    struct config c;
    struct model  m = {0};
    struct attended sum = {0};
    struct rng    r = rng_open(seed, RNG_LAB, 0);
    int32_t       tokens[TEXTS * T];
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
    for (int i = 0; i < TEXTS * T; i++)
        tokens[i] = (int32_t)rng_below(&r, VOCAB);
    err = task_attended(&m, TEXTS, T, tokens, &sum, why);
    model_close(&m);
    v[ZEROS] = sum.zeros / sum.pairs;
    v[EMPTY] = sum.nulls / sum.rows;
    v[BITS] = v[LEARNT] = v[APART] = NAN;
    return err ? err : lab_record(l, key, v, why);
}

static enum fail means(struct lab *l, const char *entry, int n, double *zeros,
                       double *empty, struct why *why)
{
    enum fail err = FAIL_NONE;

    *zeros = *empty = 0;
    for (int i = 0; !err && i < n; i++) {
        double v[COLUMNS];

        err = cell(l, entry, lab_seed(l, 0) + (uint64_t)i, v, why);
        *zeros += v[ZEROS] / n, *empty += v[EMPTY] / n;
    }
    return err;
}

static enum fail run_text(struct lab *l, struct why *why)
{
    static const char *const arms[] = {"rela", "softmax"};
    enum { RELA, SOFTMAX };
    static const struct ablation_pair pairs[] = {
        {{RELA}, {RELA, ABLATION_ZEROS}}, {{SOFTMAX}, {RELA}},
        {{RELA, ABLATION_APART}, {SOFTMAX, ABLATION_APART}},
    };

    return ablation_run(&(struct ablation){
        .name = "rela-text", .title = "Rectified attention, bits per byte", .arm = arms,
        .arms = 2, .column = BITS, .attends = true, .claims = claims + TRAINED,
        .pairs = pairs, .n = 3}, l, why);
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
    return run_text(l, why);
}

const struct experiment experiment_rela = {
    .name = "rela",
    .claim = "ReLU attention is sparse, and may attend to nothing",
    .paper = "Sparse Attention with Linear Units, arXiv:2104.07012",
    .columns = "zeros,empty,bits,learnt,apart",
    .seeds = 10,
    .run = run,
    .exact = true,
    .claims = claims,
    .at = ABLATION_AT,
};
