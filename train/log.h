/* RUN/log.jsonl: a first line {"settings", "build", "machine", "parameters"}, then one
 * line per optimiser step, each in one write; after it what a clock decided there, as
 * {"decision": "end", "step": 812, "value": 1377}. */
#ifndef WEFT_LOG_H
#define WEFT_LOG_H

#include "train/trainer.h"

struct log {
    char path[1100];
    int  fd;
};

/* What the steps' lines need besides the step. */
struct log_line {
    const struct tally *tally;
    const struct step  *step;
    double val_loss, val_bpb;       // NAN: not validated
    double tok_s, mfu;
};

/* Open the log of a run that stands at this step: lines of later steps, decisions that
 * were made here or later, and a torn last line are cut off. True in *begun when the
 * first line is there. FAIL_WRITE. */
enum fail log_open(struct log *l, const char *run, long step, bool *begun,
                   struct why *why);
void log_close(struct log *l);

/* The first line. peak: GFLOP/s of this machine. */
enum fail log_head(struct log *l, const struct trainer *t, double peak, struct why *why);

/* A step's line; allocates nothing. */
enum fail log_step(struct log *l, const struct log_line *line, struct why *why);

enum fail log_decision(struct log *l, const struct decision *d, struct why *why);

/* Make what was written durable, before the checkpoint that follows it. */
enum fail log_sync(struct log *l, struct why *why);

#endif
