/* Text in: files, directories and stdin as a stream of documents.
 *
 *     .txt (and any other name)   one document, or several parted by lines <|endoftext|>
 *     .jsonl                      one document per line, its "text" field (or `field`)
 *     either with .zst            decompressed on the way
 *     a directory                 its .txt and .jsonl files (and .zst), recursive, in byte order
 *     -                           stdin, as .txt
 *
 * Memory is constant: a document comes in pieces of at most TEXT_PIECE bytes, cut after a
 * newline where there is one, never inside a UTF-8 character (a lone invalid byte is its own
 * character). A tokenizer may encode each piece by itself: no token crosses a newline.
 */
#ifndef WEFT_TEXT_H
#define WEFT_TEXT_H

#include "data/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_PIECE = 1 << 20 };

struct text_piece {
    const char *bytes;      // valid until the next call
    size_t      len;        // may be 0 for the last piece of a document
    bool        last;       // the document ends with this piece
};

struct text;                // an open stream

/* paths: n files or directories. field: the .jsonl field, NULL for "text". Missing, unreadable
 * or unsuitable inputs (FIFO, device, directory loop, empty directory) fail here or in
 * text_next. FAIL_INPUT. */
int  text_open(struct text **t, const char *const *paths, int n, const char *field, struct why *why);

/* The next piece. At the end piece->bytes is NULL. FAIL_INPUT: truncated or corrupt .zst, bad
 * JSON, with file and line. */
int  text_next(struct text *t, struct text_piece *piece, struct why *why);

void text_close(struct text *t);

/* Bytes of input consumed so far, and in all (files only; 0 when stdin makes it unknown): for
 * progress. Compressed files count compressed. */
uint64_t text_consumed(const struct text *t);
uint64_t text_total(const struct text *t);

/* Number of bytes in [bytes, bytes + len) that are not part of valid UTF-8. */
size_t text_invalid(const char *bytes, size_t len);

#endif
