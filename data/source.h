/* One input file as a stream of bytes: plain or zstd (any number of frames), or stdin,
 * which is either: zstd's magic number tells. */
#ifndef WEFT_SOURCE_H
#define WEFT_SOURCE_H

#include "data/base/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zstd.h>

struct source {
    const char   *path;         // borrowed, for error lines
    int           fd;
    uint64_t      read;         // bytes taken from the file so far
    ZSTD_DCtx    *zstd;         // owned; NULL when plain
    char         *packed;       // owned; what `in` points into
    ZSTD_inBuffer in;           // of stdin also its plain beginning
    size_t        pending;      // 0 between two frames
};

/* zst is not asked of stdin (inputs_stdin). FAIL_INPUT. On failure nothing
 * needs closing. */
enum fail source_open(struct source *s, const char *path, bool zst, struct why *why);

/* Up to cap more bytes into buf; *got is 0 at the end only. FAIL_INPUT. */
enum fail source_read(struct source *s, char *buf, size_t cap, size_t *got,
                      struct why *why);

/* Go on at this byte of the file; false where it is compressed, and must be read. */
bool source_seek(struct source *s, uint64_t at);

void source_close(struct source *s);

#endif
