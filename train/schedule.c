#include "train/schedule.h"

#include <math.h>
#include <string.h>

static const double wsd_decay = 0.2;

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

double schedule_lr(const struct config *c, long step)
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

int schedule_window(const struct config *c, long step)
{
    struct rng r = rng_open(c->seed, RNG_WINDOW, (uint64_t)step);

    if (c->window_p <= 0 || (double)step >= (1 - c->window_anneal) * (double)c->steps)
        return 0;
    return rng_uniform(&r) < c->window_p ? c->window_short : 0;
}
