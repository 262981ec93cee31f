/* A plot made of characters: dots of braille, 2 by 4 in a cell, where a run can be told
 * by its colour or is alone; else a letter of its own for each run, one in a cell.
 *
 *         Validation, bits per byte
 *       3 ┤⢇
 *         ┤┄┈┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄ zstd -19 2.316
 *       1 ┤  ⠉⠒⠤⠤⣀⣀⣀⣀              runs/book 0.921
 *         └┬───────┬────────┬─────
 *          0       500      1000   steps
 */
#include "tools/chart/chart.h"
#include "tools/plot/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HIGH = 14, GUTTER = 8, MOST_WIDE = 200, LEAST = 20, NAME = 26, POINTS = 400 };

struct canvas {
    int           wide;                     // cells
    int           across, down;             // dots of a cell
    unsigned char dots[HIGH][MOST_WIDE];    // braille's bits
    signed char   owner[HIGH][MOST_WIDE];   // the run, -1: nobody
    double        x0, x1, y0, y1;           // the range; y scaled
    bool          log;
    bool          yard[HIGH];               // a yardstick lies here
    char          label[HIGH][NAME + 16];   // at the right
    signed char   of[HIGH];                 // whose, -1: a yardstick's
};

static double scale(const struct canvas *c, double y)
{
    return c->log ? log10(y) : y;
}

static int row_of(const struct canvas *c, double y)
{
    double share = (scale(c, y) - c->y0) / (c->y1 - c->y0);

    return (int)fmin(fmax((1 - share) * HIGH, 0), HIGH - 1);
}

/* ---- drawing ---- */

static void dot(struct canvas *c, double x, double y, int owner)
{
    static const unsigned char bit[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    int                        i = (int)x, k = (int)y;

    if (i < 0 || k < 0 || i >= c->wide * c->across || k >= HIGH * c->down)
        return;
    c->dots[k / c->down][i / c->across] |= bit[k % c->down][i % c->across];
    c->owner[k / c->down][i / c->across] = (signed char)owner;
}

static void line(struct canvas *c, const double *px, const double *py, int i, int owner)
{
    int    from = i ? i - 1 : 0, n;
    double wide = c->wide * c->across - 1, high = HIGH * c->down - 1, at[2][2];

    for (int k = 0; k < 2; k++) {
        int j = k ? i : from;

        at[k][0] = wide * (px[j] - c->x0) / (c->x1 - c->x0);
        at[k][1] = high * (1 - (scale(c, py[j]) - c->y0) / (c->y1 - c->y0));
    }
    n = 1 + (int)fmax(fabs(at[1][0] - at[0][0]), fabs(at[1][1] - at[0][1]));
    for (int k = 0; k <= n; k++)
        dot(c, at[0][0] + (at[1][0] - at[0][0]) * k / n + 0.5,
            at[0][1] + (at[1][1] - at[0][1]) * k / n + 0.5, owner);
}

/* The free row nearest to this one, for a label. */
static int free_row(const struct canvas *c, int row)
{
    for (int d = 0; d < HIGH; d++)
        for (int sign = -1; sign <= 1; sign += 2) {
            int r = row + sign * d;

            if (r >= 0 && r < HIGH && !*c->label[r])
                return r;
        }
    return -1;
}

/* name and value, the name from its last slash on where it is long. */
static void put_label(struct canvas *c, int row, const char *name, double value,
                      int owner, bool letter)
{
    const char *slash = strrchr(name, '/');
    char        mark[3] = "";
    int         r = free_row(c, row);

    if (r < 0)
        return;
    if (strlen(name) > NAME - 10 && slash && slash[1])
        name = slash + 1;
    if (letter)
        snprintf(mark, sizeof mark, "%c ", 'a' + owner);
    snprintf(c->label[r], sizeof c->label[r], "%s%.*s %.4g", mark, NAME - 10, name,
             value);
    one_line(c->label[r]);
    c->of[r] = (signed char)owner;
}

/* ---- the parts ---- */

struct points {
    double x[MOST_RUNS][POINTS], y[MOST_RUNS][POINTS];
    int    n[MOST_RUNS];
};

static void cover(double *low, double *high, double v)
{
    *low = fmin(*low, v);
    *high = fmax(*high, v);
}

/* Fetch the points and find their range; false: there are none. */
static bool measure(struct canvas *c, struct points *at, const struct plot *p)
{
    double bits;
    char   name[NAME];

    c->log = p->y->log;
    c->x0 = c->y0 = INFINITY;
    c->x1 = c->y1 = -INFINITY;
    for (int i = 0; i < p->n; i++) {
        at->n[i] = plot_points(&p->run[i], p->x->column, p->y->column,
                               p->y->stretches ? 2 * c->wide : POINTS, at->x[i],
                               at->y[i]);
        for (int k = 0; k < at->n[i]; k++) {
            cover(&c->x0, &c->x1, at->x[i][k]);
            cover(&c->y0, &c->y1, scale(c, at->y[i][k]));
        }
    }
    if (c->x0 > c->x1)
        return false;
    for (int k = 0; p->y->column == LOG_VAL_BPB &&
                    plot_yardstick(p, k, &bits, name, sizeof name); k++)
        cover(&c->y0, &c->y1, bits);
    c->x0 = fmin(c->x0, 0);
    c->x1 += c->x1 <= c->x0;
    c->y1 += c->y1 <= c->y0 ? fmax(fabs(c->y0) * 0.1, 1e-9) : 0;
    return true;
}

static void draw(struct canvas *c, const struct points *at, const struct plot *p,
                 bool letters)
{
    double bits;
    char   name[NAME];

    for (int k = 0; p->y->column == LOG_VAL_BPB &&
                    plot_yardstick(p, k, &bits, name, sizeof name); k++) {
        c->yard[row_of(c, bits)] = true;
        put_label(c, row_of(c, bits), name, bits, -1, false);
    }
    for (int i = p->n - 1; i >= 0; i--) {       // the first is above the others
        for (int k = 0; k < at->n[i]; k++)
            line(c, at->x[i], at->y[i], k, i);
        if (at->n[i])
            put_label(c, row_of(c, at->y[i][at->n[i] - 1]), p->run[i].name,
                      at->y[i][at->n[i] - 1], i, letters);
    }
}

/* ---- printing ---- */

struct look {
    bool plain, colour, letters;
};

static void paint(FILE *f, const struct look *l, int owner, bool on)
{
    static const int code[] = {34, 31, 32, 33, 35, 36};

    if (l->colour && owner >= 0)
        fprintf(f, on ? "\033[%dm" : "\033[0m", code[owner % 6]);
}

static void print_cell(FILE *f, const struct canvas *c, const struct look *l, int r,
                       int i)
{
    int dots = c->dots[r][i], owner = c->owner[r][i];

    if (!dots) {
        fputs(!c->yard[r] ? " " : l->plain ? "-" : "\u2504", f);
        return;
    }
    paint(f, l, owner, true);
    if (l->letters)
        fputc('a' + owner, f);
    else if (l->plain)
        fputc('*', f);
    else
        fprintf(f, "\xe2%c%c", 0xa0 + dots / 64, 0x80 + dots % 64);
    paint(f, l, owner, false);
}

static void print_rows(FILE *f, const struct canvas *c, const struct look *l)
{
    double at[CHART_TICKS], low = c->log ? pow(10, c->y0) : c->y0,
                      high = c->log ? pow(10, c->y1) : c->y1;
    int    n = chart_ticks(low, high, at);

    for (int r = 0; r < HIGH; r++) {
        char tick[16] = "";
        int  end = c->wide;

        for (int k = 0; k < n; k++)
            if (row_of(c, at[k]) == r)
                chart_number(tick, sizeof tick, at[k]);
        fprintf(f, "%*s %s", GUTTER - 2, tick,
                l->plain ? "|" : *tick ? "\u2524" : "\u2502");
        while (!*c->label[r] && end > 0 && !c->dots[r][end - 1] && !c->yard[r])
            end--;
        for (int i = 0; i < end; i++)
            print_cell(f, c, l, r, i);
        if (*c->label[r]) {
            fputc(' ', f);
            paint(f, l, c->of[r], true);
            fputs(c->label[r], f);
            paint(f, l, c->of[r], false);
        }
        fputc('\n', f);
    }
}

/* The lower axis, its numbers below its marks, and what it counts. */
static void print_foot(FILE *f, const struct canvas *c, const struct look *l,
                       const char *label)
{
    double at[CHART_TICKS];
    int    n = chart_ticks(c->x0, c->x1, at), used = 0;
    bool   mark[MOST_WIDE] = {false};
    char   text[16];

    for (int k = 0; k < n; k++)
        mark[(int)((c->wide - 1) * (at[k] - c->x0) / (c->x1 - c->x0))] = true;
    fprintf(f, "%*s%s", GUTTER - 1, "", l->plain ? "+" : "\u2514");
    for (int i = 0; i < c->wide; i++)
        fputs(l->plain ? mark[i] ? "+" : "-" : mark[i] ? "\u252c" : "\u2500", f);
    fprintf(f, "\n%*s", GUTTER, "");
    for (int k = 0; k < n; k++) {
        int column = (int)((c->wide - 1) * (at[k] - c->x0) / (c->x1 - c->x0));

        chart_number(text, sizeof text, at[k]);
        column -= (int)strlen(text) / 2;
        if (column < used && used)
            continue;
        column = column < 0 ? 0 : column;
        fprintf(f, "%*s%s", column - used, "", text);
        used = column + (int)strlen(text);
    }
    fprintf(f, "  %s\n", label);
}

void terminal_plot(FILE *f, const struct plot *p, int width, bool plain, bool colour)
{
    struct look    l = {plain, colour, p->n > 1 && !colour};
    struct canvas *c = calloc(1, sizeof *c);
    struct points *at = calloc(1, sizeof *at);

    if (c && at) {
        memset(c->owner, -1, sizeof c->owner);
        memset(c->of, -1, sizeof c->of);
        c->wide = width - GUTTER - NAME;
        c->wide = c->wide < LEAST ? LEAST : c->wide > MOST_WIDE ? MOST_WIDE : c->wide;
        c->across = plain || l.letters ? 1 : 2;
        c->down = plain || l.letters ? 1 : 4;
        fprintf(f, "%*s%s, %s\n", GUTTER, "", p->y->title, p->y->label);
        if (measure(c, at, p)) {
            draw(c, at, p, l.letters);
            print_rows(f, c, &l);
            print_foot(f, c, &l, p->x->label);
        } else {
            fprintf(f, "%*snothing logged yet\n", GUTTER, "");
        }
    }
    free(c);
    free(at);
}
