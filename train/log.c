#include "train/log.h"

#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/json.h"
#include "data/base/version.h"
#include "train/ranks.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char step_key[] = "{\"step\": ", decision_key[] = "{\"decision\": ",
                  sample_key[] = "{\"sample\": ";

static enum fail fail_log(const struct log *l, struct why *why)
{
    return fail(why, FAIL_WRITE, "%s: %s", l->path, strerror(errno));
}

/* ---- opening ---- */

static bool begins(const char *line, const char *key)
{
    return !strncmp(line, key, strlen(key));
}

/* Is it a whole line, and not of a later step, nor a decision or a sample of one? */
static bool belongs(const char *line, ssize_t len, long step)
{
    const char *at = strstr(line, "\"step\": ");

    if (line[len - 1] != '\n')
        return false;
    if (begins(line, step_key))
        return atol(line + strlen(step_key)) <= step;
    if (begins(line, sample_key))
        return atol(line + strlen(sample_key)) <= step;
    return !begins(line, decision_key) || !at || atol(at + strlen("\"step\": ")) < step;
}

/* The bytes before the first line that does not belong. */
static enum fail find_cut(const struct log *l, long step, off_t *cut, struct why *why)
{
    FILE   *f = file_stream(l->path);
    char   *line = NULL;
    size_t  cap = 0;
    ssize_t n;

    *cut = 0;
    if (!f)
        return fail_log(l, why);
    while ((n = getline(&line, &cap, f)) > 0 && belongs(line, n, step))
        *cut += n;
    enum fail err = ferror(f) ? fail_log(l, why) : 0;

    free(line);
    fclose(f);
    return err;
}

enum fail log_open(struct log *l, const char *run, long step, bool *begun,
                   struct why *why)
{
    off_t cut;

    *l = (struct log){0};
    path_join(l->path, sizeof l->path, run, "log.jsonl");
    enum fail err = file_own(l->path, O_WRONLY | O_APPEND, &l->fd, why);

    if (!err)
        err = find_cut(l, step, &cut, why);
    *begun = !err && cut > 0;
    if (!err && ftruncate(l->fd, cut))
        err = fail_log(l, why);
    return err;
}

/* ---- writing ---- */

/* How many of the bytes the disk takes; errno says why not all. */
static size_t write_some(int fd, const char *bytes, size_t len)
{
    size_t  done = 0;
    ssize_t n = 0;

    while (done < len && ((n = write(fd, bytes + done, len - done)) > 0 ||
                          (n < 0 && errno == EINTR)))
        done += n > 0 ? (size_t)n : 0;
    return done;
}

/* Write what is held; FAIL_WRITE: not all of it. */
static enum fail flush(struct log *l, struct why *why)
{
    size_t done = write_some(l->fd, l->held, l->n_held);

    memmove(l->held, l->held + done, l->n_held - done);
    l->n_held -= done;
    return l->n_held ? fail_log(l, why) : 0;
}

static enum fail hold(struct log *l, const char *text, size_t len, struct why *why)
{
    if (l->n_held + len > l->cap) {
        size_t cap = 2 * (l->n_held + len);
        char  *more = realloc(l->held, cap);

        if (!more)
            return fail(why, FAIL_MEMORY, "%s: out of memory for what the disk does not "
                        "take", l->path);
        l->held = more;
        l->cap = cap;
    }
    memcpy(l->held + l->n_held, text, len);
    l->n_held += len;
    return 0;
}

static enum fail put(struct log *l, const char *text, size_t len, struct why *why)
{
    struct why full;
    size_t     done = l->n_held && flush(l, &full) ? 0 : write_some(l->fd, text, len);

    return done == len ? 0 : hold(l, text + done, len - done, why);
}

/* j, which is taken over and may be NULL: out of memory. */
static enum fail put_json(struct log *l, json_t *j, struct why *why)
{
    char     *text = json_to_text(j, JSON_REAL_PRECISION(15));
    size_t    len = text ? strlen(text) : 0;
    enum fail err;

    if (text) {
        text[len] = '\n';       // in the place of the NUL
        err = put(l, text, len + 1, why);
    } else {
        err = fail(why, FAIL_MEMORY, "%s: out of memory", l->path);
    }
    free(text);
    json_decref(j);
    return err;
}

enum fail log_sync(struct log *l, struct why *why)
{
    enum fail err = l->n_held ? flush(l, why) : 0;

    return !err && fdatasync(l->fd) ? fail_log(l, why) : err;
}

enum fail log_close(struct log *l, struct why *why)
{
    struct why full;
    enum fail  err = l->n_held ? flush(l, &full) : 0;

    if (err)
        err = fail(why, err, "%.700s; its last %zu bytes are lost, the checkpoints are "
                   "whole", full.line, l->n_held);
    if (l->fd >= 0)
        close(l->fd);
    free(l->held);
    *l = (struct log){.fd = -1};
    return err;
}

/* ---- the first line ---- */

/* The processor's name, as the system tells it. */
static void cpu_name(char *buf, size_t cap)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char  line[512], *colon;

    snprintf(buf, cap, "unknown");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10) && (colon = strchr(line, ':'))) {
            colon[strcspn(colon, "\n")] = 0;
            snprintf(buf, cap, "%s", colon + 1 + strspn(colon + 1, " "));
            break;
        }
    if (f)
        fclose(f);
}

/* The library that makes OpenMP's threads, as it was loaded: libgomp.so.1. */
static const char *threads_library(void)
{
    Dl_info     where;
    const char *slash;

    if (!dladdr((void *)(uintptr_t)omp_get_max_threads, &where) || !where.dli_fname)
        return "unknown";
    slash = strrchr(where.dli_fname, '/');
    return slash ? slash + 1 : where.dli_fname;
}

/* Append what is now, when the log has something else under this name; of flags, which
 * nobody reads, only that. */
static void tell_change(char *line, size_t cap, const json_t *had, const char *name,
                        const char *what, const char *now)
{
    const char *was = json_string_value(json_object_get(had, name));
    size_t      n = strlen(line);

    if (!was || !strcmp(was, now))
        return;
    if (!strcmp(name, "flags"))
        snprintf(line + n, cap - n, "%s%s", n ? "; " : "", what);
    else
        snprintf(line + n, cap - n, "%s%s%.80s, not %.80s", n ? "; " : "", what, now,
                 was);
}

void log_origin(const char *run, char *line, size_t cap)
{
    char       path[1100], cpu[256], *text;
    size_t     len;
    struct why unread;
    json_t    *head;

    *line = 0;
    if (file_read(path_join(path, sizeof path, run, "log.jsonl"), (size_t)1 << 40, &text,
                  &len, &unread))
        return;
    text[strcspn(text, "\n")] = 0;
    head = json_loads(text, 0, NULL);
    free(text);
    const json_t *build = json_object_get(head, "build"),
                 *machine = json_object_get(head, "machine");

    cpu_name(cpu, sizeof cpu);
    tell_change(line, cap, build, "commit", "weft ", version_commit);
    tell_change(line, cap, build, "compiler", "", version_compiler);
    tell_change(line, cap, build, "flags", "other compiler flags", version_flags);
    tell_change(line, cap, build, "level", "kernels for ", version_level);
    tell_change(line, cap, machine, "cpu", "on ", cpu);
    tell_change(line, cap, machine, "openmp", "threads of ", threads_library());
    json_decref(head);
}

enum fail log_head(struct log *l, const struct trainer *t, double peak, struct why *why)
{
    char      cpu[256];
    json_t   *j;
    enum fail err;

    cpu_name(cpu, sizeof cpu);
    j = json_pack("{s:o, s:{s:s, s:s, s:s, s:s, s:s, s:i}, s:{s:s, s:i, s:i, s:s, s:f}, "
                  "s:I}",
                  "settings", config_to_json(&t->cfg, -1),
                  "build", "version", version_number, "commit", version_commit,
                           "compiler", version_compiler, "flags", version_flags,
                           "level", version_level, "real_bits", (int)sizeof(real) * 8,
                  "machine", "cpu", cpu, "threads", omp_get_max_threads(),
                             "ranks", ranks_n(), "openmp", threads_library(),
                             "sgemm_gflops", peak,
                  "parameters", (json_int_t)model_count(&t->model));
    err = put_json(l, j, why);
    return !err && l->n_held ? flush(l, why) : err;
}

/* ---- the others ---- */

/* A JSON number that reads back to the same bits, or null. */
static void json_text(char *buf, size_t cap, double x)
{
    snprintf(buf, cap, isfinite(x) ? "%.17g" : "null", x);
}

enum fail log_step(struct log *l, const struct log_line *line, struct why *why)
{
    const struct tally *y = line->tally;
    const struct step  *s = line->step;
    char text[1024], loss[32], val[32], bpb[32], norm[32], off[64] = "";
    int  n;

    json_text(loss, sizeof loss, s->transfer ? NAN : s->loss);
    if (s->transfer && isfinite(s->loss))
        snprintf(off, sizeof off, "\"transfer\": %.17g, ", s->loss);
    json_text(norm, sizeof norm, s->norm);
    json_text(val, sizeof val, line->val_loss);
    json_text(bpb, sizeof bpb, line->val_bpb);
    n = snprintf(text, sizeof text,
                 "{\"step\": %ld, \"tokens\": %llu, \"flops\": %.17g, \"loss\": %s, "
                 "%s\"val_loss\": %s, \"val_bpb\": %s, \"lr\": %.9g, \"grad_norm\": %s, "
                 "\"window\": %d, \"tok_s\": %.1f, \"mfu\": %.4f, \"ms\": %.3f, "
                 "\"skipped\": %ld, \"rss\": %zu}\n",
                 y->step, (unsigned long long)y->tokens, y->flops, loss, off, val, bpb,
                 s->lr, norm, s->window, line->tok_s, line->mfu, s->seconds * 1e3,
                 y->skipped, memory_held());
    return put(l, text, (size_t)n, why);
}

enum fail log_sample(struct log *l, long step, const char *text, size_t len,
                     struct why *why)
{
    return put_json(l, json_pack("{s:I, s:o}", "sample", (json_int_t)step, "text",
                                 json_from_bytes(text, len)), why);
}

enum fail log_decision(struct log *l, const struct decision *d, struct why *why)
{
    return put_json(l, json_pack("{s:s, s:I, s:I}", "decision", decided_names[d->what],
                                 "step", (json_int_t)d->step, "value",
                                 (json_int_t)d->value), why);
}

double log_bpb(const char *run, long step)
{
    char   path[PATH_MAX], *text = NULL;
    FILE  *f = file_stream(path_join(path, sizeof path, run, "log.jsonl"));
    size_t cap = 0;
    double bpb = NAN;

    while (f && isnan(bpb) && getline(&text, &cap, f) > 0) {
        json_t       *j = json_loads(text, 0, NULL);
        const json_t *v = json_object_get(j, "val_bpb");

        if (json_is_number(v) && json_integer_value(json_object_get(j, "step")) == step)
            bpb = json_number_value(v);
        json_decref(j);
    }
    free(text);
    if (f)
        fclose(f);
    return bpb;
}
