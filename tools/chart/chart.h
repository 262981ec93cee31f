/* A chart as one self-contained <svg>: lines and points over linear or log axes, error
 * bars, horizontal yardsticks, names at the ends of lines or a legend; readable in light
 * and dark and when printed. weft lab writes it to a file, weft compare into its report,
 * weft plot both.
 */
#ifndef WEFT_TOOLS_CHART_H
#define WEFT_TOOLS_CHART_H
#include <stdio.h>

struct chart_series {
    const char *name;
    const double *x, *y;            // n points; a NaN in y breaks the line
    const double *err;              // half-length of the error bars, or NULL
    int n;
    int points;                     // markers only, no line
    int thin;                       // a faint line without a legend entry: one seed
    int colour;                     // index into the palette, so that seeds share
                                    // their mean's; -1: the text's own, dashed
};

struct chart_line {                 // a yardstick across the whole width
    const char *name;
    double y;
};

struct chart {
    const char *title, *xlabel, *ylabel;
    int logx, logy;
    const struct chart_series *series;
    int nseries;
    const struct chart_line *lines;
    int nlines;
    double ymin, ymax;              // both 0: from the data
};

// A standalone file begins with <?xml; inside a page only the <svg> element is wanted.
void chart_write(FILE *f, const struct chart *c, int standalone);

// n charts as one standalone file, two beside each other.
void chart_sheet(FILE *f, const char *title, const struct chart *c, int n);

// Text made harmless inside SVG, HTML and XML attributes.
void chart_text(FILE *f, const char *s);

struct chart_bar {
    const char *name;
    double value, err;              // NaN: no bar; err 0: no error bar
    int colour;
    int rough;                      // the value is shown with a ~
};

// Horizontal bars from zero, one a row, each with its value.
void chart_bars(FILE *f, const char *title, const char *xlabel,
                const struct chart_bar *bars, int n, int standalone);

// Multiples of 1, 2 or 5 times a power of ten, about five between lo and hi; how many.
enum { CHART_TICKS = 16 };
int chart_ticks(double lo, double hi, double *at);

// A number in few characters: 12k, 3.4M, 0.05.
void chart_number(char *buf, size_t cap, double v);
#endif
