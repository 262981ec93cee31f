/* What a person sees on stderr. On a terminal one line is rewritten, at most ten times a
 * second:
 *
 *     [==>    ] 412/2000 loss 1.873 val 2.41 (zstd -19 2.62) 12.3k tok/s 2m10s left
 *
 * (where the time decides: 412 alone, and the bar is the share of the time) and
 * everything else appears above it. On a pipe there are plain lines every few seconds. */
#ifndef WEFT_PROGRESS_H
#define WEFT_PROGRESS_H

#include "data/dataset.h"
#include "train/log.h"

struct progress {
    bool   live;                // stderr is a terminal
    bool   drawn;               // a line that will be rewritten stands there
    long   steps;               // of the run; 0: as many as the time allows,
    double deadline, span;      // when that is over, and how long it is in all
    long   first;               // step at which this process began, and when
    double start;
    long   step;
    double zstd, floor;         // bits per byte of the validation text, 0: unknown
    double loss;                // smoothed, NAN at first
    double bpb;                 // last validation, NAN: none yet
    double seconds;             // of a step, smoothed
    double tokens, flops;       // of the last step
    double peak;                // FLOP/s of this machine
    double shown;               // when something was last shown
    char   phase[64];           // of preparing the data, last shown
    /* (optional) is told of every step; then nothing is shown here. */
    void (*watch)(void *user, const struct log_line *line);
    void  *user;
};

/* Of a run of `steps` steps that begins after `first`. p is zeroed, but for watch, user,
 * deadline and span. */
void progress_open(struct progress *p, long steps, long first, const struct dataset *d,
                   double peak);

/* A line of its own. */
void progress_say(struct progress *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A step is done. Allocates nothing. */
void progress_step(struct progress *p, const struct log_line *line);

void progress_validation(struct progress *p, long step, double loss, double bpb);
void progress_sample(struct progress *p, long step, const char *text, size_t len);

/* How far a phase of preparing the data is: user is a struct progress. */
void progress_phase(void *user, const char *phase, double done);

/* Take the rewritten line away. */
void progress_clear(struct progress *p);

/* The rewritten line, shorter than width columns, into buf (cap bytes). */
void progress_format(const struct progress *p, double now, int width, char *buf,
                     size_t cap);

#endif
