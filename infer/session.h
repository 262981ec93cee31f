/* A session: S sequences being written by one model, in step with each other, each with
 * the decode state of every layer (of attention that is its kv cache). Memory is fixed
 * when it opens. */
#ifndef WEFT_SESSION_H
#define WEFT_SESSION_H

#include "model/pass.h"

enum { SESSION_CHUNK = TINY(512, 4) };      // tokens of a prompt taken at once

struct session {
    const struct model *model;      // not owned
    int     S;                      // sequences
    void  **state;                  // (S) model_state_bytes each
    long   *pos;                    // (S) tokens seen
    real   *logits;                 // (S, vocab) after the last token of each
    struct pass prompt, token;      // for a prompt, for one token of each sequence
    size_t  state_bytes;            // of one sequence
    void   *memory;                 // of states, pos and logits
    size_t  bytes;
};

/* S empty sequences. FAIL_MEMORY. On failure nothing needs closing. */
enum fail session_open(struct session *s, const struct model *m, int S, struct why *why);
void session_close(struct session *s);              // a zeroed one is fine
void session_reset(struct session *s);              // all sequences empty again

/* Feed n more tokens, the same to every sequence; all must have seen the same before.
 * Sequence 0 takes them, SESSION_CHUNK at once, then its state and logits are copied to
 * the others. */
void session_prompt(struct session *s, const int32_t *tokens, long n);

/* One more token for each sequence: tokens (S). Leaves logits. */
void session_extend(struct session *s, const int32_t *tokens);

#endif
