/* A model that is served: its slots, its prompt cache, and who still uses it. A newer
 * checkpoint is another engine; the older one goes when its last user has let go. */
#ifndef WEFT_ENGINE_H
#define WEFT_ENGINE_H

#include "infer/cache.h"
#include "tokenizer/tokenizer.h"

#include <limits.h>
#include <stdatomic.h>

struct job;

struct engine {
    char              label[160];           // "book@820": the name, and the step
    long              step;                 // of the checkpoint, -1: unknown
    char              dir[PATH_MAX];        // the checkpoint
    struct model      model;
    struct tokenizer *tokenizer;
    atomic_int        users;

    // the scheduler's own
    struct session    session;
    struct pass       score;                // over (1, context)
    struct cache      cache;
    real             *logits;               // (slots, vocab) of a step
    real             *row;                  // (slots, vocab) what nats are taken from
    struct job       *in[SESSION_ROWS];     // who has the slot, NULL: nobody
};

/* Load the checkpoint that path means, with memory for so many sequences at once and so
 * many bytes of prompts; it has one user. name: what it is called. FAIL_INPUT,
 * FAIL_MEMORY. */
enum fail engine_open(struct engine **e, const char *path, const char *name, int slots,
                      size_t cache, struct why *why);

struct engine *engine_hold(struct engine *e);       // one more user
void           engine_release(struct engine *e);    // one less; NULL is fine

#endif
