#include "tokenizer/model_form.h"

#include "data/base/memory.h"
#include "data/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };               // wire types
enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6 };                // piece types

/* ---- the wire format: fields are a varint (number * 8 + wire type) and a value ----- */

struct wire {
    const unsigned char *at, *end;
};

struct field {
    uint64_t    number, value;      // value: of VARINT, FIXED32, FIXED64
    int         type;
    struct wire bytes;              // of BYTES
};

static bool read_varint(struct wire *w, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; shift < 64 && w->at < w->end; shift += 7) {
        unsigned char c = *w->at++;

        if (shift == 63 && c > 1)
            return false;
        *v |= (uint64_t)(c & 0x7f) << shift;
        if (c < 0x80)
            return true;
    }
    return false;
}

static bool read_fixed(struct wire *w, int size, uint64_t *v)
{
    if (w->end - w->at < size)
        return false;
    *v = 0;
    for (int i = 0; i < size; i++)
        *v |= (uint64_t)*w->at++ << 8 * i;
    return true;
}

static bool read_bytes(struct wire *w, struct wire *bytes)
{
    uint64_t len;

    if (!read_varint(w, &len) || len > (uint64_t)(w->end - w->at))
        return false;
    *bytes = (struct wire){w->at, w->at + len};
    w->at += len;
    return true;
}

static bool read_field(struct wire *w, struct field *f)
{
    uint64_t key;

    if (!read_varint(w, &key) || key >> 3 == 0 || key > UINT32_MAX)
        return false;
    f->number = key >> 3;
    f->type = key & 7;
    switch (f->type) {
    case VARINT:  return read_varint(w, &f->value);
    case FIXED64: return read_fixed(w, 8, &f->value);
    case BYTES:   return read_bytes(w, &f->bytes);
    case FIXED32: return read_fixed(w, 4, &f->value);
    default:      return false;
    }
}

/* ---- the messages; a field met twice counts the last time, as in protobuf ---------- */

static bool utf8_valid(const char *s, size_t n)
{
    for (int len; n; s += len, n -= len)
        if (!(len = utf8_length(s, n)))
            return false;
    return true;
}

static enum fail refuse_unless(bool sound)
{
    return sound ? FAIL_NONE : FAIL_INPUT;
}

static bool read_piece(struct wire w, struct model_piece *p)
{
    *p = (struct model_piece){.type = NORMAL};
    while (w.at < w.end) {
        struct field f;

        if (!read_field(&w, &f))
            return false;
        if (f.number == 1 && f.type == BYTES) {
            p->text = (const char *)f.bytes.at;
            p->len = f.bytes.end - f.bytes.at;
        } else if (f.number == 2 && f.type == FIXED32) {
            memcpy(&p->score, &(uint32_t){(uint32_t)f.value}, sizeof p->score);
        } else if (f.number == 3 && f.type == VARINT) {
            p->type = f.value;
        } else {
            return false;
        }
    }
    return p->len > 0 && p->len <= MODEL_PIECE_BYTES && utf8_valid(p->text, p->len) &&
           fabsf(p->score) < 1e7f;
}

/* The numbers among a spec's fields below `max`, into value; others are skipped. False
 * when the field numbered `empty` is not. */
static bool read_spec(struct wire w, uint64_t *value, uint64_t max, uint64_t empty)
{
    while (w.at < w.end) {
        struct field f;

        if (!read_field(&w, &f))
            return false;
        if (f.number == empty && (f.type != BYTES || f.bytes.at < f.bytes.end))
            return false;
        if (f.number < max && f.type == VARINT)
            value[f.number] = f.value;
    }
    return true;
}

static enum fail add_piece(struct model_form *f, size_t *cap, struct wire w)
{
    if (f->n == *cap) {
        size_t              more = *cap ? *cap * 2 : 1024;
        struct model_piece *grown = realloc(f->piece, more * sizeof *grown);

        if (!grown)
            return FAIL_MEMORY;
        f->piece = grown;
        *cap = more;
    }
    return refuse_unless(f->n < MODEL_PIECES && read_piece(w, &f->piece[f->n++]));
}

static enum fail read_model(struct model_form *f, struct wire w)
{
    uint64_t trainer[36] = {[3] = 1};
    uint64_t normalizer[6] = {[3] = 1, [4] = 1, [5] = 1};
    size_t   cap = 0;

    while (w.at < w.end) {
        struct field x;
        enum fail    err = FAIL_INPUT;

        if (!read_field(&w, &x) || x.type != BYTES)
            return err;
        if (x.number == 1)
            err = add_piece(f, &cap, x.bytes);
        else if (x.number == 2)
            err = refuse_unless(read_spec(x.bytes, trainer, 36, 0));
        else if (x.number == 3)
            err = refuse_unless(read_spec(x.bytes, normalizer, 6, 2));
        if (err)
            return err;
    }
    f->bpe = trainer[3] == 2;
    f->blank = normalizer[3] != 0;
    return refuse_unless((trainer[3] == 1 || trainer[3] == 2) && trainer[35] == 1 &&
                         normalizer[4] == 0 && normalizer[5] == 1);
}

/* ---- the whole --------------------------------------------------------------------- */

static uint64_t type_of(size_t id)
{
    return id == 0              ? UNKNOWN
           : id < MODEL_BYTE0   ? CONTROL
           : id < MODEL_NORMAL0 ? BYTE
                                : NORMAL;
}

static bool well_ordered(const struct model_form *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct model_piece *p = &f->piece[i];
        char                      name[8];

        if (p->type != type_of(i))
            return false;
        if (p->type != BYTE)
            continue;
        snprintf(name, sizeof name, "<0x%02X>", (unsigned char)(i - MODEL_BYTE0));
        if (p->len != 6 || memcmp(p->text, name, 6))
            return false;
    }
    return f->n >= MODEL_NORMAL0;
}

static int by_text(const void *a, const void *b)
{
    const struct model_piece *p = a, *q = b;
    size_t                    common = p->len < q->len ? p->len : q->len;
    int                       d = memcmp(p->text, q->text, common);

    return d ? d : (p->len > q->len) - (p->len < q->len);
}

static enum fail all_different(const struct model_form *f)
{
    struct model_piece *sorted = malloc(f->n * sizeof *sorted);
    bool                ok = true;

    if (!sorted)
        return FAIL_MEMORY;
    memcpy(sorted, f->piece, f->n * sizeof *sorted);
    qsort(sorted, f->n, sizeof *sorted, by_text);
    for (size_t i = 1; ok && i < f->n; i++)
        ok = by_text(&sorted[i - 1], &sorted[i]) != 0;
    free(sorted);
    return refuse_unless(ok);
}

enum fail model_parse_foreign(struct model_form *f, const void *model, size_t len)
{
    const unsigned char *at = model;
    enum fail            err;

    *f = (struct model_form){0};
    err = read_model(f, (struct wire){at, at + len});
    if (!err)
        err = refuse_unless(well_ordered(f));
    if (!err)
        err = all_different(f);
    if (!err)
        return 0;
    free(f->piece);
    *f = (struct model_form){0};
    return err;
}

enum fail model_parse(struct model_form *f, const void *model, size_t len)
{
    enum fail err = model_parse_foreign(f, model, len);

    if (err || !f->blank)
        return err;
    free(f->piece);
    *f = (struct model_form){0};
    return FAIL_INPUT;
}

/* ---- writing ----------------------------------------------------------------------- */

static void put_varint(FILE *to, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        putc((int)(v & 0x7f) | 0x80, to);
    putc((int)v, to);
}

static void put_number(FILE *to, int field, uint64_t v)
{
    put_varint(to, (uint64_t)field << 3 | VARINT);
    put_varint(to, v);
}

static void put_bytes(FILE *to, int field, const void *bytes, size_t len)
{
    put_varint(to, (uint64_t)field << 3 | BYTES);
    put_varint(to, len);
    fwrite(bytes, 1, len, to);
}

/* A piece has at most MODEL_PIECE_BYTES of text and 16 around it. */
static void put_piece(FILE *to, const struct model_piece *p)
{
    char  buf[MODEL_PIECE_BYTES + 64];
    FILE *in = fmemopen(buf, sizeof buf, "w");
    long  n;

    if (!in)
        return;                 // the result will not parse
    put_bytes(in, 1, p->text, p->len);
    put_varint(in, 2 << 3 | FIXED32);
    fwrite(&p->score, sizeof p->score, 1, in);
    put_number(in, 3, p->type);
    n = ftell(in);
    fclose(in);
    put_bytes(to, 1, buf, (size_t)n);
}

/* trainer_spec: model_type, byte_fallback; normalizer_spec: no dummy prefix, blanks kept
 * and escaped. */
static void put_specs(FILE *to, bool bpe)
{
    const unsigned char trainer[] = {3 << 3, bpe ? 2 : 1, 0x98, 0x02, 1};
    const unsigned char normalizer[] = {1 << 3 | BYTES, 8, 'i', 'd', 'e', 'n', 't', 'i',
                                        't', 'y', 3 << 3, 0, 4 << 3, 0, 5 << 3, 1};

    put_bytes(to, 2, trainer, sizeof trainer);
    put_bytes(to, 3, normalizer, sizeof normalizer);
}

enum fail model_write(const struct model_form *f, void **model, size_t *len)
{
    struct model_form check;
    char             *bytes = NULL;
    FILE             *to = memory_stream(&bytes, len);
    enum fail         err = FAIL_MEMORY;

    *model = NULL;
    if (!to)
        return err;
    for (size_t i = 0; i < f->n; i++)
        put_piece(to, &f->piece[i]);
    put_specs(to, f->bpe);
    if (!fclose(to))
        err = model_parse(&check, bytes, *len);
    if (err) {
        free(bytes);
        return err;
    }
    free(check.piece);
    *model = bytes;
    return FAIL_NONE;
}
