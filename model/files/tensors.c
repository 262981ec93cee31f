#include "model/files/tensors.h"

#include "model/files/safetensors.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WEFT_DOUBLE
/* The values as floats; malloc'ed, NULL when out of memory. */
static const float *to_floats(const real *w, size_t n)
{
    float *f = malloc(n * sizeof *f);

    for (size_t i = 0; f && i < n; i++)
        f[i] = (float)w[i];
    return f;
}

static void free_floats(const float *f)
{
    free((void *)f);
}
#else
static const float *to_floats(const real *w, size_t n)
{
    (void)n;
    return w;
}

static void free_floats(const float *f)
{
    (void)f;
}
#endif

static void from_floats(real *w, const void *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float f;

        memcpy(&f, (const char *)data + i * sizeof f, sizeof f);
        w[i] = f;
    }
}

/* Are the n floats at data, of any alignment, all finite? Others have all bits of the
 * exponent set; such a test is made of a vector at a time. */
static bool all_finite(const void *data, size_t n)
{
    const uint32_t exponent = 0x7f800000;
    uint32_t       bad = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t b;

        memcpy(&b, (const char *)data + i * sizeof b, sizeof b);
        bad |= (b & exponent) == exponent;
    }
    return !bad;
}

/* w = the n floats at data, where there is a w; false: they are not all finite. */
static bool take_floats(real *w, const void *data, size_t n)
{
    enum { AT_ONCE = 1 << 14 };         // in cache still when they are copied
    bool finite = true;

    for (size_t i = 0; i < n && finite; i += AT_ONCE) {
        const char *at = (const char *)data + i * sizeof(float);
        size_t      m = n - i < AT_ONCE ? n - i : AT_ONCE;

        finite = all_finite(at, m);
        if (w)
            from_floats(w + i, at, m);
    }
    return finite;
}

/* The tensor of parameter p under the name prefix + p's, without data. */
static void describe(struct tensor *t, const char *prefix, const struct model_param *p)
{
    *t = (struct tensor){.dtype = DTYPE_F32, .dims = p->is.cols ? 2 : 1,
                         .shape = {p->is.rows, p->is.cols}, .n = param_size(&p->is)};
    snprintf(t->name, sizeof t->name, "%s%s", prefix, p->name);
}

static int count_part(const struct tensor_set *part, const struct model *m)
{
    int n = 0;

    for (int i = 0; i < m->n_param; i++)
        n += part->buffers || !m->param[i].is.buffer;
    return n;
}

/* Describe the tensors of a part whose values are at floats; returns how many. */
static int list_part(const struct tensor_set *part, const struct model *m,
                     const float *floats, struct tensor *t)
{
    int n = 0;

    for (int i = 0; i < m->n_param; i++) {
        const struct model_param *p = &m->param[i];

        if (p->is.buffer && !part->buffers)
            continue;
        describe(&t[n], part->prefix, p);
        t[n++].data = floats + p->at;
    }
    return n;
}

static enum fail check_finite(const char *path, const struct tensor *t, int n,
                              struct why *why)
{
    for (int i = 0; i < n; i++)
        if (!all_finite(t[i].data, t[i].n))
            return fail(why, FAIL_DIVERGED, "%s: not written: %s is not finite", path,
                        t[i].name);
    return FAIL_NONE;
}

enum fail tensors_write(const char *path, const struct model *m,
                        const struct tensor_set *part, int n, struct why *why)
{
    const float   *floats[TENSOR_SETS] = {0};
    struct tensor *t = calloc((size_t)n * m->n_param, sizeof *t);
    int            used = 0;
    enum fail      err;
    bool           memory = t != NULL;

    for (int i = 0; memory && i < n; i++) {
        floats[i] = to_floats(part[i].values, m->n);
        memory = floats[i] != NULL;
        if (memory)
            used += list_part(&part[i], m, floats[i], t + used);
    }
    err = memory ? check_finite(path, t, used, why)
                 : fail(why, FAIL_MEMORY, "%s: not enough memory to write it", path);
    if (!err)
        err = safetensors_write(path, t, used, NULL, 0, why);
    for (int i = 0; i < n; i++)
        free_floats(floats[i]);
    free(t);
    return err;
}

static bool same_shape(const struct tensor *a, const struct tensor *b)
{
    return a->dtype == b->dtype && a->dims == b->dims &&
           !memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape);
}

static enum fail not_finite(struct why *why, enum fail err, const char *path,
                            const char *name)
{
    return fail(why, err, "%s: the tensor %s holds numbers that are not finite; use an "
                "earlier checkpoint or a copy", path, name);
}

static enum fail read_part(const struct safetensors *s, const char *path,
                           const struct model *m, const struct tensor_set *part,
                           struct why *why)
{
    for (int i = 0; i < m->n_param; i++) {
        const struct model_param *p = &m->param[i];
        const struct tensor      *found;
        struct tensor             want;

        if (p->is.buffer && !part->buffers)
            continue;
        describe(&want, part->prefix, p);
        found = safetensors_find(s, want.name);
        if (!found)
            return fail(why, FAIL_INPUT, "%s: the tensor %s is missing", path, want.name);
        if (!same_shape(found, &want))
            return fail(why, FAIL_INPUT,
                        "%s: the tensor %s is not float32 of the shape that "
                        "config.json means", path, want.name);
        if (!take_floats(part->values ? part->values + p->at : NULL, found->data, want.n))
            return not_finite(why, FAIL_INPUT, path, want.name);
    }
    return FAIL_NONE;
}

static enum fail read_parts(const struct safetensors *s, const char *path,
                            const struct model *m, const struct tensor_set *part, int n,
                            struct why *why)
{
    int       expected = 0;
    enum fail err = FAIL_NONE;

    for (int i = 0; i < n && !err; i++) {
        err = read_part(s, path, m, &part[i], why);
        expected += count_part(&part[i], m);
    }
    if (!err && s->n != expected)
        err = fail(why, FAIL_INPUT, "%s: %d tensors where the model has %d", path, s->n,
                   expected);
    return err;
}

enum fail tensors_read(const char *path, const struct model *m,
                       const struct tensor_set *part, int n, struct why *why)
{
    struct safetensors s;
    enum fail          err = safetensors_open(&s, path, why);

    if (!err)
        err = read_parts(&s, path, m, part, n, why);
    safetensors_close(&s);
    return err;
}

/* The parameters of m as they lie in the file, or NULL: they do not lie so there. */
static char *in_order(const struct safetensors *s, const struct model *m)
{
    char *first = NULL;

    for (int i = 0; i < m->n_param; i++) {
        char *at = (char *)safetensors_find(s, m->param[i].name)->data;

        first = i ? first : at;
        if (at != first + m->param[i].at * sizeof *m->w)
            return NULL;
    }
    return (uintptr_t)first % sizeof *m->w ? NULL : first;
}

enum fail tensors_map(const char *path, struct model *m, struct why *why)
{
    struct safetensors s;
    struct tensor_set  all = {"", true, NULL};
    enum fail          err = safetensors_map(&s, path, why);
    char              *w = NULL;

    if (!err)
        err = read_parts(&s, path, m, &all, 1, why);
    if (!err && sizeof *m->w == sizeof(float) && (w = in_order(&s, m))) {
        model_hold(m, (real *)w, s.bytes, s.len);
        s.bytes = NULL;                     // m's now
    } else if (!err) {
        all.values = m->w;
        err = read_parts(&s, path, m, &all, 1, why);
    }
    safetensors_close(&s);
    return err;
}

enum fail tensors_check_finite(const char *path, struct why *why)
{
    struct safetensors s;
    enum fail          err = safetensors_open(&s, path, why);

    for (int i = 0; !err && i < s.n; i++) {
        const struct tensor *t = &s.tensor[i];

        if (t->dtype == DTYPE_F32 && !all_finite(t->data, t->n))
            err = not_finite(why, FAIL_DIVERGED, path, t->name);
    }
    safetensors_close(&s);
    return err;
}
