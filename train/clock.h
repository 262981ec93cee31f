/* The clock of a run with a time budget. The run warms up, stays at its learning rate,
 * and begins to let it fall when schedule_decay of the time is left; where that ends
 * follows the machine's speed up to the last step. The last validation and the last
 * checkpoint are inside the time.
 *
 * What it decides goes into the trainer's decisions, and from there into the log and the
 * checkpoints: nothing else that a run computes depends on time.
 */
#ifndef WEFT_TRAIN_CLOCK_H
#define WEFT_TRAIN_CLOCK_H

#include "train/plan.h"

struct clock {
    double (*now)(void *user);      // seconds; NULL: wall_seconds
    void    *user;
    double   start;                 // the time at which nothing was used yet
    double   amount;                // seconds to train, 0: the run is counted in steps,
    double   before;                // after this many that an earlier budget bought
    int      evals;                 // validations wanted, 0: as many as are cheap
    uint64_t val_tokens;            // of one of them
    double   pace;                  // seconds a FLOP of late,
    long     steps;                 // from so many of them
    double   eval, sample;          // what else is done, in FLOPs that take as long
    double   save;                  // seconds of a checkpoint
};

double clock_now(const struct clock *k);

/* Count from now on; `used`: seconds of earlier processes. */
void clock_start(struct clock *k, double used);

double clock_used(const struct clock *k);
double clock_left(const struct clock *k);       // of amount

/* What things take, as plan_measure found: the first guess. */
void clock_expect(struct clock *k, const struct trainer *t, const struct cost *cost);

/* It took so long; a step of so many FLOPs. */
void clock_step(struct clock *k, double flops, double seconds);
void clock_validated(struct clock *k, double seconds);
void clock_sampled(struct clock *k, double seconds);
void clock_saved(struct clock *k, double seconds);

/* Decide on the warm-up, before the first step of a budget; and, there too and after
 * every step, what the time says now. FAIL_MEMORY. */
enum fail clock_begin(const struct clock *k, struct trainer *t, struct why *why);
enum fail clock_decide(const struct clock *k, struct trainer *t, struct why *why);

/* The decisions of another cycle, of n steps from here on: the rate climbs, stays and
 * falls over them in the shares that it has of a time. What was decided for later steps
 * is forgotten. FAIL_MEMORY. */
enum fail clock_extend(const struct clock *k, struct trainer *t, long n, struct why *why);

#endif
