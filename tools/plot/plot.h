/* weft plot: the curves of runs, from their logs.
 *
 *     on the terminal     one quantity, a few lines high
 *     FILE.svg, .html     all quantities
 *     --csv               the logs as one table
 */
#ifndef WEFT_PLOT_H
#define WEFT_PLOT_H

#include "train/log_read.h"

#include <stdio.h>

enum { MOST_RUNS = 20 };

struct plot_run {
    const char      *name;                  // as the user named it
    struct log_table log;                   // at least one step
    double           zstd_bpb, floor_bpb;   // of its validation text; 0: unknown
};

/* What is drawn, and against what. */
struct quantity {
    const char     *name;                   // on the command line
    enum log_column column;
    const char     *title, *label;
    bool            log;                    // its axis
    int             stretches;              // steps are thin, means over so many of them
                                            // thick; 0: it needs none
};

struct plot {
    struct plot_run        run[MOST_RUNS];
    int                    n;
    const struct quantity *x, *y;           // y: of the terminal
};

extern const struct quantity plot_axes[], plot_quantities[];    // end with a NULL name

/* A yardstick on the axis of bits per byte: its value and name; the k-th, false: there is
 * none. Runs on the same text share theirs. */
bool plot_yardstick(const struct plot *p, int k, double *bits, char *name, size_t cap);

/* The points of a run in at most `most` stretches of steps: means of what is finite.
 * Returns how many. */
int plot_points(const struct plot_run *r, enum log_column x, enum log_column y, int most,
                double *px, double *py);

/* Does the quantity say anything here? A window that never changes does not. */
bool plot_worth(const struct plot *p, const struct quantity *q);

/* terminal.c: p->y against p->x, `width` columns wide. plain: ASCII; colour: ANSI's. */
void terminal_plot(FILE *f, const struct plot *p, int width, bool plain, bool colour);

/* sheet.c: all quantities. */
void sheet_svg(FILE *f, const struct plot *p);
void sheet_html(FILE *f, const struct plot *p);

#endif
