#include "tools/lab/report.h"

#include "data/base/file.h"
#include "data/base/format.h"
#include "data/base/memory.h"
#include "data/base/version.h"
#include "tools/chart/document.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void report_counts(const struct verdicts *v, char *buf, size_t cap)
{
    int n[2] = {0}, holds[2] = {0}, fails[2] = {0};     // exact, trained

    for (int i = 0; i < v->n; i++) {
        int kind = v->row[i].claim->answer != ANSWER_EXACT;

        n[kind]++;
        holds[kind] += v->row[i].verdict == VERDICT_HOLDS;
        fails[kind] += v->row[i].verdict == VERDICT_FAILS;
    }
    snprintf(buf, cap, "%d of %d exact rows hold; of %d trained rows %d are decided: %d "
             "hold, %d fail", holds[0], n[0], n[1], holds[1] + fails[1], holds[1],
             fails[1]);
}

static const char *const flag[] = {" --brief", " --quick", ""};     // by form

/* The command and the day of a run of all. */
static void title_of(const struct lab_ask *ask, char *buf, size_t cap)
{
    char                     day[16], seeds[64] = "", from[48] = "";
    time_t                   now = time(NULL);

    strftime(day, sizeof day, "%Y-%m-%d", gmtime(&now));
    if (ask->seeds)
        snprintf(seeds, sizeof seeds, " --seeds %d", ask->seeds);
    if (ask->seed)
        snprintf(from, sizeof from, " --seed %llu", (unsigned long long)ask->seed);
    snprintf(buf, cap, "weft lab all%s%s%s, %s", flag[ask->form], seeds, from, day);
}

/* ---- Markdown ---- */

/* One cell of a table. */
static void write_cell(FILE *f, const char *text)
{
    for (fputs("| ", f); *text; text++) {
        if (*text == '|')
            putc('\\', f);
        putc(*text, f);
    }
    putc(' ', f);
}

/* The claim; where it fails in the full form, with what and at which sizes. */
static const char *claim_text(const struct lab_ask *ask, const struct answered *a,
                              char *buf, size_t cap)
{
    if (ask->form == LAB_FULL && a->claim->answer != ANSWER_EXACT &&
        a->verdict == VERDICT_FAILS && a->e->at)
        snprintf(buf, cap, "%s. Here: %s; %s", a->claim->says, a->claim->arm, a->e->at);
    else
        snprintf(buf, cap, "%s", a->claim->says);
    return buf;
}

static void write_summary(FILE *f, const struct lab_ask *ask, const struct verdicts *v)
{
    char title[160], counts[160], verdict[192], claim[512];

    title_of(ask, title, sizeof title);
    report_counts(v, counts, sizeof counts);
    fprintf(f, "`%s`\n%s\n\n%s.\n\n", title, version_line, counts);
    fputs("| experiment | claim | measured | yardstick | verdict |\n"
          "|---|---|---|---|---|\n", f);
    for (const struct answered *a = v->row; a < v->row + v->n; a++) {
        write_cell(f, a->e->name);
        write_cell(f, claim_text(ask, a, claim, sizeof claim));
        write_cell(f, a->measured);
        write_cell(f, a->yardstick);
        write_cell(f, verdict_text(a, verdict, sizeof verdict));
        fputs("|\n", f);
    }
}

/* ---- HTML ---- */

static void write_row(FILE *f, const struct lab_ask *ask, const struct answered *a)
{
    char verdict[192], claim[512];

    fputs("<tr>", f);
    document_cell(f, "claim", claim_text(ask, a, claim, sizeof claim));
    document_cell(f, "paper", a->claim->figure ? a->claim->figure : "");
    document_cell(f, "verdict", verdict_text(a, verdict, sizeof verdict));
    fputs("</tr>\n<tr><td class=\"why\" colspan=\"3\">", f);
    chart_text(f, a->measured);
    fputs(" (", f);
    chart_text(f, a->yardstick);
    fputs(")</td></tr>\n", f);
}

/* The chart in this file, without the line that begins a file of its own. */
static void write_chart(FILE *f, const char *path)
{
    char      *text, *svg;
    size_t     len;
    struct why unread;

    if (file_read(path, 16 << 20, &text, &len, &unread))
        return;
    svg = strstr(text, "<svg");
    if (svg)
        fprintf(f, "<figure>%s</figure>\n", svg);
    free(text);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_chart(const struct dirent *e)
{
    size_t n = strlen(e->d_name);

    return n > 4 && !strcmp(e->d_name + n - 4, ".svg");
}

static void write_charts(FILE *f, const char *dir)
{
    struct dirent **list;
    char            path[PATH_MAX];
    int             n = scandir(dir, &list, is_chart, by_name);

    fputs("<div class=\"plots\">\n", f);
    for (int i = 0; i < n; i++) {
        write_chart(f, path_join(path, sizeof path, dir, list[i]->d_name));
        free(list[i]);
    }
    if (n >= 0)
        free(list);
    fputs("</div>\n", f);
}

/* Rows first .. end of one experiment. Returns its end. */
static int write_part(FILE *f, const char *out, const struct lab_ask *ask,
                      const struct verdicts *v, int first)
{
    const struct experiment *e = v->row[first].e;
    char                     dir[PATH_MAX], time[32];
    int                      i = first;

    format_time(time, sizeof time, v->row[first].seconds);
    fprintf(f, "<h2 id=\"%s\">%s</h2>\n<p class=\"sub\">", e->name, e->name);
    chart_text(f, e->claim);
    fputs(". ", f);
    chart_text(f, e->paper);
    if (e->at) {
        fputs(". Trained in the full form: ", f);
        chart_text(f, e->at);
    }
    fprintf(f, ". Its cells took %s.</p>\n", time);
    fputs("<div class=\"wide\"><table>\n<tr><th>claim</th><th>paper</th><th>verdict</th>"
          "</tr>\n", f);
    for (; i < v->n && v->row[i].e == e; i++)
        write_row(f, ask, &v->row[i]);
    fputs("</table></div>\n", f);
    write_charts(f, path_join(dir, sizeof dir, out, e->name));
    return i;
}

static void write_html(FILE *f, const char *out, const struct lab_ask *ask,
                       const struct verdicts *v)
{
    char title[160], counts[160];

    title_of(ask, title, sizeof title);
    report_counts(v, counts, sizeof counts);
    document_open(f, "weft lab");
    fputs("<h1>The laboratory</h1>\n<p class=\"sub\">", f);
    chart_text(f, title);
    fputs(". ", f);
    chart_text(f, version_line);
    fprintf(f, "</p>\n<div class=\"answer\"><p>%s.</p><p>Trained rows: one-sided tests "
            "over the seeds, corrected for their number (Holm). Not decided: neither "
            "side has p below 0.05, or the arm has not learnt its own task.</p></div>\n",
            counts);
    for (int i = 0; i < v->n;)
        i = write_part(f, out, ask, v, i);
    document_close(f);
}

/* ---- files ---- */

/* Text and length are those of a stream in memory from its end on. */
static enum fail finish(FILE *f, char **text, const size_t *len, const char *dir,
                        const char *name, struct why *why)
{
    char path[PATH_MAX];

    path_join(path, sizeof path, dir, name);
    return fclose(f) ? fail(why, FAIL_MEMORY, "%s: out of memory for it", path)
                     : file_write(path, *text, *len, why);
}

enum fail report_write(const char *dir, const struct lab_ask *ask,
                       const struct verdicts *v, char **summary, struct why *why)
{
    char     *page = NULL;
    size_t    len[2] = {0};
    FILE     *md = memory_stream(summary, &len[0]);
    FILE     *html = memory_stream(&page, &len[1]);
    enum fail err;

    if (!md || !html)
        return fail(why, FAIL_MEMORY, "%s: out of memory for a report", dir);
    write_summary(md, ask, v);
    write_html(html, dir, ask, v);
    err = finish(md, summary, &len[0], dir, "summary.md", why);
    if (!err)
        err = finish(html, &page, &len[1], dir, "report.html", why);
    else
        fclose(html);
    free(page);
    return err;
}

/* ---- pages ---- */

/* "fails: dsf.state, swax.near-short." of the rows with this verdict, if there are. */
static void write_names(FILE *f, const char *head, const struct verdicts *v,
                        enum verdict which)
{
    int n = 0;

    for (const struct answered *a = v->row; a < v->row + v->n; a++)
        if (a->verdict == which)
            fprintf(f, "%s%s.%s", n++ ? ", " : head, a->e->name, a->claim->name);
    if (n)
        fputs(".\n", f);
}

/* How many claims hold, fail, are not decided, and the names of those that do not. */
static void write_short(FILE *f, const struct lab_ask *ask, const struct verdicts *v)
{
    static const char *const kind[] = {"exact", "trained"};
    char                     title[160];
    int                      n[2][3] = {{0}};

    for (const struct answered *a = v->row; a < v->row + v->n; a++)
        n[a->claim->answer != ANSWER_EXACT][a->verdict]++;
    title_of(ask, title, sizeof title);
    fprintf(f, "| `%s` | hold | fail | not decided |\n|---|---|---|---|\n", title);
    for (int i = 0; i < 2; i++)
        fprintf(f, "| %s rows | %d | %d | %d |\n", kind[i], n[i][VERDICT_HOLDS],
                n[i][VERDICT_FAILS], n[i][VERDICT_OPEN]);
    putc('\n', f);
    write_names(f, "Fail: ", v, VERDICT_FAILS);
    write_names(f, "Not decided: ", v, VERDICT_OPEN);
}

/* Put what write writes between the marks of this form on a page. */
static enum fail write_page(const char *path, const struct lab_ask *ask,
                            const struct verdicts *v,
                            void (*write)(FILE *, const struct lab_ask *,
                                          const struct verdicts *), struct why *why)
{
    char      begin[64], end[64], *old, *text = NULL, *from, *to;
    size_t    len;
    FILE     *f;
    enum fail err = file_read(path, 1 << 20, &old, &len, why);

    if (err)
        return err;
    snprintf(begin, sizeof begin, REPORT_MARK("%s", "begin"), flag[ask->form]);
    snprintf(end, sizeof end, REPORT_MARK("%s", "end"), flag[ask->form]);
    from = strstr(old, begin);
    to = from ? strstr(from, end) : NULL;
    f = to ? memory_stream(&text, &len) : NULL;
    if (f) {
        fprintf(f, "%.*s%s\n", (int)(from - old), old, begin);
        write(f, ask, v);
        fprintf(f, "\n%s", to);
    }
    err = !to  ? fail(why, FAIL_INPUT, "%s: no line %.*s after a line %.*s", path,
                      (int)strlen(end) - 1, end, (int)strlen(begin) - 1, begin)
          : !f || fclose(f) ? fail(why, FAIL_MEMORY, "%s: out of memory for it", path)
                            : file_write(path, text, len, why);
    free(old);
    free(text);
    return err;
}

enum fail report_pages(const struct lab_ask *ask, const struct verdicts *v,
                       struct why *why)
{
    enum fail err = write_page("docs/lab.md", ask, v, write_summary, why);

    return err ? err : write_page("README.md", ask, v, write_short, why);
}
