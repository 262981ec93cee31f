/* A model in training: weights, gradients, moments, batches, and how far it has come. One
 * call is one optimiser step. Everything a step needs follows from the settings and the
 * tally, so a trainer restored from a checkpoint goes on bit for bit. Of several ranks
 * (train/ranks.h) each makes its part of a step, and all have the same weights after it:
 * those that one rank alone would have. */
#ifndef WEFT_TRAINER_H
#define WEFT_TRAINER_H

#include "data/loader.h"
#include "model/pass.h"
#include "train/adamw.h"
#include "train/leaves.h"
#include "train/muon.h"
#include "train/schedule.h"
#include "train/shares.h"

enum { TRAINER_PATIENCE = 20 };     // broken steps in a row that mean divergence
enum { OUTLIER_WINDOW = 128 };      // norms that a step's is held against

/* How far a run has come; saved in trainer.json. */
struct tally {
    long     step;                  // steps done, skipped ones included
    long     skipped;               // steps without an update
    long     in_a_row;              // steps just now that were not finite, or collapsed
    uint64_t tokens;
    double   flops;
    double   val_loss;              // of this step, NAN when it was not validated
    double   best_loss;             // lowest so far, NAN when there is none, and its step
    long     best_step;
    long     waited;                // validations since then
    double   seconds;               // spent training and validating
    double   norms[OUTLIER_WINDOW]; // (n_norms) of the last steps' gradients, oldest
    int      n_norms;               // first; 0 unless cfg.outlier is set
};

struct trainer {
    struct config  cfg;
    struct model   model;
    struct pass    pass;
    real          *m, *v;       // moments, in the model's layout; Muon has no v. Only
                                // this rank's share is ever touched, and has memory
    struct shares  shares;
    struct loader *loader;
    struct leaves  leaves;      // the micro-batches of a step,
    int            window;      // and the attention window drawn for it
    struct adamw   adamw;
    struct muon    muon;        // where settings ask for it, else zero
    struct tally   tally;
    struct decisions decisions; // of the clock; none in a run that is counted in steps
    const struct model *start;  // (optional) not owned: trainer_reset begins with its
                                // weights where name and shape agree
    bool          *taken;       // (n_param) where they did
    struct pass    teacher;     // over start, while mixers learn from it
};

/* What one step did. */
struct step {
    double loss;                    // mean over the step, nats a token
    bool   transfer;                // a step of trainer_teach: loss is model_imitate's
    double norm;                    // of the gradient, before clipping
    double lr, flops, seconds;
    int    window;                  // attention window drawn for it, 0: none
    double z;                       // of norm among the last ones, NAN: too few
    bool   finite;                  // loss and norm are
    bool   skipped;                 // not finite, or an outlier: no update
    bool   collapsed;               // the loss is that of guessing, the gradient gone
};

/* Take over an opened model (also on failure) and get the memory and the loader for cfg,
 * whose steps and weight decay may still change, as may accumulate to less. All ranks
 * together. The shard must outlive the trainer. FAIL_INPUT: too little text for a window.
 * FAIL_MEMORY. On failure nothing needs closing. */
enum fail trainer_open(struct trainer *t, const struct config *cfg, struct model *model,
                       const struct shard *shard, struct why *why);
void trainer_close(struct trainer *t);      // a zeroed one is fine

/* Initial weights (start's where there are any), no moments, no gradients, step 0, no
 * decisions. All ranks together: rank 0's start counts. */
void trainer_reset(struct trainer *t);

/* Take `start`, of the same layers, width and vocabulary and not owned, as the teacher of
 * the first cfg.transfer steps: each mixer learns to answer as start's at its place, and
 * nothing else is updated. FAIL_USAGE where it cannot be; FAIL_MEMORY. */
enum fail trainer_teach(struct trainer *t, const struct model *start, struct why *why);
bool      trainer_transfers(const struct trainer *t);   // is the next step such a one?

/* One optimiser step, all ranks together. Allocates nothing. FAIL_INPUT when the data
 * cannot be read. */
enum fail trainer_step(struct trainer *t, struct step *s, struct why *why);

/* All ranks together: rank 0's decisions to all. FAIL_MEMORY. */
enum fail trainer_share_decisions(struct trainer *t, struct why *why);

/* The moments of all ranks in one place, for rank 0 to write or to read. All ranks
 * together: trainer_whole gives rank 0 two arrays of the model's layout, and the others
 * NULL; trainer_collect fills them from every rank's share, trainer_deal hands out what
 * they hold; trainer_release gives them back. One rank alone gets its own moments, and
 * the other calls do nothing. FAIL_MEMORY. */
enum fail trainer_whole(struct trainer *t, real **m, real **v, struct why *why);
void      trainer_collect(struct trainer *t, real *m, real *v);
void      trainer_deal(struct trainer *t, const real *m, const real *v);
void      trainer_release(struct trainer *t, real *m, real *v);

/* Useful FLOPs (the products of Muon included) and tokens of a step. */
double   trainer_step_flops(const struct trainer *t, int window);
uint64_t trainer_step_tokens(const struct config *c);

#endif
