#include "tokenizer/text_bytes.h"

#include <string.h>

struct text_bytes text_bytes_open(const struct tokenizer *t, const char *prefix)
{
    size_t n = strlen(prefix);

    return (struct text_bytes){t, n, n};
}

size_t text_bytes_next(struct text_bytes *b, uint32_t id)
{
    size_t len, hidden;

    tokenizer_piece(b->tokenizer, id, &len);
    hidden = len < b->ahead ? len : b->ahead;
    b->ahead = (int)id == tokenizer_eos(b->tokenizer) ? b->prefix : b->ahead - hidden;
    return len - hidden;
}
