#include "data/base/clock.h"
#include "data/base/format.h"
#include "data/base/live.h"
#include "tools/compare/compare.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const double redraw = 0.1, plain_every = 10;

static void put(const char *text)
{
    ssize_t n = write(STDERR_FILENO, text, strlen(text));

    (void)n; // a closed stderr must not stop the comparison
}

void view_clear(struct comparison *c)
{
    if (c->drawn)
        put("\r\033[K");
    c->drawn = false;
}

/* A line: rewritten on a terminal, where `for good` lets it stand. */
static void show(struct comparison *c, bool for_good, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void show(struct comparison *c, bool for_good, const char *format, ...)
{
    char    text[512], line[600];
    va_list args;
    int     width = term_live() && !for_good ? term_width() - 1 : 500;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (term_live())
        snprintf(line, sizeof line, "\r%.*s\033[K%s", width, text, for_good ? "\n" : "");
    else
        snprintf(line, sizeof line, "%.*s\n", width, text);
    put(line);
    c->drawn = term_live() && !for_good;
}

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

    if (!term_live())
        return;
    trial_label(c, c->now, label, sizeof label);
    show(c, false, "[%d/%d] %s: %s", c->done + 1, c->trials, label, what);
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
    double             now = wall_seconds(), left, share;
    char               label[256], time[32] = "?", bits[32] = "", speed[32];

    if (isfinite(line->val_bpb))
        c->bits = line->val_bpb;
    if (now - c->shown < (term_live() ? redraw : plain_every))
        return;
    c->shown = now;
    share = share_done(c, line->tally->step, now);
    left = time_left(c, share);
    trial_label(c, c->now, label, sizeof label);
    if (isfinite(left))
        format_time(time, sizeof time, left);
    if (isfinite(c->bits))
        snprintf(bits, sizeof bits, "  val %.3f", c->bits);
    format_count(speed, sizeof speed, line->tok_s);
    show(c, false, "[%d/%d] %s %2.0f%%%s  %s tok/s  %s left", c->done + 1, c->trials,
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
    if (*t->failed)
        show(c, true, "[%d/%d] %s: %s", c->done, c->trials, label, t->failed);
    else
        show(c, true, "[%d/%d] %s: %.4f bits/byte in %s", c->done, c->trials, label,
             t->bpb, time);
}
