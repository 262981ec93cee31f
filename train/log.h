/* RUN/log.jsonl: a first line {"settings", "build", "machine", "parameters"}, then one
 * line per optimiser step, each in one write; after it what a clock decided there, as
 * {"decision": "end", "step": 812, "value": 1377}, and what the model then wrote, as
 * {"sample": 820, "text": "Once"}. */
#ifndef WEFT_LOG_H
#define WEFT_LOG_H

#include "train/trainer.h"

/* Lines that cannot be written now are held in memory and written before the next one:
 * a full disk does not end a run. */
struct log {
    char   path[1100];
    int    fd;
    char  *held;                    // (n_held) bytes, owned
    size_t n_held, cap;
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

/* FAIL_WRITE: lines that were held are lost. A log that was never opened is fine. */
enum fail log_close(struct log *l, struct why *why);

/* What is another now than when the log was begun, of the build and the machine, into
 * line; "" when nothing is known to be. */
void log_origin(const char *run, char *line, size_t cap);

/* The first line. peak: GFLOP/s of this machine. FAIL_WRITE: it could not be written. */
enum fail log_head(struct log *l, const struct trainer *t, double peak, struct why *why);

/* A step's line; allocates nothing while the disk takes it. FAIL_MEMORY: nor can it be
 * held. */
enum fail log_step(struct log *l, const struct log_line *line, struct why *why);

enum fail log_decision(struct log *l, const struct decision *d, struct why *why);

/* len bytes that the model wrote after this step; what is no UTF-8 becomes U+FFFD. */
enum fail log_sample(struct log *l, long step, const char *text, size_t len,
                     struct why *why);

/* Write what is held and make all durable, before the checkpoint that follows it.
 * FAIL_WRITE: some of it is still held. */
enum fail log_sync(struct log *l, struct why *why);

/* Bits per byte that the log of a run has for this step; NAN when it has none. */
double log_bpb(const char *run, long step);

#endif
