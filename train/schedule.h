/* What changes from step to step by plan: the learning rate, the attention window, the
 * end, and when to validate. All follow from the settings, the decisions that a clock has
 * made (train/clock.h) and the step's index (from 0) alone. Runs that are counted in
 * steps have no decisions, until they are extended or lose patience.
 */
#ifndef WEFT_SCHEDULE_H
#define WEFT_SCHEDULE_H

#include "model/config.h"

enum decided {
    DECIDED_WARMUP,         // value: steps over which the rate climbs, from this one on
    DECIDED_CLIMB,          // value: the same, counted from where the climb began
    DECIDED_END,            // value: steps in all; the rate falls from here to there
    DECIDED_ANNEAL,         // no more short windows are drawn
    DECIDED_EVAL,           // value: steps between validations
    DECIDED_CHECKPOINT,     // ... checkpoints
    DECIDED_SAMPLE,         // ... samples
    DECISIONS
};
extern const char *const decided_names[DECISIONS];      // "warmup", "end", ...

/* Made when `step` steps were done, for those that follow. */
struct decision {
    long         step;
    enum decided what;
    long         value;
};

/* In the order they were made. */
struct decisions {
    struct decision *list;      // owned
    int              n, cap;
};

/* Append; steps never fall. FAIL_MEMORY. */
enum fail decisions_add(struct decisions *d, struct decision made, struct why *why);

/* Forget those that were made for after `step`. */
void decisions_cut(struct decisions *d, long step);
void decisions_free(struct decisions *d);       // a zeroed one is fine

/* Where a run stands when `step` steps are done. */
struct phase {
    long   end;             // steps in all, 0: not decided
    long   eval_every, checkpoint_every, sample_every;
    // by the clock
    long   began, warmup;   // the step where the rate last began to climb; over so many
    long   planned;         // the step where the end was decided,
    double left;            // and the share of the fall that was left then
    bool   annealed;
};
struct phase schedule_phase(const struct config *c, const struct decisions *d, long step);

/* By steps (d holds none up to this step, or is NULL): rises linearly over the warm-up,
 * then
 *
 *     cosine   falls along half a cosine to lr_end of the peak at the last step
 *     wsd      stays, and falls linearly towards zero over the last fifth of the steps
 *
 * By the clock: rises linearly over the warm-up, stays, and falls to the end, linearly in
 * what is left of it, however often the end was moved meanwhile. */
double schedule_lr(const struct config *c, const struct decisions *d, long step);

/* The share of the time over which the clock lets the rate fall. */
extern const double schedule_decay;

/* The window drawn for a step: window_short with probability window_p, otherwise, and in
 * the last window_anneal share of the steps (by the clock: of the time), 0 (every layer
 * takes its own). */
int schedule_window(const struct config *c, const struct decisions *d, long step);

#endif
