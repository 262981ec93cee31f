#include "data/yardstick.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static const double weight = 4;     // of the order below

bool order2_open(struct order2 *o)
{
    memset(o, 0, sizeof *o);
    o->abc = calloc(1 << 24, sizeof *o->abc);
    return o->abc != NULL;
}

void order2_learn(struct order2 *o, const char *bytes, size_t len, bool document_ends)
{
    const unsigned char *s = (const unsigned char *)bytes;

    if (len <= UINT32_MAX - o->n) {
        o->n += (uint32_t)len;
        for (size_t i = 0; i < len; i++) {
            uint32_t triple = o->context << 8 | s[i];

            o->abc[triple]++;
            o->context = triple & 0xffff;
        }
    }
    if (document_ends)
        o->context = 0;
}

static void sum_counts(struct order2 *o)
{
    for (uint32_t i = 0; i < 1 << 24; i++) {
        uint32_t n = o->abc[i];

        if (!n)
            continue;
        o->ab[i >> 8] += n;
        o->bc[i & 0xffff] += n;
        o->b[i >> 8 & 0xff] += n;
        o->c[i & 0xff] += n;
    }
    o->context = 0;
    o->summed = true;
}

void order2_measure(struct order2 *o, const char *bytes, size_t len, bool document_ends)
{
    const unsigned char *s = (const unsigned char *)bytes;

    if (!o->summed)
        sum_counts(o);
    for (size_t i = 0; i < len; i++) {
        uint32_t triple = o->context << 8 | s[i], pair = triple & 0xffff;
        double   p = (o->c[s[i]] + weight / 256) / (o->n + weight);

        p = (o->bc[pair] + weight * p) / (o->b[pair >> 8] + weight);
        p = (o->abc[triple] + weight * p) / (o->ab[o->context] + weight);
        o->bits -= log2(p);
        o->context = pair;
    }
    o->measured += len;
    if (document_ends)
        o->context = 0;
}

double order2_bits(const struct order2 *o)
{
    return o->measured ? o->bits / (double)o->measured : 0;
}

void order2_record(struct order2 *o, struct record *r)
{
    uint32_t *abc = o->abc;

    record_bytes(r, o, sizeof *o);
    o->abc = abc;
    record_bytes(r, abc, (1 << 24) * sizeof *abc);
}

void order2_close(struct order2 *o)
{
    free(o->abc);
    o->abc = NULL;
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
        memcpy(y->story + y->story_len, bytes,
               smaller(len, sizeof y->story - y->story_len));
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

void yardstick_record(struct yardstick *y, struct record *r)
{
    char *text = y->text;

    record_bytes(r, y, sizeof *y);
    y->text = text;
    if (y->len > YARDSTICK)
        record_refuse(r);
    else
        record_bytes(r, text, y->len);
}

void yardstick_close(struct yardstick *y)
{
    free(y->text);
    *y = (struct yardstick){0};
}

/* Compress one part of the text; the last ends the frame. Returns the bytes that came
 * out, or an error of zstd. */
static size_t pack(ZSTD_CCtx *zstd, const char *text, size_t len, bool last, void *to,
                   size_t cap)
{
    ZSTD_EndDirective mode = last ? ZSTD_e_end : ZSTD_e_continue;
    ZSTD_inBuffer     in = {text, len, 0};
    size_t            packed = 0, left;

    do {
        ZSTD_outBuffer out = {to, cap, 0};

        left = ZSTD_compressStream2(zstd, &out, &in, mode);
        if (ZSTD_isError(left))
            return left;
        packed += out.pos;
    } while (last ? left > 0 : in.pos < in.size);
    return packed;
}

double yardstick_zstd(const struct yardstick *y,
                      void (*progress)(void *user, double done), void *user)
{
    enum { PART = 1 << 18 };

    char      *to = malloc(PART);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    double     bits = to && zstd ? 0 : -1;

    if (bits == 0) {
        ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, 19);
        ZSTD_CCtx_setPledgedSrcSize(zstd, y->len);
    }
    for (size_t at = 0; at < y->len && bits >= 0; at += PART) {
        size_t n = smaller(y->len - at, PART);
        size_t packed = pack(zstd, y->text + at, n, at + n == y->len, to, PART);

        bits = ZSTD_isError(packed) ? -1 : bits + 8 * (double)packed;
        progress(user, (double)(at + n) / (double)y->len);
    }
    ZSTD_freeCCtx(zstd);
    free(to);
    return bits > 0 ? bits / (double)y->len : bits;
}
