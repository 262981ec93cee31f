#include "train/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double wsd_decay = 0.2;
static const double clock_end = 0;          // of the rate, where the clock's fall ends
const double        schedule_decay = 0.8;

const char *const decided_names[DECISIONS] = {
    "warmup", "climb", "end", "anneal", "eval_every", "checkpoint_every", "sample_every",
};

/* ---- decisions ---- */

enum fail decisions_add(struct decisions *d, struct decision made, struct why *why)
{
    if (d->n == d->cap) {
        int              cap = 2 * d->cap + 16;
        struct decision *more = realloc(d->list, (size_t)cap * sizeof *more);

        if (!more)
            return fail(why, FAIL_MEMORY, "out of memory for %d decisions", cap);
        d->list = more;
        d->cap = cap;
    }
    d->list[d->n++] = made;
    return 0;
}

void decisions_cut(struct decisions *d, long step)
{
    while (d->n > 0 && d->list[d->n - 1].step > step)
        d->n--;
}

void decisions_free(struct decisions *d)
{
    free(d->list);
    *d = (struct decisions){0};
}

/* The share of the fall that step leaves: 1 before it, towards 0 at the end.
 *
 *     left (end - step) / (end - planned + 1)
 *
 * which is the same line when the same end is planned again. */
static double share_left(const struct phase *p, long step)
{
    if (!p->end)
        return 1;
    return p->left * (double)(p->end - step) / (double)(p->end - p->planned + 1);
}

static void apply(struct phase *p, const struct decision *d)
{
    switch (d->what) {
    case DECIDED_WARMUP:
        p->began = d->step;
        p->warmup = d->value;
        p->end = 0;
        p->annealed = false;
        break;
    case DECIDED_CLIMB:
        p->warmup = d->value;
        break;
    case DECIDED_END:
        p->left = share_left(p, d->step - 1);
        p->planned = d->step;
        p->end = d->value;
        break;
    case DECIDED_ANNEAL:
        p->annealed = true;
        break;
    case DECIDED_EVAL:
        p->eval_every = d->value;
        break;
    case DECIDED_CHECKPOINT:
        p->checkpoint_every = d->value;
        break;
    case DECIDED_SAMPLE:
        p->sample_every = d->value;
        break;
    case DECISIONS:
        break;
    }
}

/* Was anything decided for this step? */
static bool decided(const struct decisions *d, long step)
{
    return d && d->n > 0 && d->list[0].step <= step;
}

/* What is set goes before what was decided: it may have been set since. */
struct phase schedule_phase(const struct config *c, const struct decisions *d, long step)
{
    struct phase p = {.end = c->steps, .eval_every = c->eval_every,
                      .checkpoint_every = c->checkpoint_every,
                      .sample_every = c->sample_every};

    for (int i = 0; d && i < d->n && d->list[i].step <= step; i++)
        apply(&p, &d->list[i]);
    p.eval_every = c->eval_every ? c->eval_every : p.eval_every;
    p.checkpoint_every = c->checkpoint_every ? c->checkpoint_every : p.checkpoint_every;
    p.sample_every = c->sample_every ? c->sample_every : p.sample_every;
    return p;
}

/* ---- the learning rate ---- */

static long warmup_steps(const struct config *c)
{
    double n = c->warmup < 1 ? ceil(c->warmup * (double)c->steps) : c->warmup;

    return n < (double)c->steps ? (long)n : c->steps;
}

/* From 1 to end along half a cosine. */
static double cosine(double end, double done)
{
    return end + (1 - end) * 0.5 * (1 + cos(3.141592653589793 * done));
}

static double rate_by_steps(const struct config *c, long step)
{
    long warm = warmup_steps(c), decay = lround(wsd_decay * (double)c->steps);

    if (step < warm)
        return c->lr * (double)(step + 1) / (double)warm;
    if (!strcmp(c->schedule, "cosine"))
        return c->lr *
               cosine(c->lr_end, (double)(step + 1 - warm) / (double)(c->steps - warm));
    if (step < c->steps - decay)
        return c->lr;
    return c->lr * (double)(c->steps - step) / (double)(decay + 1);
}

static double rate_by_clock(const struct config *c, const struct phase *p, long step)
{
    long   done = step + 1 - p->began;
    double climb = done < p->warmup ? (double)done / (double)p->warmup : 1;

    return c->lr * climb * (clock_end + (1 - clock_end) * share_left(p, step));
}

double schedule_lr(const struct config *c, const struct decisions *d, long step)
{
    struct phase p;

    if (!decided(d, step))
        return rate_by_steps(c, step);
    p = schedule_phase(c, d, step);
    return rate_by_clock(c, &p, step);
}

/* ---- the window ---- */

static bool annealed(const struct config *c, const struct decisions *d, long step)
{
    if (decided(d, step))
        return schedule_phase(c, d, step).annealed;
    return (double)step >= (1 - c->window_anneal) * (double)c->steps;
}

int schedule_window(const struct config *c, const struct decisions *d, long step)
{
    struct rng r = rng_open(c->seed, RNG_WINDOW, (uint64_t)step);

    if (c->window_p <= 0 || annealed(c, d, step))
        return 0;
    return rng_uniform(&r) < c->window_p ? c->window_short : 0;
}
