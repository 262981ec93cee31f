#include "tools/lab/panel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>


static double *values_of(const struct panel *p, int arm, int seed)
{
    return p->value + ((size_t)arm * p->seeds + seed) * LAB_VALUES;
}

enum fail panel_list(struct panel_arms *a, const struct lab *l, const char *standard,
                     const struct task *t, struct why *why)
{
    struct task arm = *t;
    enum fail   err = FAIL_NONE;

    a->n = 0;
    while (!err && a->n < PANEL_ARMS &&
           lab_arch(l, standard, a->n, a->text[a->n], sizeof a->text[0])) {
        arm.mixers = a->name[a->n] = a->text[a->n];
        err = task_check(&arm, why);
        a->n++;
    }
    return err;
}

enum fail panel_open(struct panel *p, struct lab *l, struct why *why)
{
    p->seeds = p->seeds ? p->seeds : lab_seeds(l);
    p->seeds = p->seeds < LAB_SEEDS ? p->seeds : LAB_SEEDS;
    if (lab_starts(l, 1) > 1)               // --seeds says how many
        p->starts = NULL;
    p->value = calloc((size_t)p->arms * p->seeds * LAB_VALUES, sizeof *p->value);
    if (!p->value)
        return fail(why, FAIL_MEMORY, "out of memory for a table");
    for (int a = 0; a < p->arms; a++)
        lab_plan(l, panel_count(p, a));
    return FAIL_NONE;
}

int panel_count(const struct panel *p, int arm)
{
    int most = p->starts ? p->starts[arm] : 0;

    return most && most < p->seeds ? most : p->seeds;
}

int panel_both(const struct panel *p, int a, int b)
{
    int n = panel_count(p, a), m = panel_count(p, b);

    return n < m ? n : m;
}

void panel_close(struct panel *p)
{
    free(p->value);
    p->value = NULL;
}

static void key_of(const struct panel *p, int arm, uint64_t seed, char *key, size_t cap)
{
    const struct task *t = p->task;

    snprintf(key, cap,
             "%s %s L%d d%d h%d mlp%d B%d T%d steps %ld lr %g wd %g seed %llu", p->name,
             p->arm[arm], t->layers, t->width, t->heads, t->mlp, t->batch, t->length,
             t->steps, p->lr ? p->lr[arm] : t->lr, t->weight_decay,
             (unsigned long long)seed);
}

static enum fail run_cell(struct panel *p, struct lab *l, int arm, int seed,
                          struct why *why)
{
    double *v = values_of(p, arm, seed);
    char    key[384];
    enum fail err;

    key_of(p, arm, lab_seed(l, seed), key, sizeof key);
    if (lab_recall(l, key, v))
        return FAIL_NONE;
    err = p->cell(p, l, arm, lab_seed(l, seed), key, v, why);
    return err ? err : lab_record(l, key, v, why);
}

enum fail panel_run(struct panel *p, struct lab *l, struct why *why)
{
    enum fail err = FAIL_NONE;

    for (int s = 0; s < p->seeds; s++)
        for (int a = 0; !err && a < p->arms; a++)
            if (s < panel_count(p, a))
                err = run_cell(p, l, a, s, why);
    return err;
}

double panel_mean(const struct panel *p, int arm, int column)
{
    double sum = 0;
    int    n = panel_count(p, arm);

    for (int s = 0; s < n; s++)
        sum += values_of(p, arm, s)[column];
    return sum / n;
}

double panel_spread(const struct panel *p, int arm, int column)
{
    double mean = panel_mean(p, arm, column), sum = 0;
    int    n = panel_count(p, arm);

    for (int s = 0; s < n; s++)
        sum += pow(values_of(p, arm, s)[column] - mean, 2);
    return n > 1 ? sqrt(sum / (n - 1)) : 0;
}

double *panel_seeds(const struct panel *p, int arm, int column, double *x)
{
    for (int s = 0; s < panel_count(p, arm); s++)
        x[s] = values_of(p, arm, s)[column];
    return x;
}

int panel_reach(const struct panel *p, int arm, int column, double least)
{
    int count = 0;

    for (int s = 0; s < panel_count(p, arm); s++)
        count += values_of(p, arm, s)[column] >= least;
    return count;
}

struct paired panel_paired(const struct panel *p, int a, int b, int column)
{
    double x[LAB_SEEDS], y[LAB_SEEDS];

    return paired_test(panel_seeds(p, a, column, x), panel_seeds(p, b, column, y),
                       panel_both(p, a, b));
}

const char *panel_text(const struct panel *p, int arm, int column, char buf[32])
{
    double mean = panel_mean(p, arm, column);

    if (p->seeds > 1)
        snprintf(buf, 32, "%.3f +- %.3f", mean, panel_spread(p, arm, column));
    else
        snprintf(buf, 32, "%.3f", mean);
    return buf;
}

static double place(const struct panel *p, int arm, int column)
{
    (void)arm;
    return p->x[column - p->from];
}

/* A row of the table: of(p, arm, column) at each column shown. */
static void say_row(const struct panel *p, struct lab *l, const char *name,
                    double (*of)(const struct panel *, int, int), int arm,
                    const char *format)
{
    int  len;
    char line[512], text[32];

    len = snprintf(line, sizeof line, "%-40s", name);
    for (int i = 0; i < p->n && len < (int)sizeof line - 32; i++) {
        snprintf(text, sizeof text, format, of(p, arm, p->from + i));
        len += snprintf(line + len, sizeof line - len, "%8s", text);
    }
    lab_say(l, "%s", line);
}

void panel_table(const struct panel *p, struct lab *l,
                 const struct chart_line *lines, int n)
{
    lab_say(l, "\n%s", p->title);
    if (p->seeds > 1)
        lab_say(l, "means, and standard deviations over %s%d seeds",
                p->starts ? "up to " : "", p->seeds);
    say_row(p, l, p->xlabel, place, 0, "%g");
    for (int a = 0; a < p->arms; a++) {
        say_row(p, l, p->arm[a], panel_mean, a, "%.3f");
        if (p->seeds > 1)
            say_row(p, l, "  +-", panel_spread, a, "%.3f");
    }
    for (int i = 0; i < n; i++)
        lab_say(l, "%-40s%8.3f", lines[i].name, lines[i].y);
}

enum fail panel_chart(const struct panel *p, struct lab *l,
                      const struct chart_line *lines, int n, struct why *why)
{
    struct chart_series s[PANEL_ARMS] = {0};
    struct chart        c = {.title = p->title, .xlabel = p->xlabel, .ylabel = p->ylabel,
                             .logx = p->logx, .series = s, .nseries = p->arms,
                             .lines = lines, .nlines = n,
                             .ymax = p->unbounded ? 0 : 1};
    double             *y = malloc(2 * (size_t)p->arms * p->n * sizeof *y);
    enum fail           err;

    if (!y || p->arms > PANEL_ARMS) {
        free(y);
        return fail(why, FAIL_INPUT, "too many arms for a chart: at most %d", PANEL_ARMS);
    }
    for (int a = 0; a < p->arms; a++) {
        double *mean = y + 2 * (size_t)a * p->n, *spread = mean + p->n;

        for (int i = 0; i < p->n; i++)
            mean[i] = panel_mean(p, a, p->from + i),
            spread[i] = panel_spread(p, a, p->from + i);
        s[a] = (struct chart_series){.name = p->arm[a], .x = p->x, .y = mean, .n = p->n,
                                     .err = p->seeds > 1 ? spread : NULL, .colour = a};
    }
    err = lab_chart(l, p->name, &c, why);
    free(y);
    return err;
}
