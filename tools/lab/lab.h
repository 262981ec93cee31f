/* weft lab: the papers' claims as experiments beside exact or trivial yardsticks.
 *
 * One experiment = one file in tools/lab/ + one word in EXPERIMENTS. It divides its work
 * into cells (one arm, one setting, one seed); a finished cell is remembered in --out, so
 * that the same command after an interruption computes only what is missing.
 *
 *     DIR/NAME.csv      form,cell,<columns>       one line for each cell; the record
 *     DIR/CHART.svg     as lab_chart names them
 *
 * Several processes may share an experiment: each claims the cells that nobody has
 * (data/base/claim.h). An experiment is run, without a word, until all cells are known,
 * with 1 for every value that another process has yet to find; then once more, aloud. So
 * which cells there are must not depend on the values of others.
 */
#ifndef WEFT_LAB_H
#define WEFT_LAB_H

#include "data/base/fail.h"
#include "tools/chart/chart.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPERIMENTS(X)                                                \
    X(slr) X(prompts) X(icl) X(mqar) X(copy) X(words) X(listops)      \
    X(niah) X(convert) X(dsf) X(swax) X(srope)

enum { LAB_VALUES = 32, LAB_ARMS = 16, LAB_SEEDS = 1000 };

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
    const char *columns;    // of a cell's values: "risk,stderr"; LAB_VALUES at most
    int seeds;              // by default, in the full form
    enum fail (*run)(struct lab *l, struct why *why);
    bool exact;             // the tests want every verdict of the brief form to hold
    bool arch;              // takes --arch a,b,c
    bool from;              // takes --from RUN [--text PATH]
    int quick;              // seeds by default in the quick form; 0: one
};

#define DECLARE_EXPERIMENT(name) extern const struct experiment experiment_##name;
EXPERIMENTS(DECLARE_EXPERIMENT)
extern const struct experiment *const experiments[];    // NULL-terminated
extern const int n_experiments;

enum form lab_form(const struct lab *l);
int       lab_seeds(const struct lab *l);
uint64_t  lab_seed(const struct lab *l, int k);     // the k-th seed

/* Item i of --arch, or when it was not given of `standard`: entries parted by commas
 * outside parentheses, LAB_ARMS at most. False after the last. */
bool lab_arch(const struct lab *l, const char *standard, int i, char *buf, size_t cap);

/* --from and --text; NULL: not given. */
const char *lab_from(const struct lab *l);
const char *lab_text(const struct lab *l);

/* How many cells are to come: for the time left. */
void lab_plan(struct lab *l, int cells);

/* A cell's values: true and filled in when it is already known. Otherwise compute them,
 * call lab_progress now and then (it returns false when the user asked to stop: give up
 * the cell and return FAIL_INTERRUPTED), then lab_record. A key holds no '"' and no line
 * break, and says all that sets this cell apart from others of the experiment: arm,
 * sizes, seed. The form is recorded beside it. */
bool lab_recall(struct lab *l, const char *key, double *values);
bool lab_progress(struct lab *l, const char *key, double share);
enum fail lab_record(struct lab *l, const char *key, const double *values,
                     struct why *why);

/* A line of the table on stdout; nothing under --json, where cells and verdicts are
 * printed. */
void lab_say(struct lab *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A claim, what was measured in this run, its yardstick, and whether the one agrees with
 * the other. `weft lab all` gathers these. */
void lab_verdict(struct lab *l, bool holds, const char *claim, const char *measured,
                 const char *yardstick);

/* NAME.svg in --out. */
enum fail lab_chart(struct lab *l, const char *name, const struct chart *c,
                    struct why *why);

/* ---- what the verb uses ---- */

struct lab_ask {
    enum form   form;
    int         seeds;              // 0: the experiment's
    bool        json;
    bool        join;               // others run the same in `out`: share the cells
    const char *arch, *out;         // arch NULL: the experiment's
    const char *from, *text;        // a run to begin with, and its text; or NULL
};

struct verdict {
    const char *name;               // of the experiment
    bool        holds;
    char       *claim, *measured, *yardstick;
};

struct verdicts {
    struct verdict *row;
    int             n;
};

/* Run one experiment into ask->out and append its verdicts. The experiment's own failure,
 * FAIL_INPUT for a record of something else, FAIL_WRITE, FAIL_INTERRUPTED. */
enum fail lab_run(const struct experiment *e, const struct lab_ask *ask,
                  struct verdicts *v, struct why *why);
void verdicts_free(struct verdicts *v);
#endif
