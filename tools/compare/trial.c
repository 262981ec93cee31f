#include "tools/compare/compare.h"

#include "data/file.h"
#include "infer/term.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* OUT/ARCH/NAME. */
static void name_dir(const struct comparison *c, struct trial *t, const char *name)
{
    char parent[sizeof t->dir];

    path_join(parent, sizeof parent, c->out, c->arch[t->arch].slug);
    path_join(t->dir, sizeof t->dir, parent, name);
}

const struct trial *sweep_best(const struct arch *a)
{
    const struct trial *best = NULL;

    for (const struct trial *t = a->sweep; t < a->sweep + a->rates; t++)
        if (!*t->failed && (!best || t->bpb < best->bpb))
            best = t;
    return best;
}

double sweep_beyond(const struct arch *a)
{
    const struct trial *best = sweep_best(a);
    bool                lowest = best, highest = best;

    for (int k = 0; best && k < a->rates; k++) {
        lowest = lowest && a->sweep[k].lr >= best->lr;
        highest = highest && a->sweep[k].lr <= best->lr;
    }
    return lowest ? best->lr / 2 : highest ? 2 * best->lr : 0;
}

void sweep_extend(struct comparison *c, int arch, double lr)
{
    struct arch  *a = &c->arch[arch];
    struct trial *t = &a->sweep[a->rates++];
    char          name[48];

    *t = (struct trial){.arch = arch, .lr = lr, .share = 0.25, .seed = c->seed - 1};
    snprintf(name, sizeof name, "lr-%g", t->lr);
    name_dir(c, t, name);
}

void trials_name(struct comparison *c)
{
    char name[48];

    for (int i = 0; i < c->n; i++) {
        struct arch *a = &c->arch[i];

        a->rates = 0;
        for (double by = 0.5; by <= 2; by *= 2)
            sweep_extend(c, i, by * a->cfg.lr);
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

static int create(const struct comparison *c, const struct trial *t, struct run *r,
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
    int code = run_add_input(r, c->data.dir, why);

    return code ? code : run_create(r, why);
}

/* *new: there was no such run. */
static int open_run(const struct comparison *c, const struct trial *t, struct run *r,
                    bool *new, struct why *why)
{
    char config[PATH_MAX];
    int  code;

    *new = !path_exists(path_join(config, sizeof config, t->dir, "config.cfg"));
    code = *new ? create(c, t, r, why) : run_open(r, t->dir, why);
    *new &= !code;
    if (!code && !*new && config_resolve(&r->cfg, why))
        code = FAIL_INPUT;
    return code;
}

static int settle_intervals(const struct comparison *c, const struct trial *t,
                            struct setup *s, struct why *why)
{
    struct config *cfg = &s->run.cfg;

    if (setup_finished(s) || s->trainer.tally.step > 0)
        return 0;
    if (c->budget == BUDGET_FOR && s->cost.step > c->amount * t->share)
        return fail(why, FAIL_USAGE,
                    "--for: a step of %s takes %.2g seconds%s; give more time",
                    c->arch[t->arch].name, s->cost.step,
                    t->share < 1 ? " and the sweep has a quarter" : "");
    if (c->arch[t->arch].cfg.eval_every == 0)
        cfg->eval_every = (cfg->steps + CURVE - 1) / CURVE;
    s->trainer.cfg = *cfg;
    return run_write_config(&s->run, why);
}

static int train(struct comparison *c, struct setup *s, struct why *why)
{
    double nats, bits;

    c->now_first = s->trainer.tally.step;
    c->now_steps = s->run.cfg.steps;
    c->now_began = wall_seconds();
    return setup_train(s, &nats, &bits, why);
}

/* Up to a result in *t, which is not written yet. */
static int attempt(struct comparison *c, struct trial *t, struct why *why)
{
    struct setup s = {
        .run.lock = -1, .saved = -1, .progress = {.watch = view_step, .user = c}};
    bool new;
    int  code = open_run(c, t, &s.run, &new, why);

    if (!code)
        code = setup_open(&s, why);
    if (!code)
        code = settle_intervals(c, t, &s, why);
    if (!code)      // curves want many points, so that each validates on less text
        validation_cut(&s.validation, s.data.tokenizer, CURVE_TOKENS);
    if (!code && !setup_finished(&s))
        code = train(c, &s, why);
    if (!code) {
        view_phase(c, "scoring, writing samples");
        code = judge(&s, t, why);
    }
    if (code == FAIL_USAGE && new)
        run_discard(&s.run);
    setup_close(&s);
    return code;
}

/* ---- the trial ---- */

/* A failure of the model's is a row in the table; one of the machine's or the user's ends
 * everything. */
static int take_failure(const struct comparison *c, struct trial *t, int code,
                        struct why *why)
{
    if (code != FAIL_DIVERGED && code != FAIL_INPUT)
        return code;
    t->done = true;
    if (code == FAIL_INPUT) {
        snprintf(t->failed, sizeof t->failed, "%.250s", why->line);
        return 0;
    }
    snprintf(t->failed, sizeof t->failed, "diverged");
    return result_write(c, t, why);
}

int trial_run(struct comparison *c, struct trial *t, struct why *why)
{
    double start = wall_seconds();
    int    code;

    if (result_read(t)) {
        view_end(c, t);
        return 0;
    }
    view_begin(c, t);
    if (c->arch[t->arch].failed[0]) {
        snprintf(why->line, sizeof why->line, "%s", c->arch[t->arch].failed);
        code = FAIL_INPUT;
    } else {
        code = attempt(c, t, why);
    }
    t->wall = wall_seconds() - start;
    if (code) {
        code = take_failure(c, t, code, why);
    } else {
        t->done = true;
        code = result_write(c, t, why);
    }
    curve_read(t);
    if (!code)
        view_end(c, t);
    return code;
}
