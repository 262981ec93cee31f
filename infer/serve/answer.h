/* Answers in the form of OpenAI's: of completions and of chats, whole or piece by
 * piece. */
#ifndef WEFT_ANSWER_H
#define WEFT_ANSWER_H

#include "infer/serve/ask.h"
#include "infer/serve/job.h"

/* A request and its texts: prompt i's sample k is job[i * samples + k]. */
struct answer {
    struct ask      ask;
    struct line     line;
    struct job    **job;            // (n)
    int             n;
    struct reading *reading;        // (n) how far each text is told, of a stream
    char            id[48];         // "cmpl-..."
    long            created;        // seconds since 1970
};

/* Take over ask, make its jobs for e and hand in nothing yet. False: out of memory. */
bool answer_open(struct answer *a, struct ask *ask, struct engine *e);

/* The jobs are done, or were never handed in. */
void answer_close(struct answer *a);

/* The whole answer; all jobs are done. NULL: out of memory. */
json_t *answer_whole(const struct answer *a);

/* The next piece of a stream, or NULL when there is nothing new now; *ended when there
 * will be no more. Takes line.lock for a moment. */
json_t *answer_piece(struct answer *a, bool *ended);

/* Under line.lock: is there something that answer_piece would tell? */
bool answer_news(const struct answer *a);

/* Some job found no memory. */
bool answer_failed(const struct answer *a);

#endif
