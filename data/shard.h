/* A .tok.zst file: token ids, little-endian uint16 (uint32 when the vocabulary is above
 * 65,536), in zstd frames of SHARD_FRAME tokens each (the last may be shorter) with
 * content checksums, and a seek table in zstd's seekable format:
 *
 *     frame 0 | frame 1 | ... | skippable frame 0x184D2A5E holding
 *                               { compressed size u32, content size u32 } per frame,
 *                               frame count u32, flags u8 (0), magic 0x8F92EAB1
 *
 * `zstd -dc` gives the bare ids: a nanoGPT .bin.
 */
#ifndef WEFT_SHARD_H
#define WEFT_SHARD_H

#include "data/base/fail.h"

#include <stdint.h>

enum { SHARD_FRAME = 16384 };

struct shard_writer;

/* Ids that do not fit token_bytes (2 or 4) are FAIL_INPUT; the rest is FAIL_WRITE.
 * After a failure only shard_finish may be called. */
enum fail shard_create(struct shard_writer **w, const char *path, int token_bytes,
                       struct why *why);
enum fail shard_append(struct shard_writer *w, const uint32_t *ids, uint64_t n,
                       struct why *why);
/* Finish, fsync and close; *n is the number of tokens written. Frees w in any case. */
enum fail shard_finish(struct shard_writer *w, uint64_t *n, struct why *why);

/* A part of a shard that is read more or less often than the others: data/loader.h. */
struct stretch {
    char     name[64];      // of the input that it came from
    uint64_t tokens;
    double   weight;        // how often it is read in an epoch; the least is 1
};

struct shard {
    char     *path;
    int       fd;
    int       token_bytes;  // 2 or 4
    uint64_t  n;            // tokens
    uint64_t  frames;
    uint64_t *offset;       // (frames + 1) where each frame starts in the file
    uint32_t  vocab;        // shard_frame refuses ids at or above it; 0 (as opened): any
    const struct stretch *mix;  // (n_mix) not owned; its tokens in order; none as opened
    int       n_mix;
};

/* Open for random access. Checks the seek table against the file's size. FAIL_INPUT. */
enum fail shard_open(struct shard *s, const char *path, int token_bytes, struct why *why);
void shard_close(struct shard *s);

/* Decompress frame i into ids (SHARD_FRAME of them); returns through *n how many it
 * holds. Thread-safe; allocates only at a thread's first frame. FAIL_INPUT. */
enum fail shard_frame(const struct shard *s, uint64_t i, uint32_t *ids, uint32_t *n,
                      struct why *why);

#endif
