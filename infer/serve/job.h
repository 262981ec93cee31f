/* A job: one text that somebody waits for. The HTTP thread makes it and reads from it,
 * the scheduler writes it.
 *
 *     waiting -> scoring (the nats of its prompt) -> feeding -> writing -> done
 *
 * The jobs of one request share a line: its lock guards what they have written, and news
 * is signalled when there is more, or only when a text ends: who needs no more than that
 * is not woken for every token.
 */
#ifndef WEFT_JOB_H
#define WEFT_JOB_H

#include "infer/sampler.h"
#include "infer/stream.h"
#include "model/layers/loss.h"
#include "infer/serve/engine.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

struct line {
    pthread_mutex_t lock;
    pthread_cond_t  news;
    bool            for_end;            // the reader waits for the end of a text
};

enum job_state { JOB_WAITING, JOB_SCORING, JOB_FEEDING, JOB_WRITING, JOB_DONE };

struct job_token {
    int32_t id;
    real    nats;               // NAN: none
    size_t  end;                // of the text, when it had been picked
};

/* What a text is asked to be. All that it points at outlives the job. */
struct job_ask {
    const int32_t         *prompt;          // (n_prompt) at least 1
    long                   n_prompt;
    long                   hidden;          // of these, how many nobody is to see: 0 or 1
    long                   max_tokens;
    struct sampler_options sampler;
    uint64_t               stream;          // of random numbers: which sample it is
    const char *const     *stop;            // (n_stop)
    int                    n_stop;
    bool                   nats;            // of what is picked
    bool                   score;           // and of the prompt
    int                    top;             // likeliest tokens beside each, with nats
};

struct job {
    struct job_ask  ask;
    struct engine  *engine;             // held
    struct line    *line;               // not owned
    atomic_bool     left;               // nobody waits any more

    // under line->lock
    enum job_state    state;
    struct job_token *token;            // (n) a scored prompt's, then the picked ones
    struct likely    *likely;           // (n, top)
    long              n, n_prompt;      // n_prompt of these are the prompt's
    char             *text;             // what is certain of the picked tokens' bytes
    size_t            len;
    size_t            skipped;          // bytes of the model's prefix, left out of it
    bool              stopped;          // it ended by itself, or by a stop string
    bool              failed;           // no memory for it
    long              read;             // tokens that the reader has taken; -1: it
                                        // waits for the end

    // the scheduler's own
    struct job     *next;               // in the queue
    struct sampler *sampler;
    struct stream  *stream;
    FILE           *out;                // of the stream: text, len
    long            cap;
    int             slot;
    long            fed, scored;
    int32_t         last;               // picked and not yet fed
    double          since;              // it was handed in, wall seconds
};

/* A job that holds e. NULL: out of memory. */
struct job *job_open(struct engine *e, struct line *line, const struct job_ask *ask);
void        job_close(struct job *j);           // it is done, or was never handed in

/* ---- by the scheduler ---- */

/* Add a token with its nats, and of the row's likeliest as many as are asked for. */
bool job_add(struct job *j, int32_t id, real nats, const struct likely *top);

/* Choose the next token from logits (vocab), of which row is scratch for a copy; false
 * when the text ends with it. */
bool job_pick(struct job *j, const real *logits, real *row);

void job_end(struct job *j, bool failed);       // no more will come

#endif
