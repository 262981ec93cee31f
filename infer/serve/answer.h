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

/* What is new of text i, for a stream: false when there is nothing. *piece is NULL when
 * there is no memory for it. Takes line.lock for a moment. */
bool answer_piece(struct answer *a, int i, json_t **piece);

bool    answer_told(const struct answer *a);        // all of it
json_t *answer_usage(const struct answer *a);       // the last piece, where asked for

/* Under line.lock: is there something that answer_piece would tell? */
bool answer_news(const struct answer *a);

/* Some job found no memory. */
bool answer_failed(const struct answer *a);

#endif
