/* Before the first step: does it fit, how long will it take, and what `0` means. */
#ifndef WEFT_PLAN_H
#define WEFT_PLAN_H

#include "train/run.h"
#include "train/trainer.h"

/* Bytes that training needs: parameters, gradients, moments, activations, the loader's
 * cache. */
double plan_memory(const struct model *m, const struct config *c);

/* Bytes that this process may use: the machine's, or less where a control group or
 * `ulimit -v` says so. */
double plan_memory_limit(void);

/* The least limit of the control groups that `self` (/proc/self/cgroup) names and of
 * those above them, version 1 or 2, as they stand below root (/sys/fs/cgroup). Infinite:
 * none. */
double plan_group_limit(const char *self, const char *root);

/* Parameters whose weights, gradients and moments alone fill that, of one rank and of
 * many: activations come on top. */
double plan_most_parameters(int ranks);

/* FAIL_MEMORY when it is more than the machine has; the line says what to reduce. */
enum fail plan_check_memory(const struct model *m, const struct config *c,
                            struct why *why);

/* Seconds that things take. */
struct cost {
    double step, eval, save, sample;
};

/* The cost of the rest, from that of a step. */
void plan_rest(const struct trainer *t, uint64_t val_tokens, struct cost *cost);

/* Time a few steps of a fresh trainer, within about `limit` seconds where that is
 * possible, and put it back to its initial state. val_tokens: of one validation. */
enum fail plan_measure(struct trainer *t, uint64_t val_tokens, double limit,
                       struct cost *cost, struct why *why);

/* Fill eval_every, checkpoint_every and sample_every where they are 0: at most 20
 * validations, which take about 5 % of the time; a checkpoint a minute, with validations
 * where they can coincide; five samples, there too where that gives as many. */
void plan_intervals(struct config *c, const struct cost *cost, uint64_t val_tokens);

/* Seconds of the whole run, intervals filled. */
double plan_seconds(const struct config *c, const struct cost *cost);

/* FLOPs of a step: the mean over the windows that steps will draw. */
double plan_step_flops(const struct trainer *t);

/* The steps that a budget buys, at least 1; of time: as it looks now. */
long plan_steps(const struct trainer *t, enum budget kind, double amount,
                const struct cost *cost, uint64_t val_tokens);

#endif
