#include "tools/compare/compare.h"

#include "data/base/file.h"
#include "data/base/json.h"
#include "data/base/format.h"
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

static void print_row(const struct comparison *c, const struct arch *a, int wide, FILE *f)
{
    char bpb[48], diff[48] = "", p[16] = "", params[16], speed[16], decode[16], state[16];
    char story[16] = "";

    format_count(params, sizeof params, a->params);
    if (a->bpb.n == 0) {
        fprintf(f, "%-*s  %6s  %s\n", wide, a->name, params, failure(c, a));
        return;
    }
    format_mean(bpb, sizeof bpb, a->bpb, "");
    if (a != c->arch && a->against.diff.n)
        format_mean(diff, sizeof diff, a->against.diff, "+");
    if (isfinite(a->p))
        report_p(p, sizeof p, a->p);
    report_rate(speed, sizeof speed, a->speed);
    report_rate(decode, sizeof decode, a->decode);
    format_bytes(state, sizeof state, a->state);
    if (isfinite(a->stories.mean))
        snprintf(story, sizeof story, "%6.0f%%", 100 * a->stories.mean);
    // "±" is one column and two bytes
    fprintf(f, "%-*s  %6s  %-*s  %-*s  %6s  %7s  %7s  %9s%s", wide, a->name, params,
            15 + (strchr(bpb, 'b') == NULL && isfinite(a->bpb.error)), bpb,
            16 + (*diff && isfinite(a->against.diff.error)), diff, p, speed, decode,
            state, story);
    if (a->bpb.n < c->seeds)
        fprintf(f, "  %d of %d runs: %s", a->bpb.n, c->seeds, failure(c, a));
    fputc('\n', f);
}

void table_print(const struct comparison *c, FILE *f)
{
    int  wide = 12;
    bool stories = c->data.floor_bpb > 0;

    for (int i = 0; i < c->n; i++)
        wide = (int)strlen(c->arch[i].name) > wide ? (int)strlen(c->arch[i].name) : wide;
    fprintf(f, "%-*s  %6s  %-15s  %-16s  %6s  %7s  %7s  %9s%s\n", wide, "architecture",
            "params", "bits/byte", "against the 1st", "p", "train/s", "write/s", "state",
            stories ? "  stories" : "");
    for (int i = 0; i < c->n; i++)
        print_row(c, &c->arch[i], wide, f);
    fputs("\nyardsticks:", f);
    if (c->data.zstd_bpb > 0)
        fprintf(f, " zstd -19 %.3f,", c->data.zstd_bpb);
    fprintf(f, " order-2 model %.3f", c->data.order2_bpb);
    if (c->data.floor_bpb > 0)
        fprintf(f, ", no model below %.3f", c->data.floor_bpb);
    fputs(" bits/byte\n", f);
    report_conclude(c, f);
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
    FILE  *f = open_memstream(&text, &len);

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
    FILE  *f = open_memstream(&text, &len);

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
