#include "train/clock.h"

#include "data/base/clock.h"

#include <math.h>

/* The pace is that of the last `lately` of the time, or of `few` steps where that is
 * more. The share of the steps left by which the end must be wrong, and that must pass,
 * before it is moved. */
static const double lately = 0.05, few = 10, slack = 0.1;

double clock_now(const struct clock *k)
{
    return k->now ? k->now(k->user) : wall_seconds();
}

void clock_start(struct clock *k, double used)
{
    k->start = clock_now(k) - used;
}

double clock_used(const struct clock *k)
{
    return clock_now(k) - k->start;
}

double clock_left(const struct clock *k)
{
    return k->before + k->amount - clock_used(k);
}

/* ---- what things take ---- */

void clock_expect(struct clock *k, const struct trainer *t, const struct cost *cost)
{
    k->pace = cost->step / plan_step_flops(t);
    k->save = cost->save;
    k->eval = cost->eval / k->pace;
    k->sample = cost->sample / k->pace;
}

/* The plain mean at first, while the other costs, which were timed on their own, stay
 * what they were in seconds. */
void clock_step(struct clock *k, double flops, double seconds)
{
    double share = fmin(k->pace * flops / (lately * k->amount), 1 / few), was = k->pace;

    share = fmax(share, 1.0 / (double)++k->steps);
    k->pace += share * (seconds / flops - k->pace);
    if ((double)k->steps <= few) {
        k->eval *= was / k->pace;
        k->sample *= was / k->pace;
    }
}

void clock_validated(struct clock *k, double seconds)
{
    k->eval = seconds / k->pace;
}

void clock_sampled(struct clock *k, double seconds)
{
    k->sample = seconds / k->pace;
}

void clock_saved(struct clock *k, double seconds)
{
    k->save = seconds;
}

static struct cost cost_now(const struct clock *k, const struct trainer *t)
{
    return (struct cost){
        .step = k->pace * plan_step_flops(t), .eval = k->pace * k->eval, .save = k->save,
        .sample = k->pace * k->sample};
}

/* Steps that fill so many seconds, while short windows may still be drawn for all but the
 * last window_anneal of the time. */
static double steps_in(const struct clock *k, const struct trainer *t, bool annealed,
                       double seconds)
{
    const struct config *c = &t->cfg;
    double full = k->pace * trainer_step_flops(t, 0);
    double narrow = k->pace * trainer_step_flops(t, c->window_short);
    double mixed = c->window_p * narrow + (1 - c->window_p) * full;
    double drawing = annealed ? 0 : fmax(0, seconds - c->window_anneal * k->amount);

    return drawing / mixed + (seconds - drawing) / full;
}

/* Seconds of what is due beside n steps after `step`: in between, and at the last. */
static double seconds_beside(const struct phase *p, const struct cost *cost, long step,
                             long n)
{
    long last = step + n - 1;

    return (double)(last / p->eval_every - step / p->eval_every + 1) * cost->eval +
           (double)(last / p->checkpoint_every - step / p->checkpoint_every + 1) *
               cost->save +
           (double)(last / p->sample_every - step / p->sample_every) * cost->sample;
}

/* As many steps as the time left is enough for, to the nearest: the more steps, the less
 * time for them, so that a bisection finds it. */
static long steps_left(const struct clock *k, const struct trainer *t,
                       const struct phase *p)
{
    struct cost cost = cost_now(k, t);
    double      left = clock_left(k);
    long        step = t->tally.step, least = 0;
    long        most = (long)fmax(0, steps_in(k, t, p->annealed, left)) + 1;

    while (least < most) {
        long   n = least + (most - least + 1) / 2;
        double seconds = left - seconds_beside(p, &cost, step, n);

        if (steps_in(k, t, p->annealed, seconds) + 0.5 >= (double)n)
            least = n;
        else
            most = n - 1;
    }
    return least;
}

/* ---- decisions ---- */

static enum fail decide(struct trainer *t, enum decided what, long value, struct why *why)
{
    return decisions_add(&t->decisions, (struct decision){t->tally.step, what, value},
                         why);
}

static struct phase phase_now(const struct trainer *t)
{
    return schedule_phase(&t->cfg, &t->decisions, t->tally.step);
}

/* An interval as long as the run means once, at the end, wherever that comes to lie. */
static long at_end(long every, long steps)
{
    enum { NEVER = 1000000000 };

    return every < steps ? every : NEVER;
}

static enum fail decide_interval(struct trainer *t, enum decided what, long set, long had,
                                 long every, struct why *why)
{
    return set || had == every ? 0 : decide(t, what, every, why);
}

/* The intervals that the settings leave open, for a run of `steps` in all. */
static enum fail decide_intervals(const struct clock *k, struct trainer *t, long steps,
                                  struct why *why)
{
    struct phase  p = phase_now(t);
    struct config c = t->cfg;
    struct cost   cost = cost_now(k, t);
    enum fail     err;

    c.steps = steps;
    if (k->evals && !c.eval_every)
        c.eval_every = (steps + k->evals - 1) / k->evals;
    plan_intervals(&c, &cost, k->val_tokens);
    err = decide_interval(t, DECIDED_EVAL, t->cfg.eval_every, p.eval_every,
                          at_end(c.eval_every, steps), why);
    if (!err)
        err = decide_interval(t, DECIDED_CHECKPOINT, t->cfg.checkpoint_every,
                              p.checkpoint_every, at_end(c.checkpoint_every, steps), why);
    if (!err)
        err = decide_interval(t, DECIDED_SAMPLE, t->cfg.sample_every, p.sample_every,
                              at_end(c.sample_every, steps), why);
    return err;
}

/* As many steps in all as it looks like now. Validations whose number is given are paid
 * first. */
static long steps_expected(const struct clock *k, const struct trainer *t)
{
    struct cost cost = cost_now(k, t);
    double      left = clock_left(k);

    if (k->evals) {
        left -= (double)k->evals * cost.eval;
        cost.eval = 0;
    }
    return t->tally.step +
           plan_steps(t, BUDGET_FOR, fmax(left, 0), &cost, k->val_tokens);
}

/* Steps of the warm-up of a cycle that began at this step. */
static long warmup_steps(const struct clock *k, const struct trainer *t, long began)
{
    double share = t->cfg.warmup, expected = (double)(steps_expected(k, t) - began);

    return (long)ceil(share < 1 ? share * expected : share);
}

/* Once its pace is known from the run itself, the climb gets its share of that. */
static enum fail correct_climb(const struct clock *k, struct trainer *t,
                               const struct phase *p, struct why *why)
{
    long warmup = warmup_steps(k, t, p->began);

    if (fabs((double)(warmup - p->warmup)) <= slack * (double)p->warmup)
        return 0;
    return decide(t, DECIDED_CLIMB, warmup > (long)few ? warmup : (long)few, why);
}

enum fail clock_begin(const struct clock *k, struct trainer *t, struct why *why)
{
    long      warmup = warmup_steps(k, t, t->tally.step);
    enum fail err = decide(t, DECIDED_WARMUP, warmup, why);

    return err ? err : decide_intervals(k, t, steps_expected(k, t), why);
}

/* Let the rate fall from here; the first step of all is always taken. */
static enum fail begin_fall(const struct clock *k, struct trainer *t,
                            const struct phase *p, struct why *why)
{
    long step = t->tally.step, n = steps_left(k, t, p);
    long end = step + (n < 1 && step == p->began ? 1 : n);
    enum fail err = decide(t, DECIDED_END, end, why);

    return err || n < 1 ? err : decide_intervals(k, t, end, why);
}

/* Move the end to where the time is up, when it is clearly elsewhere. */
static enum fail correct_end(const struct clock *k, struct trainer *t,
                             const struct phase *p, struct why *why)
{
    long   step = t->tally.step, n = steps_left(k, t, p);
    double wrong = fabs((double)(p->end - step - n));
    bool   soon = (double)(step - p->planned) < slack * (double)(p->end - p->planned);

    if (step == p->began || wrong < 1 + slack * (double)n || (soon && n > 0))
        return 0;
    return decide(t, DECIDED_END, step + n, why);
}

enum fail clock_decide(const struct clock *k, struct trainer *t, struct why *why)
{
    struct phase p = phase_now(t);
    double       left = clock_left(k);
    enum fail    err = 0;

    if (k->amount == 0)
        return 0;
    if (!p.end && p.warmup > (long)few && t->tally.step == p.began + (long)few)
        err = correct_climb(k, t, &p, why);
    if (!err && !p.end && p.warmup > 0 && t->tally.step == p.began + p.warmup)
        err = decide_intervals(k, t, steps_expected(k, t), why);
    if (!err && t->cfg.window_p > 0 && !p.annealed &&
        left <= t->cfg.window_anneal * k->amount)
        err = decide(t, DECIDED_ANNEAL, 0, why);
    if (!err && !p.end && left <= schedule_decay * k->amount)
        err = begin_fall(k, t, &p, why);
    else if (!err && p.end)
        err = correct_end(k, t, &p, why);
    return err;
}

/* ---- a number of steps ---- */

/* One for a step to come. */
static enum fail foresee(struct trainer *t, long step, enum decided what, long value,
                         struct why *why)
{
    return decisions_add(&t->decisions, (struct decision){step, what, value}, why);
}

enum fail clock_extend(const struct clock *k, struct trainer *t, long n, struct why *why)
{
    const struct config *c = &t->cfg;
    long      end = t->tally.step + n;
    long      fall = end - lround(schedule_decay * (double)n);
    long      anneal = end - lround(c->window_anneal * (double)n);
    double    warmup = c->warmup < 1 ? ceil(c->warmup * (double)n) : c->warmup;
    enum fail err;

    decisions_cut(&t->decisions, t->tally.step);
    err = decide(t, DECIDED_WARMUP, (long)fmin(warmup, (double)n), why);
    if (!err)
        err = decide_intervals(k, t, end, why);
    if (!err && c->window_p > 0 && anneal <= fall)
        err = foresee(t, anneal, DECIDED_ANNEAL, 0, why);
    if (!err)
        err = foresee(t, fall, DECIDED_END, end, why);
    if (!err && c->window_p > 0 && anneal > fall)
        err = foresee(t, anneal, DECIDED_ANNEAL, 0, why);
    return err;
}
