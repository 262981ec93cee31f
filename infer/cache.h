/* A prompt cache: what sequences looked like after the first n tokens of a prompt.
 *
 *     entry    ids (n) | state (state_bytes) | logits (vocab), where a prompt ended there
 *
 * Snapshots are taken where session_feed ends a chunk, and at the end of a prompt, which
 * serves only a prompt of just those tokens: so what goes on from a snapshot has the bits
 * of what was fed from the first token. The least recently used entries make room. Used
 * by one thread at a time.
 */
#ifndef WEFT_CACHE_H
#define WEFT_CACHE_H

#include "infer/session.h"

struct snapshot;

struct cache {
    size_t           most, held;        // bytes
    size_t           state_bytes;
    int              vocab;
    struct snapshot *newest, *oldest;   // by last use
    long             entries, hits, misses;
};

/* For the sequences of s, at most `most` bytes; 0: nothing is kept. */
void cache_open(struct cache *c, const struct session *s, size_t most);
void cache_close(struct cache *c);              // a zeroed one is fine

/* Set a slot to the longest part of a prompt (n tokens) that is known. Returns its
 * length; when that is n, logits (vocab) are set too; 0: the slot is as it was. */
long cache_get(struct cache *c, struct session *s, int slot, const int32_t *ids, long n,
               real *logits);

/* Keep the slot, which has seen just the n tokens ids; logits of the last where the
 * prompt ends with it, else NULL, and then n is a multiple of SESSION_CHUNK. What there
 * is no memory for is not kept. */
void cache_put(struct cache *c, const struct session *s, int slot, const int32_t *ids,
               long n, const real *logits);

#endif
