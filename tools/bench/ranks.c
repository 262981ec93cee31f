/* weft bench --ranks, under mpirun: what a step of these ranks takes, the exchange of
 * gradients and weights alone, and a model of both,
 *
 *     T(n) = (G / n) leaf + rest + spread + adam / n
 *     spread = k log2(n) a + (n-1)/n 4N / b       of the weights
 *     sum = spread + (n-1)/n 4N / c               of the gradients
 *     rest = max(sum - back, tail sum)            of sum, behind the backward pass
 *
 * for k buckets, of which the last to be complete is the share `tail` of all. The latency
 * a and the rate b of a message, the rate c of adding and the seconds `back` between the
 * first bucket and the last are measured here, and carried on to 1,024 ranks on slower
 * networks. Without overlap rest is sum. */
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
    double leaf, adam;              // a micro-batch; an update of all, by one rank
    double step[2];                 // both and the exchange, of these ranks: after the
                                    // backward pass, and beside it
    double back;                    // of a leaf, from the first bucket to the last
    double spread, sum;             // the exchange's two halves
    double a, b, c;
    double buckets, first;          // how many; parameters in the last to be complete
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

/* Gradients from here on are complete: when they first were, into *user. */
static void ready(void *user, size_t from)
{
    double *first = user;

    if (!*first)
        *first = wall_seconds();
    ranks_sum_ready(from);
}

/* As trainer_step, with a leaf for each rank. */
static void step(struct rig *r, struct shares *own, struct adamw o, double *back)
{
    double first = 0, norm;

    r->pass.ready = ready;
    r->pass.ready_user = &first;
    ranks_sum_begin(r->pass.dw, own->cut, own->buckets);
    model_step(&r->model, &r->pass, r->tokens, r->tokens + 1, 0, 1);
    *back = wall_seconds() - first;
    ranks_sum_end();
    norm = shares_norm(own, &r->model, r->pass.dw);
    r->step++;
    for (int i = 0; i < own->buckets; i++)
        if (shares_own(own, i, &o.from, &o.to))
            adamw_step(&o, &r->model, r->pass.dw, r->m, r->v, norm, 1e-4, r->step);
    shares_zero_others(own, r->pass.dw);
    shares_spread(own, r->model.w);
}

/* Steps with and without overlap in turn, since machines change their pace. */
static void time_steps(struct fit *f, struct rig *r, struct shares *own, struct adamw o)
{
    double unread;

    f->step[0] = f->step[1] = f->back = INFINITY;
    for (int i = 0; i < 2 * TRIES; i++) {
        double before = ranks_sent(), start, back;

        ranks_overlap(i % 2);
        start = begin();
        step(r, own, o, &back);
        f->step[i % 2] = fmin(f->step[i % 2], slowest(start));
        f->back = fmin(f->back, i % 2 ? INFINITY : largest(back, &unread));
        f->sent = ranks_sent() - before;
    }
}

/* ---- the model ---- */

/* Adding y (n) to x, as whoever receives it does: while the next part is on its way. */
static double time_add(real *restrict x, const real *restrict y, size_t n)
{
    double best = INFINITY;

    for (int k = 0; k < TRIES; k++) {
        double start = begin();

        for (size_t i = 0; i < n; i++)
            x[i] += y[i];
        best = fmin(best, slowest(start));
    }
    return best;
}

/* Messages of one real each have only latency; of the spread of all the rest is bytes. */
static void fit_model(struct fit *f, real *x, const real *y, size_t n)
{
    double ranks = ranks_n(), share = (ranks - 1) / ranks * (double)n * sizeof(real);

    f->a = time_exchange(x, (size_t)ranks_n(), false) / log2(ranks);
    f->spread = time_exchange(x, n, false);
    f->sum = time_exchange(x, n, true);
    f->b = share / fmax(f->spread - log2(ranks) * f->a, 1e-9);
    f->c = (double)n * sizeof(real) / time_add(x, y, n);
}

/* Seconds of a step of `leaves` micro-batches on n ranks, whose network has rate b. With
 * more ranks than a bucket has blocks of AdamW, buckets are larger. */
static double predict(const struct fit *f, double params, double n, double leaves,
                      double b, bool overlap)
{
    double share = (n - 1) / n * 4 * params;
    double first = fmin(fmax(f->first, n * ADAMW_BLOCK), params);
    double buckets = fmin(f->buckets, params / first);
    double spread = buckets * log2(n) * f->a + share / b, sum = spread + share / f->c;

    if (overlap)
        sum = fmax(sum - f->back, first / params * sum);
    return leaves / n * f->leaf + sum + spread + f->adam / n;
}

/* ---- the report ---- */

static const double gbits[] = {1, 10, 100}, near_rate = 0.8;

static void print_step(const struct fit *f, double params, bool overlap)
{
    double n = ranks_n(), model = predict(f, params, n, n, f->b, overlap);

    printf("  step      %.1f ms measured, %.1f ms by the model: %+.1f %%, %s\n",
           1e3 * f->step[overlap], 1e3 * model, 100 * (model / f->step[overlap] - 1),
           overlap ? "overlapping" : "without overlap");
}

/* What these ranks would take on a network of this rate; on one that is nearly of it,
 * what the projection errs by. */
static void print_at(const struct fit *f, double params, double gbit)
{
    double n = ranks_n(), b = gbit * 1e9 / 8, after = predict(f, params, n, n, b, false);
    double beside = predict(f, params, n, n, b, true);

    printf("  at %3.0f Gb/s  %.1f ms by the model, %.1f overlapping", gbit, 1e3 * after,
           1e3 * beside);
    if (f->b > near_rate * b && f->b < b / near_rate)
        printf("; this network: %+.1f %%, %+.1f %%", 100 * (after / f->step[0] - 1),
               100 * (beside / f->step[1] - 1));
    putchar('\n');
}

static void print_fit(const struct fit *f, double params)
{
    char count[16], sent[16], rule[16];

    format_count(count, sizeof count, params);
    format_bytes(sent, sizeof sent, f->sent);
    format_bytes(rule, sizeof rule, f->formula);
    printf("%d ranks, %s parameters\n", ranks_n(), count);
    printf("  leaf      %.1f ms, %.1f of them in the backward pass behind the first of "
           "%.0f buckets\n",
           1e3 * f->leaf, 1e3 * f->back, f->buckets);
    printf("  optimiser %.1f ms of all\n", 1e3 * f->adam);
    printf("  network   latency %.1f us, %.2f GB/s each way, adding %.2f GB/s\n",
           1e6 * f->a, f->b / 1e9, f->c / 1e9);
    printf("  exchange  %.1f ms: sum of gradients %.1f, weights back %.1f\n",
           1e3 * (f->sum + f->spread), 1e3 * f->sum, 1e3 * f->spread);
    printf("  sent      %s a rank and step; 2 (n-1)/n 4N is %s\n", sent, rule);
    print_step(f, params, false);
    print_step(f, params, true);
    for (int i = 0; i < 3; i++)
        print_at(f, params, gbits[i]);
}

static void print_projection(const struct fit *f, const struct shape *s, double params)
{
    double one = predict(f, params, 1, LEAVES, f->b, false);
    char   tokens[16], steps[16];

    format_count(tokens, sizeof tokens, (double)LEAVES * s->batch * s->context);
    printf("\nefficiency at %d passes a step (%s tokens), without and with overlap; and "
           "the\nsteps of a run of 20 tokens a parameter at one pass a rank\n"
           "%6s %15s %15s %15s  %8s\n",
           LEAVES, tokens, "ranks", "1 Gb/s", "10 Gb/s", "100 Gb/s", "steps");
    for (double n = 1; n <= LEAVES; n *= 2) {
        printf("%6.0f", n);
        for (int i = 0; i < 3; i++)
            for (int overlap = 0; overlap < 2; overlap++) {
                double b = gbits[i] * 1e9 / 8;

                printf(" %6.1f%%",
                       100 * one / (n * predict(f, params, n, LEAVES, b, overlap)));
            }
        format_count(steps, sizeof steps, 20 * params / (n * s->batch * s->context));
        printf("  %8s\n", steps);
    }
    format_count(tokens, sizeof tokens, 20 * params / 1000);
    printf("\nThe batch is a limit of its own: beyond %s tokens a step a run of 20 "
           "tokens a\nparameter has fewer than a thousand steps. Both figures are rules "
           "of thumb.\n", tokens);
}

enum fail bench_ranks(const struct shape *s, struct why *why)
{
    const struct adamw all = {0.9, 0.95, 1e-8, 0.1, 1, 1, false};
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
        err = shares_open(&own, &r.model, ranks_n(), ranks_share_of(ranks_me()), false,
                          why);
    err = ranks_agree(err, why);
    if (!err) {
        params = (double)r.model.n;
        memset(r.tokens, 0, (size_t)r.n_tokens * sizeof *r.tokens);
        rig_step(&r, NULL);
        f.leaf = time_leaf(&r);
        f.adam = time_adam(&r, all);
        fit_model(&f, r.pass.dw, r.model.w, r.model.n);
        memset(r.pass.dw, 0, r.bytes);
        f.buckets = own.buckets;
        f.first = (double)shares_cut(&own, 0)[own.ranks];
        time_steps(&f, &r, &own, all);
        (void)largest(f.sent, &f.sent);         // shares differ by a block
        f.formula = 2 * (ranks - 1) / ranks * 4 * params;
        print_fit(&f, params);
        print_projection(&f, s, params);
    }
    shares_close(&own);
    rig_close(&r);
    return err;
}
