#include "tools/compare/compare.h"

#include "data/base/file.h"
#include "data/base/json.h"
#include "data/base/version.h"
#include "train/log_read.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESULT_MAX = 1 << 20 };

/* ---- result.json ---- */

/* The numbers of a trial, by name. */
static const struct field {
    const char *name;
    size_t      at;
} fields[] = {
#define FIELD(name)                                                                      \
    {                                                                                    \
#name, _Generic(((struct trial *)0)->name, double: offsetof(struct trial, name)) \
    }
    FIELD(bpb),   FIELD(nats),    FIELD(error), FIELD(tokens), FIELD(flops),
    FIELD(steps), FIELD(seconds), FIELD(wall),  FIELD(decode), FIELD(decode_low),
    FIELD(stories),
#undef FIELD
};
enum { FIELDS = sizeof fields / sizeof *fields };

static double get_field(const struct trial *t, const struct field *f)
{
    double x;

    memcpy(&x, (const char *)t + f->at, sizeof x);
    return x;
}

static void set_field(struct trial *t, const struct field *f, double x)
{
    memcpy((char *)t + f->at, &x, sizeof x);
}

/* JSON's whole numbers end at 2^63 here: a larger seed is written as text. */
static json_t *seed_json(uint64_t seed)
{
    char text[24];

    if (seed <= INT64_MAX)
        return json_integer((json_int_t)seed);
    snprintf(text, sizeof text, "%" PRIu64, seed);
    return json_string(text);
}

json_t *result_json(const struct comparison *c, const struct trial *t)
{
    const struct arch *a = &c->arch[t->arch];
    json_t            *j = json_object(), *buckets = json_array();

    json_object_set_new(j, "arch", json_string(a->name));
    json_object_set_new(j, "seed", seed_json(t->seed));
    json_object_set_new(j, "lr", json_from_double(t->lr));
    json_object_set_new(j, "width", json_integer(a->cfg.width));
    json_object_set_new(j, "mlp", json_integer(a->cfg.mlp));
    json_object_set_new(j, "parameters", json_from_double(a->params));
    json_object_set_new(j, "flops_per_token", json_from_double(a->flops));
    json_object_set_new(j, "state_bytes", json_from_double(a->state));
    json_object_set_new(j, "shared", json_boolean(t->shared));
    json_object_set_new(j, "failed", *t->failed ? json_string(t->failed) : json_null());
    for (int i = 0; i < FIELDS; i++)
        json_object_set_new(
            j, fields[i].name,
            json_from_double(*t->failed ? NAN : get_field(t, &fields[i])));
    for (int i = 0; i < SCORE_BUCKETS && !*t->failed; i++)
        json_array_append_new(buckets, json_from_double(t->bucket[i]));
    json_object_set_new(j, "nats_by_log2_position", buckets);
    json_object_set_new(j, "sample", json_string(t->sample));
    json_object_set_new(j, "build", json_string(t->build));
    return j;
}

enum fail result_write(const struct comparison *c, struct trial *t, struct why *why)
{
    char path[PATH_MAX];

    snprintf(t->build, sizeof t->build, "%s", version_line);
    return json_write(path_join(path, sizeof path, t->dir, "result.json"),
                      result_json(c, t), JSON_INDENT(1) | JSON_REAL_PRECISION(15), why);
}

bool result_read(struct trial *t)
{
    char        path[PATH_MAX];
    struct why  ignored;
    const char *failed, *sample, *build;
    json_t     *j, *buckets;

    path_join(path, sizeof path, t->dir, "result.json");
    if (json_read(&j, path, RESULT_MAX, "", &ignored))
        return false;
    for (int i = 0; i < FIELDS; i++)
        set_field(t, &fields[i], json_to_double(json_object_get(j, fields[i].name)));
    buckets = json_object_get(j, "nats_by_log2_position");
    for (size_t i = 0; i < SCORE_BUCKETS; i++)
        t->bucket[i] = json_to_double(json_array_get(buckets, i));
    t->shared = json_is_true(json_object_get(j, "shared"));
    failed = json_string_value(json_object_get(j, "failed"));
    sample = json_string_value(json_object_get(j, "sample"));
    snprintf(t->failed, sizeof t->failed, "%s", failed ? failed : "");
    build = json_string_value(json_object_get(j, "build"));
    snprintf(t->sample, sizeof t->sample, "%s", sample ? sample : "");
    snprintf(t->build, sizeof t->build, "%s", build ? build : "");
    json_decref(j);
    t->done = *t->failed || isfinite(t->bpb);
    if (t->done)
        curve_read(t);
    return t->done;
}

/* ---- the log ---- */

/* The training loss in LOSSES stretches of equally many steps. */
static void bin_losses(struct curve *c, const struct log_table *log)
{
    double sum = 0;
    long   n = 0;

    for (long i = 0; i < log->n && c->losses < LOSSES; i++) {
        double loss = log->column[LOG_LOSS][i];

        sum += isfinite(loss) ? loss : 0;
        n += isfinite(loss);
        if (log->column[LOG_STEP][i] < (double)log->n * (c->losses + 1) / LOSSES)
            continue;
        c->loss_tokens[c->losses] = log->column[LOG_TOKENS][i];
        c->loss[c->losses++] = n ? sum / (double)n : NAN;
        n = 0;
        sum = 0;
    }
}

void curve_read(struct trial *t)
{
    char             path[PATH_MAX];
    struct curve    *c = &t->curve;
    struct log_table log;
    struct why       ignored;
    long             all = 0, seen = 0;

    *c = (struct curve){0};
    if (log_read(&log, path_join(path, sizeof path, t->dir, "log.jsonl"), &ignored))
        return;
    bin_losses(c, &log);
    for (long i = 0; i < log.n; i++)
        all += isfinite(log.column[LOG_VAL_BPB][i]) != 0;
    for (long i = 0; i < log.n; i++) {
        t->seconds = log.column[LOG_SECONDS][i];
        if (!isfinite(log.column[LOG_VAL_BPB][i]))
            continue;
        seen++;                 // of too many some, evenly, and the last one
        if (all > 2 * CURVE && seen * 2 * CURVE / all == (seen - 1) * 2 * CURVE / all)
            continue;
        c->tokens[c->n] = log.column[LOG_TOKENS][i];
        c->flops[c->n] = log.column[LOG_FLOPS][i];
        c->seconds[c->n] = t->seconds;
        c->bpb[c->n++] = log.column[LOG_VAL_BPB][i];
    }
    log_table_free(&log);
}
