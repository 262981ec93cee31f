/* From a run's settings and input to a trainer that is ready for its next step. */
#ifndef WEFT_SETUP_H
#define WEFT_SETUP_H

#include "train/loop.h"
#include "train/plan.h"

/* Everything that a training process holds. */
struct setup {
    struct run        run;
    const char       *chosen;           // the size, when nobody named one; else NULL
    const char       *chosen_arch;      // and the architecture for it
    struct model      start;            // of run.from until training begins, else zero
    struct tokenizer *tokenizer;        // with it
    struct dataset    data;
    uint64_t          fingerprint;      // of data
    struct trainer    trainer;
    struct validation validation;
    struct watch      watch;            // is told what happens
    double            peak;             // FLOP/s of this machine
    long              saved;            // step of the newest checkpoint, -1: none
    struct cost       cost;
    struct clock      clock;
    struct {
        enum budget kind;
        double      amount;
    }                 more;             // what a run that goes on gets; 0: nothing
    bool              stretch;          // cfg.steps is not what the run had
    bool              extends;          // out: another cycle of the rate begins here
};

/* The run is created or opened: tokenize its input unless that is done, load its newest
 * checkpoint or initialise, and settle the settings that were left open (vocab, steps,
 * intervals; not those that a clock decides), which are written to config.cfg. A budget
 * of time counts from when the data is there. Tells s->watch when it is opened and
 * planned, unless nothing is left to train. */
enum fail setup_open(struct setup *s, struct why *why);
void setup_close(struct setup *s);

bool setup_finished(const struct setup *s);     // nothing is left to train

/* Steps of the run in all; 0 while a clock has to decide. */
long setup_steps(const struct setup *s);

/* Train to the last step, with the log, as loop_run; tells s->watch. nats, bits: the last
 * validation, NAN: none. */
enum fail setup_train(struct setup *s, double *nats, double *bits, struct why *why);

#endif
