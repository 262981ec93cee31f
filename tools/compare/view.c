#include "data/base/clock.h"
#include "data/base/format.h"
#include "tools/compare/compare.h"

#include <math.h>
#include <stdio.h>

/* ---- time ---- */

static double known_unit(const struct comparison *c, int arch)
{
    double sum = 0;
    int    n = 0;

    if (c->unit[arch] > 0)
        return c->unit[arch];
    for (int i = 0; i < c->n; i++)
        if (c->unit[i] > 0) {
            sum += c->unit[i];
            n++;
        }
    if (n)
        return sum / n;
    return c->budget == BUDGET_FOR ? 1.1 * c->amount + 2 : NAN;
}

/* Seconds that all trials still take, when the running one has done this share of its
 * own. */
static double time_left(const struct comparison *c, double share)
{
    double elapsed = wall_seconds() - c->now_began, left = 0, unit = NAN;

    if (c->now && share > 0)
        unit = elapsed / share / c->now->share;
    for (int i = 0; i < c->n; i++) {
        const struct arch *a = &c->arch[i];
        double             each = known_unit(c, i);

        if (*a->failed)
            continue;
        if (!isfinite(each))
            each = unit;
        for (int k = a->low; c->sweep && k <= a->high; k++)
            if (!a->sweep[k].done && &a->sweep[k] != c->now)
                left += each * a->sweep[k].share;
        for (int k = 0; k < c->seeds; k++)
            if (!a->trial[k].done && &a->trial[k] != c->now)
                left += each;
    }
    return left + (c->now ? unit * c->now->share * (1 - share) : 0);
}

/* ---- events ---- */

static void trial_label(const struct comparison *c, const struct trial *t, char *buf,
                        size_t cap)
{
    const char *name = c->arch[t->arch].name;

    if (t->share < 1)
        snprintf(buf, cap, "%.200s lr %g", name, t->lr);
    else
        snprintf(buf, cap, "%.200s seed %llu", name, (unsigned long long)t->seed);
}

void view_begin(struct comparison *c, const struct trial *t)
{
    c->now = t;
    c->now_began = wall_seconds();
    c->bits = NAN;
    view_phase(c, "preparing");
}

void view_phase(struct comparison *c, const char *what)
{
    char label[256];

    if (!c->live.terminal)
        return;
    trial_label(c, c->now, label, sizeof label);
    live_show(&c->live, "[%d/%d] %s: %s", c->done + 1, c->trials, label, what);
}

/* Of what this process trains. */
static double share_done(const struct comparison *c, long step, double now)
{
    if (c->now_seconds > 0)
        return fmin((now - c->now_began) / c->now_seconds, 1);
    return (double)(step - c->now_first) / (double)(c->now_steps - c->now_first);
}

void view_step(void *user, const struct log_line *line)
{
    struct comparison *c = user;
    double             left, share;
    char               label[256], time[32] = "?", bits[32] = "", speed[32];

    if (isfinite(line->val_bpb))
        c->bits = line->val_bpb;
    if (!live_due(&c->live))
        return;
    share = share_done(c, line->tally->step, wall_seconds());
    left = time_left(c, share);
    trial_label(c, c->now, label, sizeof label);
    if (isfinite(left))
        format_time(time, sizeof time, left);
    if (isfinite(c->bits))
        snprintf(bits, sizeof bits, "  val %.3f", c->bits);
    format_count(speed, sizeof speed, line->tok_s);
    live_show(&c->live, "[%d/%d] %s %2.0f%%%s  %s tok/s  %s left", c->done + 1, c->trials,
              label, 100 * share, bits, speed, time);
}

void view_end(struct comparison *c, const struct trial *t)
{
    char label[256], time[32];

    c->done++;
    c->now = NULL;
    if (t->wall > 0 && !*t->failed)
        c->unit[t->arch] = t->wall / t->share;
    trial_label(c, t, label, sizeof label);
    format_time(time, sizeof time, t->wall);
    if (c->quiet)
        return;
    if (*t->failed)
        live_say(&c->live, "[%d/%d] %s: %s", c->done, c->trials, label, t->failed);
    else
        live_say(&c->live, "[%d/%d] %s: %.4f bits/byte in %s", c->done, c->trials, label,
                 t->bpb, time);
}
