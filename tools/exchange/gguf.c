#include "tools/exchange/gguf.h"

#include "data/base/file.h"
#include "data/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 32, VERSION = 3, KEYS_MAX = 1 << 16, TENSORS_MAX = 1 << 20 };

/* ggml's numbers of the types that weft has. */
static const struct {
    uint32_t    number;
    enum packed type;
} types[] = {{0, PACKED_F32}, {1, PACKED_F16}, {8, PACKED_Q8_0}, {30, PACKED_BF16}};
enum { N_TYPES = sizeof types / sizeof *types };

/* Bytes of a value; 0: it has no fixed size. */
static const size_t value_size[GGUF_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* ---- reading ----------------------------------------------------------------------- */

struct reader {
    const unsigned char *at, *end;
};

static bool read_bytes(struct reader *r, void *to, size_t n)
{
    if ((size_t)(r->end - r->at) < n)
        return false;
    memcpy(to, r->at, n);
    r->at += n;
    return true;
}

static bool read_string(struct reader *r, const char **text, size_t *len)
{
    uint64_t n;

    if (!read_bytes(r, &n, 8) || n > (uint64_t)(r->end - r->at))
        return false;
    *text = (const char *)r->at;
    *len = (size_t)n;
    r->at += n;
    return true;
}

/* Pass over n values of a type. */
static bool skip_values(struct reader *r, enum gguf_type type, uint64_t n)
{
    const char *text;
    size_t      len;

    if (value_size[type]) {
        if (n > (uint64_t)(r->end - r->at) / value_size[type])
            return false;
        r->at += n * value_size[type];
        return true;
    }
    for (uint64_t i = 0; i < n; i++)
        if (type != GGUF_STRING || !read_string(r, &text, &len))
            return false;
    return true;
}

static bool read_type(struct reader *r, enum gguf_type *type)
{
    uint32_t number;

    if (!read_bytes(r, &number, 4) || number >= GGUF_TYPES)
        return false;
    *type = (enum gguf_type)number;
    return true;
}

static bool read_key(struct reader *r, struct gguf_key *k)
{
    *k = (struct gguf_key){.n = 1};
    if (!read_string(r, &k->name, &k->name_len) || !read_type(r, &k->type))
        return false;
    k->array = k->type == GGUF_ARRAY;
    if (k->array && (!read_type(r, &k->type) || !read_bytes(r, &k->n, 8) ||
                     k->type == GGUF_ARRAY))
        return false;
    k->at = r->at;
    return skip_values(r, k->type, k->n);
}

static bool known_type(uint32_t number, enum packed *type)
{
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].number == number) {
            *type = types[i].type;
            return true;
        }
    return false;
}

/* The sizes, columns first, as a shape, rows first; NULL, or what is wrong. */
static const char *read_shape(struct reader *r, struct foreign *t)
{
    uint32_t dims;
    uint64_t size[TENSOR_DIMS] = {0};

    if (!read_bytes(r, &dims, 4) || dims < 1 || dims > TENSOR_DIMS)
        return "it has not 1 to 4 dimensions";
    if (!read_bytes(r, size, 8 * (size_t)dims))
        return "truncated";
    t->dims = (int)dims;
    t->n = 1;
    for (uint32_t i = 0; i < dims; i++) {
        if (!size[i] || size[i] > INT64_MAX ||
            __builtin_mul_overflow(t->n, (size_t)size[i], &t->n))
            return "its sizes are impossible";
        t->shape[dims - 1 - i] = (int64_t)size[i];
    }
    return t->n > SIZE_MAX / 8 ? "its sizes are impossible" : NULL;
}

/* data is left as an offset. */
static const char *read_tensor(struct reader *r, struct foreign *t, uint64_t *offset)
{
    const char *name, *bad;
    size_t      len;
    uint32_t    type;

    if (!read_string(r, &name, &len) || !len || len >= TENSOR_NAME)
        return "its name is missing or too long";
    memcpy(t->name, name, len);
    bad = read_shape(r, t);
    if (bad)
        return bad;
    if (!read_bytes(r, &type, 4) || !read_bytes(r, offset, 8))
        return "truncated";
    if (!known_type(type, &t->type))
        return "its numbers are of another type than F32, F16, BF16 and Q8_0; convert it "
               "to one of these with llama-quantize";
    if (t->type == PACKED_Q8_0 && t->shape[t->dims - 1] % Q8_BLOCK)
        return "its rows are no multiple of 32";
    return NULL;
}

static size_t padded(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Put the tensors at their places; each follows the one before, the last ends the file,
 * but for padding. */
static const char *place(struct foreigners *f, const uint64_t *offset,
                         const unsigned char *data, size_t len, size_t align)
{
    size_t at = 0;

    for (int i = 0; i < f->n; i++) {
        size_t bytes = packed_bytes(f->tensor[i].type, f->tensor[i].n);

        if (offset[i] != at || at > len || bytes > len - at)
            return "a tensor's data is not where it must be, or outside the file";
        f->tensor[i].data = data + at;
        at = padded(at + bytes, align);
    }
    return len > at ? "bytes after the last tensor" : NULL;
}

static const char *read_tensors(struct gguf *g, struct reader *r, uint64_t n,
                                const unsigned char *begin)
{
    uint64_t   *offset = calloc(n + 1, sizeof *offset);
    double      align = gguf_number(gguf_find(g, "general.alignment"), 0, ALIGNMENT);
    size_t      by = align >= 1 && align <= 4096 ? (size_t)align : 0, at;
    const char *bad = offset ? NULL : "out of memory";

    if (!bad && (!by || by % 8))
        bad = "its alignment is impossible";
    for (uint64_t i = 0; i < n && !bad; i++)
        bad = read_tensor(r, &g->tensors.tensor[g->tensors.n++], &offset[i]);
    at = bad ? 0 : padded((size_t)(r->at - begin), by);
    if (!bad && at > (size_t)(r->end - begin))
        bad = "truncated";
    if (!bad)
        bad = place(&g->tensors, offset, begin + at, (size_t)(r->end - begin) - at, by);
    free(offset);
    return bad;
}

static const char *read_all(struct gguf *g, struct reader *r)
{
    const unsigned char *begin = r->at;
    uint32_t             head[2];
    uint64_t             n, keys;

    if (!read_bytes(r, head, 8) || memcmp(head, "GGUF", 4))
        return "not a GGUF file";
    if (head[1] != VERSION && head[1] != 2)
        return "of another version of GGUF; 2 and 3 are read";
    if (!read_bytes(r, &n, 8) || !read_bytes(r, &keys, 8) || keys > KEYS_MAX ||
        n > TENSORS_MAX || keys > (uint64_t)(r->end - r->at) / 12 ||
        n > (uint64_t)(r->end - r->at) / 24)
        return "truncated, or its counts are impossible";
    g->key = calloc(keys + 1, sizeof *g->key);
    g->tensors.tensor = calloc(n + 1, sizeof *g->tensors.tensor);
    if (!g->key || !g->tensors.tensor)
        return "out of memory";
    for (uint64_t i = 0; i < keys; i++, g->n_keys++)
        if (!read_key(r, &g->key[i]))
            return "a key is damaged or truncated";
    return read_tensors(g, r, n, begin);
}

enum fail gguf_parse(struct gguf *g, const unsigned char *bytes, size_t len,
                     const char *where, struct why *why)
{
    struct reader r = {bytes, bytes + len};
    const char   *bad;
    char          last[TENSOR_NAME + 16] = "";

    *g = (struct gguf){0};
    bad = read_all(g, &r);
    if (!bad)
        return FAIL_NONE;
    if (g->tensors.n)
        snprintf(last, sizeof last, " (tensor %s)",
                 g->tensors.tensor[g->tensors.n - 1].name);
    gguf_close(g);
    return fail(why, strcmp(bad, "out of memory") ? FAIL_INPUT : FAIL_MEMORY, "%s: %s%s",
                where, bad, last);
}

void gguf_close(struct gguf *g)
{
    free(g->key);
    foreign_free(&g->tensors);
    *g = (struct gguf){0};
}

const struct gguf_key *gguf_find(const struct gguf *g, const char *name)
{
    size_t len = strlen(name);

    for (int i = 0; i < g->n_keys; i++)
        if (g->key[i].name_len == len && !memcmp(g->key[i].name, name, len))
            return &g->key[i];
    return NULL;
}

#define NUMBER(type)                                      \
    {                                                     \
        type v;                                           \
        memcpy(&v, k->at + i * sizeof v, sizeof v);       \
        return (double)v;                                 \
    }

double gguf_number(const struct gguf_key *k, uint64_t i, double otherwise)
{
    if (!k || i >= k->n)
        return otherwise;
    switch (k->type) {
    case GGUF_U8:
    case GGUF_BOOL: NUMBER(uint8_t)
    case GGUF_I8:   NUMBER(int8_t)
    case GGUF_U16:  NUMBER(uint16_t)
    case GGUF_I16:  NUMBER(int16_t)
    case GGUF_U32:  NUMBER(uint32_t)
    case GGUF_I32:  NUMBER(int32_t)
    case GGUF_F32:  NUMBER(float)
    case GGUF_U64:  NUMBER(uint64_t)
    case GGUF_I64:  NUMBER(int64_t)
    case GGUF_F64:  NUMBER(double)
    default:        return otherwise;
    }
}

const char *gguf_string(const struct gguf_key *k, const unsigned char **at, size_t *len)
{
    uint64_t n;

    *len = 0;
    if (!k || k->type != GGUF_STRING || !k->n)
        return NULL;
    if (!*at)
        *at = k->at;
    memcpy(&n, *at, 8);                         // gguf_parse has walked them
    *len = (size_t)n;
    *at += 8 + n;
    return (const char *)*at - n;
}

/* ---- writing ----------------------------------------------------------------------- */

bool gguf_begin(struct gguf_out *g)
{
    *g = (struct gguf_out){0};
    g->to = memory_stream(&g->bytes, &g->len);
    return g->to != NULL;
}

void gguf_element(struct gguf_out *g, const void *bytes, size_t len)
{
    fwrite(bytes, 1, len, g->to);
}

void gguf_element_string(struct gguf_out *g, const char *text, size_t len)
{
    uint64_t n = len;

    gguf_element(g, &n, 8);
    gguf_element(g, text, len);
}

static void put_name(struct gguf_out *g, const char *name, enum gguf_type type)
{
    uint32_t number = type;

    gguf_element_string(g, name, strlen(name));
    gguf_element(g, &number, 4);
    g->n_keys++;
}

void gguf_put_string(struct gguf_out *g, const char *name, const char *text)
{
    put_name(g, name, GGUF_STRING);
    gguf_element_string(g, text, strlen(text));
}

void gguf_put_u32(struct gguf_out *g, const char *name, uint32_t v)
{
    put_name(g, name, GGUF_U32);
    gguf_element(g, &v, 4);
}

void gguf_put_f32(struct gguf_out *g, const char *name, float v)
{
    put_name(g, name, GGUF_F32);
    gguf_element(g, &v, 4);
}

void gguf_put_bool(struct gguf_out *g, const char *name, bool v)
{
    put_name(g, name, GGUF_BOOL);
    gguf_element(g, &(uint8_t){v}, 1);
}

void gguf_put_array(struct gguf_out *g, const char *name, enum gguf_type type, uint64_t n)
{
    uint32_t number = type;

    put_name(g, name, GGUF_ARRAY);
    gguf_element(g, &number, 4);
    gguf_element(g, &n, 8);
}

static uint32_t number_of(enum packed type)
{
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].type == type)
            return types[i].number;
    return 0;
}

/* The descriptions of the tensors, after the keys. */
static void put_tensors(struct gguf_out *g, const struct foreigners *f)
{
    uint64_t at = 0;

    for (int i = 0; i < f->n; i++) {
        const struct foreign *t = &f->tensor[i];
        uint32_t              dims = (uint32_t)t->dims, type = number_of(t->type);

        gguf_element_string(g, t->name, strlen(t->name));
        gguf_element(g, &dims, 4);
        for (int d = t->dims - 1; d >= 0; d--)
            gguf_element(g, &t->shape[d], 8);
        gguf_element(g, &type, 4);
        gguf_element(g, &at, 8);
        at = padded(at + packed_bytes(t->type, t->n), ALIGNMENT);
    }
}

static enum fail put_padding(struct file *f, size_t n, struct why *why)
{
    static const char zero[ALIGNMENT];

    return file_put(f, zero, padded(n, ALIGNMENT) - n, why);
}

static enum fail put_file(struct gguf_out *g, struct file *to, const struct foreigners *f,
                          struct why *why)
{
    const uint32_t version = VERSION;
    const uint64_t count[2] = {(uint64_t)f->n, g->n_keys};
    enum fail      err = file_put(to, "GGUF", 4, why);

    if (!err)
        err = file_put(to, &version, 4, why);
    if (!err)
        err = file_put(to, count, 16, why);
    if (!err)
        err = file_put(to, g->bytes, g->len, why);
    if (!err)
        err = put_padding(to, 24 + g->len, why);
    for (int i = 0; i < f->n && !err; i++) {
        size_t bytes = packed_bytes(f->tensor[i].type, f->tensor[i].n);

        err = file_put(to, f->tensor[i].data, bytes, why);
        if (!err)
            err = put_padding(to, bytes, why);
    }
    return err;
}

enum fail gguf_write(struct gguf_out *g, const char *path, const struct foreigners *f,
                     struct why *why)
{
    struct file to;
    enum fail   err;

    put_tensors(g, f);
    err = fclose(g->to) || !g->bytes ? fail(why, FAIL_MEMORY, "%s: out of memory", path)
                                     : file_begin(&to, path, why);
    if (!err) {
        err = put_file(g, &to, f, why);
        if (err)
            file_abort(&to);
        else
            err = file_commit(&to, why);
    }
    free(g->bytes);
    *g = (struct gguf_out){0};
    return err;
}
