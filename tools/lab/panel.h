/* One table and one chart of an experiment: arms downwards, a measure at several points
 * across, every arm once for each seed. A cell of the record is one arm with one seed,
 * its key "NAME ARM SIZES seed S".
 */
#ifndef WEFT_LAB_PANEL_H
#define WEFT_LAB_PANEL_H

#include "tools/compare/stats.h"
#include "tools/lab/task.h"

struct panel;

/* Measure one arm: values as the experiment's columns, of which the panel shows some. */
typedef enum fail (*panel_cell)(const struct panel *p, struct lab *l, int arm,
                                uint64_t seed, const char *key, double *values,
                                struct why *why);

struct panel {
    const char  *title, *xlabel, *ylabel;
    const char  *name;          // of the chart's file, and the beginning of its keys
    const char *const *arm;     // names
    int          arms;
    int          from, n;       // columns shown: from, from + 1, ..., n of them
    const double *x;            // (n) where they are
    bool         logx;
    bool         unbounded;     // no shares: the chart's axis follows the values
    panel_cell   cell;
    const void  *user;
    const struct task *task;    // whose sizes, steps and rate the keys hold
    const double *lr;           // (optional) of each arm, in place of the task's
    int          seeds;         // 0: the laboratory's, from panel_open on; LAB_SEEDS at
                                // most
    const int   *starts;        // (optional) of each arm, so many of them at most; 0: all
    double      *value;         // (arms, seeds, LAB_VALUES); owned
};

/* The arms of --arch or, when it was not given, of `standard`; each must fit the task. */
enum { PANEL_ARMS = 16 };
struct panel_arms {
    char        text[PANEL_ARMS][128];
    const char *name[PANEL_ARMS];
    int         n;
};
enum fail panel_list(struct panel_arms *a, const struct lab *l, const char *standard,
                     const struct task *t, struct why *why);

/* Tell the frame how many cells there will be; then run them all. The cells' failures. */
enum fail panel_open(struct panel *p, struct lab *l, struct why *why);
enum fail panel_run(struct panel *p, struct lab *l, struct why *why);
void panel_close(struct panel *p);

/* Over the seeds: the mean, and the standard deviation (0 with one seed), of a value. */
double panel_mean(const struct panel *p, int arm, int column);
double panel_spread(const struct panel *p, int arm, int column);

/* How many seeds an arm has. What compares two takes those that both have. */
int panel_count(const struct panel *p, int arm);
int panel_both(const struct panel *p, int a, int b);

/* A value of every seed of the arm into x; returns x. */
double *panel_seeds(const struct panel *p, int arm, int column, double *x);

/* How many seeds have it at `least` or above. */
int panel_reach(const struct panel *p, int arm, int column, double least);

/* Arm b less arm a, seed by seed. */
struct paired panel_paired(const struct panel *p, int a, int b, int column);

/* "0.98" or, with several seeds, "0.98 +- 0.01". */
const char *panel_text(const struct panel *p, int arm, int column, char buf[32]);

/* Both with the yardsticks below the arms. */
void panel_table(const struct panel *p, struct lab *l,
                 const struct chart_line *lines, int n);
enum fail panel_chart(const struct panel *p, struct lab *l,
                      const struct chart_line *lines, int n, struct why *why);

#endif
