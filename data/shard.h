/* A .tok.zst file: token ids, little-endian uint16 (uint32 when the vocabulary is above
 * 65,536), in zstd frames of SHARD_FRAME tokens each (the last may be shorter) with
 * content checksums, and a seek table in zstd's seekable format:
 *
 *     frame 0 | frame 1 | ... | skippable frame 0x184D2A5E holding
 *                               { compressed size u32, content size u32 } per frame,
 *                               frame count u32, flags u8 (0), magic 0x8F92EAB1
 *
 * `zstd -dc` gives the bare ids: a nanoGPT .bin.
 *
 * What is more than one file should hold goes on in NAME-1.tok.zst, NAME-2.tok.zst, ...,
 * each but the last of the same number of full frames: frames are numbered through.
 */
#ifndef WEFT_SHARD_H
#define WEFT_SHARD_H

#include "data/base/record.h"

#include <stddef.h>
#include <stdint.h>

enum { SHARD_FRAME = 16384 };

struct shard_writer;

/* File i of the shard whose first file is path; the result is buf. */
char *shard_name(char *buf, size_t cap, const char *path, int i);

/* Ids that do not fit token_bytes (2 or 4) are FAIL_INPUT; the rest is FAIL_WRITE.
 * After a failure only shard_finish may be called. */
enum fail shard_create(struct shard_writer **w, const char *path, int token_bytes,
                       struct why *why);
enum fail shard_append(struct shard_writer *w, const uint32_t *ids, uint64_t n,
                       struct why *why);
/* Go on in another file after each `tokens`, rounded up to frames; 0 (as created): all in
 * one. */
void shard_limit(struct shard_writer *w, uint64_t tokens);
int  shard_finished(const struct shard_writer *w);      // files that are whole

/* Save what w has come to, or restore a writer of that path from it, which goes on with
 * the file of the dead one. NULL where that cannot be: record_failed. */
struct shard_writer *shard_record(struct record *r, struct shard_writer *w,
                                  const char *path);

/* Finish, fsync and close; *n is the number of tokens written. Frees w in any case. */
enum fail shard_finish(struct shard_writer *w, uint64_t *n, struct why *why);
/* Free w, and leave its unfinished file as it is; NULL is fine. */
void shard_drop(struct shard_writer *w);

/* A part of a shard that is read more or less often than the others: data/loader.h. */
struct stretch {
    char     name[64];      // of the input that it came from
    uint64_t tokens;
    double   weight;        // how often it is read in an epoch; the least is 1
};

struct shard_file {
    char    *path;
    int      fd;
    uint64_t frame;         // its first
};

struct shard {
    char     *path;         // of the first file; not owned
    struct shard_file *file;// (files)
    int       files;
    int       token_bytes;  // 2 or 4
    uint64_t  n;            // tokens
    uint64_t  frames;
    uint64_t *offset;       // (frames + 1) where each starts, as if all files were one
    uint32_t  vocab;        // shard_frame refuses ids at or above it; 0 (as opened): any
    const struct stretch *mix;  // (n_mix) not owned; its tokens in order; none as opened
    int       n_mix;
};

/* Open for random access. Checks the seek table against the file's size. FAIL_INPUT. */
enum fail shard_open(struct shard *s, const char *path, int token_bytes, struct why *why);

/* The tokens of another file after those of s. FAIL_INPUT, also when the last frame of s
 * is not full. */
enum fail shard_join(struct shard *s, const char *path, struct why *why);
void shard_close(struct shard *s);

/* Decompress frame i into ids (SHARD_FRAME of them); returns through *n how many it
 * holds. Thread-safe; allocates only at a thread's first frame. FAIL_INPUT. */
enum fail shard_frame(const struct shard *s, uint64_t i, uint32_t *ids, uint32_t *n,
                      struct why *why);

#endif
