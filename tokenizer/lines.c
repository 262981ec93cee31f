#include "tokenizer/lines.h"

#include "data/base/utf8.h"
#include "tokenizer/model_form.h"

#include <stdlib.h>
#include <string.h>

enum {
    LINE_BYTES  = 4000,         // the trainer skips lines above 4192
    LINES_BYTES = 32 << 20,
    CODEPOINTS  = 0x110000,
};

static inline int carried(const char *s, size_t n)
{
    unsigned char c = (unsigned char)*s;
    int           len = 1;

    if (c < 0x80)
        return c != 0 && c != '\t' && c != '\n';
    len = utf8_length(s, n);
    return len == 3 && (!memcmp(s, "\u2581", 3) || !memcmp(s, "\u2585", 3)) ? 0 : len;
}

size_t carried_run(const char *s, size_t n, size_t max, bool by_word)
{
    bool   word = false;
    size_t i = 0;

    for (int len; i < n && i < max && (len = carried(s + i, n - i)); i += (size_t)len) {
        if (by_word && word && s[i] == ' ')
            break;
        word = word || s[i] != ' ';
    }
    return i;
}

/* ---- lines ------------------------------------------------------------------------- */

struct buffer {
    char  *bytes;
    size_t n, cap;
};

static bool add_line(struct buffer *b, const char *s, size_t n)
{
    if (b->cap - b->n <= n) {
        size_t cap = (b->cap + n + 1) * 2;
        char  *grown = realloc(b->bytes, cap);

        if (!grown)
            return false;
        b->bytes = grown;
        b->cap = cap;
    }
    memcpy(b->bytes + b->n, s, n);
    b->bytes[b->n + n] = '\n';
    b->n += n + 1;
    return true;
}

static bool add_lines(struct buffer *b, const char *s, size_t len)
{
    for (size_t n; len; s += n, len -= n) {
        n = carried_run(s, len, LINE_BYTES, false);
        if (n >= LINE_BYTES) {
            const char *space = memrchr(s + 1, ' ', n - 1);

            n = space ? (size_t)(space - s) : n;
        }
        if (n && !add_line(b, s, n))
            return false;
        n += n == 0;
    }
    return true;
}

/* ---- rare characters --------------------------------------------------------------- */

struct count {
    uint32_t codepoint, n;
};

static int most_first(const void *a, const void *b)
{
    const struct count *p = a, *q = b;

    return p->n != q->n ? (p->n < q->n) - (p->n > q->n)
                        : (p->codepoint > q->codepoint) - (p->codepoint < q->codepoint);
}

/* The code point of the valid character at s, and its length. */
static uint32_t codepoint_at(const char *s, int *len)
{
    uint32_t c = (unsigned char)*s;

    *len = utf8_length(s, 4);
    if (*len > 1)
        c &= 0x7f >> *len;
    for (int i = 1; i < *len; i++)
        c = c << 6 | ((unsigned char)s[i] & 0x3f);
    return c;
}

/* Zero the counts of rare characters: those beyond 99.95 % of the text, and those whose
 * pieces would take more than half of the vocabulary's places. table and sorted
 * (CODEPOINTS). */
static void forget_rare(struct count *table, struct count *sorted, size_t places)
{
    size_t n = 0;
    double all = 0, kept = 0;

    for (uint32_t c = 0; c < CODEPOINTS; c++)
        if (table[c].n) {
            sorted[n++] = table[c];
            all += table[c].n;
        }
    qsort(sorted, n, sizeof *sorted, most_first);
    for (size_t i = 0; i < n; i++) {
        if (i >= places / 2 || kept >= 0.9995 * all)
            table[sorted[i].codepoint].n = 0;
        kept += sorted[i].n;
    }
}

/* End the lines at rare characters; byte pieces must do for them. */
static bool drop_rare(struct buffer *b, size_t places)
{
    struct count *table = calloc(2 * CODEPOINTS, sizeof *table);
    int           len;

    if (!table)
        return false;
    for (uint32_t c = 0; c < CODEPOINTS; c++)
        table[c].codepoint = c;
    for (size_t i = 0; i < b->n; i += (size_t)len) {
        uint32_t c = codepoint_at(b->bytes + i, &len);

        table[c].n += c != '\n';
    }
    forget_rare(table, table + CODEPOINTS, places);
    for (size_t i = 0; i < b->n; i += (size_t)len)
        if (!table[codepoint_at(b->bytes + i, &len)].n)
            memset(b->bytes + i, '\n', (size_t)len);
    free(table);
    return true;
}

enum fail lines_read(char **lines, size_t *len, int vocab, tokenizer_next next,
                     void *user, struct why *why)
{
    struct buffer b = {0};
    bool          ok = true;
    size_t        n;

    for (const char *s; ok && b.n < LINES_BYTES && (s = next(user, &n));)
        ok = add_lines(&b, s, n);
    ok = ok && (b.n == 0 || drop_rare(&b, (size_t)vocab - MODEL_NORMAL0));
    if (!ok || b.n == 0)
        free(b.bytes);
    *lines = ok && b.n ? b.bytes : NULL;
    *len = b.n;
    if (!ok)
        return fail(why, FAIL_MEMORY, "out of memory for the tokenizer's text");
    return b.n ? 0
               : fail(why, FAIL_INPUT,
                      "tokenizer: no text to train a tokenizer on; give more text "
                      "or tokenizer=bytes");
}
