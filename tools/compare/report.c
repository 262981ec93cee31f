#include "tools/compare/compare.h"

#include "data/base/file.h"
#include "data/base/format.h"
#include "data/base/memory.h"
#include "data/base/version.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double chance = 0.05;

enum fail report_save(const struct comparison *c, const char *name, FILE *f, char **text,
                      size_t *len, struct why *why)
{
    char path[PATH_MAX];
    enum fail err = fclose(f)
                        ? fail(why, FAIL_MEMORY, "%s/%s: out of memory", c->out, name)
                        : file_write(path_join(path, sizeof path, c->out, name), *text,
                                     *len, why);

    free(*text);
    *text = NULL;
    return err;
}

void report_budget(const struct comparison *c, char *buf, size_t cap)
{
    char text[32];

    if (c->budget == BUDGET_FOR)
        format_time(text, sizeof text, c->amount);
    else if (c->budget == BUDGET_TOKENS)
        format_count(text, sizeof text, c->amount);
    else
        snprintf(text, sizeof text, "%.3g", c->amount);
    snprintf(buf, cap, "%s %s", text,
             c->budget == BUDGET_FOR      ? "of training"
             : c->budget == BUDGET_TOKENS ? "tokens"
                                          : "FLOPs");
}

void report_p(char *buf, size_t cap, double p)
{
    *buf = 0;
    if (isfinite(p))
        snprintf(buf, cap, p < 0.001 ? "<0.001" : "%.3f", p);
}

void report_rate(char *buf, size_t cap, struct rate r)
{
    char text[16];

    *buf = 0;
    if (!isfinite(r.best))
        return;
    format_count(text, sizeof text, r.best);
    snprintf(buf, cap, "%s%.14s", r.rough ? "~" : "", text);
}

void report_speeds(const struct comparison *c, FILE *f)
{
    bool shared = false;

    for (int i = 0; i < c->n; i++)
        shared |= c->arch[i].pace.train > 0;
    fputs("the best of several; ~ where they differ by more than a tenth", f);
    if (shared)
        fputs(". Runs were side by side: speeds were measured afterwards, of one "
              "architecture at a time", f);
    if (shared && c->budget != BUDGET_FOR)
        fputs(", and seconds are what the tokens take at them", f);
}

/* ---- what it means ---- */

enum verdict { BETTER, WORSE, OPEN };

static enum verdict verdict(const struct arch *a)
{
    if (!(a->p < chance))
        return OPEN;
    return a->against.diff.mean < 0 ? BETTER : WORSE;
}

/* "a, b and c" of those with this verdict; returns how many. */
static int list(const struct comparison *c, enum verdict v, FILE *f)
{
    int n = 0, k = 0;

    for (int i = 1; i < c->n; i++)
        n += c->arch[i].bpb.n > 0 && verdict(&c->arch[i]) == v;
    for (int i = 1; i < c->n; i++) {
        const struct arch *a = &c->arch[i];

        if (a->bpb.n == 0 || verdict(a) != v)
            continue;
        if (f)
            fprintf(f, "%s%s", k == 0 ? "" : k == n - 1 ? " and " : ", ", a->name);
        k++;
    }
    return n;
}

static const struct arch *best_of(const struct comparison *c)
{
    const struct arch *best = NULL;

    for (int i = 0; i < c->n; i++)
        if (c->arch[i].bpb.n && (!best || c->arch[i].bpb.mean < best->bpb.mean))
            best = &c->arch[i];
    return best;
}

static void say_tests(const struct comparison *c, FILE *f)
{
    const char *first = c->arch[0].name;

    if (list(c, BETTER, NULL)) {
        fputs("At this budget and size, on this text, ", f);
        list(c, BETTER, f);
        fprintf(f, " predict%s better than %s (p < %g%s).\n",
                list(c, BETTER, NULL) == 1 ? "s" : "", first, chance,
                c->n > 2 ? ", corrected for the number of tests" : "");
    }
    if (list(c, WORSE, NULL)) {
        list(c, WORSE, f);
        fprintf(f, " predict%s worse than %s (p < %g%s).\n",
                list(c, WORSE, NULL) == 1 ? "s" : "", first, chance,
                c->n > 2 ? ", corrected likewise" : "");
    }
    if (list(c, OPEN, NULL)) {
        fprintf(f, "Between %s and ", first);
        list(c, OPEN, f);
        fprintf(
            f, " nothing can be concluded: with %d seeds the difference may be chance.\n",
            c->seeds);
    }
}

/* The failed, in words. */
static void say_failures(const struct comparison *c, FILE *f)
{
    for (int i = 0; i < c->n; i++)
        if (c->arch[i].bpb.n < c->seeds)
            fprintf(f, "%s finished %d of %d runs.\n", c->arch[i].name, c->arch[i].bpb.n,
                    c->seeds);
}

/* A comparison that was begun by another program than the one that ends it. */
static void say_builds(const struct comparison *c, FILE *f)
{
    int others = 0;

    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->seeds; k++) {
            const char *build = c->arch[i].trial[k].build;

            others += *build && strncmp(build, version_line,
                                        sizeof c->arch[0].trial[0].build - 1);
        }
    if (others)
        fprintf(f, "%d of %d runs were made by another build of weft, which "
                "results.jsonl names.\n", others, c->n * c->seeds);
}

void report_conclude(const struct comparison *c, FILE *f)
{
    const struct arch *best = best_of(c);

    say_failures(c, f);
    say_builds(c, f);
    if (!best)
        return;
    fprintf(f, "Lowest mean: %s, %.4f bits per byte.\n", best->name, best->bpb.mean);
    if (c->seeds == 1)
        fputs("With one seed each, no difference can be told from chance: this is an "
              "order, not "
              "a finding. The same command with --seeds 3 adds seeds.\n",
              f);
    else if (c->arch[0].bpb.n < 2)
        fprintf(
            f, "%s, which the others are held against, has too few results for a test.\n",
            c->arch[0].name);
    else
        say_tests(c, f);
    fprintf(f, "It says nothing about other budgets, sizes or texts%s.\n",
            c->sweep ? "" : ", nor about learning rates chosen for each (--lr-sweep)");
}

/* ---- report.md ---- */

/* Names as text: what Markdown and HTML would read as markup is escaped. */
static void markdown_text(const char *text, FILE *f)
{
    char line[1200];

    snprintf(line, sizeof line, "%s", text);
    for (const char *p = one_line(line); *p; p++)
        if (*p == '<' || *p == '>' || *p == '&')
            fputs(*p == '<' ? "&lt;" : *p == '>' ? "&gt;" : "&amp;", f);
        else
            fprintf(f, strchr("\\`*_[]|", *p) ? "\\%c" : "%c", *p);
}

static void markdown_row(const struct comparison *c, const struct arch *a, FILE *f)
{
    char params[16], flops[16], speed[16], decode[16], state[16], p[16];

    format_count(params, sizeof params, a->params);
    format_count(flops, sizeof flops, a->flops);
    format_bytes(state, sizeof state, a->state);
    fprintf(f, "| `%s` | ", a->name);
    if (a->bpb.n == 0) {
        markdown_text(a->trial[0].failed, f);
        fprintf(f, " | | | %s | %s | | | | %s |%s\n", params, flops, state,
                c->data.floor_bpb > 0 ? " |" : "");
        return;
    }
    fprintf(f, "%.4f", a->bpb.mean);
    if (isfinite(a->bpb.error))
        fprintf(f, " ± %.4f", a->bpb.error);
    fputs(" | ", f);
    if (a != c->arch && a->against.diff.n)
        fprintf(f, "%+.4f", a->against.diff.mean);
    fputs(" | ", f);
    report_p(p, sizeof p, a->p);
    fputs(p, f);
    report_rate(speed, sizeof speed, a->speed);
    report_rate(decode, sizeof decode, a->decode);
    fprintf(f, " | %s | %s | %.1f | %s | %s | %s |", params, flops, a->seconds.mean,
            speed, decode, state);
    if (c->data.floor_bpb > 0)
        fprintf(f, " %.0f %% |", 100 * a->stories.mean);
    fputc('\n', f);
}

static void markdown_table(const struct comparison *c, FILE *f)
{
    bool stories = c->data.floor_bpb > 0;

    fprintf(f,
            "| architecture | bits/byte | against `%s` | p | parameters | FLOPs/token | "
            "seconds | train tok/s | decode tok/s | decode state |%s\n",
            c->arch[0].name, stories ? " stories that hold |" : "");
    fprintf(f, "|---|---|---|---|---|---|---|---|---|---|%s\n", stories ? "---|" : "");
    for (int i = 0; i < c->n; i++)
        markdown_row(c, &c->arch[i], f);
    fputc('\n', f);
    if (c->data.zstd_bpb > 0)
        fprintf(f, "zstd -19: %.4f. ", c->data.zstd_bpb);
    fprintf(f, "Order-2 model: %.4f.", c->data.order2_bpb);
    if (stories)
        fprintf(f, " Exact floor: %.4f.", c->data.floor_bpb);
    fputs(" (bits per byte of the validation text)\n\nSpeeds: ", f);
    report_speeds(c, f);
    fputs(".\n\n", f);
}

void report_sweep(const struct arch *a, char *buf, size_t cap)
{
    int more = a->high - a->low + 1 - 3;

    *buf = 0;
    if (sweep_at_edge(a))
        snprintf(buf, cap, "still an edge after %d more: a rate beyond it may be better",
                 more);
    else if (more)
        snprintf(buf, cap, "%d more tried, as the best of three was an edge", more);
}

static void markdown_sweep(const struct arch *a, FILE *f)
{
    char edge[96];

    fprintf(f, "- `%s`: lr %g, of", a->name, a->cfg.lr);
    for (int k = a->low; k <= a->high; k++) {
        const struct trial *t = &a->sweep[k];

        fprintf(f, *t->failed ? " %g (failed)" : " %g (%.4f)", t->lr, t->bpb);
        fputs(k < a->high ? "," : "", f);
    }
    report_sweep(a, edge, sizeof edge);
    fprintf(f, "%s%s\n", *edge ? "; " : "", edge);
}

enum fail report_markdown(const struct comparison *c, struct why *why)
{
    char                *text = NULL, budget[64];
    size_t               len = 0;
    FILE                *f = memory_stream(&text, &len);
    const struct config *cfg = &c->arch[0].cfg;

    if (!f)
        return fail(why, FAIL_MEMORY, "out of memory");
    report_budget(c, budget, sizeof budget);
    fprintf(f, "# %d architectures on ", c->n);
    markdown_text(c->input, f);
    fprintf(f, "\n\n%s each, %d seed%s; %d layers of width %d, context %d, "
            "products of %s.\n\n", budget, c->seeds, c->seeds == 1 ? "" : "s",
            cfg->layers, cfg->width, cfg->context, cfg->precision);
    report_conclude(c, f);
    fputc('\n', f);
    markdown_table(c, f);
    for (int i = 0; c->sweep && i < c->n; i++)
        markdown_sweep(&c->arch[i], f);
    fprintf(f, "%s    %s\n\n%s\n", c->sweep ? "\n" : "", c->command, version_line);
    return report_save(c, "report.md", f, &text, &len, why);
}
