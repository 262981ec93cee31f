/* A session: S sequences (slots) being written by one model, each with the decode state
 * of every layer (of attention that is its kv cache). Memory is fixed when it opens.
 *
 * They go in step with each other (session_prompt, session_extend) or each at its own
 * pace (session_feed, session_step). A prompt is taken in chunks that end at multiples of
 * SESSION_CHUNK, counted from the sequence's first token: so the bits of a sequence
 * depend on its tokens and on which of them were fed and which stepped, not on how many
 * came in one call. Nor, for up to SESSION_ROWS of them in a step, on who else is in it.
 */
#ifndef WEFT_SESSION_H
#define WEFT_SESSION_H

#include "model/pass.h"

enum { SESSION_CHUNK = TINY(512, 4) };      // tokens of a prompt taken at once
enum { SESSION_ROWS = 16 };                 // sequences of a step with the bits of one

struct session {
    const struct model *model;      // not owned
    int     S;                      // sequences
    void  **state;                  // (S) model_state_bytes each
    long   *pos;                    // (S) tokens seen
    real   *logits;                 // (S, vocab) after the last token of each, in step
    void  **row_state;              // (S) of the rows of a step
    long   *row_pos;                // (S)
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

/* ---- each at its own pace: the session's own logits are left alone ---- */

/* n more tokens of a prompt for one sequence; logits (vocab) of the last, NULL: not
 * wanted. */
void session_feed(struct session *s, int slot, const int32_t *tokens, long n,
                  real *logits);

/* How many of the n tokens still to be fed the next chunk takes. */
long session_chunk(const struct session *s, int slot, long n);

/* One more token for k different sequences: slots (k), tokens (k); logits (k, vocab). */
void session_step(struct session *s, const int *slots, const int32_t *tokens, int k,
                  real *logits);

void session_clear(struct session *s, int slot);                // empty again
void session_copy(struct session *s, int to, int from);

/* A snapshot of a sequence: state_bytes, and the number of tokens it has seen. */
void session_get(const struct session *s, int slot, void *state, long *pos);
void session_set(struct session *s, int slot, const void *state, long pos);

#endif
