/* weft lab: the papers' claims as experiments beside exact or trivial yardsticks.
 *
 * One experiment = one file in tools/lab/ + one word in EXPERIMENTS. It divides its work
 * into cells (one arm, one setting, one seed); a finished cell is remembered in --out, so
 * that the same command after an interruption computes only what is missing.
 *
 *     DIR/NAME.csv      the record:
 *         form,cell,tokens,seconds,parameters,<columns>
 *         # BUILD                      which computed the lines that follow,
 *         # claim HASH NAME            and the claims it knew
 *         quick,"KEY",...              one line for each cell
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
#include "tools/lab/judge.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPERIMENTS(X)                                                \
    X(systems) X(rotations) X(inline) X(metala) X(luna) X(rela)       \
    X(slr) X(prompts) X(icl) X(mqar) X(copy) X(words) X(listops)      \
    X(niah) X(convert) X(dsf) X(swax) X(srope)

enum { LAB_VALUES = 32, LAB_ARMS = 16, LAB_SEEDS = 1000 };

enum form {
    LAB_BRIEF,              // what the tests run: under 20 seconds
    LAB_QUICK,              // under 3 minutes on two cores
    LAB_FULL,
};

struct lab;

/* What answers a claim: agreement with a formula, or one of judge.h's findings. */
enum answer {
    ANSWER_EXACT,
    ANSWER_ABOVE, ANSWER_BELOW, ANSWER_MORE, ANSWER_EQUAL, ANSWER_SHARE, ANSWER_ORDER,
};

/* A claim of a paper, before anything is measured. All of it goes into its hash. */
struct lab_claim {
    const char *name;       // unique in the experiment
    const char *says;       // the paper's sentence in short
    const char *figure;     // what the paper reports; NULL: a theorem, or no number
    const char *arm;        // what is trained or computed
    const char *column;     // what is measured of it
    enum answer answer;
    double      limit;      // of the finding
    const char *gate;       // what the arm must have learnt; NULL: nothing to learn
};

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
    const struct lab_claim *claims;     // ends with a NULL name
    const char *at;         // what its full form trains, for a report; NULL: nothing
};

#define DECLARE_EXPERIMENT(name) extern const struct experiment experiment_##name;
EXPERIMENTS(DECLARE_EXPERIMENT)
extern const struct experiment *const experiments[];    // NULL-terminated
extern const int n_experiments;

enum form lab_form(const struct lab *l);
int       lab_seeds(const struct lab *l);

/* Those of an arm for which `most` will do (0: all of them); all where --seeds asks. */
int       lab_starts(const struct lab *l, int most);

/* The k-th seed: from --seed on or, where it was not given, from LAB_REPORTED. What is
 * tuned is tuned on seeds from LAB_DEVELOPMENT on. The brief form has its own. */
enum { LAB_REPORTED = 101, LAB_DEVELOPMENT = 1001 };
uint64_t lab_seed(const struct lab *l, int k);
bool     lab_develops(const struct lab *l);     // on these: other rates may be tried

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
/* Is it finished? After lab_recall said true it is not while another computes it. */
bool lab_finished(struct lab *l, const char *key);
enum fail lab_record(struct lab *l, const char *key, const double *values,
                     struct why *why);

/* What the cell that is being computed costs: for its record. Adds up. */
void lab_cost(struct lab *l, double tokens, double parameters);

/* A line of the table on stdout; nothing under --json, where cells and verdicts are
 * printed. */
void lab_say(struct lab *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The answer to a claim of the experiment's table: what was measured in this run, and its
 * yardstick. lab_exact where it agrees with a formula or not, lab_trained where it is for
 * judge.h to say. Each claim at most once. */
void lab_exact(struct lab *l, const char *name, bool holds, const char *measured,
               const char *yardstick);
void lab_trained(struct lab *l, const char *name, const struct finding *f,
                 const char *measured, const char *yardstick);

/* NAME.svg in --out. */
enum fail lab_chart(struct lab *l, const char *name, const struct chart *c,
                    struct why *why);

/* ---- what the verb uses ---- */

struct lab_ask {
    enum form   form;
    int         seeds;              // 0: the experiment's
    uint64_t    seed;               // the first; 0: the form's
    bool        json;
    bool        docs;               // of all: the project's pages, too
    bool        join;               // others run the same in `out`: share the cells
    const char *arch, *out;         // arch NULL: the experiment's
    const char *from, *text;        // a run to begin with, and its text; or NULL
};

enum verdict { VERDICT_HOLDS, VERDICT_FAILS, VERDICT_OPEN };

struct answered {
    const struct experiment *e;
    const struct lab_claim  *claim;
    enum verdict   verdict;
    struct finding found;           // of trained rows
    double         p, q;            // of these, after Holm's correction
    double         seconds;         // of the experiment's cells
    char          *measured, *yardstick;
};

struct verdicts {
    struct answered *row;
    int              n;
};

/* Correct for the number of trained rows, and decide them. */
void verdicts_settle(struct verdicts *v);
const char *verdict_text(const struct answered *a, char *buf, size_t cap);

/* Run one experiment into ask->out and append its verdicts. The experiment's own failure,
 * FAIL_INPUT for a record of something else, FAIL_WRITE, FAIL_INTERRUPTED. */
enum fail lab_run(const struct experiment *e, const struct lab_ask *ask,
                  struct verdicts *v, struct why *why);
void verdicts_free(struct verdicts *v);
#endif
