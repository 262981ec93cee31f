/* A few words from the model as it is now. */
#ifndef WEFT_TRAIN_SAMPLE_H
#define WEFT_TRAIN_SAMPLE_H

#include "model/model.h"
#include "tokenizer/tokenizer.h"

enum { SAMPLE_BYTES = 2048 };

/* A text without a prompt, drawn with the sampler's defaults and this seed, into text
 * (SAMPLE_BYTES); *len is its length. It stops at a document's end. FAIL_MEMORY. */
enum fail sample_text(const struct model *m, const struct tokenizer *k, uint64_t seed,
                      char *text, size_t *len, struct why *why);

#endif
