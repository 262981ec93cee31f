/* Bridging the divide (InLine, arXiv:2412.06590): linear attention is not injective.
 * Divided by their sum, weights of homogeneous features are the same for q and 2 q:
 *
 *     f(2 q).f(k_j) / sum_s f(2 q).f(k_s) = f(q).f(k_j) / sum_s f(q).f(k_s)
 *
 * InLine divides nothing: 1/n + f(q).f(k_j) - mean_s f(q).f(k_s) has twice the deviations
 * at 2 q. Softmax has other weights there, too.
 */
#include "data/base/rng.h"
#include "tools/lab/text/ablation.h"

#include <math.h>
#include <stdio.h>

enum { D = 8, KEYS = 16, QUERIES = 1000 };

enum { TRAINED = 3 };                   // claims from there on
enum { SAME, BITS, NEAR, FAR, COLUMNS };

enum kind { SOFTMAX, LINEAR_RELU, LINEAR_ID, INLINE_RELU, INLINE_ID, KINDS };
static const char *const names[KINDS] = {
    "softmax", "linear, relu", "linear, identity", "inline, relu", "inline, identity",
};

static const struct lab_claim claims[] = {
    {"linear", "linear attention is not injective: different queries get the same "
     "weights", "Proposition 2", "relu and identity, divided",
     "queries with the weights of twice the query"},
    {"inline", "InLine attention and softmax are injective", "Propositions 1 and 3",
     "inline with the identity, softmax", "queries with the weights of twice the query"},
    {"kernel", "if its feature map is: relu confuses queries without a positive number",
     NULL, "inline with relu", "queries with the weights of twice the query"},
    {"subtraction", "with weights normalised by subtraction text is predicted better "
     "than by division", "injectivity helps",
     "inline(feature=elu1,local=0), subtract = 0, 1",
     "bits per byte of stories", ANSWER_MORE, 0.005, ABLATION_GATE},
    {"local", "and better still with a local term", "local modelling is essential",
     "inline(feature=elu1), local = 0, 3", "bits per byte of stories", ANSWER_MORE, 0.005,
     ABLATION_GATE},
    {"divided", "the local term helps without subtraction, too",
     "local modelling is essential", "inline(feature=elu1,subtract=0), local = 0, 3",
     "bits per byte of stories", ANSWER_MORE, 0.005, ABLATION_GATE},
    {"near", "softmax attention lives on what is near: it loses more without the eight "
     "tokens before than without eight others",
     "local tokens masked out hurt most", "softmax",
     "bits per byte of stories, eight keys hidden at random and eight nearest",
     ANSWER_MORE, 0.05, ABLATION_GATE},
    {"both", "with both, linear attention predicts better than softmax",
     "surpasses softmax at lower cost", "inline(feature=elu1), softmax",
     "bits per byte of stories", ANSWER_MORE, 0.005, ABLATION_GATE},
    {0},
};

static double feature(enum kind kind, double x)
{
    return kind == LINEAR_RELU || kind == INLINE_RELU ? fmax(x, 0) : x;
}

/* The weights of keys k (KEYS, D) for a query. */
static void weigh(enum kind kind, const double *q, double (*k)[D], double *w)
{
    double sum = 0;

    for (int j = 0; j < KEYS; j++) {
        w[j] = 0;
        for (int i = 0; i < D; i++)
            w[j] += feature(kind, q[i]) * feature(kind, k[j][i]);
        if (kind == SOFTMAX)
            w[j] = exp(w[j]);
        sum += w[j];
    }
    for (int j = 0; j < KEYS; j++)
        w[j] = kind >= INLINE_RELU ? w[j] - sum / KEYS + 1.0 / KEYS : w[j] / sum;
}

/* The largest difference of weights for q and 2 q. */
static double apart(enum kind kind, const double *q, double (*k)[D])
{
    double twice[D], a[KEYS], b[KEYS], most = 0;

    for (int i = 0; i < D; i++)
        twice[i] = 2 * q[i];
    weigh(kind, q, k, a);
    weigh(kind, twice, k, b);
    for (int j = 0; j < KEYS; j++)
        most = fmax(most, fabs(a[j] - b[j]) / (1 + fabs(a[j])));
    return most;
}

/* Query i among its keys. */
static void draw(uint64_t seed, int i, double *q, double (*k)[D])
{
    struct rng r = rng_open(seed, RNG_LAB, (uint64_t)i);

    for (int j = 0; j < KEYS * D; j++)
        k[j / D][j % D] = rng_normal(&r);
    for (int j = 0; j < D; j++)
        q[j] = rng_normal(&r);
}

/* Queries of which relu leaves nothing. */
static int lost(uint64_t seed)
{
    double k[KEYS][D], q[D];
    int    n = 0;

    for (int i = 0; i < QUERIES; i++) {
        bool any = false;

        draw(seed, i, q, k);
        for (int j = 0; j < D; j++)
            any |= q[j] > 0;
        n += !any;
    }
    return n;
}

/* How many of the queries have the weights of twice themselves. */
static double collisions(enum kind kind, uint64_t seed)
{
    double k[KEYS][D], q[D];
    int    n = 0;

    for (int i = 0; i < QUERIES; i++) {
        draw(seed, i, q, k);
        n += apart(kind, q, k) < 1e-7;
    }
    return n;
}

/* In language modelling: without both of its properties, with either, with both. */
static enum fail run_text(struct lab *l, struct why *why)
{
    enum { PLAIN, SUBTRACTED, LOCAL, BOTH, ATTENTION, ARMS };
    static const char *const arms[ARMS] = {
        "inline(feature=elu1,subtract=0,local=0)", "inline(feature=elu1,local=0)",
        "inline(feature=elu1,subtract=0)", "inline(feature=elu1)", "softmax",
    };
    static const struct ablation_pair pairs[] = {
        {{PLAIN}, {SUBTRACTED}}, {{SUBTRACTED}, {BOTH}}, {{PLAIN}, {LOCAL}},
        {{ATTENTION, ABLATION_NEAR}, {ATTENTION, ABLATION_FAR}}, {{ATTENTION}, {BOTH}},
    };
    static const int starts[ARMS] = {[LOCAL] = 4};      // far from PLAIN

    return ablation_run(&(struct ablation){
        .name = "inline-text", .title = "InLine attention in parts, bits per byte",
        .arm = arms, .arms = ARMS, .starts = starts, .column = BITS, .hides = true,
        .claims = claims + TRAINED, .pairs = pairs, .n = 5}, l, why);
}

static enum fail run(struct lab *l, struct why *why)
{
    double v[KINDS], values[COLUMNS];
    char   measured[128];

    lab_plan(l, KINDS);
    for (int i = 0; i < KINDS; i++) {
        char      key[64];
        enum fail err = FAIL_NONE;

        snprintf(key, sizeof key, "%s, seed %llu", names[i],
                 (unsigned long long)lab_seed(l, 0));
        if (!lab_recall(l, key, values)) {
            values[SAME] = collisions((enum kind)i, lab_seed(l, 0));
            values[BITS] = values[NEAR] = values[FAR] = NAN;
            err = lab_record(l, key, values, why);
        }
        v[i] = values[SAME];
        if (err)
            return err;
        lab_say(l, "%-20s %4.0f of %d queries have the weights of twice the query",
                names[i], v[i], QUERIES);
    }
    snprintf(measured, sizeof measured, "relu %.0f, identity %.0f of %d", v[LINEAR_RELU],
             v[LINEAR_ID], QUERIES);
    lab_exact(l, "linear", v[LINEAR_RELU] == QUERIES && v[LINEAR_ID] == QUERIES, measured,
              "all of them, to 1e-7");
    snprintf(measured, sizeof measured, "inline %.0f, softmax %.0f of %d", v[INLINE_ID],
             v[SOFTMAX], QUERIES);
    lab_exact(l, "inline", !v[INLINE_ID] && !v[SOFTMAX], measured, "none, to 1e-7");
    snprintf(measured, sizeof measured, "%.0f of %d", v[INLINE_RELU], QUERIES);
    lab_exact(l, "kernel", v[INLINE_RELU] == lost(lab_seed(l, 0)), measured,
              "those whose numbers are all negative, and no other: 1/256 of them");
    return run_text(l, why);
}

const struct experiment experiment_inline = {
    .name = "inline",
    .claim = "linear attention confuses queries, InLine attention and softmax do not",
    .paper = "Bridging the Divide, arXiv:2412.06590",
    .columns = "same,bits,near,far",
    .seeds = 6,
    .run = run,
    .exact = true,
    .claims = claims,
    .at = ABLATION_AT,
};
