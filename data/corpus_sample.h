/* An even sample of a stream whose length is not known beforehand, in bounded memory.
 *
 * The stream is cut into stretches of SAMPLE_STRETCH bytes, of which every stride-th is
 * kept. When what is kept outgrows SAMPLE_MAX, every other stretch is dropped and the
 * stride doubles: in the end the stretches are spread evenly over the whole stream.
 */
#ifndef WEFT_DATA_SAMPLE_H
#define WEFT_DATA_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* SentencePiece's unigram trainer takes some 3 seconds for a megabyte; doubling a sample
 * of two shortens the encoding with 8192 pieces by 1.5 %. */
enum { SAMPLE_STRETCH = 1 << 16, SAMPLE_MAX = 4 << 20 };

struct sample {
    char *text;                     // owned; the slices kept, one after the other
    struct sample_slice {
        uint64_t pos;               // in the stream
        size_t   at, len;           // in text
    }       *slice;                 // (n) owned, in the stream's order
    size_t   n, cap, used;          // used: bytes of text
    uint64_t stride;                // 0: nothing was added yet
};

/* The next len bytes (at most SAMPLE_STRETCH) of the stream, which lie at pos: kept or
 * dropped as a whole. Returns 0, or -1 when out of memory. */
int  sample_add(struct sample *s, uint64_t pos, const char *bytes, size_t len);

/* Forget what lies at or after pos; a slice across it is cut before the UTF-8
 * character there. */
void sample_cut(struct sample *s, uint64_t pos);

void sample_free(struct sample *s);     // a zeroed one is fine

/* How many of the len > 0 bytes to take so that at most max are taken: up to after
 * a newline where there is one, else up to a UTF-8 character. Never 0. */
size_t text_slice(const char *bytes, size_t len, size_t max);

/* The largest cut <= at that is not inside a UTF-8 character; `at` itself where the bytes
 * around it are none. bytes[at] must be readable. */
size_t utf8_floor(const char *bytes, size_t at);

#endif
