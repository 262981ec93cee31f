/* weft lab: the papers' claims as experiments beside exact or trivial yardsticks.
 *
 * One experiment = one file in tools/lab/ + one word in EXPERIMENTS. It divides its work into
 * cells (one arm, one setting, one seed); a finished cell is remembered in --out, so that the
 * same command after an interruption computes only what is missing.
 */
#ifndef WEFT_LAB_H
#define WEFT_LAB_H

#include "data/fail.h"
#include "tools/chart.h"

#include <stdbool.h>
#include <stdint.h>

#define EXPERIMENTS(X)

enum form {
    LAB_BRIEF,              // what the tests run: under 20 seconds
    LAB_QUICK,              // under 3 minutes on two cores
    LAB_FULL,
};

struct lab;

struct experiment {
    const char *name;       // weft lab NAME
    const char *claim;      // one line: what the paper says
    const char *paper;
    const char *columns;    // of a cell's values: "risk,oracle,stderr"
    int seeds;              // by default, in the full form
    int (*run)(struct lab *l, struct why *why);
};

enum form lab_form(const struct lab *l);
int       lab_seeds(const struct lab *l);
uint64_t  lab_seed(const struct lab *l, int k);     // the k-th seed

/* How many cells are to come: for the time left. */
void lab_plan(struct lab *l, int cells);

/* A cell's values: true and filled in when it is already known. Otherwise compute them, call
 * lab_progress now and then (it returns false when the user asked to stop: give up the cell
 * and return 130), then lab_record. */
bool lab_recall(struct lab *l, const char *key, double *values);
bool lab_progress(struct lab *l, const char *key, double share);
int  lab_record(struct lab *l, const char *key, const double *values, struct why *why);

/* A line of the table on stdout; nothing under --json, where cells and verdicts are printed. */
void lab_say(struct lab *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A claim, what was measured in this run, its yardstick, and whether the one agrees with the
 * other. `weft lab all` gathers these. */
void lab_verdict(struct lab *l, bool holds, const char *claim, const char *measured,
                 const char *yardstick);

/* NAME.svg in --out. */
int lab_chart(struct lab *l, const char *name, const struct chart *c, struct why *why);
#endif
