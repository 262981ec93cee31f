#include "model/files/safetensors.h"

#include "data/base/file.h"
#include "data/base/json.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "data is written as it lies in memory");

static const struct {
    const char *name;
    size_t      size;
} types[] = {
    [DTYPE_F32] = {"F32", 4},
    [DTYPE_F64] = {"F64", 8},
    [DTYPE_I64] = {"I64", 8},
    [DTYPE_F16] = {"F16", 2},
    [DTYPE_BF16] = {"BF16", 2},
};
enum { N_TYPES = sizeof types / sizeof *types };

/* ---- reading ----------------------------------------------------------------------- */

/* Memory for a file, of huge pages where it is large: taking and clearing small ones one
 * by one costs more than reading. */
static char *file_memory(size_t size)
{
    enum { HUGE = 1 << 21 };
    size_t whole = (size + HUGE - 1) / HUGE * HUGE;
    char  *p = size < HUGE ? malloc(size) : aligned_alloc(HUGE, whole);

    if (p && size >= HUGE)
        madvise(p, size, MADV_HUGEPAGE);
    return p;
}

static char *map_file(int fd, size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* Read, where the file is not to be mapped: one that becomes shorter meanwhile is an
 * error, not a SIGBUS. */
static enum fail read_file(struct safetensors *s, const char *path, struct why *why)
{
    uint64_t  size;
    int       fd;
    enum fail err = file_open(path, &fd, &size, why);

    if (err)
        return err;
    s->len = size;
    if (size < 8)
        err = fail(why, FAIL_INPUT, "%s: too short for a safetensors file", path);
    else if (!(s->bytes = s->mapped ? map_file(fd, size) : file_memory(size)))
        err = fail(why, FAIL_MEMORY, "%s: no memory for its %llu bytes", path,
                   (unsigned long long)size);
    else if (!s->mapped)
        err = file_fill(fd, s->bytes, size, path, why);
    close(fd);
    return err;
}

static enum fail parse_header(const struct safetensors *s, const char *path,
                              json_t **header, size_t *data, struct why *why)
{
    json_error_t error;
    uint64_t     len;

    memcpy(&len, s->bytes, sizeof len);
    if (len > s->len - 8)
        return fail(why, FAIL_INPUT,
                    "%s: truncated, or not a safetensors file: its header is said to be "
                    "longer than the file", path);
    if (len > SAFETENSORS_HEADER)
        return fail(why, FAIL_INPUT, "%s: a header of %llu bytes; at most %d are read",
                    path, (unsigned long long)len, SAFETENSORS_HEADER);
    *header = json_loadb(s->bytes + 8, len, JSON_REJECT_DUPLICATES, &error);
    if (json_ran_out() ||
        (!*header && json_error_code(&error) == json_error_out_of_memory))
        return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    if (!json_is_object(*header))
        return fail(why, FAIL_INPUT, "%s: damaged header: %.200s", path,
                    *header ? "not an object" : error.text);
    *data = 8 + (size_t)len;
    return FAIL_NONE;
}

/* NULL, or what is wrong. */
static const char *read_shape(struct tensor *t, const json_t *shape)
{
    if (!json_is_array(shape) || json_array_size(shape) > TENSOR_DIMS)
        return "its shape is not a list of at most 4 sizes";
    t->dims = (int)json_array_size(shape);
    t->n = 1;
    for (int i = 0; i < t->dims; i++) {
        const json_t *v = json_array_get(shape, (size_t)i);

        t->shape[i] = json_integer_value(v);
        if (!json_is_integer(v) || t->shape[i] < 0)
            return "its shape has an entry that is not a size";
        if (__builtin_mul_overflow(t->n, (size_t)t->shape[i], &t->n))
            return "its shape overflows";
    }
    return NULL;
}

static const char *read_type(struct tensor *t, const char *name)
{
    for (int i = 0; name && i < N_TYPES; i++)
        if (!strcmp(name, types[i].name)) {
            t->dtype = (enum dtype)i;
            return NULL;
        }
    return "its dtype is none of F32, F16, BF16, F64, I64";
}

static const char *read_range(struct tensor *t, const json_t *range, const char *data,
                              size_t len)
{
    const json_t *from = json_array_get(range, 0), *to = json_array_get(range, 1);
    json_int_t    a = json_integer_value(from), b = json_integer_value(to);
    size_t        bytes;

    if (json_array_size(range) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return "its data_offsets are not two numbers";
    if (a < 0 || b < a || (uint64_t)b > len)
        return "its data lies outside the file";
    if (__builtin_mul_overflow(t->n, types[t->dtype].size, &bytes) ||
        bytes != (size_t)(b - a))
        return "its shape does not fit its data";
    t->data = data + a;
    return NULL;
}

static const char *read_name(struct tensor *t, const char *name)
{
    size_t len = strlen(name);

    if (len >= TENSOR_NAME)
        return "its name is too long";
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
            return "its name has control characters";
    memcpy(t->name, name, len + 1);
    return NULL;
}

static const char *read_tensor(struct tensor *t, const char *name, const json_t *v,
                               const char *data, size_t len)
{
    const char *bad = read_name(t, name);

    if (!bad && (!json_is_object(v) || json_object_size(v) != 3))
        bad = "not exactly dtype, shape and data_offsets";
    if (!bad)
        bad = read_type(t, json_string_value(json_object_get(v, "dtype")));
    if (!bad)
        bad = read_shape(t, json_object_get(v, "shape"));
    if (!bad)
        bad = read_range(t, json_object_get(v, "data_offsets"), data, len);
    return bad;
}

static enum fail read_meta(struct safetensors *s, json_t *meta, const char *path,
                           struct why *why)
{
    const char *key;
    json_t     *v;

    s->meta = calloc(2 * json_object_size(meta) + 1, sizeof *s->meta);
    if (!s->meta)
        return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    json_object_foreach(meta, key, v) {
        char **pair = s->meta + 2 * s->n_meta++;

        if (!json_is_string(v))
            return fail(why, FAIL_INPUT,
                        "%s: damaged header: __metadata__ holds more than text", path);
        pair[0] = strdup(key);
        pair[1] = strdup(json_string_value(v));
        if (!pair[0] || !pair[1])
            return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    }
    return json_is_object(meta) ? FAIL_NONE
           : fail(why, FAIL_INPUT, "%s: damaged header: __metadata__ is not an object",
                  path);
}

static int by_place(const void *a, const void *b)
{
    const struct tensor *x = *(const struct tensor *const *)a;
    const struct tensor *y = *(const struct tensor *const *)b;

    if (x->data != y->data)
        return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return (x->n > 0) - (y->n > 0);         // the empty ones first
}

/* The tensors must cover data (len bytes) from end to end, without gap or overlap. */
static enum fail check_tiles(const struct safetensors *s, const char *path,
                             const char *data, size_t len, struct why *why)
{
    const struct tensor **order = malloc(((size_t)s->n + 1) * sizeof *order);
    const char           *at = data;
    enum fail             err = FAIL_NONE;

    if (!order)
        return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    for (int i = 0; i < s->n; i++)
        order[i] = s->tensor + i;
    qsort(order, (size_t)s->n, sizeof *order, by_place);
    for (int i = 0; i < s->n && !err; i++) {
        if ((const char *)order[i]->data != at)
            err = fail(why, FAIL_INPUT, "%s: damaged: a %s before tensor %s", path,
                       (const char *)order[i]->data < at ? "overlap" : "gap",
                       order[i]->name);
        at += order[i]->n * types[order[i]->dtype].size;
    }
    if (!err && at != data + len)
        err = fail(why, FAIL_INPUT, "%s: damaged: %zu bytes after the last tensor", path,
                   (size_t)(data + len - at));
    free(order);
    return err;
}

static enum fail read_header(struct safetensors *s, json_t *header, const char *path,
                             size_t at, struct why *why)
{
    const char *name, *data = s->bytes + at, *bad;
    size_t      len = s->len - at;
    json_t     *v;
    enum fail   err;

    s->tensor = calloc(json_object_size(header) + 1, sizeof *s->tensor);
    if (!s->tensor)
        return fail(why, FAIL_MEMORY, "%s: out of memory", path);
    json_object_foreach(header, name, v) {
        if (!strcmp(name, "__metadata__")) {
            err = read_meta(s, v, path, why);
            if (err)
                return err;
            continue;
        }
        bad = read_tensor(&s->tensor[s->n], name, v, data, len);
        if (bad)
            return fail(why, FAIL_INPUT, "%s: damaged: tensor %.60s: %s", path,
                        s->tensor[s->n].name, bad);
        s->n++;
    }
    return check_tiles(s, path, data, len, why);
}

static enum fail open_file(struct safetensors *s, const char *path, struct why *why)
{
    json_t *header = NULL;
    size_t  data = 0;
    enum fail err;

    err = read_file(s, path, why);
    if (!err)
        err = parse_header(s, path, &header, &data, why);
    if (!err)
        err = read_header(s, header, path, data, why);
    json_decref(header);
    if (err)
        safetensors_close(s);
    return err;
}

enum fail safetensors_open(struct safetensors *s, const char *path, struct why *why)
{
    *s = (struct safetensors){0};
    return open_file(s, path, why);
}

enum fail safetensors_map(struct safetensors *s, const char *path, struct why *why)
{
    *s = (struct safetensors){.mapped = true};
    return open_file(s, path, why);
}

void safetensors_close(struct safetensors *s)
{
    if (s->mapped && s->bytes)
        munmap(s->bytes, s->len);
    else
        free(s->bytes);
    for (int i = 0; i < 2 * s->n_meta; i++)
        free(s->meta[i]);
    free(s->meta);
    free(s->tensor);
    *s = (struct safetensors){0};
}

const struct tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->tensor[i].name, name))
            return &s->tensor[i];
    return NULL;
}

const char *safetensors_meta(const struct safetensors *s, const char *key)
{
    for (int i = 0; i < s->n_meta; i++)
        if (!strcmp(s->meta[2 * i], key))
            return s->meta[2 * i + 1];
    return NULL;
}

/* ---- writing ----------------------------------------------------------------------- */

static json_t *tensor_json(const struct tensor *t, size_t *at)
{
    size_t  from = *at;
    json_t *shape = json_array();

    *at += t->n * types[t->dtype].size;
    for (int i = 0; i < t->dims; i++)
        json_array_append_new(shape, json_integer(t->shape[i]));
    if (json_array_size(shape) != (size_t)t->dims) {
        json_decref(shape);
        return NULL;            // out of memory
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", types[t->dtype].name,
                     "shape", shape, "data_offsets", (json_int_t)from, (json_int_t)*at);
}

/* Is the text this object? jansson may leave out what it has no memory for. */
static bool says(const char *text, json_t *header)
{
    json_t *back = json_loads(text, 0, NULL);
    bool    same = back && json_equal(back, header);

    json_decref(back);
    return same;
}

/* The JSON header, padded with blanks to a multiple of 8; malloc'ed, NULL when
 * out of memory. */
static char *make_header(const struct tensor *tensor, int n, const char *const *meta,
                         int n_meta, uint64_t *len)
{
    json_t *header = json_object(), *texts = json_object();
    size_t  at = 0, used;
    char   *text, *padded = NULL;
    bool    whole = header && texts;

    for (int i = 0; i < n_meta; i++)
        whole &= !json_object_set_new(texts, meta[2 * i], json_string(meta[2 * i + 1]));
    if (n_meta)
        whole &= !json_object_set(header, "__metadata__", texts);
    for (int i = 0; i < n; i++)
        whole &= !json_object_set_new(header, tensor[i].name,
                                      tensor_json(&tensor[i], &at));
    text = whole ? json_to_text(header, JSON_COMPACT) : NULL;
    if (text && !says(text, header)) {
        free(text);
        text = NULL;
    }
    json_decref(texts);
    json_decref(header);
    if (text) {
        used = strlen(text);
        *len = (used + 7) / 8 * 8;
        padded = realloc(text, *len + 1);
    }
    if (!padded) {
        free(text);
        return NULL;
    }
    memset(padded + used, ' ', *len - used);
    return padded;
}

enum fail safetensors_write(const char *path, const struct tensor *tensor, int n,
                            const char *const *meta, int n_meta, struct why *why)
{
    uint64_t    len = 0;
    char       *header = make_header(tensor, n, meta, n_meta, &len);
    struct file f;
    enum fail   err = header ? file_begin(&f, path, why)
                             : fail(why, FAIL_MEMORY, "%s: out of memory", path);

    if (err) {
        free(header);
        return err;
    }
    err = file_put(&f, &len, sizeof len, why);
    if (!err)
        err = file_put(&f, header, len, why);
    for (int i = 0; !err && i < n; i++)
        err = file_put(&f, tensor[i].data, types[tensor[i].dtype].size * tensor[i].n,
                       why);
    free(header);
    if (!err)
        return file_commit(&f, why);
    file_abort(&f);
    return err;
}
