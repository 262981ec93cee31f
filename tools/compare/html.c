#include "tools/compare/compare.h"

#include "data/base/format.h"
#include "data/base/version.h"
#include "tools/chart/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char style[] =
    ":root{color-scheme:light "
    "dark;--ink:#1f2328;--soft:#656d76;--rule:#d8dee4;--back:#fff;"
    "--card:#f6f8fa;--mark:#fff4d6}\n"
    "@media screen and (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa4af;"
    "--rule:#30363d;--back:#0f1419;--card:#171d24;--mark:#33290f}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;max-width:1180px;padding:2rem 1.2rem 4rem;color:var(--ink);"
    "background:var(--back);font:16px/1.55 system-ui,sans-serif}\n"
    "h1{font-size:1.7rem;line-height:1.2;margin:0 0 .3rem}h2{font-size:1.15rem;"
    "margin:2.6rem 0 .8rem}\n"
    ".sub,figcaption,.foot{color:var(--soft)}.sub{margin:0 0 1.4rem}\n"
    ".answer{background:var(--mark);border-radius:10px;padding:.9rem 1.2rem}\n"
    ".answer p{margin:.3rem 0}\n"
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;width:100%;font-size:.88rem;"
    "font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.4rem .6rem;border-bottom:1px solid var(--rule);text-align:right;"
    "white-space:nowrap}\n"
    "th{color:var(--soft);font-weight:500}th:first-child,td:first-child{text-align:left;"
    "white-space:normal;min-width:9em}"
    "\n"
    "td.why{text-align:left;white-space:normal;color:var(--soft)}\n"
    "tr.best td{font-weight:600}\n"
    ".plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,440px),"
    "1fr));"
    "gap:1.2rem}\n"
    "figure{margin:0;border:1px solid var(--rule);border-radius:10px;padding:.7rem;"
    "break-inside:avoid}\n"
    "figure svg{display:block;width:100%}figcaption{font-size:.82rem;padding:.2rem .5rem "
    "0}\n"
    ".samples{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,300px),"
    "1fr));"
    "gap:1rem}\n"
    ".sample{background:var(--card);border-radius:10px;padding:.8rem 1rem;"
    "break-inside:avoid}\n"
    ".sample h3{margin:0 0 .4rem;font-size:.95rem}.sample p{margin:0;font-size:.86rem;"
    "white-space:pre-wrap;overflow-wrap:anywhere}\n"
    "code,pre{font:.84rem/1.5 ui-monospace,monospace}\n"
    "pre{background:var(--card);border-radius:10px;padding:.8rem "
    "1rem;white-space:pre-wrap;"
    "overflow-wrap:anywhere}\n"
    "@media print{body{max-width:none;padding:0;font-size:11pt}.plots{"
    "grid-template-columns:1fr 1fr}.wide{overflow:visible}table{font-size:7.5pt}"
    "th,td{padding:.25rem .3rem}}\n";

static void cell(FILE *f, const char *text)
{
    fputs("<td>", f);
    chart_text(f, text);
    fputs("</td>", f);
}

static void count_cell(FILE *f, double x)
{
    char text[32] = "";

    if (isfinite(x))
        format_count(text, sizeof text, x);
    cell(f, text);
}

static void mean_cell(FILE *f, struct mean m, const char *format)
{
    char text[64] = "";
    int  n = 0;

    if (m.n)
        n = snprintf(text, sizeof text, format, m.mean);
    if (m.n && isfinite(m.error))
        snprintf(text + n, sizeof text - (size_t)n, " ± %.4f", m.error);
    cell(f, text);
}

/* ---- the table ---- */

static void write_row(const struct comparison *c, const struct arch *a, bool best,
                      FILE *f)
{
    char        text[64] = "";
    struct mean none = {0};

    fprintf(f, "<tr%s>", best ? " class=\"best\"" : "");
    cell(f, a->name);
    count_cell(f, a->params);
    count_cell(f, a->flops);
    if (a->bpb.n == 0) {
        fputs("<td class=\"why\" colspan=\"6\">", f);
        chart_text(f, a->trial[0].failed);
        fputs("</td>", f);
    } else {
        mean_cell(f, a->bpb, "%.4f");
        mean_cell(f, a == c->arch ? none : a->against.diff, "%+.4f");
        if (isfinite(a->p))
            report_p(text, sizeof text, a->p);
        cell(f, text);
        snprintf(text, sizeof text, "%.1f", a->seconds.mean);
        cell(f, text);
        count_cell(f, a->speed.mean);
        count_cell(f, a->decode.mean);
    }
    format_bytes(text, sizeof text, a->state);
    cell(f, text);
    *text = 0;
    if (isfinite(a->stories.mean))
        snprintf(text, sizeof text, "%.0f %%", 100 * a->stories.mean);
    if (c->data.floor_bpb > 0)
        cell(f, text);
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
    fputs(
        "<div class=\"wide\"><table>\n<tr><th>architecture</th><th>parameters</th>"
        "<th>FLOPs/token</th><th>bits/byte</th><th>against the first</th><th>p</th>"
        "<th>seconds</th><th>train tok/s</th><th>decode tok/s</th><th>decode state</th>",
        f);
    fputs(d->floor_bpb > 0 ? "<th>stories</th></tr>\n" : "</tr>\n", f);
    for (int i = 0; i < c->n; i++)
        write_row(c, &c->arch[i], i == best, f);
    fputs("</table></div>\n<p class=\"foot\">Mean ± standard error over seeds; p: "
          "two-sided "
          "paired t-test against the first, corrected by Holm for all of them. "
          "Yardsticks in "
          "bits per byte: ",
          f);
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
        char               text[280];

        fputs("<tr>", f);
        cell(f, a->name);
        for (int k = low; k <= high; k++) {
            snprintf(text, sizeof text, "%.4f", a->sweep[k].bpb);
            cell(f, k < a->low || k > a->high ? ""
                    : *a->sweep[k].failed     ? a->sweep[k].failed
                                              : text);
        }
        fprintf(f, "<td>%g</td>", a->cfg.lr);
        report_sweep(a, text, sizeof text);
        cell(f, text);
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
          "class=\"wide\"><table><tr><th>architecture</th><th>mixers</th>"
          "<th>width</th><th>MLP</th><th>lr</th><th>steps</th><th>tokens</th></tr>\n",
          f);
    for (int i = 0; i < c->n; i++) {
        const struct arch *a = &c->arch[i];

        fputs("<tr>", f);
        cell(f, a->name);
        fputs("<td style=\"text-align:left\"><code>", f);
        chart_text(f, a->cfg.mixers);
        fprintf(f, "</code></td><td>%d</td><td>%d</td><td>%g</td>", a->cfg.width,
                a->cfg.mlp, a->cfg.lr);
        count_cell(f, a->steps.mean);
        count_cell(f, a->tokens.mean);
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
    FILE  *m = open_memstream(&text, &len);

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
    char       *text = NULL, budget[64], bytes[32];
    size_t      len = 0;
    FILE       *f = open_memstream(&text, &len);
    const char *slash = strrchr(c->input, '/'),
               *name = slash && slash[1] ? slash + 1 : c->input;

    if (!f)
        return fail(why, FAIL_MEMORY, "out of memory");
    report_budget(c, budget, sizeof budget);
    format_bytes(bytes, sizeof bytes, (double)(c->data.train.bytes + c->data.val.bytes));
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta "
          "name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
          f);
    chart_text(f, name);
    fprintf(f,
            ": %d architectures</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n",
            c->n);
    fputs(style, f);
    fprintf(f, "</style></head>\n<body>\n<h1>%d architectures on ", c->n);
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
    fputs("</body></html>\n", f);
    return report_save(c, "report.html", f, &text, &len, why);
}

static enum fail save_plot(const struct comparison *c, struct why *why)
{
    char  *text = NULL;
    size_t len = 0;
    FILE  *f = open_memstream(&text, &len);

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
