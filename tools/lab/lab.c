#include "tools/lab/lab.h"

#include "data/base/claim.h"
#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/format.h"
#include "data/base/json.h"
#include "data/base/live.h"
#include "data/base/memory.h"
#include "data/base/split.h"
#include "data/base/version.h"
#include "tools/compare/stats.h"
#include "tools/lab/claims.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define ENTRY(name) &experiment_##name,
const struct experiment *const experiments[] = {EXPERIMENTS(ENTRY) NULL};
const int n_experiments = sizeof experiments / sizeof *experiments - 1;

static const char *const form_names[] = {"brief", "quick", "full"};

enum { TOKENS, SECONDS, PARAMETERS, COSTS };
#define COST_COLUMNS "tokens,seconds,parameters"

struct cell {
    char  *key;                     // owned
    char  *build;                   // that computed it, owned
    double cost[COSTS];
    double value[LAB_VALUES];
    bool   met;                     // recalled or recorded in this run
};

/* A cell that this process computes for all. */
struct held {
    char         *key;              // owned
    struct claim *claim;
};

struct lab {
    const struct experiment *e;
    struct lab_ask   ask;
    struct verdicts *verdicts;
    struct cell     *cell;          // of this form
    int              n, columns;
    char            *text;          // of the record, as on disk
    size_t           len;
    bool             named;         // its last line "# BUILD" names this program
    char            *build;         // what that line names, owned; NULL: none yet
    char             path[PATH_MAX];
    int              planned, met, computed;
    bool             silent;        // with others: until all cells are known
    enum fail        unclaimed;     // a claim could not be made: why
    struct why       unclaimed_why;
    bool             waits;         // another computes a cell that was asked for
    struct held     *held;
    int              n_held;
    double           cost[COSTS];   // of the cell that is being computed
    double           asked;         // when it was
    double           start;
    struct live      live;
};

enum form lab_form(const struct lab *l) { return l->ask.form; }

int lab_seeds(const struct lab *l)
{
    if (l->ask.seeds)
        return l->ask.seeds;
    if (l->ask.form == LAB_FULL)
        return l->e->seeds;
    return l->ask.form == LAB_QUICK && l->e->quick ? l->e->quick : 1;
}

int lab_starts(const struct lab *l, int most)
{
    return most && !l->ask.seeds && most < lab_seeds(l) ? most : lab_seeds(l);
}

uint64_t lab_seed(const struct lab *l, int k)
{
    uint64_t first = l->ask.form == LAB_BRIEF ? 1 : LAB_REPORTED;

    return (l->ask.seed ? l->ask.seed : first) + (uint64_t)k;
}

bool lab_develops(const struct lab *l) { return l->ask.seed >= LAB_DEVELOPMENT; }

void lab_cost(struct lab *l, double tokens, double parameters)
{
    l->cost[TOKENS] += tokens;
    l->cost[PARAMETERS] += parameters;
}

bool lab_arch(const struct lab *l, const char *standard, int i, char *buf, size_t cap)
{
    const char *p = l->ask.arch ? l->ask.arch : standard;

    for (;; p++) {
        size_t n = split_length(p, ',');

        if (i-- == 0)
            return snprintf(buf, cap, "%.*s", (int)n, p), n > 0;
        p += n;
        if (!*p)
            return false;
    }
}

const char *lab_from(const struct lab *l) { return l->ask.from; }
const char *lab_text(const struct lab *l) { return l->ask.text; }

/* 1 to LAB_ARMS entries, none of them empty. */
static enum fail check_arch(const struct lab *l, struct why *why)
{
    char   entry[512];
    int    n = 0;
    size_t len = 0;

    while (lab_arch(l, "", n, entry, sizeof entry))
        len += strlen(entry) + (n++ > 0);
    if (n < 1 || n > LAB_ARMS || len != strlen(l->ask.arch))
        return fail(why, FAIL_USAGE, "--arch %.80s: give 1 to %d mixers parted by commas",
                    l->ask.arch, LAB_ARMS);
    return FAIL_NONE;
}

/* ---- the terminal ---- */

void lab_say(struct lab *l, const char *format, ...)
{
    va_list args;

    if (l->ask.json || l->silent)
        return;
    live_clear(&l->live);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

void lab_plan(struct lab *l, int cells) { l->planned += cells; }

/* Seconds until all planned cells are done, from those computed in this run; NaN:
 * unknown. */
static double seconds_left(const struct lab *l, double share, double now)
{
    double work = l->computed + share, left = l->planned - l->met - share;

    return work > 0.01 && left >= 0 ? (now - l->start) / work * left : NAN;
}

bool lab_progress(struct lab *l, const char *key, double share)
{
    double left = seconds_left(l, share, wall_seconds());
    char   time[32] = "";

    if (!live_due(&l->live))
        return !interrupted;
    if (!isnan(left))
        format_time(time, sizeof time, left);
    live_show(&l->live, "%s %d/%d  %s %.0f%%%s%s%s", l->e->name, l->met + 1,
              l->planned > l->met ? l->planned : l->met + 1, key, 100 * share,
              *time ? "  " : "", time, *time ? " left" : "");
    return !interrupted;
}

/* ---- JSON ---- */

/* {"experiment": "slr", "form": "quick", "cell": "...", "risk": 0.1,
 *  "build": "weft 0.2.0 ..."} */
static void print_cell(const struct lab *l, const struct cell *c)
{
    const char *name = l->e->columns;
    json_t     *j = json_pack("{s:s, s:s, s:s, s:f, s:f}", "experiment", l->e->name,
                              "form", form_names[l->ask.form], "cell", c->key, "tokens",
                              c->cost[TOKENS], "parameters", c->cost[PARAMETERS]);

    for (int i = 0; i < l->columns; i++) {
        size_t len = split_length(name, ',');
        char   key[64];

        snprintf(key, sizeof key, "%.*s", (int)len, name);
        json_object_set_new(j, key, json_from_double(c->value[i]));
        name += len + (name[len] == ',');
    }
    json_object_set_new(j, "build", json_from_bytes(c->build, strlen(c->build)));
    json_line(stdout, j, JSON_REAL_PRECISION(10));
    fflush(stdout);
}

static const char *const verdict_names[] = {"holds", "fails", "not decided"};

static void print_verdict(const struct answered *a)
{
    bool exact = a->claim->answer == ANSWER_EXACT;

    json_line(stdout,
              json_pack("{s:s, s:s, s:s, s:b, s:s, s:o, s:o, s:s, s:s, s:s, s:s}",
                        "experiment", a->e->name, "claim", a->claim->name, "says",
                        a->claim->says, "exact", exact, "verdict",
                        verdict_names[a->verdict], "p",
                        json_from_double(exact ? NAN : a->p), "q",
                        json_from_double(exact ? NAN : a->q), "gate",
                        a->found.learnt ? "" : a->found.gate, "measured", a->measured,
                        "yardstick", a->yardstick, "build", version_line),
              0);
    fflush(stdout);
}

/* ---- cells ---- */

static void *need(void *p)
{
    if (!p) {
        fputs("weft lab: not enough memory for its table\n", stderr);
        exit(FAIL_MEMORY);
    }
    return p;
}

static struct cell *find_cell(const struct lab *l, const char *key)
{
    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->cell[i].key, key))
            return &l->cell[i];
    return NULL;
}

/* The cell of this key, made when it is new. */
static struct cell *hold_cell(struct lab *l, const char *key, size_t len)
{
    char        *copy = need(strndup(key, len));
    struct cell *c = find_cell(l, copy);

    if (c) {
        free(copy);
        return c;
    }
    l->cell = need(realloc(l->cell, (size_t)(l->n + 1) * sizeof *l->cell));
    l->cell[l->n] = (struct cell){.key = copy};
    return &l->cell[l->n++];
}

static void set_build(struct cell *c, const char *build)
{
    free(c->build);
    c->build = need(strdup(build));
}

static void meet(struct lab *l, struct cell *c)
{
    if (c->met)
        return;
    c->met = true;
    l->met++;
    if (l->ask.json && !l->silent)
        print_cell(l, c);
}

static void append(struct lab *l, const char *line)
{
    size_t len = strlen(line);

    l->text = need(realloc(l->text, l->len + len + 1));
    memcpy(l->text + l->len, line, len + 1);
    l->len += len;
}

/* ---- the record ---- */

/* "# BUILD", which computed the lines that follow, or "# claim ...", which it knew. */
static const char *take_build(struct lab *l, const char *line)
{
    size_t n = strcspn(line, "\n");

    if (strncmp(line, "# claim ", 8) && n >= 2) {
        free(l->build);
        l->build = need(strndup(line + 2, n - 2));
        l->named = !strcmp(l->build, version_line);
    }
    return line[n] ? line + n + 1 : NULL;
}

/* One line of the record, form,"key",value,... into the cells when it is of this form;
 * returns the next line, or NULL when this one is not such a line. */
static const char *take_line(struct lab *l, const char *line)
{
    if (*line == '#')
        return take_build(l, line);

    size_t       form = strcspn(line, ",\n");
    const char  *key = line + form + 2, *p;
    double       value[COSTS + LAB_VALUES];

    if (strncmp(line + form, ",\"", 2) || !(p = strchr(key, '"')))
        return NULL;
    const char *end = p++;

    for (int i = 0; i < COSTS + l->columns; i++) {
        char *after;

        if (*p++ != ',')
            return NULL;
        value[i] = strtod(p, &after);
        if (after == p)
            return NULL;
        p = after;
    }
    if (form == strlen(form_names[l->ask.form]) &&
        !strncmp(line, form_names[l->ask.form], form)) {
        struct cell *c = hold_cell(l, key, (size_t)(end - key));

        memcpy(c->cost, value, sizeof c->cost);
        memcpy(c->value, value + COSTS, sizeof c->value);
        set_build(c, l->build ? l->build : "");
    }
    return *p == '\n' ? p + 1 : NULL;
}

static enum fail read_record(struct lab *l, struct why *why)
{
    char        head[512], *text;
    size_t      len;
    const char *line;
    enum fail   err;

    snprintf(head, sizeof head, "form,cell," COST_COLUMNS ",%s\n", l->e->columns);
    if (!path_exists(l->path)) {
        if (!l->len)
            append(l, head);
        return FAIL_NONE;
    }
    if ((err = file_read(l->path, 64 << 20, &text, &len, why)))
        return err;
    free(l->text);
    l->text = text, l->len = len;
    free(l->build);
    l->build = NULL;
    line = strncmp(text, head, strlen(head)) ? NULL : text + strlen(head);
    while (line && *line)
        line = take_line(l, line);
    if (line != text + len)
        return fail(why, FAIL_INPUT,
                    "%s: not a record of this version's %s; remove it, or give "
                    "another --out",
                    l->path, l->e->name);
    return FAIL_NONE;
}

/* ---- cells that are shared ---- */

static struct held *find_held(const struct lab *l, const char *key)
{
    for (int i = 0; i < l->n_held; i++)
        if (!strcmp(l->held[i].key, key))
            return &l->held[i];
    return NULL;
}

/* DIR/NAME-<hash of form and key>, for its claim. */
static void claim_name(const struct lab *l, const char *key, char *path, size_t cap)
{
    char     name[96];
    uint64_t hash = XXH3_64bits_withSeed(key, strlen(key), (XXH64_hash_t)l->ask.form);

    snprintf(name, sizeof name, "%s-%016llx", l->e->name, (unsigned long long)hash);
    path_join(path, cap, l->ask.out, name);
}

/* May this process compute the cell? Not when another does, or has, by now; then it is
 * read when the record is. */
static bool claim_cell(struct lab *l, const char *key)
{
    char          path[PATH_MAX];
    struct claim *mine;
    struct why    unread;

    if (find_held(l, key))
        return true;
    claim_name(l, key, path, sizeof path);
    if (!l->unclaimed)
        l->unclaimed = claim_try(path, &mine, &l->unclaimed_why);
    if (l->unclaimed || !mine)
        return false;
    if (read_record(l, &unread) || find_cell(l, key)) {
        claim_finish(mine);
        return false;
    }
    l->held = need(realloc(l->held, (size_t)(l->n_held + 1) * sizeof *l->held));
    l->held[l->n_held++] = (struct held){need(strdup(key)), mine};
    return true;
}

static void finish_cell(struct lab *l, struct held *h)
{
    claim_finish(h->claim);
    free(h->key);
    *h = l->held[--l->n_held];
}

bool lab_recall(struct lab *l, const char *key, double *values)
{
    struct cell *c = find_cell(l, key);

    if (!c && (!l->ask.join || claim_cell(l, key))) {
        memset(l->cost, 0, sizeof l->cost);
        l->asked = wall_seconds();
        return false;
    }
    c = find_cell(l, key);
    if (!c) {
        l->waits = true;
        for (int k = 0; k < l->columns; k++)
            values[k] = 1;
        return true;
    }
    memcpy(values, c->value, (size_t)l->columns * sizeof *values);
    meet(l, c);
    return true;
}

bool lab_finished(struct lab *l, const char *key) { return find_cell(l, key); }

/* The program that computes from here on, and the claims it knows. */
static void append_build(struct lab *l)
{
    append(l, "# ");
    append(l, version_line);
    append(l, "\n");
    for (const struct lab_claim *c = l->e->claims; c && c->name; c++) {
        char line[CLAIM_LINE];

        append(l, "# claim ");
        append(l, claim_line(l->e, c, line));
        append(l, "\n");
    }
    l->named = true;
}

static void append_numbers(struct lab *l, const double *x, int n)
{
    char number[40];

    for (int i = 0; i < n; i++) {
        snprintf(number, sizeof number, ",%.17g", x[i]);
        append(l, number);
    }
}

/* A line more in the record. */
static enum fail write_cell(struct lab *l, const char *key, const double *values,
                            struct why *why)
{
    if (!l->named)
        append_build(l);
    append(l, form_names[l->ask.form]);
    append(l, ",\"");
    append(l, key);
    append(l, "\"");
    append_numbers(l, l->cost, COSTS);
    append_numbers(l, values, l->columns);
    append(l, "\n");
    return file_write(l->path, l->text, l->len, why);
}

/* The same, on top of what others have written meanwhile. */
static enum fail record_shared(struct lab *l, const char *key, const double *values,
                               struct why *why)
{
    char          path[PATH_MAX];
    struct claim *only;
    struct held  *h = find_held(l, key);
    enum fail     err = claim_wait(path_join(path, sizeof path, l->ask.out, "record"),
                                   &only, why);

    if (err)
        return err;
    err = read_record(l, why);
    if (!err)
        err = write_cell(l, key, values, why);
    claim_release(only);
    if (!err && h)
        finish_cell(l, h);
    return err;
}

enum fail lab_record(struct lab *l, const char *key, const double *values,
                     struct why *why)
{
    struct cell *c = hold_cell(l, key, strlen(key));

    l->cost[SECONDS] = wall_seconds() - l->asked;
    memcpy(c->cost, l->cost, sizeof c->cost);
    memcpy(c->value, values, (size_t)l->columns * sizeof *values);
    set_build(c, version_line);
    live_clear(&l->live);
    l->computed += !c->met;
    meet(l, c);
    return l->ask.join ? record_shared(l, key, values, why)
                       : write_cell(l, key, values, why);
}

/* ---- results ---- */

static struct answered *answer(struct lab *l, const char *name, const char *measured,
                               const char *yardstick)
{
    struct verdicts        *v = l->verdicts;
    const struct lab_claim *c = l->e->claims;

    while (c && c->name && strcmp(c->name, name))
        c++;
    if (!c || !c->name) {
        fprintf(stderr, "weft lab: %s has no claim '%s'\n", l->e->name, name);
        abort();                            // a name of the experiment's own
    }
    v->row = need(realloc(v->row, (size_t)(v->n + 1) * sizeof *v->row));
    v->row[v->n] = (struct answered){.e = l->e, .claim = c, .found = {.learnt = true},
                                     .measured = need(strdup(measured)),
                                     .yardstick = need(strdup(yardstick))};
    return &v->row[v->n++];
}

void lab_exact(struct lab *l, const char *name, bool holds, const char *measured,
               const char *yardstick)
{
    if (!l->silent)
        answer(l, name, measured, yardstick)->verdict =
            holds ? VERDICT_HOLDS : VERDICT_FAILS;
}

void lab_trained(struct lab *l, const char *name, const struct finding *f,
                 const char *measured, const char *yardstick)
{
    if (!l->silent)
        answer(l, name, measured, yardstick)->found = *f;
}

/* Correct what `of` points to in every trained row that passed its gate. */
static void correct(struct verdicts *v, bool against)
{
    double *p = need(malloc((size_t)(v->n + 1) * sizeof *p));

    for (int i = 0; i < v->n; i++) {
        const struct answered *a = &v->row[i];
        bool judged = a->claim->answer != ANSWER_EXACT && a->found.learnt;

        p[i] = judged ? against ? a->found.q : a->found.p : NAN;
    }
    holm(p, v->n);
    for (int i = 0; i < v->n; i++)
        *(against ? &v->row[i].q : &v->row[i].p) = p[i];
    free(p);
}

void verdicts_settle(struct verdicts *v)
{
    correct(v, false);
    correct(v, true);
    for (struct answered *a = v->row; a < v->row + v->n; a++)
        if (a->claim->answer != ANSWER_EXACT)
            a->verdict = a->p < 0.05 ? VERDICT_HOLDS
                         : a->q < 0.05 ? VERDICT_FAILS : VERDICT_OPEN;
}

const char *verdict_text(const struct answered *a, char *buf, size_t cap)
{
    const char *name = verdict_names[a->verdict];

    if (a->claim->answer == ANSWER_EXACT)
        snprintf(buf, cap, "%s", name);
    else if (!a->found.learnt)
        snprintf(buf, cap, "%s: %s", name, a->found.gate);
    else if (isnan(a->p))
        snprintf(buf, cap, "%s: too few seeds", name);
    else
        snprintf(buf, cap, "%s (p %.2g for, %.2g against)", name, a->p, a->q);
    return buf;
}

/* The verdicts from row `first` on, which are this experiment's, by themselves. */
static void tell_verdicts(struct lab *l, int first)
{
    struct verdicts mine = {.n = l->verdicts->n - first};
    double          seconds = 0;
    char            text[192];

    if (!mine.n)
        return;
    mine.row = l->verdicts->row + first;
    for (int i = 0; i < l->n; i++)
        seconds += l->cell[i].met ? l->cell[i].cost[SECONDS] : 0;
    verdicts_settle(&mine);
    for (struct answered *a = mine.row; a < mine.row + mine.n; a++) {
        a->seconds = seconds;
        if (l->ask.json)
            print_verdict(a);
        lab_say(l, "\n%s: %s\n    measured   %s\n    yardstick  %s", a->claim->says,
                verdict_text(a, text, sizeof text), a->measured, a->yardstick);
    }
}

void verdicts_free(struct verdicts *v)
{
    for (int i = 0; i < v->n; i++) {
        free(v->row[i].measured);
        free(v->row[i].yardstick);
    }
    free(v->row);
    *v = (struct verdicts){0};
}

enum fail lab_chart(struct lab *l, const char *name, const struct chart *c,
                    struct why *why)
{
    char   file[64], path[PATH_MAX], *bytes = NULL;
    size_t len = 0;
    FILE     *f;
    enum fail err;

    if (l->silent)
        return FAIL_NONE;
    f = need(memory_stream(&bytes, &len));
    chart_write(f, c, 1);
    snprintf(file, sizeof file, "%s.svg", name);
    path_join(path, sizeof path, l->ask.out, file);
    err = fclose(f) ? fail_write(why, path) : file_write(path, bytes, len, why);
    free(bytes);
    return err;
}

/* ---- a run ---- */

static int count_columns(const char *columns)
{
    int n = 1;

    for (; *columns; columns++)
        n += *columns == ',';
    return n;
}

/* With others: until every cell is known. */
static enum fail run_shared(struct lab *l, struct why *why)
{
    enum fail err = FAIL_NONE;

    l->silent = true;
    do {
        l->waits = false;
        l->planned = 0;
        err = l->e->run(l, why);
        if (!err && l->unclaimed) {
            *why = l->unclaimed_why;
            err = l->unclaimed;
        }
        while (l->n_held) {
            claim_release(l->held[0].claim);
            free(l->held[0].key);
            l->held[0] = l->held[--l->n_held];
        }
        if (!err && l->waits)
            nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
        if (!err)
            err = read_record(l, why);
        if (!err && interrupted)
            err = FAIL_INTERRUPTED;
    } while (!err && l->waits);
    if (!err)
        claim_sweep(l->ask.out);
    l->silent = false;
    l->planned = l->met = 0;
    for (int i = 0; i < l->n; i++)
        l->cell[i].met = false;
    return err;
}

enum fail lab_run(const struct experiment *e, const struct lab_ask *ask,
                  struct verdicts *v, struct why *why)
{
    struct lab l = {
        .e = e, .ask = *ask, .verdicts = v, .columns = count_columns(e->columns)};
    char       file[64];
    int        lock = -1, first = v->n;
    enum fail  err;

    snprintf(file, sizeof file, "%s.csv", e->name);
    path_join(l.path, sizeof l.path, ask->out, file);
    l.start = wall_seconds();
    l.live = live_open(10);
    err = ask->arch ? check_arch(&l, why) : FAIL_NONE;
    if (!err)
        err = dir_make(ask->out, why);
    if (!err)
        err = ask->join ? dir_lock_shared(ask->out, &lock, why)
                        : dir_lock(ask->out, &lock, why);
    if (!err)
        err = read_record(&l, why);
    if (!err && ask->join)
        err = run_shared(&l, why);
    if (!err)
        err = e->run(&l, why);
    if (!err)
        tell_verdicts(&l, first);
    live_clear(&l.live);
    for (int i = 0; i < l.n; i++) {
        free(l.cell[i].key);
        free(l.cell[i].build);
    }
    free(l.cell);
    free(l.build);
    free(l.held);
    free(l.text);
    if (lock >= 0)
        close(lock);
    return err;
}
