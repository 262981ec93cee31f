#include "tools/chart/chart.h"

#include "data/base/utf8.h"
#include "tools/chart/page.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A chart is WIDE units across, whatever the screen; its letters are 12 high. */
enum { WIDE = 480, LEFT = 58, RIGHT = 12, TOP = 30, PLOT = 240, FOOT = 42, ROW = 18 };
enum { MANY = 40 };
enum { LINE = 13, END = 20, ENDS = 12, END_NAME = 20, CLEAR = 20 };  // of names

/* One direction of the plane: data from lo to hi (their logarithms under log) onto
 * from .. from + length. */
struct axis {
    bool   log;
    double lo, hi, from, length;
};

static double scaled(const struct axis *a, double v)
{
    return a->log ? v > 0 ? log10(v) : NAN : v;
}

static double place(const struct axis *a, double v)
{
    return a->from + a->length * (scaled(a, v) - a->lo) / (a->hi - a->lo);
}

static double far_edge(const struct axis *a)
{
    return a->from + a->length;
}

static void cover(struct axis *a, double v)
{
    double s = scaled(a, v);

    if (isfinite(s)) {
        a->lo = fmin(a->lo, s);
        a->hi = fmax(a->hi, s);
    }
}

static void pad(struct axis *a, double share)
{
    double more;

    if (a->lo > a->hi)
        a->lo = 0, a->hi = 1;
    more = share * (a->hi - a->lo);
    if (more <= 0)
        more = a->log ? 0.1 : fmax(fabs(a->lo) * 0.1, 1e-6);
    a->lo -= more;
    a->hi += more;
}

/* ---- ticks ---- */

int chart_ticks(double lo, double hi, double *at)
{
    double raw = (hi - lo) / 5, ten = pow(10, floor(log10(raw))), share = raw / ten;
    double step = ten * (share < 1.5 ? 1 : share < 3.5 ? 2 : share < 7.5 ? 5 : 10);
    int    n = 0;

    for (double i = ceil(lo / step - 1e-9);
         i * step <= hi + 1e-9 * step && n < CHART_TICKS; i++)
        at[n++] = i * step + 0.0; // no -0
    return n;
}

static int log_ticks(const struct axis *a, double *at)
{
    static const double digits[] = {1, 2, 5};
    double              span = a->hi - a->lo;
    int                 n = 0, each = span > 7 ? (int)ceil(span / 6) : 1;

    if (span < 0.9)
        return chart_ticks(pow(10, a->lo), pow(10, a->hi), at);
    for (int e = (int)floor(a->lo); e <= a->hi; e++)
        for (int d = 0; d < (span < 2.5 ? 3 : 1); d++) {
            double v = digits[d] * pow(10, e), s = log10(v);

            if (s >= a->lo && s <= a->hi && e % each == 0 && n < CHART_TICKS)
                at[n++] = v;
        }
    return n;
}

void chart_number(char *buf, size_t cap, double v)
{
    static const char *const unit[] = {"", "k", "M", "G", "T", "P", "E"};
    int                      u = 0;

    if (fabs(v) >= 9.99e20 || (v != 0 && fabs(v) < 1e-3)) { // no unit is above E
        snprintf(buf, cap, "%.2g", v);
        return;
    }
    if (fabs(v) >= 1e4)
        for (; fabs(v) >= 999.5; u++)
            v /= 1000;
    snprintf(buf, cap, "%.*g%s", fabs(v) >= 1000 ? 4 : 3, v, unit[u]);
}

static int ticks(const struct axis *a, double *at)
{
    return a->log ? log_ticks(a, at) : chart_ticks(a->lo, a->hi, at);
}

static void draw_ticks(FILE *f, const struct axis *ax, const struct axis *ay)
{
    double at[CHART_TICKS];
    char   text[32];

    for (int i = 0, n = ticks(ax, at); i < n; i++) {
        double x = place(ax, at[i]);

        chart_number(text, sizeof text, fabs(at[i]) < 1e-12 ? 0 : at[i]);
        fprintf(f,
                "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text class=\"tick\" "
                "text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">%s</text>\n",
                x, TOP, TOP + PLOT, x, TOP + PLOT + 15, text);
    }
    for (int i = 0, n = ticks(ay, at); i < n; i++) {
        double y = place(ay, at[i]);

        chart_number(text, sizeof text, fabs(at[i]) < 1e-12 ? 0 : at[i]);
        fprintf(f,
                "<path class=\"grid\" d=\"M%d %.1fH%.1f\"/><text class=\"tick\" "
                "text-anchor=\"end\" x=\"%d\" y=\"%.1f\">%s</text>\n",
                LEFT, y, far_edge(ax), LEFT - 6, y + 4, text);
    }
}

/* ---- series ---- */

/* A mark of the series' own shape at (x, y); end_mark closes its element. */
static void draw_mark(FILE *f, int colour, double x, double y)
{
    double r = 3.4;

    switch (colour < 0 ? 0 : colour % 4) {
    case 0:
        fprintf(f, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\">", x, y, r);
        break;
    case 1:
        fprintf(f, "<path d=\"M%.1f %.1fh%.1fv%.1fh%.1fz\">", x - r, y - r, 2 * r, 2 * r,
                -2 * r);
        break;
    case 2:
        fprintf(f, "<path d=\"M%.1f %.1fl4.6 4.6-4.6 4.6-4.6-4.6z\">", x, y - 4.6);
        break;
    default:
        fprintf(f, "<path d=\"M%.1f %.1fl4.4 7.6h-8.8z\">", x, y - 4.6);
    }
}

static void end_mark(FILE *f, int colour)
{
    bool circle = colour < 0 || colour % 4 == 0;

    fputs(circle ? "</circle>" : "</path>", f);
}

static void draw_point(FILE *f, const struct chart_series *s, int i, double x, double y)
{
    char vx[32], vy[32];

    chart_number(vx, sizeof vx, s->x[i]);
    snprintf(vy, sizeof vy, "%.4g", s->y[i]);
    draw_mark(f, s->colour, x, y);
    fputs("<title>", f);
    chart_text(f, s->name ? s->name : "");
    fprintf(f, ": %s, %s", vx, vy);
    if (s->err && isfinite(s->err[i]))
        fprintf(f, " ± %.2g", s->err[i]);
    fputs("</title>", f);
    end_mark(f, s->colour);
}

static void draw_line(FILE *f, const struct chart_series *s, const struct axis *ax,
                      const struct axis *ay)
{
    bool broken = true;

    fputs("<path class=\"line\" d=\"", f);
    for (int i = 0; i < s->n; i++) {
        double x = place(ax, s->x[i]), y = place(ay, s->y[i]);
        bool   there = isfinite(x) && isfinite(y);

        if (there)
            fprintf(f, "%c%.1f %.1f", broken ? 'M' : 'L', x, y);
        broken = !there;
    }
    fputs("\"/>", f);
}

static void draw_series(FILE *f, const struct chart_series *s, const struct axis *ax,
                        const struct axis *ay)
{
    fprintf(f, "<g class=\"%s%s\">", chart_colour(s->colour), s->thin ? " thin" : "");
    if (!s->points)
        draw_line(f, s, ax, ay);
    for (int i = 0; i < s->n; i++) {
        double x = place(ax, s->x[i]), y = place(ay, s->y[i]);

        if (!isfinite(x) || !isfinite(y))
            continue;
        if (s->err && isfinite(s->err[i]) && s->err[i] > 0) {
            double low = s->y[i] - s->err[i], foot = place(ay, low);

            if (!isfinite(foot))
                foot = ay->from;
            fprintf(f,
                    "<path class=\"err\" d=\"M%.1f %.1fV%.1fM%.1f %.1fh6m-6 %.1fh6\"/>",
                    x, place(ay, s->y[i] + s->err[i]), foot, x - 3, foot,
                    place(ay, s->y[i] + s->err[i]) - foot);
        }
        if (s->points || (!s->thin && s->n <= MANY && s->colour >= 0))
            draw_point(f, s, i, x, y);
    }
    fputs("</g>\n", f);
}

/* ---- yardsticks ---- */

static int by_height(const void *a, const void *b)
{
    const struct chart_line *p = *(const struct chart_line *const *)a;
    const struct chart_line *q = *(const struct chart_line *const *)b;

    return (p->y < q->y) - (p->y > q->y);
}

/* How far the lines are from a name of this width that ends or begins at x, at most
 * CLEAR. */
static double clearance(const struct chart *c, const struct axis *ax,
                        const struct axis *ay, double from, double to, double y)
{
    double least = CLEAR;

    for (int i = 0; i < c->nseries; i++)
        for (int k = 1; k < c->series[i].n; k++) {
            const struct chart_series *s = &c->series[i];
            double x0 = place(ax, s->x[k - 1]), y0 = place(ay, s->y[k - 1]);
            double dx = place(ax, s->x[k]) - x0, dy = place(ay, s->y[k]) - y0;

            for (double t = 0; t <= 1; t += 0.125)
                if (x0 + t * dx >= from && x0 + t * dx <= to)
                    least = fmin(least, fabs(y0 + t * dy - y));
        }
    return least;
}

/* A dashed line; its name stands where it is clear of the lines and, going down, of other
 * names: next[0] and next[1] are free at the left and the right. */
static void draw_yardstick(FILE *f, const struct chart *c, const struct axis *ax,
                           const struct axis *ay, const struct chart_line *l,
                           double *next)
{
    double y = place(ay, l->y), best = -INFINITY, edge = far_edge(ax);
    double wide = 6 * (chart_columns(l->name) + 6);
    int    side = 0;

    if (!isfinite(y) || y < TOP || y > TOP + PLOT)
        return;
    for (int s = 1; s >= 0; s--) {
        double from = s ? edge - wide : LEFT, text = fmax(y - 4, next[s]);
        double score = clearance(c, ax, ay, from, from + wide, text - 4) -
                       2 * (text - (y - 4));

        if (score > best) {
            best = score;
            side = s;
        }
    }
    next[side] = fmax(y - 4, next[side]) + LINE;
    fprintf(f,
            "<path class=\"yard\" d=\"M%d %.1fH%.1f\"/><text class=\"yardname\" "
            "text-anchor=\"%s\" x=\"%.1f\" y=\"%.1f\">",
            LEFT, y, edge, side ? "end" : "start", side ? edge - 4 : LEFT + 5,
            next[side] - LINE);
    chart_text(f, l->name);
    fprintf(f, " %.3g</text>\n", l->y);
}

/* From the top down. */
static void draw_yardsticks(FILE *f, const struct chart *c, const struct axis *ax,
                            const struct axis *ay)
{
    const struct chart_line **line = malloc((size_t)(c->nlines + 1) * sizeof *line);
    double                    next[2] = {TOP + 10, TOP + 10};

    if (!line)
        return;
    for (int i = 0; i < c->nlines; i++)
        line[i] = &c->lines[i];
    qsort(line, (size_t)c->nlines, sizeof *line, by_height);
    for (int i = 0; i < c->nlines; i++)
        draw_yardstick(f, c, ax, ay, line[i], next);
    free(line);
}

/* ---- names of the series: at the ends of their lines, else in a legend ---- */

static bool in_legend(const struct chart_series *s)
{
    return !s->thin && s->name && *s->name;
}

/* The last point of a series, or -1. */
static int last_point(const struct chart_series *s, const struct axis *ax,
                      const struct axis *ay)
{
    for (int i = s->n - 1; i >= 0; i--)
        if (isfinite(place(ax, s->x[i])) && isfinite(place(ay, s->y[i])))
            return i;
    return -1;
}

/* Letters that the longest name at an end takes; 0 where a legend is better: points, many
 * series, long names, lines that end far apart. */
static double end_letters(const struct chart *c, const struct axis *ax,
                          const struct axis *ay)
{
    double longest = 0;
    int    n = 0;

    for (int i = 0; i < c->nseries; i++) {
        const struct chart_series *s = &c->series[i];
        int                        last = last_point(s, ax, ay);

        if (!in_legend(s))
            continue;
        if (s->points || last < 0 ||
            place(ax, s->x[last]) < far_edge(ax) - 0.15 * ax->length)
            return 0;
        longest = fmax(longest, chart_columns(s->name));
        n++;
    }
    return n <= ENDS && longest <= END_NAME ? longest : 0;
}

struct end {
    const struct chart_series *series;
    double                     x, y, text; // of the point; of the name
};

static int by_end(const void *a, const void *b)
{
    const struct end *p = a, *q = b;

    return (p->y > q->y) - (p->y < q->y);
}

/* From the top down names keep clear of one another, and of the foot from there up. */
static void spread(struct end *end, int n)
{
    for (int i = 0; i < n; i++)
        end[i].text = i ? fmax(end[i].y, end[i - 1].text + LINE) : end[i].y;
    for (int i = n - 1; i >= 0; i--)
        end[i].text = fmin(end[i].text, i == n - 1 ? TOP + PLOT : end[i + 1].text - LINE);
}

static void draw_ends(FILE *f, const struct chart *c, const struct axis *ax,
                      const struct axis *ay)
{
    struct end end[ENDS];
    double     edge = far_edge(ax);
    int        n = 0;

    for (int i = 0; i < c->nseries; i++) {
        const struct chart_series *s = &c->series[i];
        int                        last = last_point(s, ax, ay);

        if (in_legend(s))
            end[n++] = (struct end){
                s, place(ax, s->x[last]),
                fmin(fmax(place(ay, s->y[last]), TOP), TOP + PLOT), 0};
    }
    qsort(end, (size_t)n, sizeof *end, by_end);
    spread(end, n);
    for (int i = 0; i < n; i++) {
        fprintf(f,
                "<g class=\"%s thin\"><path class=\"line\" d=\"M%.1f %.1fL%.1f %.1f\"/>"
                "<text x=\"%.1f\" y=\"%.1f\">",
                chart_colour(end[i].series->colour), end[i].x + 4, end[i].y, edge + 14,
                end[i].text, edge + 17, end[i].text + 4);
        chart_text(f, end[i].series->name);
        fputs("</text></g>\n", f);
    }
}

/* Lay the legend's entries out in rows below the plot; draw them unless f is NULL.
 * Returns the rows. */
static int legend(FILE *f, const struct chart *c)
{
    double x = LEFT, y = TOP + PLOT + FOOT + 8;
    int    rows = 0;

    for (int i = 0; i < c->nseries; i++) {
        const struct chart_series *s = &c->series[i];
        double                     wide;

        if (!in_legend(s))
            continue;
        wide = 34 + chart_columns(s->name) * 6.5;
        if (rows == 0 || x + wide > WIDE) {
            x = LEFT;
            rows++;
        }
        if (f) {
            double mid = y + ROW * (rows - 1);

            fprintf(f, "<g class=\"%s\">", chart_colour(s->colour));
            if (!s->points)
                fprintf(f, "<path class=\"line\" d=\"M%.1f %.1fh18\"/>", x, mid);
            if (s->colour >= 0) {
                draw_mark(f, s->colour, x + 9, mid);
                end_mark(f, s->colour);
            }
            fprintf(f, "<text x=\"%.1f\" y=\"%.1f\">", x + 23, mid + 4);
            chart_text(f, s->name);
            fputs("</text></g>\n", f);
        }
        x += wide;
    }
    return rows;
}

/* ---- the whole ---- */

static void range(const struct chart *c, struct axis *ax, struct axis *ay)
{
    for (int i = 0; i < c->nseries; i++)
        for (int k = 0; k < c->series[i].n; k++) {
            const struct chart_series *s = &c->series[i];
            double err = s->err && isfinite(s->err[k]) ? s->err[k] : 0;

            if (!isfinite(scaled(ax, s->x[k])) || !isfinite(scaled(ay, s->y[k])))
                continue;
            cover(ax, s->x[k]);
            cover(ay, s->y[k] + err);
            cover(ay, s->y[k] - err);
        }
    for (int i = 0; i < c->nlines; i++)
        cover(ay, c->lines[i].y);
    pad(ax, 0.03);
    pad(ay, 0.05);
    if (c->ymin != 0 || c->ymax != 0) {
        ay->lo = scaled(ay, c->ymin);
        ay->hi = scaled(ay, c->ymax);
    }
}

static void draw_labels(FILE *f, const struct chart *c, const struct axis *ax)
{
    fprintf(f, "<text class=\"label\" text-anchor=\"middle\" x=\"%.1f\" y=\"%d\">",
            ax->from + ax->length / 2, TOP + PLOT + 33);
    chart_text(f, c->xlabel ? c->xlabel : "");
    fprintf(
        f,
        "</text>\n<text class=\"label\" text-anchor=\"middle\" transform=\"translate(12 "
        "%d) rotate(-90)\">",
        TOP + PLOT / 2);
    chart_text(f, c->ylabel ? c->ylabel : "");
    fputs("</text>\n", f);
}

static void draw_inside(FILE *f, const struct chart *c, const struct axis *ax,
                        const struct axis *ay)
{
    // a nested <svg> clips what lies outside the axes
    fprintf(f,
            "<svg x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" "
            "viewBox=\"%d %d %.1f %d\">\n",
            LEFT, TOP, ax->length, PLOT, LEFT, TOP, ax->length, PLOT);
    for (int thin = 1; thin >= 0; thin--)
        for (int i = 0; i < c->nseries; i++)
            if (!c->series[i].thin == !thin)
                draw_series(f, &c->series[i], ax, ay);
    fputs("</svg>\n", f);
}

/* A chart with its axes settled. */
struct drawing {
    const struct chart *c;
    struct axis         x, y;
    bool                named;      // at the ends of lines; else there is a legend
    int                 high;
};

static struct drawing settle(const struct chart *c)
{
    struct drawing d = {
        .c = c,
        .x = {c->logx, INFINITY, -INFINITY, LEFT, WIDE - LEFT - RIGHT},
        .y = {c->logy, INFINITY, -INFINITY, TOP + PLOT, -PLOT},
    };
    double letters;

    range(c, &d.x, &d.y);
    letters = end_letters(c, &d.x, &d.y);
    d.named = letters > 0;
    if (d.named)
        d.x.length -= END + 6.5 * letters - RIGHT;
    d.high = TOP + PLOT + FOOT + 4 + (d.named ? 0 : ROW * legend(NULL, c));
    return d;
}

static void draw(FILE *f, const struct drawing *d)
{
    draw_ticks(f, &d->x, &d->y);
    draw_labels(f, d->c, &d->x);
    draw_yardsticks(f, d->c, &d->x, &d->y);
    draw_inside(f, d->c, &d->x, &d->y);
    fprintf(f, "<path class=\"frame\" d=\"M%d %dV%dH%.1f\"/>\n", LEFT, TOP, TOP + PLOT,
            far_edge(&d->x));
    if (d->named)
        draw_ends(f, d->c, &d->x, &d->y);
    else
        legend(f, d->c);
}

void chart_write(FILE *f, const struct chart *c, int standalone)
{
    struct drawing d = settle(c);

    chart_open(f, WIDE, d.high, standalone, c->title);
    chart_title(f, c->title);
    draw(f, &d);
    fputs("</svg>\n", f);
}

void chart_sheet(FILE *f, const char *title, const struct chart *c, int n)
{
    int columns = n > 1 ? 2 : 1, high = 0;

    for (int i = 0; i < n; i++)
        high = settle(&c[i]).high > high ? settle(&c[i]).high : high;
    chart_open(f, columns * WIDE, (n + columns - 1) / columns * high, 1, title);
    for (int i = 0; i < n; i++) {
        struct drawing d = settle(&c[i]);

        fprintf(f, "<g transform=\"translate(%d %d)\">\n", i % columns * WIDE,
                i / columns * high);
        chart_title(f, c[i].title);
        draw(f, &d);
        fputs("</g>\n", f);
    }
    fputs("</svg>\n", f);
}
