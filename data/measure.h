/* Yardsticks of a text, in bits per byte: what a model's own figure is read against. */
#ifndef WEFT_MEASURE_H
#define WEFT_MEASURE_H

#include "data/stories.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The empirical entropy of a byte given the two before it in its document,
 *
 *     H(x_t | x_t-2, x_t-1) = 1/N sum_ab ( n_ab lg n_ab - sum_c n_abc lg n_abc ),
 *
 * from counts n_abc over the first 2^32 - 1 such triples. */
struct order2 {
    uint32_t *count;        // (256, 256, 256) owned
    uint32_t  context;      // the two bytes before
    uint32_t  seen;         // bytes of this document, at most 2
    uint64_t  total;        // N
};

bool   order2_open(struct order2 *o);                   // false: out of memory
void   order2_add(struct order2 *o, const char *bytes, size_t len, bool document_ends);
double order2_bits(const struct order2 *o);             // 0 when there is no triple
void   order2_close(struct order2 *o);                  // a zeroed one is fine

/* Validation text on its way past: the first YARDSTICK bytes are kept for zstd -19, and each
 * document is tried as a built-in story, whose exact probability is known. */
enum { YARDSTICK = 16 << 20 };

struct yardstick {
    char    *text;                  // (YARDSTICK) owned
    size_t   len;
    uint64_t total;                 // bytes of all the text
    bool     stories;               // every document so far was a story
    double   bits;                  // of those
    char     story[STORY_MAX + 1];  // the document so far
    size_t   story_len;             // goes on counting past what story holds
};

bool   yardstick_open(struct yardstick *y);             // false: out of memory
void   yardstick_add(struct yardstick *y, const char *bytes, size_t len, bool document_ends);

/* The exact entropy in bits per byte when all documents were stories, else 0. */
double yardstick_floor(const struct yardstick *y);

/* Bits per byte under zstd -19; negative when out of memory. progress is told the share done. */
double yardstick_zstd(const struct yardstick *y, void (*progress)(void *user, double done),
                      void *user);
void   yardstick_close(struct yardstick *y);            // a zeroed one is fine

#endif
