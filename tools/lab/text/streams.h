/* Sequences that ask for something from far back: needles in a haystack, facts recalled
 * over a set distance. Each is a task_fill whose user is the struct before it.
 */
#ifndef WEFT_LAB_STREAMS_H
#define WEFT_LAB_STREAMS_H

#include "data/base/rng.h"

/* Needle in a haystack (RULER, arXiv:2404.06654), small and in bytes. A dull text of T
 * bytes holds needles "K123. " with different letters K, which the text has none of, and
 * ends in questions "K123 ", whose digits are the targets. */
enum { NEEDLE_VOCAB = 128, NEEDLE_BYTES = 6, NEEDLE_QUESTION = 5, NEEDLE_DIGITS = 3 };

struct needle {
    int    needles;             // <= 26
    int    questions;           // <= needles; the first needle is asked for first
    double depth;               // of the first needle: 0 begin, 1 end; below 0: drawn
};
void needle_fill(const void *user, struct rng *r, int T, int32_t *tokens,
                 int32_t *targets);

/* Facts and questions among noise. A fact is one token that names a key and its value; a
 * question is one token that names the key, and its target is the value. Every key is
 * stated once and asked for once, so many tokens later as a draw from [near, far] says,
 * uniform in its logarithm; facts that find no room are left out.
 *
 *     tokens    key * values + value, then keys, then noise
 */
struct facts {
    int facts, keys, values, noise;     // facts <= keys <= 256; T at most 4096
    int near, far;                      // tokens; far < T
};
static inline int facts_vocab(const struct facts *f)
{
    return f->keys * (f->values + 1) + f->noise;
}

void facts_fill(const void *user, struct rng *r, int T, int32_t *tokens,
                int32_t *targets);

#endif
