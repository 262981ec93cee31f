/* Text to token shards on all threads.
 *
 * Text is gathered into batches of slices; the slices of a batch are encoded side by side
 * and appended in order, so the shards do not depend on the number of threads.
 */
#ifndef WEFT_ENCODE_H
#define WEFT_ENCODE_H

#include "data/shard.h"
#include "tokenizer/tokenizer.h"

#include <stddef.h>

struct encoder;

/* prefix stands before the text of every document. None of them is owned. FAIL_MEMORY. */
enum fail encoder_open(struct encoder **e, const struct tokenizer *t, const char *prefix,
                       struct shard_writer *const to[2], struct why *why);

/* More text of the document that goes to shard `split`, or its end. */
enum fail encoder_text(struct encoder *e, int split, const char *bytes, size_t len,
                       struct why *why);
enum fail encoder_eos(struct encoder *e, int split, struct why *why);

/* When all that was given before is appended, *tokens is how many shard 0 has. */
enum fail encoder_mark(struct encoder *e, uint64_t *tokens, struct why *why);

/* Encode and append all that was given so far. */
enum fail encoder_flush(struct encoder *e, struct why *why);

/* Save, or restore, what it has come to; flushed. */
void encoder_record(struct encoder *e, struct record *r);
void encoder_close(struct encoder *e);      // NULL is fine; does not flush

#endif
