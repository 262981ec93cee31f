/* weft bench --ranks, under mpirun: what a step of these ranks takes, the exchange of
 * gradients and weights alone, and a model of both,
 *
 *     T(n) = (G / n) leaf + 2 log2(n) a + 2 (n-1)/n 4N / b + (n-1)/n 4N / c + adam / n
 *
 * with the latency a and the rate b of a message and the rate c of adding measured here,
 * carried on to 1,024 ranks on slower networks. */
#include "tools/bench/bench.h"

#include "data/base/clock.h"
#include "data/base/format.h"
#include "model/kernels/arena.h"
#include "train/adamw.h"
#include "train/ranks.h"
#include "train/shares.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAVES = 1024, TRIES = 5 };

/* Seconds, and bytes a second. */
struct fit {
    double leaf, adam, step;        // a micro-batch; an update of all, by one rank; both
                                    // and the exchange, of these ranks
    double spread, sum;             // the exchange's two halves
    double a, b, c;
    double sent, formula;           // bytes of a rank in a step, on average
};

/* ---- measuring ---- */

/* Of x over all ranks: the largest, and the mean. */
static double largest(double x, double *mean)
{
    double all[LEAVES] = {0}, most = x;

    all[ranks_me()] = x;
    ranks_gather(all, 1);
    *mean = 0;
    for (int i = 0; i < ranks_n(); i++) {
        most = fmax(most, all[i]);
        *mean += all[i] / ranks_n();
    }
    return most;
}

/* All ranks begin together, and the slowest counts. */
static double slowest(double start)
{
    double unread;

    return largest(wall_seconds() - start, &unread);
}

static double begin(void)
{
    (void)ranks_any(false);
    return wall_seconds();
}

static void exchange(real *x, const size_t *cut, bool sum)
{
    if (sum)
        ranks_sum(x, cut);
    else
        ranks_spread(x, cut);
}

/* The best of a few exchanges of n reals, of which each rank has an equal share; small
 * ones are timed many at once. */
static double time_exchange(real *x, size_t n, bool sum)
{
    size_t *cut = malloc(((size_t)ranks_n() + 1) * sizeof *cut);
    int     times = n > 4096 ? 1 : 200;
    double  best = INFINITY;

    for (int i = 0; cut && i <= ranks_n(); i++)
        cut[i] = n / (size_t)ranks_n() * (size_t)i;
    for (int i = 0; cut && i < TRIES; i++) {
        double start;

        exchange(x, cut, sum);          // so that all begin together
        start = wall_seconds();
        for (int k = 0; k < times; k++)
            exchange(x, cut, sum);
        best = fmin(best, slowest(start) / times);
    }
    free(cut);
    return best;
}

static double time_leaf(struct rig *r)
{
    double best = INFINITY;

    for (int i = 0; i < TRIES; i++) {
        double start = begin();

        model_step(&r->model, &r->pass, r->tokens, r->tokens + 1, 0, 1);
        best = fmin(best, slowest(start));
    }
    return best;
}

/* An update of all parameters by each rank. */
static double time_adam(struct rig *r, struct adamw o)
{
    double best = INFINITY;

    o.from = o.to = 0;
    for (int i = 0; i < TRIES; i++) {
        double start = begin();

        adamw_step(&o, &r->model, r->pass.dw, r->m, r->v,
                   adamw_norm(&r->model, r->pass.dw), 1e-4, ++r->step);
        best = fmin(best, slowest(start));
    }
    return best;
}

static double time_step(struct rig *r, struct shares *own, struct adamw o, double *sent)
{
    double best = INFINITY;

    for (int i = 0; i < TRIES; i++) {
        double start = begin(), before = ranks_sent(), norm;

        model_step(&r->model, &r->pass, r->tokens, r->tokens + 1, 0, 1);
        ranks_sum(r->pass.dw, own->cut);
        norm = shares_norm(own, &r->model, r->pass.dw);
        if (own->from < own->to)
            adamw_step(&o, &r->model, r->pass.dw, r->m, r->v, norm, 1e-4, ++r->step);
        shares_zero_others(own, &r->model, r->pass.dw);
        ranks_spread(r->model.w, own->cut);
        *sent = ranks_sent() - before;
        best = fmin(best, slowest(start));
    }
    return best;
}

/* ---- the model ---- */

/* Messages of one real each have only latency; of the spread of all the rest is bytes, of
 * the sum of all the rest beyond that is adding. */
static void fit_model(struct fit *f, real *x, size_t n)
{
    double ranks = ranks_n(), share = (ranks - 1) / ranks * (double)n * sizeof(real);

    f->a = time_exchange(x, (size_t)ranks_n(), false) / log2(ranks);
    f->spread = time_exchange(x, n, false);
    f->sum = time_exchange(x, n, true);
    f->b = share / fmax(f->spread - log2(ranks) * f->a, 1e-9);
    f->c = share / fmax(f->sum - f->spread, 1e-9);
}

/* Seconds of a step of LEAVES micro-batches on n ranks, whose network has rate b. */
static double predict(const struct fit *f, double params, double n, double leaves,
                      double b)
{
    double share = (n - 1) / n * 4 * params;

    return leaves / n * f->leaf + 2 * log2(n) * f->a + 2 * share / b + share / f->c +
           f->adam / n;
}

/* ---- the report ---- */

static void print_fit(const struct fit *f, double params)
{
    char count[16], sent[16], rule[16];

    format_count(count, sizeof count, params);
    format_bytes(sent, sizeof sent, f->sent);
    format_bytes(rule, sizeof rule, f->formula);
    printf("%d ranks, %s parameters\n", ranks_n(), count);
    printf("  leaf      %.1f ms, optimiser %.1f ms of all\n", 1e3 * f->leaf,
           1e3 * f->adam);
    printf("  network   latency %.1f us, %.2f GB/s each way, adding %.2f GB/s\n",
           1e6 * f->a, f->b / 1e9, f->c / 1e9);
    printf("  exchange  %.1f ms: sum of gradients %.1f, weights back %.1f\n",
           1e3 * (f->sum + f->spread), 1e3 * f->sum, 1e3 * f->spread);
    printf("  sent      %s a rank and step; 2 (n-1)/n 4N is %s\n", sent, rule);
    printf("  step      %.1f ms measured, %.1f ms by the model: %+.1f %%\n",
           1e3 * f->step, 1e3 * predict(f, params, ranks_n(), ranks_n(), f->b),
           100 * (predict(f, params, ranks_n(), ranks_n(), f->b) / f->step - 1));
}

static void print_projection(const struct fit *f, const struct shape *s, double params)
{
    static const double gbits[] = {1, 10, 100};
    double              one = predict(f, params, 1, LEAVES, f->b);
    char                tokens[16], steps[16];

    format_count(tokens, sizeof tokens, (double)LEAVES * s->batch * s->context);
    printf("\nefficiency at %d passes a step (%s tokens), without overlap:\n"
           "%6s %8s %8s %8s   %s\n",
           LEAVES, tokens, "ranks", "1 Gb/s", "10 Gb/s", "100 Gb/s",
           "steps at one pass a rank, 20 tokens a parameter");
    for (double n = 1; n <= LEAVES; n *= 2) {
        printf("%6.0f", n);
        for (int i = 0; i < 3; i++)
            printf(" %7.1f%%",
                   100 * one / (n * predict(f, params, n, LEAVES, gbits[i] * 1e9 / 8)));
        format_count(steps, sizeof steps, 20 * params / (n * s->batch * s->context));
        printf("   %s\n", steps);
    }
    format_count(tokens, sizeof tokens, 20 * params / 1000);
    printf("\nThe batch is a limit of its own: beyond %s tokens a step a run of 20 "
           "tokens a\nparameter has fewer than a thousand steps. Both figures are rules "
           "of thumb.\n", tokens);
}

enum fail bench_ranks(const struct shape *s, struct why *why)
{
    const struct adamw all = {0.9, 0.95, 1e-8, 0.1, 1, 1, false};
    struct adamw       mine = all;
    struct rig         r;
    struct shares      own = {0};
    struct fit         f = {0};
    double             ranks = ranks_n(), params;
    enum fail          err;

    if (ranks_n() < 2 || ranks_n() > LEAVES)
        return fail(why, FAIL_USAGE, "--ranks wants mpirun -np 2 or more, and weft "
                    "built with: make MPI=1");
    err = ranks_check(LEAVES, why);
    if (err)
        return err;
    err = rig_open(&r, s, why);
    if (!err)
        err = shares_open(&own, &r.model, false, why);
    err = ranks_agree(err, why);
    if (!err) {
        params = (double)r.model.n;
        mine.from = own.from, mine.to = own.to;
        memset(r.tokens, 0, (size_t)r.n_tokens * sizeof *r.tokens);
        rig_step(&r, NULL);
        f.leaf = time_leaf(&r);
        f.adam = time_adam(&r, all);
        fit_model(&f, r.pass.dw, r.model.n);
        memset(r.pass.dw, 0, r.bytes);
        f.step = time_step(&r, &own, mine, &f.sent);
        (void)largest(f.sent, &f.sent);         // shares differ by a block
        f.formula = 2 * (ranks - 1) / ranks * 4 * params;
        print_fit(&f, params);
        print_projection(&f, s, params);
    }
    shares_close(&own);
    rig_close(&r);
    return err;
}
