#include "tools/compare/compare.h"

#include "data/base/file.h"
#include "data/base/json.h"
#include "data/base/format.h"
#include "data/base/memory.h"
#include "infer/wrap.h"
#include "tools/csv.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- over the seeds ---- */

/* One number of every seed's trial into x; NAN where it failed. */
static void column(const struct comparison *c, const struct arch *a, size_t at, double *x)
{
    for (int k = 0; k < c->seeds; k++) {
        const struct trial *t = &a->trial[k];

        x[k] = t->done && !*t->failed ? *(const double *)((const char *)t + at) : NAN;
    }
}

#define MEAN(field) (column(c, a, offsetof(struct trial, field), x), mean_of(x, c->seeds))

static void gather_one(const struct comparison *c, struct arch *a)
{
    double x[2 * MOST_SEEDS], first[MOST_SEEDS];

    a->tokens = MEAN(tokens);
    a->steps = MEAN(steps);
    a->seconds = MEAN(seconds);
    a->stories = MEAN(stories);
    for (int k = 0; k < c->seeds; k++)
        x[k] = *a->trial[k].failed ? NAN : speed_of(c, &a->trial[k]);
    x[c->seeds] = a->pace.train > 0 ? a->pace.train_low : NAN;
    a->speed = rate_of(x, c->seeds + 1);
    column(c, a, offsetof(struct trial, decode), x);
    column(c, a, offsetof(struct trial, decode_low), x + c->seeds);
    a->decode = rate_of(x, 2 * c->seeds);
    a->bpb = MEAN(bpb);
    column(c, &c->arch[0], offsetof(struct trial, bpb), first);
    a->against = paired_test(first, x, c->seeds);
    a->p = NAN;
}

void gather(struct comparison *c)
{
    double p[MOST_ARCHS];

    speed_apply(c);
    for (int i = 0; i < c->n; i++)
        gather_one(c, &c->arch[i]);
    for (int i = 1; i < c->n; i++)
        p[i] = c->arch[i].against.p;
    holm(p + 1, c->n - 1);
    for (int i = 1; i < c->n; i++)
        c->arch[i].p = p[i];
}

/* ---- on the terminal ---- */

static const char *failure(const struct comparison *c, const struct arch *a)
{
    for (int k = 0; k < c->seeds; k++)
        if (*a->trial[k].failed)
            return a->trial[k].failed;
    return "";
}

static void format_mean(char *buf, size_t cap, struct mean m, const char *sign)
{
    int n = snprintf(buf, cap, strcmp(sign, "+") ? "%.4f" : "%+.4f", m.mean);

    if (isfinite(m.error))
        snprintf(buf + n, cap - (size_t)n, " ± %.4f", m.error);
}

enum { OF_NAME, OF_BPB, OF_DIFF, OF_P, OF_PARAMS, OF_STORIES, OF_STATE, OF_TRAIN,
       OF_WRITE, CELLS };

struct row {
    const char *name;
    char        cell[CELLS][48];    // that of the name is not used
    char        note[320];          // behind them: why runs failed
};

static const char *cell(const struct row *r, int k)
{
    return k == OF_NAME ? r->name : r->cell[k];
}

static void fill_row(const struct comparison *c, const struct arch *a, struct row *r)
{
    enum { CAP = sizeof r->cell[0] };

    *r = (struct row){.name = a->name};
    format_count(r->cell[OF_PARAMS], CAP, a->params);
    if (a->bpb.n == 0)
        snprintf(r->note, sizeof r->note, "%s", failure(c, a));
    else if (a->bpb.n < c->seeds)
        snprintf(r->note, sizeof r->note, "%d of %d runs: %s", a->bpb.n, c->seeds,
                 failure(c, a));
    if (a->bpb.n == 0)
        return;
    format_mean(r->cell[OF_BPB], CAP, a->bpb, "");
    if (a != c->arch && a->against.diff.n)
        format_mean(r->cell[OF_DIFF], CAP, a->against.diff, "+");
    report_p(r->cell[OF_P], CAP, a->p);
    report_rate(r->cell[OF_TRAIN], CAP, a->speed);
    report_rate(r->cell[OF_WRITE], CAP, a->decode);
    format_bytes(r->cell[OF_STATE], CAP, a->state);
    if (isfinite(a->stories.mean))
        snprintf(r->cell[OF_STORIES], CAP, "%.0f%%", 100 * a->stories.mean);
}

static int width_of(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += (*text & 0xc0) != 0x80;
    return n;
}

/* Of the head (row 0) and n more: the columns' widths; 0: empty, or no room for it. The
 * first two are always there. */
static void fit(const struct row *row, int n, int columns, int *width)
{
    int room = columns ? columns : INT_MAX;

    for (int k = 0; k < CELLS; k++) {
        bool filled = false;

        width[k] = width_of(cell(&row[0], k));
        for (int i = 1; i <= n; i++) {
            int w = width_of(cell(&row[i], k));

            filled |= w > 0;
            width[k] = w > width[k] ? w : width[k];
        }
        if (k > OF_BPB && (!filled || width[k] + 2 > room))
            width[k] = 0;
        room -= width[k] ? width[k] + 2 * (k > 0) : 0;
    }
}

/* The first three begin at their left, numbers end at their right. */
static void print_row(const struct row *r, const int *width, FILE *f)
{
    for (int k = 0; k < CELLS; k++) {
        int gap = width[k] - width_of(cell(r, k));

        if (width[k])
            fprintf(f, "%s%*s%s%*s", k ? "  " : "", k > OF_DIFF ? gap : 0, "", cell(r, k),
                    k > OF_DIFF ? 0 : gap, "");
    }
    fprintf(f, "%s%s\n", *r->note ? "  " : "", r->note);
}

static void print_rows(const struct comparison *c, FILE *f, int columns)
{
    static const struct row head = {
        "architecture",
        {"", "bits/byte", "against the 1st", "p", "params", "stories", "state", "train/s",
         "write/s"}, ""};
    struct row row[MOST_ARCHS + 1] = {head};
    int        width[CELLS], n = 0;

    for (int i = 0; i < c->n; i++)
        fill_row(c, &c->arch[i], &row[i + 1]);
    fit(row, c->n, columns, width);
    for (int i = 0; i <= c->n; i++)
        print_row(&row[i], width, f);
    for (int k = 0; k < CELLS; k++) {
        bool filled = false;

        for (int i = 1; i <= c->n; i++)
            filled |= *cell(&row[i], k) != 0;
        if (!width[k] && filled)
            fprintf(f, "%s%s", n++ ? ", " : "no room here for ", cell(&head, k));
    }
    if (n)
        fputs("; the report has all\n", f);
}

/* What it means, broken at words. */
static void print_conclusion(const struct comparison *c, FILE *f, int columns)
{
    char        *text = NULL;
    size_t       len = 0;
    FILE        *all = memory_stream(&text, &len);
    struct wrap *w = calloc(1, sizeof *w);

    if (all) {
        report_conclude(c, all);
        fclose(all);
    }
    if (all && w) {
        *w = (struct wrap){.out = f, .columns = columns};
        for (size_t i = 0; i < len; i++)
            wrap_put(w, text + i, 1);
        wrap_end(w);
    }
    free(text);
    free(w);
}

void table_print(const struct comparison *c, FILE *f, int columns)
{
    print_rows(c, f, columns);
    fputs("\nyardsticks:", f);
    if (c->data.zstd_bpb > 0)
        fprintf(f, " zstd -19 %.3f,", c->data.zstd_bpb);
    fprintf(f, " order-2 model %.3f", c->data.order2_bpb);
    if (c->data.floor_bpb > 0)
        fprintf(f, ", no model below %.3f", c->data.floor_bpb);
    fputs(" bits/byte\n", f);
    print_conclusion(c, f, columns);
}

/* ---- in files ---- */

static void csv_row(const struct comparison *c, const struct trial *t, FILE *f)
{
    const struct arch *a = &c->arch[t->arch];
    bool               ok = !*t->failed;
    const double       x[] = {t->lr,      a->cfg.width,
                              a->cfg.mlp, a->params,
                              a->flops,   a->state,
                              t->bpb,     t->error,
                              t->nats,    t->steps,
                              t->tokens,  t->flops,
                              t->seconds, speed_of(c, t),
                              t->decode,  t->stories};
    enum { N = sizeof x / sizeof *x };

    csv_text(f, a->name);
    fprintf(f, ",%llu,", (unsigned long long)t->seed);
    csv_text(f, t->failed);
    fputc(',', f);
    for (int i = 0; i < N; i++)
        csv_number(f, ok || i < 6 ? x[i] : NAN, 10, i == N - 1);
}

static enum fail write_csv(const struct comparison *c, struct why *why)
{
    char  *text = NULL;
    size_t len = 0;
    FILE  *f = memory_stream(&text, &len);

    if (!f)
        return fail(why, FAIL_MEMORY, "out of memory");
    fputs(
        "arch,seed,failed,lr,width,mlp,parameters,flops_per_token,state_bytes,bits_per_"
        "byte,"
        "stderr_over_windows,nats_per_token,steps,tokens,flops,train_seconds,train_tok_s,"
        "decode_tok_s,stories\n",
        f);
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < c->seeds; k++)
            csv_row(c, &c->arch[i].trial[k], f);
    return report_save(c, "results.csv", f, &text, &len, why);
}

static json_t *numbers(const double *x, int n)
{
    json_t *j = json_array();

    for (int i = 0; i < n; i++)
        json_array_append_new(j, json_from_double(x[i]));
    return j;
}

static void write_line(const struct comparison *c, const struct trial *t, FILE *f)
{
    json_t *j = result_json(c, t), *curve = json_object();

    json_object_set_new(curve, "tokens", numbers(t->curve.tokens, t->curve.n));
    json_object_set_new(curve, "flops", numbers(t->curve.flops, t->curve.n));
    json_object_set_new(curve, "seconds", numbers(t->curve.seconds, t->curve.n));
    json_object_set_new(curve, "bpb", numbers(t->curve.bpb, t->curve.n));
    json_object_set_new(j, "curve", curve);
    json_line(f, j, JSON_COMPACT | JSON_REAL_PRECISION(9));
}

enum fail table_files(const struct comparison *c, struct why *why)
{
    char  *text = NULL;
    size_t len = 0;
    FILE  *f = memory_stream(&text, &len);

    if (!f)
        return fail(why, FAIL_MEMORY, "out of memory");
    for (int i = 0; i < c->n; i++) {
        for (int k = c->arch[i].low; c->sweep && k <= c->arch[i].high; k++)
            write_line(c, &c->arch[i].sweep[k], f);
        for (int k = 0; k < c->seeds; k++)
            write_line(c, &c->arch[i].trial[k], f);
    }
    enum fail err = report_save(c, "results.jsonl", f, &text, &len, why);

    return err ? err : write_csv(c, why);
}
