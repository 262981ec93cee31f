/* Mixers as dynamical systems (arXiv:2405.15731): whatever its name, a mixer with a state
 * of fixed size is
 *
 *     h_t = L_t h_{t-1} + B_t u_t        L_t, B_t from token t alone
 *
 * so that what a token makes of a mixture of two states is the mixture of what it makes
 * of each. Measured on the decode states themselves, of prompts that differ but for their
 * last tokens, which short convolutions still hold. The control: a stack of two such
 * layers is no longer of this form, for the second's input depends on the first's state.
 * (mlstm's state has a scale of its own, inline's sums in double: left out.)
 *
 * Softmax attention is of this form with an infinite state: e^s is the sum of s^j / j!,
 * and s^j = (q.k)^j has as features all products of j coordinates. Cut off after order p,
 * the state has binomial(d + p, p) rows, and the weights are as far off as Taylor's
 * remainder allows.
 */
#include "tools/lab/task.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED = 6, PROMPT = 16, TOKENS = 32 };
enum { ORDERS = 10, DIM = 4, KEYS = 32, QUERIES = 200 };

static const char *const linear[] = {
    "linear", "luna", "normattn", "retention", "ssd", "deltanet", "gla", "metala",
    "qlstm", "rglru", "mingru", "s6",
};
enum { LINEAR = sizeof linear / sizeof *linear };

static const struct lab_claim claims[] = {
    {"one-form", "state-space models, gated RNNs and linear attention are one system: "
     "h_t = L_t h + B_t u_t", NULL, "12 mixers", "a token's effect on mixed states"},
    {"control", "control: a stack of two such layers is not", NULL, "gla, two layers",
     "a token's effect on mixed states"},
    {"infinite", "softmax attention is one with an infinite state: cut off after order "
     "p, it errs by Taylor's remainder", NULL, "exp cut off at order 0 to 9",
     "largest error of a weight"},
    {0},
};

/* ---- states ---- */

static enum fail open_model(struct model *m, const char *entry, int layers, uint64_t seed,
                            struct why *why)
{
    struct config c;
    enum fail     err;

    config_defaults(&c);
    c.layers = layers, c.width = 32, c.heads = 2, c.vocab = TOKENS, c.context = 64;
    err = task_mixers_alone(m, &c, entry, why);
    if (!err)
        model_init(m, seed);
    return err;
}

/* One token more. */
static void extend(const struct model *m, struct pass *p, float *state, long pos,
                   int32_t token)
{
    void *s = state;

    model_extend(m, p, &s, &pos, 1, 1, &token, NULL);
}

/* The state after a prompt of its own that ends as all do. */
static void read_prompt(const struct model *m, struct pass *p, float *state,
                        uint64_t seed)
{
    struct rng own = rng_open(seed, RNG_LAB, 1), all = rng_open(0, RNG_LAB, 2);

    for (long t = 0; t < PROMPT; t++)
        extend(m, p, state, t, (int32_t)rng_below(t < PROMPT - SHARED ? &own : &all,
                                                  TOKENS));
}

/* The effect of one token on 0.3 a + 0.7 b less the mixture of its effects, over what
 * parts a and b. */
static double mixed(const struct model *m, struct pass *p, float *a, float *b, float *c,
                    size_t n)
{
    double off = 0, apart = 0;

    for (size_t i = 0; i < n; i++)
        c[i] = 0.3f * a[i] + 0.7f * b[i];
    extend(m, p, a, PROMPT, 3);
    extend(m, p, b, PROMPT, 3);
    extend(m, p, c, PROMPT, 3);
    for (size_t i = 0; i < n; i++) {
        off = fmax(off, fabs(c[i] - (0.3 * a[i] + 0.7 * b[i])));
        apart = fmax(apart, fabs((double)a[i] - b[i]));
    }
    return off / apart;
}

static enum fail measure(const char *entry, int layers, uint64_t seed, double *off,
                         struct why *why)
{
    struct model m = {0};
    struct pass  p = {0};
    float       *state = NULL;
    enum fail    err = open_model(&m, entry, layers, seed, why);

    if (!err)
        err = pass_open(&p, &m, 1, 1, PASS_EXTEND, why);
    if (!err) {
        size_t n = model_state_bytes(&m) / sizeof *state;

        state = calloc(3 * n, sizeof *state);
        if (!state)
            err = fail(why, FAIL_MEMORY, "out of memory for states");
        else {
            read_prompt(&m, &p, state, seed);
            read_prompt(&m, &p, state + n, seed + 1);
            *off = mixed(&m, &p, state, state + n, state + 2 * n, n);
        }
    }
    free(state);
    pass_close(&p);
    model_close(&m);
    return err;
}

static enum fail state_cell(struct lab *l, const char *entry, int layers, double *off,
                            struct why *why)
{
    char      key[96];
    double    v[2] = {NAN, NAN};
    enum fail err;

    snprintf(key, sizeof key, "%s, %d layers, seed %llu", entry, layers,
             (unsigned long long)lab_seed(l, 0));
    if (!lab_recall(l, key, v)) {
        err = measure(entry, layers, lab_seed(l, 0), v, why);
        if (!err)
            err = lab_record(l, key, v, why);
        if (err)
            return err;
    }
    *off = v[0];
    lab_say(l, "%-28s %.1e", key, v[0]);
    return FAIL_NONE;
}

static enum fail judge_states(struct lab *l, struct why *why)
{
    double      off, worst = 0;
    const char *at = "";
    char        measured[96];
    enum fail   err;

    for (int i = 0; i < LINEAR; i++) {
        if ((err = state_cell(l, linear[i], 1, &off, why)))
            return err;
        if (off >= worst)
            worst = off, at = linear[i];
    }
    snprintf(measured, sizeof measured, "furthest of %d: %s, %.1e", LINEAR, at, worst);
    lab_exact(l, "one-form", worst < 1e-4, measured,
              "0 but for float32: 1e-4 of what parts the states");
    if ((err = state_cell(l, "gla", 2, &off, why)))
        return err;
    snprintf(measured, sizeof measured, "%.1e", off);
    lab_exact(l, "control", off > 1e-3, measured, "more than 1e-3 of what parts them");
    return FAIL_NONE;
}

/* ---- an infinite state ---- */

static void draw(struct rng *r, double *x)
{
    for (int i = 0; i < DIM; i++)
        x[i] = 0.5 * rng_normal(r);
}

static double dot(const double *a, const double *b)
{
    double sum = 0;

    for (int i = 0; i < DIM; i++)
        sum += a[i] * b[i];
    return sum;
}

/* e^s up to order p. */
static double taylor(double s, int p)
{
    double sum = 1, term = 1;

    for (int j = 1; j <= p; j++)
        sum += term *= s / j;
    return sum;
}

/* The largest error of e^s at order p over random queries and keys, and the largest
 * that Taylor's remainder |s|^(p+1) / (p+1)! e^max(s, 0) allows there. */
static void cut_off(uint64_t seed, int p, double *v)
{
    struct rng r = rng_open(seed, RNG_LAB, 3);
    double     q[DIM], k[DIM];

    v[0] = v[1] = 0;
    for (int i = 0; i < QUERIES * KEYS; i++) {
        draw(&r, q);
        draw(&r, k);
        double s = dot(q, k), bound = pow(fabs(s), p + 1) / tgamma(p + 2) *
                                      exp(fmax(s, 0));

        v[0] = fmax(v[0], fabs(taylor(s, p) - exp(s)));
        v[1] = fmax(v[1], bound);
    }
}

static double rows_of(int p)
{
    double n = 1;

    for (int j = 1; j <= p; j++)
        n *= (double)(DIM + j) / j;
    return n;
}

static enum fail judge_orders(struct lab *l, struct why *why)
{
    double error[ORDERS], rows[ORDERS];
    bool   falls = true;
    char   measured[128], key[64];

    for (int p = 0; p < ORDERS; p++) {
        double    v[2];
        enum fail err = FAIL_NONE;

        snprintf(key, sizeof key, "softmax cut off at order %d, seed %llu", p,
                 (unsigned long long)lab_seed(l, 0));
        if (!lab_recall(l, key, v)) {
            cut_off(lab_seed(l, 0), p, v);
            err = lab_record(l, key, v, why);
        }
        if (err)
            return err;
        error[p] = v[0], rows[p] = rows_of(p);
        falls = falls && v[0] <= v[1] * (1 + 1e-9) && (p < 6 || v[0] < error[p - 1]);
        lab_say(l, "%-40s %6.0f rows  %.1e", key, rows[p], v[0]);
    }
    snprintf(measured, sizeof measured, "%.0f rows %.1e, %.0f rows %.1e, %.0f rows %.1e",
             rows[1], error[1], rows[5], error[5], rows[9], error[9]);
    lab_exact(l, "infinite", falls, measured,
              "never above |s|^(p+1)/(p+1)! e^s; each order less, none without error");

    struct chart_series s = {.name = "largest error", .x = rows, .y = error, .n = ORDERS};

    return lab_chart(l, "systems", &(struct chart){
        .title = "Softmax by a finite state: error of e^(q.k)", .xlabel = "rows of state",
        .ylabel = "error", .logx = 1, .logy = 1, .series = &s, .nseries = 1}, why);
}

static enum fail run(struct lab *l, struct why *why)
{
    enum fail err;

    lab_plan(l, LINEAR + 1 + ORDERS);
    err = judge_states(l, why);
    return err ? err : judge_orders(l, why);
}

const struct experiment experiment_systems = {
    .name = "systems",
    .claim = "mixers are one dynamical system; softmax's state is infinite",
    .paper = "Understanding the differences in foundation models, arXiv:2405.15731",
    .columns = "off,bound",
    .seeds = 1,
    .run = run,
    .exact = true,
    .claims = claims,
};
