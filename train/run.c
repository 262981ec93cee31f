#include "train/run.h"

#include "data/base/file.h"
#include "data/base/format.h"
#include "data/base/memory.h"
#include "data/base/version.h"
#include "train/ranks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONFIG_MAX = 1 << 20 };

static const char *const budget_names[] = {"steps", "for", "tokens", "flops"};
static const double      budget_most[] = {1e12, TIME_MOST, 1e18, 1e30};

/* ---- names ---- */

static void cut_suffix(char *name, const char *suffix)
{
    size_t n = strlen(name), k = strlen(suffix);

    if (n > k && !strcmp(name + n - k, suffix))
        name[n - k] = 0;
}

void run_name(char *buf, size_t cap, const char *input)
{
    char        name[256], full[PATH_MAX], given[PATH_MAX];
    const char *path = given, *slash;
    char       *dot;
    size_t      n = strlen(input);

    while (n > 1 && input[n - 1] == '/')
        n--;
    snprintf(given, sizeof given, "%.*s", (int)n, input);
    slash = strrchr(given, '/');
    if (!strcmp(slash ? slash + 1 : given, ".") ||
        !strcmp(slash ? slash + 1 : given, ".."))
        path = realpath(input, full) ? full : given;
    slash = strrchr(path, '/');
    snprintf(name, sizeof name, "%.200s", slash ? slash + 1 : path);
    if (!strcmp(input, "-"))
        snprintf(name, sizeof name, "stdin");
    if (!path_is_dir(path)) {
        cut_suffix(name, ".zst");
        dot = strrchr(name, '.');
        if (dot && dot > name)
            *dot = 0;
    }
    snprintf(buf, cap, "runs/%s", *name ? name : "run");
}

/* ---- inputs ---- */

static enum fail keep_input(struct run *r, const char *path, struct why *why)
{
    size_t  n = (size_t)r->n_input + 1;
    char  **more = realloc(r->input, n * sizeof *more);
    double *weight = realloc(r->weight, n * sizeof *weight);

    if (more)
        r->input = more;
    if (weight)
        r->weight = weight;
    if (!more || !weight || !(more[n - 1] = strdup(path)))
        return fail(why, FAIL_MEMORY, "out of memory for the list of inputs");
    weight[n - 1] = 1;
    r->n_input++;
    return 0;
}

/* The path as config.cfg can keep it, into full (PATH_MAX bytes). */
static enum fail full_path(const char *path, char *full, const char *advice,
                           struct why *why)
{
    if (!realpath(path, full))
        return fail(why, FAIL_INPUT, "%s: %s; %s", path, strerror(errno), advice);
    if (strchr(full, '\n'))
        return fail(why, FAIL_INPUT,
                    "%s: a path with a line break cannot be kept in config.cfg; "
                    "rename it",
                    path);
    return 0;
}

enum fail run_add_input(struct run *r, const char *path, struct why *why)
{
    char      full[PATH_MAX];
    enum fail err;

    if (!strcmp(path, "-"))
        return keep_input(r, path, why);
    err = full_path(path, full, "give text files, directories or a dataset", why);
    return err ? err : keep_input(r, full, why);
}

enum fail run_validate_on(struct run *r, const char *path, struct why *why)
{
    char      full[PATH_MAX];
    enum fail err = full_path(path, full, "give --val a text file", why);

    if (!err && strlen(full) >= sizeof r->val)
        err = fail(why, FAIL_INPUT, "%s: its path is too long", path);
    if (!err)
        memcpy(r->val, full, strlen(full) + 1);
    return err;
}

/* ---- config.cfg ---- */

enum fail run_write_config(const struct run *r, struct why *why)
{
    char   path[PATH_MAX], *text = NULL;
    size_t len = 0;
    FILE  *f = memory_stream(&text, &len);
    enum fail err;

    if (!f)
        return fail(why, FAIL_MEMORY, "%s/config.cfg: out of memory", r->dir);
    fprintf(f, "# %s\n", version_line);
    config_print(&r->cfg, f);
    for (int i = 0; i < r->n_input; i++) {
        fprintf(f, "input = %s\n", r->input[i]);
        if (r->weight[i] != 1)
            fprintf(f, "weight = %.17g\n", r->weight[i]);
    }
    if (*r->val)
        fprintf(f, "val = %s\n", r->val);
    if (*r->field)
        fprintf(f, "field = %s\n", r->field);
    if (*r->from)
        fprintf(f, "from = %s\n", r->from);
    if (r->budget != BUDGET_STEPS)
        fprintf(f, "budget = %s %.17g", budget_names[r->budget], r->amount);
    if (r->budget != BUDGET_STEPS && r->before > 0)
        fprintf(f, " after %.17g", r->before);
    if (r->budget != BUDGET_STEPS)
        fputc('\n', f);
    if (*r->replay)
        fprintf(f, "replay = %s\n", r->replay);
    err = fclose(f) ? fail(why, FAIL_MEMORY, "%s/config.cfg: out of memory", r->dir)
                    : file_write(path_join(path, sizeof path, r->dir, "config.cfg"), text,
                                 len, why);
    free(text);
    return err;
}

/* The value of `name = value` when line is that, else NULL. */
static char *value_of(char *line, const char *name)
{
    size_t n = strlen(name);

    if (strncmp(line, name, n))
        return NULL;
    line += n + strspn(line + n, " ");
    return *line == '=' ? line + 1 + strspn(line + 1, " ") : NULL;
}

/* A number from 0 to most at the start of text. */
static bool read_amount(const char *text, double most, double *amount)
{
    char *end;

    *amount = strtod(text, &end);
    return end > text && *amount >= 0 && *amount <= most;
}

static enum fail read_budget(struct run *r, const char *value, struct why *why)
{
    const char *after = strstr(value, " after ");

    for (int i = BUDGET_FOR; i <= BUDGET_FLOPS; i++) {
        size_t n = strlen(budget_names[i]);

        if (strncmp(value, budget_names[i], n) || value[n] != ' ')
            continue;
        r->budget = (enum budget)i;
        r->before = 0;
        if (read_amount(value + n, budget_most[i], &r->amount) && r->amount > 0 &&
            (!after ||
             read_amount(after + strlen(" after "), budget_most[i], &r->before)))
            return 0;
    }
    return fail(why, FAIL_INPUT,
                "%s/config.cfg: budget '%.60s' is none of for, tokens, flops and a "
                "number in its range",
                r->dir, value);
}

/* Of the input before it. */
static enum fail read_weight(struct run *r, const char *value, struct why *why)
{
    double weight = atof(value);

    if (r->n_input == 0 || !(weight >= 0.001 && weight <= 1000))
        return fail(why, FAIL_INPUT,
                    "%s/config.cfg: weight '%s' is not that of an input, from 0.001 to "
                    "1000", r->dir, value);
    r->weight[r->n_input - 1] = weight;
    return 0;
}

/* Take the line if it is one of the run's own. */
static enum fail read_own(struct run *r, char *line, bool *own, struct why *why)
{
    char *input = value_of(line, "input"), *field = value_of(line, "field");
    char *budget = value_of(line, "budget"), *from = value_of(line, "from");
    char *replay = value_of(line, "replay"), *weight = value_of(line, "weight");
    char *val = value_of(line, "val");

    *own = input || field || budget || from || replay || weight || val;
    if ((field && *r->field) || (budget && r->budget != BUDGET_STEPS) ||
        (from && *r->from) || (replay && *r->replay) || (val && *r->val))
        return fail(why, FAIL_INPUT, "%s/config.cfg: '%.40s' is given twice", r->dir,
                    line);
    if (input)
        return keep_input(r, input, why);
    if (field)
        snprintf(r->field, sizeof r->field, "%s", field);
    if (from)
        snprintf(r->from, sizeof r->from, "%s", from);
    if (replay)
        snprintf(r->replay, sizeof r->replay, "%s", replay);
    if (val)
        snprintf(r->val, sizeof r->val, "%s", val);
    if (weight)
        return read_weight(r, weight, why);
    return budget ? read_budget(r, budget, why) : 0;
}

/* Take the run's own lines out of text, leaving blanks; the rest is settings. */
static enum fail read_lines(struct run *r, char *text, struct why *why)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        bool   more = text[len] == '\n', own;

        text[len] = 0;
        enum fail err = read_own(r, text, &own, why);

        if (err)
            return err;
        if (own)
            memset(text, ' ', len);
        if (more)
            text[len++] = '\n';
        text += len;
    }
    return 0;
}

static enum fail read_config(struct run *r, struct why *why)
{
    char   path[PATH_MAX], *text;
    size_t len;
    enum fail err;

    path_join(path, sizeof path, r->dir, "config.cfg");
    err = file_read(path, CONFIG_MAX, &text, &len, why);
    if (err)
        return err;
    config_defaults(&r->cfg);
    err = read_lines(r, text, why);
    if (!err)
        err = config_parse(&r->cfg, text, path, NULL, why);
    if (err == FAIL_USAGE) // nobody typed it just now
        err = FAIL_INPUT;
    if (!err && r->n_input == 0)
        err = fail(why, FAIL_INPUT, "%s: no line `input = PATH`; not a run's", path);
    free(text);
    return err;
}

enum fail run_read(struct run *r, const char *dir, struct why *why)
{
    enum fail err;

    *r = (struct run){.lock = -1};
    snprintf(r->dir, sizeof r->dir, "%s", dir);
    err = read_config(r, why);
    if (err)
        run_close(r);
    return err;
}

enum fail run_settings(const char *dir, struct config *c, struct why *why)
{
    struct run r;
    enum fail  err = run_read(&r, dir, why);

    *c = r.cfg;
    run_close(&r);
    return err;
}

/* ---- directories ---- */

/* *is: path is a lock as dir_lock leaves it, empty or a number and a line break. */
static enum fail is_lock(const char *path, bool *is, struct why *why)
{
    char        text[32], *bytes;
    size_t      len, digits;
    struct stat st;
    enum fail   err;

    *is = false;
    if (lstat(path, &st) || !S_ISREG(st.st_mode) || st.st_size >= (off_t)sizeof text)
        return 0;
    err = file_read(path, sizeof text - 1, &bytes, &len, why);
    if (err)
        return err;
    memcpy(text, bytes, len + 1);
    free(bytes);
    digits = strspn(text, "0123456789");
    *is = len == 0 || (digits > 0 && digits + 1 == len && text[digits] == '\n');
    return 0;
}

/* *is: a run that was killed while it was set up leaves an entry like this. */
static enum fail is_leftover(const char *dir, const char *name, bool *is, struct why *why)
{
    char path[PATH_MAX];

    if (!strcmp(name, "lock"))
        return is_lock(path_join(path, sizeof path, dir, name), is, why);
    *is = path_is_temporary(name) &&
          (!strncmp(name, "config.cfg.", 11) || !strncmp(name, "data.", 5));
    return 0;
}

/* There must be nothing in dir but what a killed set-up leaves. */
static enum fail refuse_filled(const char *dir, struct why *why)
{
    DIR           *d = opendir(dir);
    struct dirent *e;
    bool           is = true;
    enum fail      err = 0;

    if (!d)
        return fail(why, FAIL_INPUT, "%s: cannot be listed: %s", dir, strerror(errno));
    while (!err && is && (e = readdir(d)))
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            err = is_leftover(dir, e->d_name, &is, why);
    closedir(d);
    return err || is ? err : fail(why, FAIL_USAGE,
                                  "%s exists and is not a run; name another with --out",
                                  dir);
}

static enum fail refuse_existing(const char *dir, struct why *why)
{
    char config[PATH_MAX], word[1200];

    if (!path_exists(dir))
        return 0;
    if (path_exists(path_join(config, sizeof config, dir, "config.cfg"))) {
        path_quote(word, sizeof word, dir);
        return fail(why, FAIL_USAGE,
                    "%s is a run already; continue it with: weft train --resume "
                    "%s, or name another with --out",
                    dir, word);
    }
    if (!path_is_dir(dir))
        return fail(why, FAIL_USAGE,
                    "%s exists and is not a run; name another with --out", dir);
    return refuse_filled(dir, why);
}

/* config.cfg has one line for each of them; for inputs full_path sees to that. */
static enum fail check_lines(const struct run *r, struct why *why)
{
    const char *const line[] = {r->field, r->from, r->replay};

    for (size_t i = 0; i < sizeof line / sizeof *line; i++)
        if (strchr(line[i], '\n'))
            return fail(why, FAIL_INPUT,
                        "%s: a name with a line break cannot be kept in config.cfg; "
                        "rename it",
                        line[i]);
    return 0;
}

enum fail run_create(struct run *r, struct why *why)
{
    enum fail err = check_lines(r, why);

    if (!err)
        err = refuse_existing(r->dir, why);
    if (!err)
        err = dir_make(r->dir, why);
    if (!err)
        err = dir_lock(r->dir, &r->lock, why);
    if (!err)
        err = refuse_existing(r->dir, why);
    if (!err) {
        dir_sweep(r->dir);
        err = run_write_config(r, why);
        if (err)
            run_discard(r);
    }
    return err;
}

enum fail run_open(struct run *r, const char *dir, struct why *why)
{
    char config[PATH_MAX];
    enum fail err;

    *r = (struct run){.lock = -1};
    snprintf(r->dir, sizeof r->dir, "%s", dir);
    if (!path_is_dir(dir))
        return fail(why, FAIL_INPUT, "%s: no such run", dir);
    if (!path_exists(path_join(config, sizeof config, dir, "config.cfg")))
        return fail(why, FAIL_INPUT, "%s: not a run, it has no config.cfg", dir);
    err = dir_lock(dir, &r->lock, why);
    if (!err) {
        dir_sweep(dir);
        err = read_config(r, why);
    }
    if (err)
        run_close(r);
    return err;
}

void run_discard(struct run *r)
{
    char path[PATH_MAX];

    if (path_exists(path_join(path, sizeof path, r->dir, "data.part")))
        return;                 // its tokens are worth going on with
    dir_remove(path_join(path, sizeof path, r->dir, "data"));
    dir_sweep(r->dir);
    unlink(path_join(path, sizeof path, r->dir, "config.cfg"));
    unlink(path_join(path, sizeof path, r->dir, "lock"));
    rmdir(r->dir);
}

enum fail run_share(struct run *r, struct why *why)
{
    struct run first = *r;
    char       path[PATH_MAX] = "";
    enum fail  err = FAIL_NONE;

    ranks_share(&first, sizeof first);
    if (ranks_me() > 0) {
        *r = first;
        r->input = NULL;
        r->weight = NULL;
        r->n_input = 0;
        r->lock = -1;
    }
    for (int i = 0; i < first.n_input; i++) {
        if (ranks_me() == 0)
            snprintf(path, sizeof path, "%s", r->input[i]);
        ranks_share(path, sizeof path);
        if (ranks_me() > 0 && !err)
            err = keep_input(r, path, why);
    }
    return ranks_agree(err, why);
}

bool run_lacks_stdin(const struct run *r)
{
    char data[PATH_MAX];
    bool is_stdin = false;

    for (int i = 0; i < r->n_input; i++)
        is_stdin |= !strcmp(r->input[i], "-");
    return is_stdin && !path_exists(path_join(data, sizeof data, r->dir, "data"));
}

void run_close(struct run *r)
{
    for (int i = 0; i < r->n_input; i++)
        free(r->input[i]);
    free(r->input);
    free(r->weight);
    if (r->lock >= 0)
        close(r->lock);
    *r = (struct run){.lock = -1};
}
