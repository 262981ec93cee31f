#include "data/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

bool order2_open(struct order2 *o)
{
    *o = (struct order2){.count = calloc(1 << 24, sizeof *o->count)};
    return o->count != NULL;
}

void order2_add(struct order2 *o, const char *bytes, size_t len, bool document_ends)
{
    const unsigned char *s = (const unsigned char *)bytes;
    uint32_t             context = o->context;
    size_t               i = 0;

    for (; i < len && o->seen < 2; i++, o->seen++)
        context = (context << 8 | s[i]) & 0xffff;
    if (o->total + (len - i) <= UINT32_MAX) {
        o->total += len - i;
        for (; i < len; i++) {
            uint32_t triple = context << 8 | s[i];

            o->count[triple]++;
            context = triple & 0xffff;
        }
        o->context = context;
    } else {
        o->seen = 0;
    }
    if (document_ends)
        o->seen = 0;
}

double order2_bits(const struct order2 *o)
{
    double bits = 0;

    for (size_t context = 0; context < 1 << 16; context++) {
        const uint32_t *n = o->count + (context << 8);
        uint64_t        sum = 0;

        for (int c = 0; c < 256; c++)
            if (n[c]) {
                sum += n[c];
                bits -= n[c] * log2(n[c]);
            }
        if (sum)
            bits += (double)sum * log2((double)sum);
    }
    return o->total ? fmax(bits, 0) / (double)o->total : 0;
}

void order2_close(struct order2 *o)
{
    free(o->count);
    *o = (struct order2){0};
}

bool yardstick_open(struct yardstick *y)
{
    *y = (struct yardstick){.text = malloc(YARDSTICK), .stories = true};
    return y->text != NULL;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void yardstick_add(struct yardstick *y, const char *bytes, size_t len, bool document_ends)
{
    size_t keep = smaller(len, YARDSTICK - y->len);
    double bits;

    memcpy(y->text + y->len, bytes, keep);
    y->len += keep;
    y->total += len;
    if (!y->stories)
        return;
    if (y->story_len < sizeof y->story)
        memcpy(y->story + y->story_len, bytes, smaller(len, sizeof y->story - y->story_len));
    y->story_len += len;
    if (!document_ends)
        return;
    y->stories = y->story_len <= sizeof y->story
        && stories_floor(y->story, y->story_len, &bits);
    if (y->stories)
        y->bits += bits;
    y->story_len = 0;
}

double yardstick_floor(const struct yardstick *y)
{
    return y->stories && y->total ? y->bits / (double)y->total : 0;
}

void yardstick_close(struct yardstick *y)
{
    free(y->text);
    *y = (struct yardstick){0};
}

/* Compress one part of the text; the last ends the frame. Returns the bytes that came out, or
 * an error of zstd. */
static size_t pack(ZSTD_CCtx *zstd, const char *text, size_t len, bool last, void *room,
                   size_t cap)
{
    ZSTD_EndDirective mode = last ? ZSTD_e_end : ZSTD_e_continue;
    ZSTD_inBuffer     in = {text, len, 0};
    size_t            packed = 0, left;

    do {
        ZSTD_outBuffer out = {room, cap, 0};

        left = ZSTD_compressStream2(zstd, &out, &in, mode);
        if (ZSTD_isError(left))
            return left;
        packed += out.pos;
    } while (last ? left > 0 : in.pos < in.size);
    return packed;
}

double yardstick_zstd(const struct yardstick *y, void (*progress)(void *user, double done),
                      void *user)
{
    enum { PART = 1 << 18 };

    char      *room = malloc(PART);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    double     bits = room && zstd ? 0 : -1;

    if (bits == 0) {
        ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, 19);
        ZSTD_CCtx_setPledgedSrcSize(zstd, y->len);
    }
    for (size_t at = 0; at < y->len && bits >= 0; at += PART) {
        size_t n = smaller(y->len - at, PART);
        size_t packed = pack(zstd, y->text + at, n, at + n == y->len, room, PART);

        bits = ZSTD_isError(packed) ? -1 : bits + 8 * (double)packed;
        progress(user, (double)(at + n) / (double)y->len);
    }
    ZSTD_freeCCtx(zstd);
    free(room);
    return bits > 0 ? bits / (double)y->len : bits;
}
