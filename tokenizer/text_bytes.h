/* How many bytes of text ids stand for, one after the other: without the prefix, which
 * stands before every document and is none of it. */
#ifndef WEFT_TEXT_BYTES_H
#define WEFT_TEXT_BYTES_H

#include "tokenizer/tokenizer.h"

struct text_bytes {
    const struct tokenizer *tokenizer;
    size_t prefix, ahead;           // its bytes; those of this document that are to come
};

struct text_bytes text_bytes_open(const struct tokenizer *t, const char *prefix);
size_t text_bytes_next(struct text_bytes *b, uint32_t id);

#endif
