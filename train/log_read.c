#include "train/log_read.h"

#include "data/base/file.h"
#include "data/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const log_column_name[LOG_COLUMNS] = {
    "step", "tokens", "flops", "loss", "val_loss", "val_bpb", "lr", "grad_norm",
    "window", "tok_s", "mfu", "ms", "skipped", "rss", "seconds"};

static bool grow(struct log_table *t, long *cap)
{
    if (t->n < *cap)
        return true;
    *cap = *cap ? 2 * *cap : 1024;
    for (int i = 0; i < LOG_COLUMNS; i++) {
        double *more = realloc(t->column[i], (size_t)*cap * sizeof *more);

        if (!more)
            return false;
        t->column[i] = more;
    }
    return true;
}

static void take_head(struct log_table *t, const json_t *j)
{
    const char *mixers =
        json_string_value(json_object_get(json_object_get(j, "settings"), "mixers"));

    t->parameters = json_to_double(json_object_get(j, "parameters"));
    snprintf(t->mixers, sizeof t->mixers, "%s", mixers ? mixers : "");
}

static void take_step(struct log_table *t, const json_t *j)
{
    double before = t->n ? t->column[LOG_SECONDS][t->n - 1] : 0, ms;

    for (int i = 0; i < LOG_SECONDS; i++)
        t->column[i][t->n] = json_to_double(json_object_get(j, log_column_name[i]));
    ms = t->column[LOG_MS][t->n];
    t->column[LOG_SECONDS][t->n++] = before + (isfinite(ms) ? ms / 1000 : 0);
}

static bool take_line(struct log_table *t, const char *line, long *cap)
{
    json_t *j = json_loads(line, 0, NULL);
    bool    fits = true;

    if (json_is_object(json_object_get(j, "settings")))
        take_head(t, j);
    else if (json_is_integer(json_object_get(j, "step")) && json_object_get(j, "ms") &&
             (fits = grow(t, cap)))
        take_step(t, j);
    json_decref(j);
    return fits;
}

enum fail log_read(struct log_table *t, const char *path, struct why *why)
{
    char  *line = NULL;
    size_t room = 0;
    long   cap = 0;
    bool   fits = true;
    int    fd;
    enum fail err = file_open(path, &fd, NULL, why);

    *t = (struct log_table){.parameters = NAN};
    if (err)
        return err;
    FILE *f = fdopen(fd, "r");

    while (f && fits && getline(&line, &room, f) > 0)
        fits = take_line(t, line, &cap);
    if (!f || !fits)
        err = fail(why, FAIL_MEMORY, "%s: out of memory for the log", path);
    else if (ferror(f))
        err = fail(why, FAIL_INPUT, "%s: it cannot be read", path);
    free(line);
    if (f)
        fclose(f);
    else
        close(fd);
    if (err)
        log_table_free(t);
    return err;
}

void log_table_free(struct log_table *t)
{
    for (int i = 0; i < LOG_COLUMNS; i++)
        free(t->column[i]);
    *t = (struct log_table){0};
}
