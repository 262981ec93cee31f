/* Yardsticks of a text, in bits per byte: what a model's own figure is read against. */
#ifndef WEFT_YARDSTICK_H
#define WEFT_YARDSTICK_H

#include "data/base/record.h"
#include "data/stories/stories.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a model that looks two bytes back would need: counted on the training text,
 * measured on the validation text. Every order leans on the one below it, by
 * the weight w = 4,
 *
 *     p(c | ab) = (n_abc + w p(c | b)) / (n_ab + w)
 *     p(c | b)  = (n_bc  + w p(c))     / (n_b  + w)
 *     p(c)      = (n_c   + w / 256)    / (n    + w),
 *
 * and bits = -1/N sum lg p over the N bytes measured. Two zero bytes stand before
 * a document. Counting stops before 2^32 bytes. */
struct order2 {
    uint32_t *abc;              // (256, 256, 256) owned
    uint32_t  ab[1 << 16];      // sums over c, known when learning is over
    uint32_t  bc[1 << 16];      // over a
    uint32_t  b[256], c[256];
    uint32_t  n;
    uint32_t  context;          // the two bytes before
    bool      summed;
    double    bits;
    uint64_t  measured;         // N
};

bool   order2_open(struct order2 *o);           // false: out of memory
void   order2_learn(struct order2 *o, const char *bytes, size_t len, bool document_ends);
void   order2_measure(struct order2 *o, const char *bytes, size_t len,
                      bool document_ends);
double order2_bits(const struct order2 *o);     // per byte; 0 when none was measured
void   order2_record(struct order2 *o, struct record *r);   // save, or restore
void   order2_close(struct order2 *o);          // a zeroed one is fine

/* Validation text on its way past: the first YARDSTICK bytes are kept for zstd -19,
 * and each document is tried as a built-in story, whose exact probability is known. */
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
void   yardstick_add(struct yardstick *y, const char *bytes, size_t len,
                     bool document_ends);

/* The exact entropy in bits per byte when all documents were stories, else 0. */
double yardstick_floor(const struct yardstick *y);

/* Bits per byte under zstd -19; negative when out of memory. progress is told
 * the share done. */
double yardstick_zstd(const struct yardstick *y,
                      void (*progress)(void *user, double done), void *user);
void   yardstick_record(struct yardstick *y, struct record *r);     // save, or restore
void   yardstick_close(struct yardstick *y);            // a zeroed one is fine

#endif
