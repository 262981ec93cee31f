/* The scheduler: one thread that computes for all who wait (continuous batching).
 *
 *     take in who waits, while there are slots -> one chunk of one prompt
 *         -> one token of every text that is being written -> ...
 *
 * Texts that end make room at once. A text depends on its request alone, not on who else
 * is served: see infer/session.h.
 */
#ifndef WEFT_SCHEDULER_H
#define WEFT_SCHEDULER_H

#include "infer/serve/job.h"

struct scheduler;

struct scheduler_options {
    int threads;                // of OpenMP; 0: as many as the opening thread has
    int most_waiting;           // jobs in the queue
};

/* FAIL_MEMORY. */
enum fail scheduler_open(struct scheduler **s, const struct scheduler_options *o,
                         struct why *why);

/* Nobody waits any more. NULL is fine. */
void scheduler_close(struct scheduler *s);

/* Hand in n jobs, all or none. False: too many would wait behind others, or it closes.
 * Each job becomes JOB_DONE in the end, and is then the caller's again. */
bool scheduler_submit(struct scheduler *s, struct job **jobs, int n);

/* Some job's `left` was set. */
void scheduler_poke(struct scheduler *s);

/* From now on take in nobody; those who wait are still served. */
void scheduler_drain(struct scheduler *s);

struct scheduler_counts {
    int    waiting, busy;               // jobs now
    long   jobs, left;                  // in all: ended, and ended early
    long   prompt_tokens, cached_tokens, tokens, hits, misses;
    long   steps;                       // of which each wrote a token of some texts
    double seconds;                     // computing
    double first_seconds;               // from being handed in to the first token, summed
};
struct scheduler_counts scheduler_counts(struct scheduler *s);

#endif
