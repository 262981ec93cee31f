/* The part of a text that SentencePiece can carry, and the lines its trainer gets. */
#ifndef WEFT_LINES_H
#define WEFT_LINES_H

#include "tokenizer/tokenizer.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes from s on, of n, that SentencePiece can carry: UTF-8 without NUL, tab and
 * newline, which are never part of a piece, and without U+2581 and U+2585, which it
 * reserves. Stops at the first character end at or past max, and, by_word, at the space
 * after a word. */
size_t carried_run(const char *s, size_t n, size_t max, bool by_word);

/* What `next` gives, as lines for training a vocabulary: carried characters only, none of
 * them rare, about 4000 bytes at most between two newlines, which may follow each other.
 * Reads no more than about 32 MiB. *lines is malloc'ed (the caller frees), NULL on
 * failure. FAIL_INPUT: no text; FAIL_MEMORY. */
enum fail lines_read(char **lines, size_t *len, int vocab, tokenizer_next next,
                     void *user, struct why *why);

#ifdef __cplusplus
}
#endif
#endif
