#include "tools/compare/compare.h"

#include "tools/chart/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 2 * CURVE > LOSSES ? 2 * CURVE : LOSSES };

/* Room for the lines of a chart: the means, and every seed's. */
struct points {
    struct chart_series means[MOST_ARCHS + 1];
    struct chart_series series[MOST_ARCHS * (MOST_SEEDS + 1)];
    double x[MOST_ARCHS][POINTS], y[MOST_ARCHS][POINTS], err[MOST_ARCHS][POINTS];
    double front[2][2 * MOST_ARCHS];
    struct chart_line line[3];
};

static void figure(FILE *f, const struct chart *c, const char *words)
{
    fputs("<figure>", f);
    chart_write(f, c, 0);
    fprintf(f, "<figcaption>%s</figcaption></figure>\n", words);
}

/* The baselines on the axis of bits per byte. */
static int yardsticks(const struct dataset *d, struct chart_line *line)
{
    int n = 0;

    if (d->zstd_bpb > 0)
        line[n++] = (struct chart_line){"zstd -19", d->zstd_bpb};
    if (d->order2_bpb > 0)
        line[n++] = (struct chart_line){"order-2 model", d->order2_bpb};
    if (d->floor_bpb > 0)
        line[n++] = (struct chart_line){"no model below", d->floor_bpb};
    return n;
}

/* ---- over seeds ---- */

/* Point k of a trial's curve. */
typedef void (*point)(const struct trial *t, int k, double *x, double *y);

static void by_flops(const struct trial *t, int k, double *x, double *y)
{
    *x = k < t->curve.n ? t->curve.flops[k] : NAN;
    *y = k < t->curve.n ? t->curve.bpb[k] : NAN;
}

static void by_seconds(const struct trial *t, int k, double *x, double *y)
{
    *x = k < t->curve.n ? t->curve.seconds[k] : NAN;
    *y = k < t->curve.n ? t->curve.bpb[k] : NAN;
}

static void by_loss(const struct trial *t, int k, double *x, double *y)
{
    *x = k < t->curve.losses ? t->curve.loss_tokens[k] : NAN;
    *y = k < t->curve.losses ? t->curve.loss[k] : NAN;
}

static void by_position(const struct trial *t, int k, double *x, double *y)
{
    *x = ldexp(1, k);
    *y = k < SCORE_BUCKETS && !*t->failed ? t->bucket[k] : NAN;
}

/* The mean line of every architecture, with error bars when there are seeds for them. */
static int mean_lines(const struct comparison *c, point at, int points, struct points *r)
{
    double x[MOST_SEEDS], y[MOST_SEEDS];

    for (int i = 0; i < c->n; i++) {
        const struct arch *a = &c->arch[i];
        int                n = 0;

        for (int k = 0; k < points && k < POINTS; k++) {
            for (int s = 0; s < c->seeds; s++)
                at(&a->trial[s], k, &x[s], &y[s]);
            struct mean my = mean_of(y, c->seeds);

            if (my.n < a->bpb.n || my.n == 0)
                continue;
            r->x[i][n] = mean_of(x, c->seeds).mean;
            r->y[i][n] = my.mean;
            r->err[i][n++] = my.error;
        }
        r->means[i] = (struct chart_series){.name = a->name,
                                            .x = r->x[i],
                                            .y = r->y[i],
                                            .err = r->err[i],
                                            .n = n,
                                            .colour = i};
    }
    return c->n;
}

static struct chart bits_chart(const struct comparison *c, struct points *r, point at,
                               const char *title, const char *xlabel)
{
    return (struct chart){
        .title = title,
        .xlabel = xlabel,
        .ylabel = "bits per byte",
        .logx = 1,
        .series = r->means,
        .nseries = mean_lines(c, at, 2 * CURVE, r),
        .lines = r->line,
        .nlines = yardsticks(&c->data, r->line),
    };
}

static void plot_flops(const struct comparison *c, struct points *r, FILE *f)
{
    struct chart chart =
        bits_chart(c, r, by_flops, "Validation against compute", "training FLOPs");

    figure(f, &chart, "Bars: standard error over seeds. On a fixed part of the "
                      "validation text.");
}

static void plot_seconds(const struct comparison *c, struct points *r, FILE *f)
{
    struct chart chart = bits_chart(c, r, by_seconds, "Validation against time",
                                    "seconds of training steps");

    figure(f, &chart, "The same runs by the clock of this machine.");
}

/* Thin lines for the seeds, under the means. */
static void plot_seeds(const struct comparison *c, struct points *r, FILE *f)
{
    int          n = 0;
    struct chart chart = {.title = "Training loss, every seed",
                          .xlabel = "tokens",
                          .ylabel = "nats per token",
                          .logx = 1,
                          .logy = 1,
                          .series = r->series};

    mean_lines(c, by_loss, LOSSES, r);
    for (int i = 0; i < c->n; i++) {
        for (int k = 0; k < c->seeds && c->seeds > 1; k++) {
            const struct curve *u = &c->arch[i].trial[k].curve;

            r->series[n++] = (struct chart_series){.x = u->loss_tokens,
                                                   .y = u->loss,
                                                   .n = u->losses,
                                                   .thin = 1,
                                                   .colour = i};
        }
        r->means[i].err = NULL;
        r->series[n++] = r->means[i];
    }
    chart.nseries = n;
    figure(f, &chart,
           "Thin: each seed. Thick: their mean. Every point is the mean of a "
           "stretch of steps.");
}

/* ---- memory ---- */

static void plot_positions(const struct comparison *c, struct points *r, FILE *f)
{
    struct chart chart = {
        .title = "Loss by position in the window",
        .xlabel = "tokens seen before, from",
        .ylabel = "nats per token",
        .logx = 1,
        .series = r->means,
        .nseries = mean_lines(c, by_position, SCORE_BUCKETS, r),
    };
    double first[POINTS];
    int    n = r->means[0].n;

    figure(f, &chart,
           "Buckets of positions 1, 2&ndash;3, 4&ndash;7, &hellip; Where lines fall "
           "to the right, memory pays.");
    memcpy(first, r->y[0], sizeof first);
    for (int i = 0; i < c->n; i++) {
        r->means[i].n = r->means[i].n < n ? r->means[i].n : n;
        r->means[i].err = NULL;
        for (int k = 0; k < r->means[i].n; k++)
            r->y[i][k] -= first[k];
    }
    chart.title = "The same, less the first architecture's";
    chart.ylabel = "nats per token more than the first";
    figure(f, &chart,
           "Above zero: worse than the first at this position. Growing to the "
           "right: it forgets.");
}

static int by_state(const void *x, const void *y)
{
    const struct arch *a = *(const struct arch *const *)x,
                      *b = *(const struct arch *const *)y;

    if (a->state != b->state)
        return a->state < b->state ? -1 : 1;
    return (a->bpb.mean > b->bpb.mean) - (a->bpb.mean < b->bpb.mean);
}

/* The staircase of those that no other beats in both state and bits. */
static int pareto(const struct comparison *c, double *x, double *y)
{
    const struct arch *order[MOST_ARCHS];
    int                n = 0, found = 0;

    for (int i = 0; i < c->n; i++)
        if (c->arch[i].bpb.n)
            order[n++] = &c->arch[i];
    qsort(order, (size_t)n, sizeof *order, by_state);
    for (int i = 0; i < n; i++) {
        if (found && order[i]->bpb.mean >= y[found - 1])
            continue;
        if (found) {
            x[found] = order[i]->state;
            y[found] = y[found - 1];
            found++;
        }
        x[found] = order[i]->state;
        y[found++] = order[i]->bpb.mean;
    }
    return found;
}

static void plot_state(const struct comparison *c, struct points *r, FILE *f)
{
    struct chart chart = {.title = "Bits per byte against memory while writing",
                          .xlabel = "bytes of decode state of a sequence",
                          .ylabel = "bits per byte",
                          .logx = 1,
                          .series = r->means};
    int          n = pareto(c, r->front[0], r->front[1]);

    for (int i = 0; i < c->n; i++) {
        const struct arch *a = &c->arch[i];

        r->x[i][0] = a->state;
        r->y[i][0] = a->bpb.mean;
        r->err[i][0] = a->bpb.error;
        r->means[i] = (struct chart_series){.name = a->name,
                                            .x = r->x[i],
                                            .y = r->y[i],
                                            .err = r->err[i],
                                            .n = 1,
                                            .points = 1,
                                            .colour = i};
    }
    r->means[c->n] = (struct chart_series){
        .name = "Pareto front", .x = r->front[0], .y = r->front[1], .n = n, .colour = -1};
    chart.nseries = c->n + 1;
    figure(f, &chart,
           "Nobody below and to the left of the dashed front: less memory costs "
           "bits.");
}

/* ---- bars ---- */

static void bars(const struct comparison *c, const char *title, const char *xlabel,
                 const struct chart_bar *bar, const char *words, FILE *f)
{
    fputs("<figure>", f);
    chart_bars(f, title, xlabel, bar, c->n, 0);
    fprintf(f, "<figcaption>%s</figcaption></figure>\n", words);
}

static void plot_rates(const struct comparison *c, const char *title, const char *xlabel,
                       size_t at, const char *words, FILE *f)
{
    struct chart_bar bar[MOST_ARCHS];

    for (int i = 0; i < c->n; i++) {
        const struct rate *r = (const struct rate *)((const char *)&c->arch[i] + at);

        bar[i] = (struct chart_bar){c->arch[i].name, r->best, 0, i, r->rough};
    }
    bars(c, title, xlabel, bar, words, f);
}

static void plot_stories(const struct comparison *c, FILE *f)
{
    struct chart_bar bar[MOST_ARCHS];

    for (int i = 0; i < c->n; i++) {
        const struct mean *m = &c->arch[i].stories;

        bar[i] = (struct chart_bar){c->arch[i].name, 100 * m->mean,
                                    isfinite(m->error) ? 100 * m->error : 0, i, 0};
    }
    bars(c, "Stories that hold", "percent of the stories written", bar,
         "Whole, in form, and without a contradiction, by the grammar's checker.", f);
}

void plots_write(const struct comparison *c, FILE *f)
{
    struct points *r = calloc(1, sizeof *r);

    if (!r)
        return;
    plot_flops(c, r, f);
    plot_seconds(c, r, f);
    plot_seeds(c, r, f);
    plot_positions(c, r, f);
    plot_state(c, r, f);
    plot_rates(c, "Training speed", "tokens a second", offsetof(struct arch, speed),
               "Forward, backward and update; the fastest of several. ~: they differ by "
               "more than a tenth.",
               f);
    plot_rates(c, "Writing speed", "tokens a second, one sequence",
               offsetof(struct arch, decode),
               "Decoding one token at a time; the fastest of several. ~: they differ by "
               "more than a tenth.",
               f);
    if (c->data.floor_bpb > 0)
        plot_stories(c, f);
    free(r);
}

void plots_alone(const struct comparison *c, FILE *f)
{
    struct points *r = calloc(1, sizeof *r);

    if (r) {
        struct chart chart =
            bits_chart(c, r, by_flops, "Validation against compute", "training FLOPs");

        chart_write(f, &chart, 1);
    }
    free(r);
}
