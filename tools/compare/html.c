#include "tools/compare/compare.h"

#include "data/base/format.h"
#include "data/base/memory.h"
#include "data/base/version.h"
#include "tools/chart/chart.h"
#include "tools/chart/document.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void count_cell(FILE *f, const char *label, double x)
{
    char text[32] = "";

    if (isfinite(x))
        format_count(text, sizeof text, x);
    document_cell(f, label, text);
}

static void mean_cell(FILE *f, const char *label, struct mean m, const char *format)
{
    char text[64] = "";
    int  n = 0;

    if (m.n)
        n = snprintf(text, sizeof text, format, m.mean);
    if (m.n && isfinite(m.error))
        snprintf(text + n, sizeof text - (size_t)n, " ± %.4f", m.error);
    document_cell(f, label, text);
}

static void rate_cell(FILE *f, const char *label, struct rate r)
{
    char text[40];

    report_rate(text, sizeof text, r);
    document_cell(f, label, text);
}

static void text_cell(FILE *f, const char *label, const char *format, double x)
{
    char text[64] = "";

    if (isfinite(x))
        snprintf(text, sizeof text, format, x);
    document_cell(f, label, text);
}

/* ---- the table ---- */

/* What stands above its columns, in write_row's order. */
static const char *const columns[] = {
    "architecture", "bits/byte",   "against the first", "p",
    "parameters",   "FLOPs/token", "seconds",           "train tok/s",
    "decode tok/s", "state",       "stories"};
enum { NAME, BITS, AGAINST, P, PARAMS, FLOPS, SECONDS, SPEED, DECODE, STATE, HOLD, ALL };

static void write_row(const struct comparison *c, const struct arch *a, bool best,
                      FILE *f)
{
    char        text[64] = "";
    struct mean none = {0};
    bool        done = a->bpb.n > 0;

    fprintf(f, "<tr%s>", best ? " class=\"best\"" : "");
    document_cell(f, columns[NAME], a->name);
    if (done) {
        mean_cell(f, columns[BITS], a->bpb, "%.4f");
        mean_cell(f, columns[AGAINST], a == c->arch ? none : a->against.diff, "%+.4f");
        report_p(text, sizeof text, a->p);
        document_cell(f, columns[P], text);
    } else {
        fputs("<td class=\"why\" colspan=\"3\">", f);
        chart_text(f, a->trial[0].failed);
        fputs("</td>", f);
    }
    count_cell(f, columns[PARAMS], a->params);
    count_cell(f, columns[FLOPS], a->flops);
    text_cell(f, columns[SECONDS], "%.1f", done ? a->seconds.mean : NAN);
    rate_cell(f, columns[SPEED], a->speed);
    rate_cell(f, columns[DECODE], a->decode);
    format_bytes(text, sizeof text, a->state);
    document_cell(f, columns[STATE], text);
    if (c->data.floor_bpb > 0)
        text_cell(f, columns[HOLD], "%.0f %%", 100 * a->stories.mean);
    fputs("</tr>\n", f);
}

static void write_table(const struct comparison *c, FILE *f)
{
    const struct dataset *d = &c->data;
    int                   best = -1;

    for (int i = 0; i < c->n; i++)
        if (c->arch[i].bpb.n &&
            (best < 0 || c->arch[i].bpb.mean < c->arch[best].bpb.mean))
            best = i;
    fputs("<div class=\"wide\"><table>\n<tr>", f);
    for (int k = 0; k < (d->floor_bpb > 0 ? ALL : HOLD); k++)
        fprintf(f, "<th>%s</th>", columns[k]);
    fputs("</tr>\n", f);
    for (int i = 0; i < c->n; i++)
        write_row(c, &c->arch[i], i == best, f);
    fputs("</table></div>\n<p class=\"foot\">Mean ± standard error over seeds; p: "
          "two-sided "
          "paired t-test against the first, corrected by Holm for all of them. Speeds: ",
          f);
    report_speeds(c, f);
    fputs(". Yardsticks in bits per byte: ", f);
    if (d->zstd_bpb > 0)
        fprintf(f, "zstd -19 %.3f, ", d->zstd_bpb);
    fprintf(f, "order-2 model %.3f", d->order2_bpb);
    if (d->floor_bpb > 0)
        fprintf(f, ", the exact floor %.3f", d->floor_bpb);
    fputs(".</p>\n", f);
}

/* ---- the rest ---- */

static void write_samples(const struct comparison *c, FILE *f)
{
    fputs("<h2>What they write</h2>\n<div class=\"samples\">\n", f);
    for (int i = 0; i < c->n; i++) {
        const struct arch *a = &c->arch[i];

        fputs("<div class=\"sample\"><h3>", f);
        chart_text(f, a->name);
        fputs("</h3><p>", f);
        chart_text(f, *a->trial[0].failed ? a->trial[0].failed : a->trial[0].sample);
        fputs("</p></div>\n", f);
    }
    fputs("</div>\n", f);
}

/* Every rate that one of them was run with is a column. */
static void write_sweep(const struct comparison *c, FILE *f)
{
    int low = SWEEP, high = 0;

    for (int i = 0; i < c->n; i++) {
        low = c->arch[i].low < low ? c->arch[i].low : low;
        high = c->arch[i].high > high ? c->arch[i].high : high;
    }
    fputs("<h2>Learning rates</h2>\n<p>Half, once and twice the size's own, and further "
          "while the best is an edge; each on a quarter of the budget with data that no "
          "final run uses; the lowest bits per byte wins.</p>\n"
          "<div class=\"wide\"><table><tr><th>architecture</th>", f);
    for (int k = low; k <= high; k++)
        fprintf(f, "<th>%g times</th>", ldexp(1, k - SWEEP / 2));
    fputs("<th>chosen</th><th></th></tr>\n", f);
    for (int i = 0; i < c->n; i++) {
        const struct arch *a = &c->arch[i];
        char               text[280], times[32];

        fputs("<tr>", f);
        document_cell(f, "architecture", a->name);
        for (int k = low; k <= high; k++) {
            snprintf(times, sizeof times, "%g times", ldexp(1, k - SWEEP / 2));
            snprintf(text, sizeof text, "%.4f", a->sweep[k].bpb);
            document_cell(f, times,
                          k < a->low || k > a->high ? ""
                          : *a->sweep[k].failed     ? a->sweep[k].failed
                                                    : text);
        }
        text_cell(f, "chosen", "%g", a->cfg.lr);
        report_sweep(a, text, sizeof text);
        fputs("<td class=\"why\">", f);
        chart_text(f, text);
        fputs("</td>", f);
        fputs("</tr>\n", f);
    }
    fputs("</table></div>\n", f);
}

static void write_settings(const struct comparison *c, FILE *f)
{
    static const char *const matches[] = {
        "parameters matched to the first within 2 % by the MLP's width",
        "FLOPs a token matched to the first within 2 % by the MLP's width",
        "sizes not matched"};
    const struct config *cfg = &c->arch[0].cfg;

    fputs("<h2>Settings</h2>\n<div "
          "class=\"wide\"><table><tr><th>architecture</th><th class=\"why\">mixers</th>"
          "<th>width</th><th>MLP</th><th>lr</th><th>steps</th><th>tokens</th></tr>\n",
          f);
    for (int i = 0; i < c->n; i++) {
        const struct arch *a = &c->arch[i];

        fputs("<tr>", f);
        document_cell(f, "architecture", a->name);
        fputs("<td class=\"why\"><code>", f);
        chart_text(f, a->cfg.mixers);
        fputs("</code></td>", f);
        text_cell(f, "width", "%g", a->cfg.width);
        text_cell(f, "MLP", "%g", a->cfg.mlp);
        text_cell(f, "lr", "%g", a->cfg.lr);
        count_cell(f, "steps", a->steps.mean);
        count_cell(f, "tokens", a->tokens.mean);
        fputs("</tr>\n", f);
    }
    fprintf(f,
            "</table></div>\n<p>%d layers, %d heads, context %d, batch %d &times; %d, "
            "vocabulary %d (%s), %s schedule, weight decay %g, clip %g, %d threads; %s. "
            "FLOPs: "
            "matrix products, mixer cores and logits, three times forward, causal "
            "attention at "
            "half. Same data in the same order for all; seeds %llu to %llu.</p>\n",
            cfg->layers, cfg->heads, cfg->context, cfg->batch, cfg->accumulate,
            cfg->vocab, cfg->tokenizer, cfg->schedule, cfg->weight_decay, cfg->clip,
            cfg->threads, matches[c->match], (unsigned long long)c->seed,
            (unsigned long long)c->seed + (unsigned long long)c->seeds - 1);
    fputs("<p>This makes it again:</p>\n<pre>", f);
    chart_text(f, c->command);
    fprintf(f, "</pre>\n<p>%s</p>\n", version_line);
}

/* report_conclude's lines as paragraphs. */
static void write_answer(const struct comparison *c, FILE *f)
{
    char  *text = NULL, *line, *rest;
    size_t len = 0;
    FILE  *m = memory_stream(&text, &len);

    if (!m)
        return;
    report_conclude(c, m);
    fclose(m);
    fputs("<div class=\"answer\">\n", f);
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        fputs("<p>", f);
        chart_text(f, line);
        fputs("</p>\n", f);
    }
    fputs("</div>\n", f);
    free(text);
}

static enum fail save_page(const struct comparison *c, struct why *why)
{
    char       *text = NULL, budget[64], bytes[32], title[1100];
    size_t      len = 0;
    FILE       *f = memory_stream(&text, &len);
    const char *slash = strrchr(c->input, '/'),
               *name = slash && slash[1] ? slash + 1 : c->input;

    if (!f)
        return fail(why, FAIL_MEMORY, "out of memory");
    report_budget(c, budget, sizeof budget);
    format_bytes(bytes, sizeof bytes, (double)(c->data.train.bytes + c->data.val.bytes));
    snprintf(title, sizeof title, "%s: %d architectures", name, c->n);
    document_open(f, title);
    fprintf(f, "<h1>%d architectures on ", c->n);
    chart_text(f, name);
    fprintf(f, "</h1>\n<p class=\"sub\">%s each, %d seed%s, %s of text</p>\n", budget,
            c->seeds, c->seeds == 1 ? "" : "s", bytes);
    write_answer(c, f);
    fputs("<h2>Results</h2>\n", f);
    write_table(c, f);
    fputs("<h2>Plots</h2>\n<div class=\"plots\">\n", f);
    plots_write(c, f);
    fputs("</div>\n", f);
    write_samples(c, f);
    if (c->sweep)
        write_sweep(c, f);
    write_settings(c, f);
    document_close(f);
    return report_save(c, "report.html", f, &text, &len, why);
}

static enum fail save_plot(const struct comparison *c, struct why *why)
{
    char  *text = NULL;
    size_t len = 0;
    FILE  *f = memory_stream(&text, &len);

    if (!f)
        return fail(why, FAIL_MEMORY, "out of memory");
    plots_alone(c, f);
    return report_save(c, "report.svg", f, &text, &len, why);
}

enum fail report_html(const struct comparison *c, struct why *why)
{
    enum fail err = save_page(c, why);

    return err ? err : save_plot(c, why);
}
