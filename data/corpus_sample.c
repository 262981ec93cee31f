#include "data/corpus_sample.h"

#include <stdlib.h>
#include <string.h>

size_t utf8_floor(const char *bytes, size_t at)
{
    for (size_t back = 0; back < 4 && back <= at; back++)
        if (((unsigned char)bytes[at - back] & 0xc0) != 0x80)
            return at - back;
    return at;
}

size_t text_slice(const char *bytes, size_t len, size_t max)
{
    if (len <= max)
        return len;

    const char *newline = memrchr(bytes, '\n', max);

    return newline ? (size_t)(newline - bytes) + 1 : utf8_floor(bytes, max);
}

static int kept(const struct sample *s, uint64_t pos)
{
    return pos / SAMPLE_STRETCH % s->stride == 0;
}

/* Double the stride until the sample is below its size. */
static void thin(struct sample *s)
{
    while (s->used > SAMPLE_MAX) {
        size_t n = 0, used = 0;

        s->stride *= 2;
        for (size_t i = 0; i < s->n; i++) {
            struct sample_slice slice = s->slice[i];

            if (!kept(s, slice.pos))
                continue;
            memmove(s->text + used, s->text + slice.at, slice.len);
            slice.at = used;
            used += slice.len;
            s->slice[n++] = slice;
        }
        s->n = n;
        s->used = used;
    }
}

/* Room for one more slice of the largest size. */
static int make_room(struct sample *s)
{
    if (!s->text) {
        s->text = malloc(SAMPLE_MAX + SAMPLE_STRETCH);
        s->stride = 1;
    }
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 256;
        void  *slice = realloc(s->slice, cap * sizeof *s->slice);

        if (!slice)
            return -1;
        s->slice = slice;
        s->cap = cap;
    }
    return s->text ? 0 : -1;
}

int sample_add(struct sample *s, uint64_t pos, const char *bytes, size_t len)
{
    if (make_room(s))
        return -1;
    if (!len || !kept(s, pos))
        return 0;
    memcpy(s->text + s->used, bytes, len);
    s->slice[s->n++] = (struct sample_slice){pos, s->used, len};
    s->used += len;
    thin(s);
    return 0;
}

void sample_cut(struct sample *s, uint64_t pos)
{
    while (s->n && s->slice[s->n - 1].pos >= pos)
        s->n--;
    if (!s->n)
        return;

    struct sample_slice *last = &s->slice[s->n - 1];

    if (last->pos + last->len > pos)
        last->len = utf8_floor(s->text + last->at, (size_t)(pos - last->pos));
}

void sample_free(struct sample *s)
{
    free(s->text);
    free(s->slice);
    *s = (struct sample){0};
}
