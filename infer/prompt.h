/* The ids that a document or a prompt begins with. */
#ifndef WEFT_PROMPT_H
#define WEFT_PROMPT_H

#include "tokenizer/tokenizer.h"

/* `first` (-1: none) and the ids of text, malloc'ed, and how many; NULL: out of memory.
 * After EOS a document begins: its text, unless empty, has the prefix before it. */
uint32_t *prompt_encode(const struct tokenizer *t, const char *prefix, int32_t first,
                        const char *text, size_t len, long *n);

/* Those of a text without a prompt: the model's opening, or EOS where that is "". */
uint32_t *prompt_open(const struct tokenizer *t, const char *opening, long *n);

#endif
