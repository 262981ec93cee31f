#include "model/checkpoint.h"

#include "data/file.h"
#include "model/safetensors.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { JSON_MAX = 1 << 20, TOKENIZER_MAX = 256 << 20 };

/* ---- tensors: float32 in files, real in memory ---------------------------------------------- */

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

/* The tensor of parameter p under the name prefix + p's, without data. */
static void describe(struct tensor *t, const char *prefix, const struct model_param *p)
{
    *t = (struct tensor){.dtype = DTYPE_F32, .dims = p->is.cols ? 2 : 1,
                         .shape = {p->is.rows, p->is.cols}, .n = param_size(&p->is)};
    snprintf(t->name, sizeof t->name, "%s%s", prefix, p->name);
}

/* A set of tensors of the model's layout: all parameters, or the trained ones under a prefix. */
struct part {
    const char *prefix;         // "", "m.", "v."
    bool        buffers;        // with buffers
    real       *values;         // (m->n)
};

static int count_part(const struct part *part, const struct model *m)
{
    int n = 0;

    for (int i = 0; i < m->n_param; i++)
        n += part->buffers || !m->param[i].is.buffer;
    return n;
}

/* Describe the tensors of a part whose values are at floats; returns how many. */
static int list_part(const struct part *part, const struct model *m, const float *floats,
                     struct tensor *t)
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

enum { PARTS = 4 };

static int write_parts(const char *path, const struct model *m, const struct part *part, int n,
                       struct why *why)
{
    const float   *floats[PARTS] = {0};
    struct tensor *t = calloc((size_t)n * m->n_param, sizeof *t);
    int            used = 0, err = FAIL_NONE;
    bool           memory = t != NULL;

    for (int i = 0; memory && i < n; i++) {
        floats[i] = to_floats(part[i].values, m->n);
        memory = floats[i] != NULL;
        if (memory)
            used += list_part(&part[i], m, floats[i], t + used);
    }
    err = memory ? safetensors_write(path, t, used, NULL, 0, why)
                 : fail(why, FAIL_WRITE, "%s: not enough memory to write it", path);
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

static int read_part(const struct safetensors *s, const char *path, const struct model *m,
                     const struct part *part, struct why *why)
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
            return fail(why, FAIL_INPUT, "%s: the tensor %s is not float32 of the shape that "
                        "config.json means", path, want.name);
        from_floats(part->values + p->at, found->data, want.n);
    }
    return FAIL_NONE;
}

static int read_parts(const char *path, const struct model *m, const struct part *part, int n,
                      struct why *why)
{
    struct safetensors s;
    int                expected = 0, err = safetensors_open(&s, path, why);

    if (err)
        return err;
    for (int i = 0; i < n && !err; i++) {
        err = read_part(&s, path, m, &part[i], why);
        expected += count_part(&part[i], m);
    }
    if (!err && s.n != expected)
        err = fail(why, FAIL_INPUT, "%s: %d tensors where the model has %d", path, s.n, expected);
    safetensors_close(&s);
    return err;
}

/* ---- the trainer's tensors ------------------------------------------------------------------ */

static void make_parts(struct part *part, char (*prefix)[16], const char *const *kind,
                       real *const *values, int n)
{
    for (int i = 0; i < n; i++) {
        snprintf(prefix[i], sizeof prefix[i], "%s.", kind[i]);
        part[i] = (struct part){prefix[i], false, values[i]};
    }
}

int checkpoint_write_like(const char *path, const struct model *m, const char *const *kind,
                          const real *const *values, int n, struct why *why)
{
    struct part part[PARTS];
    char        prefix[PARTS][16];

    make_parts(part, prefix, kind, (real *const *)values, n);
    return write_parts(path, m, part, n, why);
}

int checkpoint_read_like(const char *path, const struct model *m, const char *const *kind,
                         real *const *values, int n, struct why *why)
{
    struct part part[PARTS];
    char        prefix[PARTS][16];

    make_parts(part, prefix, kind, values, n);
    return read_parts(path, m, part, n, why);
}

/* ---- writing -------------------------------------------------------------------------------- */

static int write_config(const char *dir, const struct config *c, struct why *why)
{
    json_t *j = json_pack("{s:s, s:i}", "model_type", "weft", "version", CHECKPOINT_VERSION);
    json_t *settings = config_to_json(c, KEY_MODEL);
    char    path[PATH_MAX], *text;
    int     err;

    json_object_update(j, settings);
    text = json_dumps(j, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    path_join(path, sizeof path, dir, "config.json");
    err = text ? file_write(path, text, strlen(text), why)
               : fail(why, FAIL_WRITE, "%s: not enough memory to write it", path);
    free(text);
    json_decref(settings);
    json_decref(j);
    return err;
}

int checkpoint_write(const char *dir, const struct model *m, const struct tokenizer *t,
                     struct why *why)
{
    struct part part = {"", true, m->w};
    char        path[PATH_MAX];
    size_t      len;
    const void *model = tokenizer_model(t, &len);
    int         err = write_config(dir, &m->cfg, why);

    if (!err)
        err = file_write(path_join(path, sizeof path, dir, "tokenizer.model"), model, len, why);
    if (!err)
        err = write_parts(path_join(path, sizeof path, dir, "model.safetensors"), m, &part, 1,
                          why);
    return err;
}

/* ---- finding -------------------------------------------------------------------------------- */

static bool holds(const char *dir, const char *name)
{
    char path[PATH_MAX];

    return path_exists(path_join(path, sizeof path, dir, name));
}

static bool is_checkpoint(const char *dir)
{
    return holds(dir, "manifest.json") || holds(dir, "config.json") ||
           holds(dir, "model.safetensors");
}

/* The directory that path/latest names. */
static int follow_latest(const char *path, char *dir, size_t cap, struct why *why)
{
    char    link[PATH_MAX], target[PATH_MAX];
    ssize_t n = readlink(path_join(link, sizeof link, path, "latest"), target, sizeof target - 1);

    if (n < 0)
        return fail(why, FAIL_INPUT, "%s: no checkpoint yet; continue training with: weft train "
                    "--resume %s", path, path);
    target[n] = '\0';
    if (*target == '/')
        snprintf(dir, cap, "%s", target);
    else
        path_join(dir, cap, path, target);
    if (!is_checkpoint(dir))
        return fail(why, FAIL_INPUT, "%s: it points at %s, which is no checkpoint; name another "
                    "ckpt-* of this run", link, target);
    return FAIL_NONE;
}

int checkpoint_find(const char *path, char *dir, size_t cap, struct why *why)
{
    char   name[PATH_MAX];
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    snprintf(name, sizeof name, "%.*s", (int)len, path);
    if (!path_exists(name))
        return fail(why, FAIL_INPUT, "%s: no such run or checkpoint", name);
    if (!path_is_dir(name))
        return fail(why, FAIL_INPUT, "%s: a file; give a run or checkpoint directory", name);
    if (is_checkpoint(name)) {
        snprintf(dir, cap, "%s", name);
        return FAIL_NONE;
    }
    if (holds(name, "dataset.json"))
        return fail(why, FAIL_INPUT, "%s: a dataset, not a run; train on it with: weft train %s",
                    name, name);
    if (!holds(name, "config.cfg") && !holds(name, "latest"))
        return fail(why, FAIL_INPUT, "%s: neither a run nor a checkpoint", name);
    return follow_latest(name, dir, cap, why);
}

/* ---- loading -------------------------------------------------------------------------------- */

/* Take "model_type" and "version" out of j. */
static int check_version(json_t *j, const char *path, struct why *why)
{
    const json_t *version = json_object_get(j, "version");
    const char   *type = json_string_value(json_object_get(j, "model_type"));

    if (!type || strcmp(type, "weft"))
        return fail(why, FAIL_INPUT, "%s: not a model of weft", path);
    if (!json_is_integer(version))
        return fail(why, FAIL_INPUT, "%s: it has no version", path);
    if (json_integer_value(version) != CHECKPOINT_VERSION)
        return fail(why, FAIL_INPUT, "%s: written by another version of weft (format %lld; this "
                    "one reads %d)", path, (long long)json_integer_value(version),
                    CHECKPOINT_VERSION);
    json_object_del(j, "model_type");
    json_object_del(j, "version");
    return FAIL_NONE;
}

static int read_json(const char *path, json_t **j, struct why *why)
{
    json_error_t error;
    char        *text;
    size_t       len;
    int          err = file_read(path, JSON_MAX, &text, &len, why);

    if (err)
        return err;
    *j = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    free(text);
    return *j ? FAIL_NONE
              : fail(why, FAIL_INPUT, "%s:%d: damaged: %.200s", path, error.line, error.text);
}

static int read_config(const char *dir, struct config *c, struct why *why)
{
    char       path[PATH_MAX];
    json_t    *j = NULL;
    struct why inner;
    int        err = read_json(path_join(path, sizeof path, dir, "config.json"), &j, why);

    config_defaults(c);
    if (!err)
        err = check_version(j, path, why);
    if (!err)
        err = config_from_json(c, j, KEY_MODEL, path, why);
    json_decref(j);
    if (!err && config_resolve(c, &inner))
        err = fail(why, FAIL_INPUT, "%.200s: %.700s", path, inner.line);
    return err;
}

static int read_tokenizer(const char *dir, struct tokenizer **t, int vocab, struct why *why)
{
    char               path[PATH_MAX], *bytes;
    size_t             len;
    enum tokenizer_err bad;
    int                err;

    path_join(path, sizeof path, dir, "tokenizer.model");
    err = file_read(path, TOKENIZER_MAX, &bytes, &len, why);
    if (err)
        return err;
    bad = tokenizer_load(t, bytes, len);
    free(bytes);
    if (bad)
        return fail(why, FAIL_INPUT, "%s: %s", path, tokenizer_strerror(bad));
    if (tokenizer_vocab(*t) == vocab)
        return FAIL_NONE;
    err = fail(why, FAIL_INPUT, "%s: %d tokens where the model has %d", path, tokenizer_vocab(*t),
               vocab);
    tokenizer_free(*t);
    *t = NULL;
    return err;
}

static int load(const char *dir, struct model *m, struct tokenizer **t, struct why *why)
{
    struct config c;
    char          path[PATH_MAX];
    int           err = read_config(dir, &c, why);

    if (!err)
        err = read_tokenizer(dir, t, c.vocab, why);
    if (!err)
        err = model_open(m, &c, why);
    if (!err)
        err = read_parts(path_join(path, sizeof path, dir, "model.safetensors"), m,
                         &(struct part){"", true, m->w}, 1, why);
    return err;
}

int checkpoint_load(const char *path, struct model *m, struct tokenizer **t, char *dir, size_t cap,
                    struct why *why)
{
    char found[PATH_MAX];
    int  err = checkpoint_find(path, found, sizeof found, why);

    *m = (struct model){0};
    *t = NULL;
    if (!err)
        err = manifest_check(found, why);
    if (!err)
        err = load(found, m, t, why);
    if (err) {
        model_close(m);
        tokenizer_free(*t);
        *t = NULL;
    } else if (dir)
        snprintf(dir, cap, "%s", found);
    return err;
}
