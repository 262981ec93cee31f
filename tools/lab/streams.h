/* Sequences that ask for something from far back: needles in a haystack, pairs recalled over a
 * set distance, strings to be copied. Targets are -1 where nothing is asked. tokens and targets
 * (T).
 */
#ifndef WEFT_LAB_STREAMS_H
#define WEFT_LAB_STREAMS_H

#include "data/rng.h"

/* Needle in a haystack (RULER, arXiv:2404.06654), small and in bytes. A dull text of T bytes
 * holds needles "k is 123. " with different letters k and ends in questions "k?123 ", whose
 * digits are the targets. */
enum { NEEDLE_VOCAB = 128, NEEDLE_BYTES = 10, NEEDLE_QUESTION = 6, NEEDLE_DIGITS = 3 };

struct needle {
    int    T, needles;          // needles <= 26
    int    questions;           // <= needles; the first needle is asked for first
    double depth;               // of the first needle: 0 begin, 1 end; below 0: drawn
};
void needle_text(const struct needle *n, struct rng *r, int32_t *tokens, int32_t *targets);

/* Pairs and queries in slots of two tokens: key value where a pair is written, key noise where
 * it is asked for (the target, at the key, is its value), noise noise elsewhere. Every key is
 * written once and asked for once, so many slots later as a draw from [near, far] says, uniform
 * in its logarithm; pairs that find no room are left out.
 *
 *     tokens    keys, then values, then noise
 */
struct recall {
    int T, pairs, keys, values, noise;      // T even, pairs <= keys
    int near, far;                          // slots; far < T / 2
};
static inline int recall_vocab(const struct recall *c) { return c->keys + c->values + c->noise; }
void recall_stream(const struct recall *c, struct rng *r, int32_t *tokens, int32_t *targets);

/* Copying (arXiv:2402.01032): examples "$ s | s ." until T tokens are full, s of min to max
 * letters. The targets are the letters and the stop of the second s.
 *
 *     tokens    letters, then $ | .
 */
struct copying {
    int T, letters, min, max;
};
static inline int copying_vocab(const struct copying *c) { return c->letters + 3; }
static inline int copying_length(int n) { return 2 * n + 3; }
void copying_text(const struct copying *c, struct rng *r, int32_t *tokens, int32_t *targets);

#endif
