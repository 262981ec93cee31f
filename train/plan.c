#include "train/plan.h"

#include "data/base/clock.h"
#include "data/base/format.h"
#include "train/ranks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const double most_evals = 20, eval_share = 0.05, save_seconds = 60, samples = 5;

/* ---- memory ---- */

double plan_memory(const struct model *m, const struct config *c)
{
    double weights = (double)m->n * sizeof(real);

    double muon = strcmp(c->optimiser, "muon") ? 0 : (double)muon_bytes(m);

    return weights + 2 * weights / ranks_n() + muon + LOADER_CACHE +
           (double)leaves_bytes(m, c->accumulate, ranks_n()) +
           (double)pass_bytes(m, c->batch, c->context, pass_training(c));
}

static double read_limit(const char *path)
{
    FILE  *f = fopen(path, "re");
    double limit;
    bool   is = f && fscanf(f, "%lf", &limit) == 1 && limit > 0;

    if (f)
        fclose(f);
    return is ? limit : INFINITY;
}

/* Of the group, "/a/b", and of those above it: /a and /. */
static double least_limit(const char *root, char *group, const char *file)
{
    double least = INFINITY;
    char   path[3000];

    for (;;) {
        char *slash = strrchr(group, '/');

        snprintf(path, sizeof path, "%.900s%.1000s/%s", root, group, file);
        least = fmin(least, read_limit(path));
        if (!slash)
            return least;
        *slash = 0;
    }
}

/* A line of self is "0::/a/b" in version 2, "4:memory:/a/b" in version 1. In a container
 * the path may be one of the host's, which is not there: the root's limit is its own. */
double plan_group_limit(const char *self, const char *root)
{
    FILE  *f = fopen(self, "re");
    double least = INFINITY;
    char   line[2000], memory[1000];

    snprintf(memory, sizeof memory, "%.900s/memory", root);
    while (f && fgets(line, sizeof line, f)) {
        char *name = strchr(line, ':'), *path = name ? strchr(name + 1, ':') : NULL;

        line[strcspn(line, "\n")] = 0;
        if (path && !strncmp(name, "::", 2))
            least = fmin(least, least_limit(root, path + 1, "memory.max"));
        else if (path && !strncmp(name, ":memory:", 8))
            least = fmin(least, least_limit(memory, path + 1, "memory.limit_in_bytes"));
    }
    if (f)
        fclose(f);
    return least;
}

double plan_memory_limit(void)
{
    double limit = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    struct rlimit addresses;

    if (!getrlimit(RLIMIT_AS, &addresses) && addresses.rlim_cur != RLIM_INFINITY)
        limit = fmin(limit, (double)addresses.rlim_cur);
    return fmin(limit, plan_group_limit("/proc/self/cgroup", "/sys/fs/cgroup"));
}

double plan_most_parameters(int ranks)
{
    return plan_memory_limit() / ((2 + 2.0 / ranks) * sizeof(real));
}

enum fail plan_check_memory(const struct model *m, const struct config *c,
                            struct why *why)
{
    double need = plan_memory(m, c) * ranks_beside(), have = plan_memory_limit();
    double weights = 4.0 * (double)m->n * sizeof(real);
    char   a[32], b[32];

    if (need <= have)
        return 0;
    format_bytes(a, sizeof a, need);
    format_bytes(b, sizeof b, have);
    if (weights > have / 2)
        return fail(why, FAIL_MEMORY,
                    "training needs %s and this machine has %s; reduce width=%d "
                    "or layers=%d, or take a smaller --size",
                    a, b, c->width, c->layers);
    return fail(why, FAIL_MEMORY,
                "training needs %s and this machine has %s; reduce batch=%d (and "
                "raise accumulate=%d by as much), or context=%d%s",
                a, b, c->batch, c->accumulate, c->context,
                c->recompute ? "" : ", or try recompute=1");
}

/* ---- time ---- */

/* A pass of training is three passes forward; decoding reads the weights once a token. */
void plan_rest(const struct trainer *t, uint64_t val_tokens, struct cost *cost)
{
    double weights = (double)t->model.n * sizeof(float);

    cost->eval =
        cost->step / 3 * (double)val_tokens / (double)trainer_step_tokens(&t->cfg);
    cost->save = 0.1 + 3 * weights / 3e8;
    cost->sample = 60 * (3e-4 + weights / 4e9);
}

double plan_step_flops(const struct trainer *t)
{
    double narrow = t->cfg.window_p * (1 - t->cfg.window_anneal);

    return narrow * trainer_step_flops(t, t->cfg.window_short) +
           (1 - narrow) * trainer_step_flops(t, 0);
}

/* Seconds are counted by the FLOPs of the windows that these few steps happen to draw. */
enum fail plan_measure(struct trainer *t, uint64_t val_tokens, double limit,
                       struct cost *cost, struct why *why)
{
    int         passes = t->cfg.accumulate, n = 0;
    bool        go = true;
    enum fail   err = 0;
    double      start = wall_seconds(), seconds = 0, flops = 0, mean;
    struct step s = {0};

    t->cfg.accumulate = ranks_n();
    while (!err && go) {
        err = trainer_step(t, &s, why);
        if (n++ == 1)
            seconds = flops = 0;        // the first also touches the memory
        seconds += s.seconds, flops += s.flops;
        go = wall_seconds() - start < limit && n < 12 && !interrupted;
        ranks_share(&go, sizeof go);
    }
    mean = plan_step_flops(t);
    t->cfg.accumulate = passes;
    trainer_reset(t);
    cost->step = passes / ranks_n() * mean * (seconds / flops);
    plan_rest(t, val_tokens, cost);
    ranks_share(cost, sizeof *cost);
    return err;
}

static long at_least_1(double n)
{
    return n > 1 ? (long)ceil(fmin(n, 1e12)) : 1;
}

void plan_intervals(struct config *c, const struct cost *cost, uint64_t val_tokens)
{
    double steps = (double)c->steps, tokens = (double)trainer_step_tokens(c);
    double eval = (double)val_tokens / 3 / tokens;
    double evals = fmin(most_evals, fmax(1, eval_share * steps / fmax(eval, 1e-9)));
    double minute = fmax(1, save_seconds / cost->step);
    bool   chosen = c->eval_every == 0;

    if (chosen)
        c->eval_every = at_least_1(steps / evals);
    if (c->checkpoint_every == 0) {
        double between = (double)c->eval_every / minute;

        if (between > 1) {
            long parts = at_least_1(between);

            c->checkpoint_every = (c->eval_every + parts - 1) / parts;
            if (chosen)
                c->eval_every = parts * c->checkpoint_every;
        } else {
            c->checkpoint_every = c->eval_every * (long)fmin(1 / between, 1e6);
        }
    }
    if (c->sample_every == 0) {
        double evals_each = floor(steps / samples / (double)c->eval_every);

        c->sample_every = evals_each >= 1 ? c->eval_every * (long)evals_each
                                          : at_least_1(steps / samples);
    }
}

/* Times that something of this interval happens; the end always counts. */
static double times(const struct config *c, long every)
{
    return ceil((double)c->steps / (double)every);
}

double plan_seconds(const struct config *c, const struct cost *cost)
{
    return (double)c->steps * cost->step + times(c, c->eval_every) * cost->eval +
           times(c, c->checkpoint_every) * cost->save +
           times(c, c->sample_every) * cost->sample;
}

static long steps_for(const struct trainer *t, double seconds, const struct cost *cost,
                      uint64_t val_tokens)
{
    double steps = seconds / cost->step;

    for (int i = 0; i < 8; i++) {
        struct config c = t->cfg;

        c.steps = at_least_1(floor(steps));
        plan_intervals(&c, cost, val_tokens);
        steps = (double)c.steps * seconds / plan_seconds(&c, cost);
    }
    return at_least_1(floor(steps));
}

/* Steps of transfer have a price of their own. */
static double steps_of_flops(const struct trainer *t, double amount)
{
    struct trainer later = *t;
    double         each = plan_step_flops(t), n = 0;

    if (trainer_transfers(t))
        n = (double)(t->cfg.transfer - t->tally.step);
    later.tally.step = t->cfg.transfer;
    return amount < n * each ? amount / each
                             : n + (amount - n * each) / plan_step_flops(&later);
}

long plan_steps(const struct trainer *t, enum budget kind, double amount,
                const struct cost *cost, uint64_t val_tokens)
{
    const struct config *c = &t->cfg;

    switch (kind) {
    case BUDGET_FOR:
        return steps_for(t, amount, cost, val_tokens);
    case BUDGET_TOKENS:
        return at_least_1(amount / (double)trainer_step_tokens(c));
    case BUDGET_FLOPS:
        return at_least_1(floor(steps_of_flops(t, amount)));
    default:
        return c->steps;
    }
}
