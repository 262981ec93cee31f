/* Bytes of tokens on their way out.
 *
 *     push -> hold what may begin a stop string
 *          -> hold an incomplete UTF-8 character -> write
 *
 * A pipe gets the bytes as they are. A terminal gets U+FFFD for bytes that are
 * not UTF-8, and control characters other than newline and tab (C1 and DEL too) in
 * a visible form: \x1b.
 */
#ifndef WEFT_STREAM_H
#define WEFT_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct stream;

/* Write to out (not owned), which is a terminal or not. stop: n non-empty strings;
 * they must outlive the stream. NULL: out of memory. */
struct stream *stream_open(FILE *out, bool terminal, const char *const *stop, int n);
void           stream_close(struct stream *s);                      // NULL is fine

/* Break lines at words, for a terminal of so many columns (infer/wrap.h); 0, as opened:
 * not. */
void stream_wrap(struct stream *s, int columns);

/* Leave out this text, which must outlive the stream, where what is pushed from here on
 * begins with all of it: the prefix of a document that the model begins by itself. */
void stream_skip(struct stream *s, const char *prefix);

/* How many bytes of it are left out by now. */
size_t stream_skipped(const struct stream *s);

/* Write bytes that no stop string is looked for in (the prompt). */
void stream_echo(struct stream *s, const char *bytes, size_t len);

/* Write what is certain by now and flush. True once a stop string is complete: it,
 * and all that follows until stream_end, is not written. */
bool stream_push(struct stream *s, const char *bytes, size_t len);

/* Write what is held and flush; on a terminal every byte of a character that is not
 * complete becomes U+FFFD. The stream may be used again. */
void stream_end(struct stream *s);

bool stream_at_line_start(const struct stream *s);  // nothing yet, or a newline, was last

#endif
