#include "tests/support/docs.h"

#include "data/base/file.h"

#include <check.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

struct why docs_why;

char *docs_path(const char *dir, const char *name)
{
    static char path[2][PATH_MAX];
    static int  turn;

    return path_join(path[turn ^= 1], PATH_MAX, dir, name);
}

void docs_put(const char *path, const void *bytes, size_t len)
{
    FILE *f = fopen(path, "wb");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, len, f), len);
    ck_assert_int_eq(fclose(f), 0);
}

void docs_put_text(const char *path, const char *text)
{
    docs_put(path, text, strlen(text));
}

static void add_piece(struct docs *d, const struct text_piece *p)
{
    ck_assert_uint_ge(p->len, 1);
    ck_assert_uint_le(p->len, TEXT_PIECE);
    if (!p->last && p->bytes[p->len - 1] != '\n')
        ck_assert_ptr_null(memchr(p->bytes, '\n', p->len));
    d->bytes = realloc(d->bytes, d->len + p->len);
    memcpy(d->bytes + d->len, p->bytes, p->len);
    d->len += p->len;
    d->invalid += text_invalid(p->bytes, p->len);
    d->pieces++;
    if (p->last) {
        ck_assert_int_lt(d->n, COUNT(d->end));
        d->end[d->n++] = d->len;
    }
}

/* What holds at the end of every good stream. */
static void check_end(struct text *t, const struct docs *d, const char *path)
{
    struct text_piece p;

    ck_assert(d->n > 0 && d->end[d->n - 1] == d->len);
    if (strcmp(path, "-"))
        ck_assert_uint_eq(text_consumed(t), text_total(t));
    ck_assert_int_eq(text_next(t, &p, &docs_why), 0);
    ck_assert_ptr_null(p.bytes);
}

int docs_read(struct docs *d, const char *path, const char *field)
{
    struct text      *t;
    struct text_piece p;
    int               rc = text_open(&t, &path, 1, field, &docs_why);

    *d = (struct docs){0};
    if (rc) {
        ck_assert_ptr_null(t);
        return rc;
    }
    while (!(rc = text_next(t, &p, &docs_why)) && p.bytes)
        add_piece(d, &p);
    if (!rc)
        check_end(t, d, path);
    text_close(t);
    return rc;
}

void docs_assert(const char *path, const char *field, const char *want, size_t len)
{
    struct docs d;
    int         rc = docs_read(&d, path, field);
    char       *got = malloc(d.len + 2 * COUNT(d.end)), *p = got;

    ck_assert_msg(rc == 0, "%s", docs_why.line);
    for (int i = 0; i < d.n; i++) {
        size_t from = i ? d.end[i - 1] : 0, n = d.end[i] - from;

        *p++ = '[';
        p = (char *)memcpy(p, d.bytes + from, n) + n;
        *p++ = ']';
    }
    ck_assert_msg((size_t)(p - got) == len && !memcmp(got, want, len),
                  "got %.*s, wanted %.*s", (int)(p - got), got, (int)len, want);
    free(got);
    free(d.bytes);
}

void docs_refused(const char *path, const char *field, const char *says)
{
    const char *name = strcmp(path, "-") ? path : "stdin";
    struct docs d;
    int         rc = docs_read(&d, path, field);

    free(d.bytes);
    ck_assert_msg(rc == FAIL_INPUT, "code %d, wanted: %s", rc, says);
    ck_assert_msg(strstr(docs_why.line, says) && strstr(docs_why.line, name),
                  "'%s' and the path are not in: %s", says, docs_why.line);
}

size_t docs_pack(char *to, size_t cap, const void *bytes, size_t len)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    size_t     n;

    ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
    n = ZSTD_compress2(c, to, cap, bytes, len);
    ck_assert(!ZSTD_isError(n));
    ZSTD_freeCCtx(c);
    return n;
}

void docs_babble(struct rng *r, char *s, size_t n, uint64_t line)
{
    static const char *const chars[] = {"a", "b", " ", "\xc3\xa9", "\xe2\x82\xac",
                                        "\xf0\x9f\xa6\x8a", "\x80", "\xe2\x82", "\xff"};

    for (size_t i = 0; i < n;) {
        const char *c = rng_below(r, line) ? chars[rng_below(r, COUNT(chars))] : "\n";
        size_t      len = strlen(c) < n - i ? strlen(c) : n - i;

        memcpy(s + i, c, len);
        i += len;
    }
}
