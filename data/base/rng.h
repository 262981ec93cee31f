/* Random numbers from a counter: any draw can be computed from (seed, purpose, step)
 * and its index alone, so that resuming a run needs no replay. */
#ifndef WEFT_RNG_H
#define WEFT_RNG_H

#include <stdint.h>

/* What a stream is for. Streams of different purpose never overlap. */
enum rng_purpose {
    RNG_INIT,           // parameters; step = index of the tensor
    RNG_OFFSET,         // shift of the training grid; step = epoch
    RNG_SHUFFLE,        // permutation of windows; step = epoch
    RNG_WINDOW,         // attention window of a step; step = optimiser step
    RNG_SAMPLE,         // text sampling; step = index of the sample
    RNG_STORY,          // the built-in corpus; step = index of the story
    RNG_TEST,
    RNG_LAB,            // data of the laboratory's tasks; step = index of the sequence
};

struct rng {
    uint64_t key, counter;
};

struct rng rng_open(uint64_t seed, enum rng_purpose purpose, uint64_t step);

uint64_t rng_next(struct rng *r);
void     rng_fill(struct rng *r, uint64_t *to, int n);   // n calls of it
double   rng_uniform(struct rng *r);                     // [0, 1), 53 bits
double   rng_normal(struct rng *r);                      // N(0, 1)
uint64_t rng_below(struct rng *r, uint64_t n);           // [0, n), unbiased; n > 0

/* Where index i of [0, n) goes under the pseudo-random permutation of this stream: a
 * Feistel network over the counter-based hash, walked until it lands below n. */
uint64_t rng_permute(const struct rng *r, uint64_t i, uint64_t n);

#endif
