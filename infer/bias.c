#include "infer/bias.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 8 };             // tokens of a text that an error names

/* Where the number begins, after at least one byte of token; NULL: there is none. */
static const char *find_number(const char *text, double *x)
{
    for (const char *p = text + 1; *text && *p; p++) {
        char *end;

        if (*p != '+' && *p != '-')
            continue;
        *x = strtod(p, &end);
        if (end > p + 1 && !*end && !isnan(*x))
            return p;
    }
    return NULL;
}

static enum fail find_id(struct logit_bias *b, const char *text, size_t len,
                         const struct tokenizer *t, struct why *why)
{
    unsigned long id = strtoul(text, NULL, 10);

    if (id >= (unsigned long)tokenizer_vocab(t))
        return fail(why, FAIL_USAGE, "%.*s: there is no such token; ids go from 0 to %d",
                    (int)len, text, tokenizer_vocab(t) - 1);
    b->id = (int32_t)id;
    return 0;
}

/* "'he' 'll' 'o'", the first SHOWN of n ids. */
static void name_tokens(char *buf, size_t cap, const struct tokenizer *t,
                        const uint32_t *ids, long n)
{
    size_t at = 0, len;

    for (long i = 0; i < n && i < SHOWN && at < cap; i++) {
        const char *piece = tokenizer_piece(t, ids[i], &len);

        at += (size_t)snprintf(buf + at, cap - at, "%s'%.*s'", i ? " " : "", (int)len,
                               piece);
    }
}

static enum fail find_text(struct logit_bias *b, const char *text, size_t len,
                           const struct tokenizer *t, struct why *why)
{
    uint32_t *ids = malloc(len * sizeof *ids);
    long      n = ids ? tokenizer_encode(t, text, len, ids, len) : -1;
    char      names[256] = "";
    enum fail err = 0;

    if (n < 0)
        err = fail(why, FAIL_MEMORY, "no memory for a token of %zu bytes", len);
    else if (n == 1)
        b->id = (int32_t)ids[0];
    else {
        name_tokens(names, sizeof names, t, ids, n);
        err = fail(why, FAIL_USAGE,
                   "'%.*s' is %ld tokens of this model: %s; give a bias to one of them",
                   (int)len, text, n, names);
    }
    free(ids);
    return err;
}

enum fail bias_parse(struct logit_bias *b, const char *text, const struct tokenizer *t,
                     struct why *why)
{
    const char *number = find_number(text, &b->add);
    size_t      len = number ? (size_t)(number - text) : 0;

    if (!number)
        return fail(why, FAIL_USAGE,
                    "'%s' is not TOKEN+X or TOKEN-X, such as 15043+1 or ' cat'-5", text);
    if (strspn(text, "0123456789") == len)
        return find_id(b, text, len, t, why);
    return find_text(b, text, len, t, why);
}
