#include "infer/prompt.h"

#include <stdlib.h>
#include <string.h>

/* Both texts as one; malloc'ed. */
static char *join(const char *a, size_t n, const char *b, size_t m)
{
    char *text = malloc(n + m + 1);

    if (text) {
        memcpy(text, a, n);
        memcpy(text + n, b, m);
    }
    return text;
}

uint32_t *prompt_encode(const struct tokenizer *t, const char *prefix, int32_t first,
                        const char *text, size_t len, long *n)
{
    size_t    before = first == tokenizer_eos(t) && len ? strlen(prefix) : 0;
    size_t    all = before + len;
    int       head = first >= 0;
    char     *joined = join(prefix, before, text, len);
    uint32_t *ids = malloc((all + 1) * sizeof *ids);

    *n = joined && ids ? tokenizer_encode(t, joined, all, ids + head, all) : -1;
    free(joined);
    if (*n < 0 || *n > (long)all) {
        free(ids);
        return NULL;
    }
    if (head)
        ids[0] = (uint32_t)first;
    *n += head;
    return ids;
}

uint32_t *prompt_open(const struct tokenizer *t, const char *opening, long *n)
{
    return prompt_encode(t, "", *opening ? -1 : tokenizer_eos(t), opening,
                         strlen(opening), n);
}
