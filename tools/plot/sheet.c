#include "data/base/format.h"
#include "data/base/version.h"
#include "tools/chart/chart.h"
#include "tools/chart/document.h"
#include "tools/plot/plot.h"

#include <math.h>
#include <stdlib.h>

enum { THIN = 600, LINES = 2 * MOST_RUNS + 1, PANELS = 6, YARDS = 8 };

/* A chart and what it points at. */
struct panel {
    struct chart        chart;
    struct chart_series series[LINES];
    double              x[LINES][THIN], y[LINES][THIN];
    struct chart_line   line[YARDS];
    char                name[YARDS][96];
};

static struct chart_series *add(struct panel *a, const struct plot *p, int run,
                                enum log_column y, int most)
{
    int                  i = a->chart.nseries++;
    struct chart_series *s = &a->series[i];

    *s = (struct chart_series){.name = p->n > 1 ? p->run[run].name : NULL,
                               .x = a->x[i],
                               .y = a->y[i],
                               .colour = run};
    s->n = plot_points(&p->run[run], p->x->column, y, most, a->x[i], a->y[i]);
    return s;
}

static void add_yardsticks(struct panel *a, const struct plot *p)
{
    for (int k = 0; k < YARDS; k++) {
        if (!plot_yardstick(p, k, &a->line[k].y, a->name[k], sizeof a->name[k]))
            break;
        a->line[k].name = a->name[k];
        a->chart.nlines++;
    }
}

static void fill(struct panel *a, const struct plot *p, const struct quantity *q)
{
    a->chart = (struct chart){.title = q->title,
                              .xlabel = p->x->label,
                              .ylabel = q->label,
                              .logy = q->log,
                              .series = a->series,
                              .lines = a->line};
    for (int i = 0; i < p->n; i++) {
        if (q->stretches)
            add(a, p, i, q->column, THIN)->thin = 1;
        add(a, p, i, q->column, q->stretches ? q->stretches : THIN);
    }
    if (q->column == LOG_VAL_BPB)
        add_yardsticks(a, p);
    if (q->column == LOG_LOSS && p->n == 1) {       // both on one text's scale
        struct chart_series *s = add(a, p, 0, LOG_VAL_LOSS, THIN);

        a->series[1].name = "training";
        s->name = "validation";
        s->colour = 1;
        a->chart.title = "Loss";
        if (s->n == 0)
            a->chart.nseries--;
    }
}

/* All that say something; *n of them. NULL: out of memory. */
static struct panel *panels(const struct plot *p, int *n)
{
    struct panel *a = calloc(PANELS, sizeof *a);

    *n = 0;
    for (const struct quantity *q = plot_quantities; a && q->name; q++)
        if (plot_worth(p, q))
            fill(&a[(*n)++], p, q);
    return a;
}

void sheet_svg(FILE *f, const struct plot *p)
{
    struct chart  c[PANELS];
    int           n;
    struct panel *a = panels(p, &n);

    for (int i = 0; a && i < n; i++)
        c[i] = a[i].chart;
    if (a)
        chart_sheet(f, p->n == 1 ? p->run[0].name : "curves of several runs", c, n);
    free(a);
}

/* ---- the page ---- */

static double last(const struct log_table *t, enum log_column c)
{
    for (long i = t->n - 1; i >= 0; i--)
        if (isfinite(t->column[c][i]))
            return t->column[c][i];
    return NAN;
}

static double lowest(const struct log_table *t, enum log_column c)
{
    double low = NAN;

    for (long i = 0; i < t->n; i++)
        low = fmin(low, t->column[c][i]);
    return low;
}

static void number_cell(FILE *f, const char *label, const char *format, double x)
{
    char text[32] = "";

    if (isfinite(x) && format)
        snprintf(text, sizeof text, format, x);
    else if (isfinite(x))
        format_count(text, sizeof text, x);
    document_cell(f, label, text);
}

static void row(FILE *f, const struct plot_run *r)
{
    const struct log_table *t = &r->log;
    char                    time[32];

    format_time(time, sizeof time, last(t, LOG_SECONDS));
    fputs("<tr>", f);
    document_cell(f, "run", r->name);
    number_cell(f, "bits/byte", "%.4f", last(t, LOG_VAL_BPB));
    number_cell(f, "lowest", "%.4f", lowest(t, LOG_VAL_BPB));
    document_cell(f, "mixers", t->mixers);
    number_cell(f, "parameters", NULL, t->parameters);
    number_cell(f, "steps", "%.0f", last(t, LOG_STEP));
    number_cell(f, "tokens", NULL, last(t, LOG_TOKENS));
    number_cell(f, "FLOPs", "%.3g", last(t, LOG_FLOPS));
    document_cell(f, "time", time);
    number_cell(f, "tok/s", NULL, last(t, LOG_TOKENS) / last(t, LOG_SECONDS));
    fputs("</tr>\n", f);
}

static void table(FILE *f, const struct plot *p)
{
    double bits;
    char   name[96];

    fputs("<div class=\"wide\"><table>\n<tr><th>run</th><th>bits/byte</th><th>lowest</th>"
          "<th>mixers</th><th>parameters</th><th>steps</th><th>tokens</th><th>FLOPs</th>"
          "<th>time</th><th>tok/s</th></tr>\n", f);
    for (int i = 0; i < p->n; i++)
        row(f, &p->run[i]);
    fputs("</table></div>\n<p class=\"foot\">Bits per byte of the validation text, at "
          "the last validation and at the best. Time: of training steps.", f);
    for (int k = 0; plot_yardstick(p, k, &bits, name, sizeof name); k++) {
        fputs(k ? ", " : " Yardsticks: ", f);
        chart_text(f, name);
        fprintf(f, " %.3f", bits);
    }
    fputs("</p>\n", f);
}

void sheet_html(FILE *f, const struct plot *p)
{
    int           n;
    struct panel *a = panels(p, &n);

    if (!a)
        return;
    document_open(f, p->n == 1 ? p->run[0].name : "Curves of several runs");
    fputs("<h1>", f);
    for (int i = 0; i < p->n; i++) {
        fputs(i ? ", " : "", f);
        chart_text(f, p->run[i].name);
    }
    fputs("</h1>\n", f);
    table(f, p);
    fputs("<h2>Curves</h2>\n<div class=\"plots\">\n", f);
    for (int i = 0; i < n; i++) {
        fputs("<figure>", f);
        chart_write(f, &a[i].chart, 0);
        fputs("</figure>\n", f);
    }
    fprintf(f, "</div>\n<p class=\"foot\">Thin lines: steps. Thick lines: means of "
               "stretches of steps.</p>\n<p class=\"foot\">%s</p>\n", version_line);
    document_close(f);
    free(a);
}
