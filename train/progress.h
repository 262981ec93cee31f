/* What weft train shows on stderr while it works. On a terminal one line is rewritten, at
 * most ten times a second:
 *
 *     [==>    ] 412/2000 loss 1.873 val 2.41 (zstd -19 2.62) 12.3k tok/s 2m10s left
 *
 * (where the time decides: 412 alone, and the bar is the share of the time) and
 * everything else appears above it. On a pipe there are plain lines every few seconds. */
#ifndef WEFT_PROGRESS_H
#define WEFT_PROGRESS_H

#include "data/base/live.h"
#include "data/dataset.h"
#include "train/log.h"

struct progress {
    struct live live;
    long   steps;               // of the run; 0: as many as the time allows,
    double deadline, span;      // when that is over, and how long it is in all
    long   first;               // step at which this process began, and when
    double start;
    long   step;
    double zstd, floor;         // bits per byte of the validation text, 0: unknown
    bool   transfer;            // mixers learn from others: loss is their distance
    double loss;                // smoothed, NAN at first
    double bpb;                 // last validation, NAN: none yet
    double seconds;             // of a step, smoothed
    double tokens, flops;       // of the last step
    double      peak;                // FLOP/s of this machine
};

enum { PROGRESS_PLAIN = 5 }; // seconds from line to line where there is no terminal

/* Of a run of `steps` steps that begins after `first`. Of what is in p, only deadline and
 * span are kept; before, p->live alone is used. */
void progress_open(struct progress *p, long steps, long first, const struct dataset *d,
                   double peak);

/* Of struct watch; user is a struct progress. A step allocates nothing. */
void progress_phase(void *user, const char *phase, double done);
void progress_step(void *user, const struct log_line *line);
void progress_validation(void *user, long step, double nats, double bits);
void progress_sample(void *user, long step, const char *text, size_t len);
void progress_note(void *user, const char *line);

/* The rewritten line, shorter than width columns, into buf (cap bytes). */
void progress_format(const struct progress *p, double now, int width, char *buf,
                     size_t cap);

#endif
