/* Texts written to files and read back as documents, for the suites of data/text.h. */
#ifndef WEFT_DOCS_H
#define WEFT_DOCS_H

#include "data/base/rng.h"
#include "data/text.h"

#define MARK "<|endoftext|>"
#define TEXT(s) s, sizeof s - 1                                 // bytes and their number
#define COUNT(table) ((int)(sizeof table / sizeof *table))

/* Everything a stream gave: documents one after the other, and where each ends. */
struct docs {
    char  *bytes;               // owned by the caller
    size_t len, end[64], invalid;
    int    n, pieces;
};

extern struct why docs_why;     // the line of the last failure

/* dir/name; two of them at a time may be in use. */
char *docs_path(const char *dir, const char *name);

void docs_put(const char *path, const void *bytes, size_t len);
void docs_put_text(const char *path, const char *text);

/* Read all of path, check every piece's form; returns the code of the first failure. */
int docs_read(struct docs *d, const char *path, const char *field);

/* The documents of path must be these, each written in brackets. */
void docs_assert(const char *path, const char *field, const char *want, size_t len);

/* Reading path must fail with FAIL_INPUT and a line that names it and holds `says`. */
void docs_refused(const char *path, const char *field, const char *says);

/* len bytes as one zstd frame with a checksum; returns its size. */
size_t docs_pack(char *to, size_t cap, const void *bytes, size_t len);

/* Fill s with n random bytes: lines of about `line` characters, of every length
 * UTF-8 knows; some are broken. */
void docs_babble(struct rng *r, char *s, size_t n, uint64_t line);

#endif
