#include "tools/compare/compare.h"

#include "data/base/clock.h"
#include "data/base/file.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OWN = SWEEP / 2 };       // place of the size's own learning rate

/* OUT/ARCH/NAME. */
static void name_dir(const struct comparison *c, struct trial *t, const char *name)
{
    char parent[sizeof t->dir];

    path_join(parent, sizeof parent, c->out, c->arch[t->arch].slug);
    path_join(t->dir, sizeof t->dir, parent, name);
}

void trials_name(struct comparison *c)
{
    char name[48];

    for (int i = 0; i < c->n; i++) {
        struct arch *a = &c->arch[i];

        a->low = OWN - 1;
        a->high = OWN + 1;
        for (int k = 0; k < SWEEP; k++) {
            struct trial *t = &a->sweep[k];

            *t = (struct trial){.arch = i, .lr = ldexp(a->cfg.lr, k - OWN), .share = 0.25,
                                .seed = c->seed - 1};
            snprintf(name, sizeof name, "lr-%g", t->lr);
            name_dir(c, t, name);
        }
        for (int k = 0; k < c->seeds; k++) {
            struct trial *t = &a->trial[k];

            *t = (struct trial){.arch = i, .lr = a->cfg.lr, .share = 1,
                                .seed = c->seed + (uint64_t)k};
            snprintf(name, sizeof name, "seed-%llu", (unsigned long long)t->seed);
            name_dir(c, t, name);
        }
    }
}

/* ---- a run ---- */

static enum fail create(const struct comparison *c, const struct trial *t, struct run *r,
                        struct why *why)
{
    *r = (struct run){.cfg = c->arch[t->arch].cfg,
                      .lock = -1,
                      .budget = c->budget,
                      .amount = c->amount * t->share};
    snprintf(r->dir, sizeof r->dir, "%s", t->dir);
    r->cfg.seed = t->seed;
    r->cfg.lr = t->lr;
    r->cfg.keep = 1;
    if (r->cfg.sample_every == 0)
        r->cfg.sample_every = 1000000000; // beyond any run: samples come at the end
    enum fail err = run_add_input(r, c->data.dir, why);

    return err ? err : run_create(r, why);
}

/* *new: there was no such run. */
static enum fail open_run(const struct comparison *c, const struct trial *t,
                          struct run *r, bool *new, struct why *why)
{
    char config[PATH_MAX];
    enum fail err;

    *new = !path_exists(path_join(config, sizeof config, t->dir, "config.cfg"));
    err = *new ? create(c, t, r, why) : run_open(r, t->dir, why);
    *new &= !err;
    if (!err && !*new &&config_resolve(&r->cfg, why))
        err = FAIL_INPUT;
    return err;
}

static enum fail settle_intervals(const struct comparison *c, const struct trial *t,
                                  struct setup *s, struct why *why)
{
    struct config *cfg = &s->run.cfg;

    s->clock.evals = CURVE;
    if (setup_finished(s) || s->trainer.tally.step > 0)
        return 0;
    if (c->budget == BUDGET_FOR && s->cost.step > c->amount * t->share)
        return fail(why, FAIL_USAGE,
                    "--for: a step of %s takes %.2g seconds%s; give more time",
                    c->arch[t->arch].name, s->cost.step,
                    t->share < 1 ? " and the sweep has a quarter" : "");
    if (c->budget != BUDGET_FOR && c->arch[t->arch].cfg.eval_every == 0)
        cfg->eval_every = (cfg->steps + CURVE - 1) / CURVE;
    s->trainer.cfg = *cfg;
    return run_write_config(&s->run, why);
}

static enum fail train(struct comparison *c, struct setup *s, struct why *why)
{
    double nats, bits;

    c->now_first = s->trainer.tally.step;
    c->now_steps = s->run.cfg.steps;
    c->now_began = wall_seconds();
    c->now_seconds = s->clock.amount > 0 ? clock_left(&s->clock) : 0;
    return setup_train(s, &nats, &bits, why);
}

/* Up to a result in *t, which is not written yet. */
static enum fail attempt(struct comparison *c, struct trial *t, struct why *why)
{
    struct setup s = {
        .run.lock = -1, .saved = -1, .watch = {.step = view_step, .user = c}};
    bool new;
    enum fail err = open_run(c, t, &s.run, &new, why);

    if (!err)
        err = setup_open(&s, why);
    if (!err)
        err = settle_intervals(c, t, &s, why);
    if (!err) // curves want many points, so that each validates on less text
        validation_cut(&s.validation, &s.data, CURVE_TOKENS);
    if (!err && !setup_finished(&s))
        err = train(c, &s, why);
    if (!err) {
        view_phase(c, "scoring, writing samples");
        err = judge(&s, t, why);
    }
    if (err == FAIL_USAGE && new)
        run_discard(&s.run);
    setup_close(&s);
    return err;
}

/* ---- the trial ---- */

/* A failure of the model's is a row in the table; one of the machine's or the user's ends
 * everything. */
static enum fail take_failure(const struct comparison *c, struct trial *t, int err,
                              struct why *why)
{
    if (err != FAIL_DIVERGED && err != FAIL_INPUT && err != FAIL_MEMORY)
        return err;
    t->done = true;
    if (err != FAIL_DIVERGED) {
        snprintf(t->failed, sizeof t->failed, "%.250s", why->line);
        return 0;
    }
    snprintf(t->failed, sizeof t->failed, "diverged");
    return result_write(c, t, why);
}

enum fail trial_run(struct comparison *c, struct trial *t, struct why *why)
{
    double start = wall_seconds();
    enum fail err;

    if (result_read(t)) {
        view_end(c, t);
        return 0;
    }
    view_begin(c, t);
    t->shared = c->joined;
    if (c->arch[t->arch].failed[0]) {
        snprintf(why->line, sizeof why->line, "%s", c->arch[t->arch].failed);
        err = FAIL_MEMORY;
    } else {
        err = attempt(c, t, why);
    }
    t->wall = wall_seconds() - start;
    curve_read(t);                      // the result has its seconds
    if (err) {
        err = take_failure(c, t, err, why);
    } else {
        t->done = true;
        err = result_write(c, t, why);
    }
    if (!err)
        view_end(c, t);
    return err;
}

/* ---- the sweep ---- */

const struct trial *sweep_best(const struct arch *a)
{
    const struct trial *best = NULL;

    for (int k = a->low; k <= a->high; k++)
        if (!*a->sweep[k].failed && (!best || a->sweep[k].bpb < best->bpb))
            best = &a->sweep[k];
    return best;
}

bool sweep_at_edge(const struct arch *a)
{
    const struct trial *best = sweep_best(a);

    return best && (best == &a->sweep[a->low] || best == &a->sweep[a->high]);
}

bool sweep_extend(struct arch *a)
{
    const struct trial *best = sweep_best(a);
    double              most = config_find("lr")->max;
    int                 k;

    if (*a->failed || (best && !sweep_at_edge(a)))
        return false;
    k = best == &a->sweep[a->high] ? a->high + 1 : a->low - 1;
    if (k < 0 || k >= SWEEP || a->sweep[k].lr > most)
        return false;
    a->low = k < a->low ? k : a->low;
    a->high = k > a->high ? k : a->high;
    return true;
}

void sweep_choose(struct arch *a, int seeds)
{
    const struct trial *best = sweep_best(a);

    if (best)
        a->cfg.lr = best->lr;
    for (int k = 0; k < seeds; k++)
        a->trial[k].lr = a->cfg.lr;
}
