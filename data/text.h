/* Text in: files, directories and stdin as a stream of documents.
 *
 *     .txt (and any other name)   one document, or several parted by lines <|endoftext|>
 *     .jsonl                      one document per line, its "text" field (or `field`)
 *     either with .zst            decompressed on the way
 *     a directory                 its .txt and .jsonl files (and .zst), recursive, in
 *                                 byte order of their paths; no name that begins with .
 *     -                           stdin: .zst by its first bytes; .jsonl when a field is
 *                                 named or its first line is an object with "text" in it
 *
 * The newline before a <|endoftext|> line belongs to the document, the line itself to
 * none. A document without a byte is no document. A UTF-8 byte order mark at a file's
 * start is dropped, blank .jsonl lines are skipped; every other byte, valid UTF-8 or not,
 * is kept.
 *
 * Memory is constant: a document comes in pieces of at most TEXT_PIECE bytes, cut after a
 * newline where there is one, never inside a UTF-8 character (a lone invalid byte is its
 * own character). A tokenizer may encode each piece by itself: no token crosses a
 * newline. A .jsonl line is held whole, so it may have at most TEXT_LINE bytes; zstd
 * windows, at most 128 MiB.
 */
#ifndef WEFT_TEXT_H
#define WEFT_TEXT_H

#include "data/base/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_PIECE = 1 << 20, TEXT_LINE = 64 << 20 };

struct text_piece {
    const char *bytes;      // valid until the next call
    size_t      len;        // at least 1
    bool        last;       // the document ends with this piece
};

struct text;                // an open stream

/* paths: n files or directories. field: the .jsonl field, NULL for "text". FAIL_INPUT: a
 * path is missing, unreadable, empty, a pipe, device or socket; a directory holds no text
 * file, or a link leads back into it. On failure *t is NULL. */
enum fail text_open(struct text **t, const char *const *paths, int n, const char *field,
                    struct why *why);

/* The next piece. At the end piece->bytes is NULL. FAIL_INPUT: truncated or corrupt .zst,
 * bad JSON, with file and line; or the end, when there was no document at all. After a
 * failure only text_close may be called. */
enum fail text_next(struct text *t, struct text_piece *piece, struct why *why);

void text_close(struct text *t);                        // NULL is fine

/* Where a stream is, between two pieces. */
struct text_place {
    uint64_t input;         // files before this one
    uint64_t offset;        // bytes of it that were handed out, decompressed
    int64_t  line;          // of .jsonl
    bool     line_start, any;
};

/* False inside a document of .jsonl, or in stdin: there is no such place. */
bool text_tell(const struct text *t, struct text_place *at);

/* A stream that was just opened, of the same files, goes on from that place; compressed
 * files are decompressed up to there. FAIL_INPUT. */
enum fail text_seek(struct text *t, const struct text_place *at, struct why *why);

/* Bytes of input consumed so far, and in all (files only; 0 when stdin makes it unknown):
 * for progress. Compressed files count compressed. */
uint64_t text_consumed(const struct text *t);
uint64_t text_total(const struct text *t);

/* Number of bytes in [bytes, bytes + len) that are not part of valid UTF-8. */
size_t text_invalid(const char *bytes, size_t len);

#endif
