#include "tools/chart/page.h"

#include "data/base/utf8.h"
#include "tools/chart/chart.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Ten colours that differ in lightness too; from the eleventh on, lines are dotted. */
enum { COLOURS = 10, CLASSES = 20 };

struct theme {
    const char *ink, *soft, *rule, *back;
    const char *colour[COLOURS];
};

static const struct theme light = {"#24292f", "#656d76", "#e3e6ea", "#ffffff",
                                   {"#1f6fc0", "#d23c4f", "#23875a", "#b87400", "#7a4fc0",
                                    "#0b8793", "#93503f", "#c0459a", "#55646d",
                                    "#6f8000"}};
static const struct theme dark = {"#e6edf3", "#9aa4af", "#2d333b", "#0f1419",
                                  {"#6fb0f5", "#f5808c", "#62c794", "#efb14f", "#b897f0",
                                   "#4fc6cc", "#d0a193", "#f093d0", "#a7b6bf",
                                   "#bccd50"}};

/* Scoped by a class, because in a page every chart's style counts for all of them; and
 * without var(), which librsvg and Inkscape do not know. */
static const char style[] =
    ".weft-chart{font-family:system-ui,sans-serif;font-size:12px;max-width:100%;"
    "height:auto}\n"
    ".weft-chart .title{font-weight:600;font-size:13px}\n"
    ".weft-chart .tick,.weft-chart .label{font-size:11px}\n"
    ".weft-chart .grid,.weft-chart .frame,.weft-chart .yard,.weft-chart .err,"
    ".weft-chart .line{fill:none}\n"
    ".weft-chart .yard{stroke-dasharray:2 4}\n"
    ".weft-chart .yardname{font-size:10.5px;paint-order:stroke;stroke-width:3px}\n"
    ".weft-chart g{stroke:none}\n"
    ".weft-chart .line{stroke-width:1.8;stroke-linejoin:round}\n"
    ".weft-chart .err{stroke-width:1.2;opacity:.4}\n"
    ".weft-chart .thin .line{stroke-width:1;opacity:.45}\n"
    ".weft-chart .none .line{stroke-dasharray:6 4;stroke-width:1.3}\n";

static void write_class(FILE *f, const char *name, const char *colour)
{
    fprintf(f,
            ".weft-chart .%s{fill:%s}.weft-chart .%s .line,.weft-chart .%s "
            ".err{stroke:%s}\n",
            name, colour, name, name, colour);
}

static void write_theme(FILE *f, const struct theme *t)
{
    fprintf(f,
            ".weft-chart text{fill:%s}.weft-chart .ink{stroke:%s}\n"
            ".weft-chart .tick,.weft-chart .label,.weft-chart .yardname{fill:%s}\n"
            ".weft-chart .frame,.weft-chart .yard{stroke:%s}\n"
            ".weft-chart .grid{stroke:%s}.weft-chart .back{fill:%s}\n"
            ".weft-chart .yardname{stroke:%s}\n",
            t->ink, t->ink, t->soft, t->soft, t->rule, t->back, t->back);
    for (int i = 0; i < CLASSES; i++)
        write_class(f, chart_colour(i), t->colour[i % COLOURS]);
    write_class(f, chart_colour(-1), t->soft);
}

static void write_style(FILE *f)
{
    fputs("<style>\n", f);
    fputs(style, f);
    for (int i = COLOURS; i < CLASSES; i++)
        fprintf(f, ".weft-chart .c%d .line{stroke-dasharray:1.5 3}", i);
    fputc('\n', f);
    write_theme(f, &light);
    fputs("@media screen and (prefers-color-scheme:dark){\n", f);
    write_theme(f, &dark);
    fputs("}\n</style>\n", f);
}

void chart_open(FILE *f, int width, int height, int standalone, const char *label)
{
    if (standalone)
        fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", f);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"weft-chart\" "
            "viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\" aria-label=\"",
            width, height, width, height);
    chart_text(f, label ? label : "chart");
    fputs("\">\n", f);
    write_style(f);
    if (standalone)
        fprintf(f, "<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", width, height);
}

void chart_title(FILE *f, const char *title)
{
    fputs("<text class=\"title\" x=\"8\" y=\"16\">", f);
    chart_text(f, title ? title : "");
    fputs("</text>\n", f);
}

const char *chart_colour(int colour)
{
    static const char *const name[CLASSES] = {
        "c0",  "c1",  "c2",  "c3",  "c4",  "c5",  "c6",  "c7",  "c8",  "c9",
        "c10", "c11", "c12", "c13", "c14", "c15", "c16", "c17", "c18", "c19"};

    return colour < 0 ? "none" : name[colour % CLASSES];
}

/* ---- text ---- */

double chart_columns(const char *s)
{
    int n = 0;

    for (; *s; s++)
        n += (*s & 0xc0) != 0x80;
    return n;
}

void chart_text(FILE *f, const char *s)
{
    size_t left = strlen(s);

    while (left > 0) {
        int n = utf8_length(s, left);

        if (n == 0 || (n == 1 && (unsigned char)*s < 32 && !strchr("\t\n\r", *s)))
            fputs("\xef\xbf\xbd", f);
        else if (*s == '&')
            fputs("&amp;", f);
        else if (*s == '<')
            fputs("&lt;", f);
        else if (*s == '>')
            fputs("&gt;", f);
        else if (*s == '"')
            fputs("&quot;", f);
        else
            fwrite(s, 1, (size_t)n, f);
        s += n ? n : 1;
        left -= (size_t)(n ? n : 1);
    }
}

/* ---- bars ---- */

enum { WIDE = 480, TOP = 30, STEP = 22, VALUE = 78, FOOT = 24, LETTER = 7 };

static double bar_names(const struct chart_bar *bars, int n)
{
    double most = 0;

    for (int i = 0; i < n; i++)
        most = fmax(most, chart_columns(bars[i].name));
    return fmin(16 + LETTER * most, WIDE / 2.0);
}

void chart_bars(FILE *f, const char *title, const char *xlabel,
                const struct chart_bar *bars, int n, int standalone)
{
    double left = bar_names(bars, n), room = WIDE - left - VALUE, most = 0;
    char   text[32];

    for (int i = 0; i < n; i++)
        if (isfinite(bars[i].value))
            most = fmax(most, bars[i].value + bars[i].err);
    chart_open(f, WIDE, TOP + STEP * n + FOOT, standalone, title);
    chart_title(f, title);
    for (int i = 0; i < n; i++) {
        const struct chart_bar *b = &bars[i];
        double y = TOP + STEP * i, w = most > 0 ? room * b->value / most : 0;

        fprintf(f, "<text text-anchor=\"end\" x=\"%.1f\" y=\"%.1f\"", left - 8, y + 14);
        if (LETTER * chart_columns(b->name) > left - 8)
            fprintf(f, " textLength=\"%.1f\" lengthAdjust=\"spacingAndGlyphs\"",
                    left - 12);
        fputc('>', f);
        chart_text(f, b->name);
        fprintf(f, "</text><g class=\"%s\">", chart_colour(b->colour));
        if (isfinite(b->value)) {
            double err = most > 0 ? room * b->err / most : 0;

            chart_number(text, sizeof text, b->value);
            fprintf(f,
                    "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"14\" rx=\"2\" "
                    "opacity=\".8\"/>",
                    left, y + 3, fmax(w, 0));
            if (err > 0)
                fprintf(f, "<path class=\"ink\" d=\"M%.1f %.1fh%.1f\"/>",
                        left + w - err, y + 10, 2 * err);
            fprintf(f, "<text x=\"%.1f\" y=\"%.1f\">%s%s</text>",
                    left + w + err + 6, y + 14, b->rough ? "~" : "", text);
        }
        fputs("</g>\n", f);
    }
    fprintf(f, "<text class=\"label\" x=\"%.1f\" y=\"%d\">", left, TOP + STEP * n + 14);
    chart_text(f, xlabel);
    fputs("</text>\n</svg>\n", f);
}
