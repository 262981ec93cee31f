#include "data/base/cli.h"
#include "data/base/file.h"
#include "data/base/live.h"
#include "data/base/memory.h"
#include "data/dataset.h"
#include "model/files/checkpoint.h"
#include "tools/csv.h"
#include "tools/plot/plot.h"
#include "tools/verbs.h"
#include "train/run.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char help_text[] =
    "weft plot runs/book\n"
    "weft plot runs/book runs/other --out curves.html\n"
    "weft plot RUN... [--x AXIS] [--y WHAT] [--out FILE] [--csv]\n"
    "\n"
    "Draws the curves of one or many runs, also while they train: one of them on the\n"
    "terminal, all of them (validation, training loss, learning rate, gradient norm,\n"
    "window, speed; zstd -19 and the floor where they are known) in a file. RUN@STEP\n"
    "and RUN@best end at that checkpoint.\n";

/* ---- reading ---- */

/* The yardsticks of its text, where that is at hand. */
static void read_yardsticks(struct plot_run *r, const char *of)
{
    char           dir[PATH_MAX];
    struct run     run;
    struct dataset data;
    struct why     ignored;

    path_join(dir, sizeof dir, of, "data");
    if (!dataset_is(dir)) {
        run = (struct run){.lock = -1};
        if (run_read(&run, of, &ignored))
            return;
        snprintf(dir, sizeof dir, "%s", run.n_input ? run.input[0] : "");
        run_close(&run);
    }
    if (!dataset_is(dir) || dataset_open(&data, dir, &ignored))
        return;
    r->zstd_bpb = data.zstd_bpb;
    r->floor_bpb = data.floor_bpb;
    dataset_close(&data);
}

/* The run that name means, and its last step to draw: of RUN@best and RUN@STEP that of
 * the checkpoint. */
static enum fail find_run(const char *name, char *dir, size_t cap, long *last,
                          struct why *why)
{
    enum fail err;

    *last = LONG_MAX;
    if (path_exists(name) || !strchr(name, '@')) {
        snprintf(dir, cap, "%s", name);
        return 0;
    }
    err = checkpoint_find(name, dir, cap, why);
    if (err)
        return err;
    *last = checkpoint_step(strrchr(dir, '/') + 1);
    *strrchr(dir, '/') = 0;
    return 0;
}

static enum fail read_run(struct plot_run *r, const char *name, struct why *why)
{
    char      dir[PATH_MAX], path[PATH_MAX];
    long      last;
    enum fail err = find_run(name, dir, sizeof dir, &last, why);

    *r = (struct plot_run){.name = name};
    if (err)
        return err;
    if (path_exists(path_join(path, sizeof path, dir, "compare.json")))
        return fail(why, FAIL_INPUT,
                    "%s: a comparison; give its runs, as in: weft plot %s/*/seed-1", name,
                    name);
    path_join(path, sizeof path, dir, "log.jsonl");
    if (!path_exists(path))
        return fail(why, FAIL_INPUT, "%s: no run, there is no log.jsonl in it", name);
    err = log_read(&r->log, path, why);
    while (!err && r->log.n > 0 && r->log.column[LOG_STEP][r->log.n - 1] > (double)last)
        r->log.n--;
    if (!err && r->log.n == 0) {
        log_table_free(&r->log);
        err = fail(why, FAIL_INPUT, "%s: no step is logged yet", path);
    }
    if (!err)
        read_yardsticks(r, dir);
    return err;
}

/* ---- writing ---- */

static void print_csv(FILE *f, const struct plot *p)
{
    fputs("run", f);
    for (int c = 0; c < LOG_COLUMNS; c++)
        fprintf(f, ",%s", log_column_name[c]);
    fputc('\n', f);
    for (int i = 0; i < p->n; i++) {
        const struct log_table *log = &p->run[i].log;
        char                    name[PATH_MAX];

        snprintf(name, sizeof name, "%s", p->run[i].name);
        one_line(name);
        for (long k = 0; k < log->n; k++) {
            csv_text(f, name);
            fputc(',', f);
            for (int c = 0; c < LOG_COLUMNS; c++)
                csv_number(f, log->column[c][k], 17, c == LOG_COLUMNS - 1);
        }
    }
}

static enum fail save(const struct plot *p, const char *path,
                      void (*write)(FILE *f, const struct plot *p), struct why *why)
{
    char     *text = NULL;
    size_t    len = 0;
    FILE     *f = memory_stream(&text, &len);
    enum fail err;

    if (!f)
        return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    write(f, p);
    err = fclose(f) || len == 0 ? fail(why, FAIL_MEMORY, "%s: out of memory", path)
                                : file_write(path, text, len, why);
    free(text);
    if (!err)
        say(stderr, "written: %s\n", path);
    return err;
}

static bool ends(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);

    return n > m && !strcmp(name + n - m, end);
}

/* FILE.svg, FILE.html, or both when the name has neither ending. */
static enum fail save_as(const struct plot *p, const char *out, struct why *why)
{
    char      path[PATH_MAX];
    enum fail err = 0;
    bool      svg = ends(out, ".svg"), html = ends(out, ".html");

    if (!html) {
        snprintf(path, sizeof path, svg ? "%s" : "%s.svg", out);
        err = save(p, path, sheet_svg, why);
    }
    if (!err && !svg) {
        snprintf(path, sizeof path, html ? "%s" : "%s.html", out);
        err = save(p, path, sheet_html, why);
    }
    return err;
}

/* Do the letters of this terminal, or of the file, go beyond ASCII? */
static bool is_utf8(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};

    for (int i = 0; i < 3; i++) {
        const char *v = getenv(names[i]);

        if (v && *v)
            return strcasestr(v, "utf-8") || strcasestr(v, "utf8");
    }
    return false;
}

static void show(const struct plot *p)
{
    terminal_plot(stdout, p, term_width(), !is_utf8(),
                  isatty(STDOUT_FILENO) && term_color());
}

/* ---- the verb ---- */

static const struct quantity *choose(const struct cli *c, const char *flag,
                                     const struct quantity *of, const char *name)
{
    const char *names[8];
    int         n = 0;

    for (; of[n].name; n++) {
        if (!strcmp(of[n].name, name))
            return &of[n];
        names[n] = of[n].name;
    }
    const char *near = nearest_name(name, names, n);

    cli_die(c, FAIL_USAGE, "--%s %s: no such choice; %s%s", flag, name,
            near ? "did you mean " : "weft plot --help lists them", near ? near : "");
}

int plot_main(int argc, char **argv)
{
    const char *out = NULL, *x = "steps", *y = "val";
    bool        csv = false;
    struct flag flags[] = {
        {.name = "x", .value = "AXIS", .text = &x,
         .about = "against steps, tokens, flops or seconds (steps)"},
        {.name = "y", .value = "WHAT", .text = &y,
         .about = "on the terminal: val, loss, lr, norm, window or speed (val)"},
        {.name = "out", .value = "FILE", .text = &out,
         .about = "write FILE.svg, FILE.html, or both when it ends in neither"},
        {.name = "csv", .on = &csv, .about = "print the logs as one table instead"},
        {.name = NULL}};
    struct cli  c = {.verb = "plot", .help = help_text, .flags = flags};
    struct plot p = {.n = 0};
    struct why  why;
    enum fail   err = 0;

    cli_parse(&c, argc, argv);
    p.x = choose(&c, "x", plot_axes, x);
    p.y = choose(&c, "y", plot_quantities, y);
    if (c.n_args < 1 || c.n_args > MOST_RUNS)
        cli_die(&c, FAIL_USAGE, "give one run, or up to %d", MOST_RUNS);
    for (int i = 0; i < c.n_args && !err; i++) {
        err = read_run(&p.run[i], c.args[i], &why);
        p.n += !err;
    }
    if (!err && csv)
        print_csv(stdout, &p);
    else if (!err)
        show(&p);
    if (!err && out)
        err = save_as(&p, out, &why);
    for (int i = 0; i < p.n; i++)
        log_table_free(&p.run[i].log);
    if (err)
        cli_fail(&c, err, &why);
    return 0;
}
