/* The training loop: steps, and between them validation, log, samples and checkpoints. */
#ifndef WEFT_LOOP_H
#define WEFT_LOOP_H

#include "train/clock.h"
#include "train/run.h"
#include "train/validate.h"
#include "train/watch.h"

enum { PEAK_TRIES = 2 };         // of the yardstick, beside a validation

struct loop {
    const struct run     *run;
    const struct dataset *data;
    uint64_t              fingerprint;      // of the data, see save_fingerprint
    struct trainer       *trainer;
    struct validation    *validation;
    struct log           *log;
    const struct watch   *watch;
    struct clock         *clock;            // started
    double                peak;             // highest FLOP/s seen of this machine
    int                   told;             // decisions that are in the log
    bool                  held;             // lines of the log wait for room
    long                  saved;            // step of the newest checkpoint, -1: none
    long                  good;             // of the last one known to be good, -1: none
    double                val_loss, val_bpb;        // out: last validation
};

/* Train to the run's last step, which is validated and saved; where there is a budget of
 * time, its clock decides which one that is; where there is no more patience, it is the
 * one that was validated. Returns 0; FAIL_INTERRUPTED after a signal,
 * with the step finished and saved; FAIL_DIVERGED, when too many steps in a row or the
 * last were not finite or had collapsed, or weights to be saved are not finite;
 * FAIL_INPUT. Nothing is saved while steps are broken. A save that fails is said, and the
 * next one tries again; FAIL_WRITE: the last one failed, and of its step at most the
 * weights are kept. */
enum fail loop_run(struct loop *l, struct why *why);

#endif
