#include "model/files/checkpoint.h"

#include "data/base/file.h"
#include "data/base/json.h"
#include "model/files/tensors.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { JSON_MAX = 1 << 20, TOKENIZER_MAX = 256 << 20 };

/* ---- writing ----------------------------------------------------------------------- */

static enum fail write_config(const char *dir, const struct config *c, struct why *why)
{
    json_t *j = json_pack("{s:s, s:i}", "model_type", "weft", "version",
                          CHECKPOINT_VERSION);
    json_t *settings = config_to_json(c, KEY_MODEL);
    char    path[PATH_MAX];

    json_object_update(j, settings);
    json_decref(settings);
    return json_write(path_join(path, sizeof path, dir, "config.json"), j,
                      JSON_INDENT(2) | JSON_REAL_PRECISION(17), why);
}

enum fail checkpoint_write(const char *dir, const struct model *m,
                           const struct tokenizer *t, struct why *why)
{
    struct tensor_set part = {"", true, m->w};
    char        path[PATH_MAX];
    size_t      len;
    const void *model = tokenizer_model(t, &len);
    enum fail         err = write_config(dir, &m->cfg, why);

    if (!err)
        err = file_write(path_join(path, sizeof path, dir, "tokenizer.model"), model,
                         len, why);
    if (!err)
        err = tensors_write(path_join(path, sizeof path, dir, "model.safetensors"), m,
                            &part, 1, why);
    return err;
}

enum fail checkpoint_save(const char *path, const struct model *m,
                          const struct tokenizer *t, struct why *why)
{
    struct dir d;
    enum fail  err = dir_begin(&d, path, why);

    if (err)
        return err;
    err = checkpoint_write(d.tmp, m, t, why);
    if (!err)
        err = manifest_write(d.tmp, why);
    if (!err)
        err = dir_commit(&d, why);
    if (err)
        dir_abort(&d);
    return err;
}

/* ---- loading ----------------------------------------------------------------------- */

/* Take "model_type" and "version" out of j. */
static enum fail check_version(json_t *j, const char *path, struct why *why)
{
    const json_t *version = json_object_get(j, "version");
    const char   *type = json_string_value(json_object_get(j, "model_type"));

    if (!type || strcmp(type, "weft"))
        return fail(why, FAIL_INPUT, "%s: not a model of weft", path);
    if (!json_is_integer(version))
        return fail(why, FAIL_INPUT, "%s: it has no version", path);
    if (json_integer_value(version) != CHECKPOINT_VERSION)
        return fail(why, FAIL_INPUT,
                    "%s: written by another version of weft (format %lld; "
                    "this one reads %d)", path, (long long)json_integer_value(version),
                    CHECKPOINT_VERSION);
    json_object_del(j, "model_type");
    json_object_del(j, "version");
    return FAIL_NONE;
}

static enum fail read_config(const char *dir, struct config *c, struct why *why)
{
    char       path[PATH_MAX];
    json_t    *j;
    struct why inner;
    enum fail  err = json_read(&j, path_join(path, sizeof path, dir, "config.json"),
                               JSON_MAX, "use an earlier checkpoint or a copy", why);

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

static enum fail read_tokenizer(const char *dir, struct tokenizer **t, int vocab,
                                struct why *why)
{
    char       path[PATH_MAX], *bytes;
    size_t     len;
    struct why bad;
    enum fail  err;

    path_join(path, sizeof path, dir, "tokenizer.model");
    err = file_read(path, TOKENIZER_MAX, &bytes, &len, why);
    if (err)
        return err;
    err = tokenizer_load(t, bytes, len, &bad);
    free(bytes);
    if (err)
        return fail(why, err, "%s: %s", path, bad.line);
    return tokenizer_expect(t, vocab, path, why);
}

static enum fail load(const char *dir, struct model *m, struct tokenizer **t, bool map,
                      struct why *why)
{
    struct config c;
    char          path[PATH_MAX];
    enum fail     err = read_config(dir, &c, why);

    if (!err)
        err = read_tokenizer(dir, t, c.vocab, why);
    if (!err)
        err = model_open(m, &c, why);
    if (err)
        return err;
    path_join(path, sizeof path, dir, "model.safetensors");
    return map ? tensors_map(path, m, why)
               : tensors_read(path, m, &(struct tensor_set){"", true, m->w}, 1, why);
}

/* latest, the run's newest checkpoint, is damaged: name the newest that is not. */
static void name_intact(const char *run, const char *latest, struct why *why)
{
    struct why damage = *why;
    char       dir[PATH_MAX];

    if (checkpoint_intact(run, dir, sizeof dir) && strcmp(dir, latest))
        (void)fail(why, FAIL_INPUT, "%.600s; the newest intact checkpoint is %.400s",
                   damage.line, dir);
}

/* Check and load; nothing is left on failure. */
static enum fail load_checked(const char *dir, struct model *m, struct tokenizer **t,
                              bool map, struct why *why)
{
    enum fail err = manifest_check(dir, why);

    *m = (struct model){0};
    *t = NULL;
    if (!err)
        err = load(dir, m, t, map, why);
    if (err) {
        model_close(m);
        tokenizer_free(*t);
        *t = NULL;
    }
    return err;
}

/* Has path's `latest` left dir (PATH_MAX bytes), which it then replaces? */
static bool moved_on(const char *path, char *dir)
{
    char       now[PATH_MAX] = "";
    struct why unread;

    (void)checkpoint_find(path, now, sizeof now, &unread); // it may be gone again already
    if (!*now || !strcmp(now, dir))
        return false;
    snprintf(dir, PATH_MAX, "%s", now);
    return true;
}

static enum fail load_found(const char *path, struct model *m, struct tokenizer **t,
                            char *dir, size_t cap, bool map, struct why *why)
{
    char found[PATH_MAX] = "";
    enum fail err = checkpoint_find(path, found, sizeof found, why);

    *m = (struct model){0};
    *t = NULL;
    if (!err)
        err = load_checked(found, m, t, map, why);
    while (err && moved_on(path, found))        // a run that trains on has pruned it
        err = load_checked(found, m, t, map, why);
    if (err && *found && strcmp(found, path))
        name_intact(path, found, why);
    if (!err && dir)
        snprintf(dir, cap, "%s", found);
    return err;
}

enum fail checkpoint_load(const char *path, struct model *m, struct tokenizer **t,
                          char *dir, size_t cap, struct why *why)
{
    return load_found(path, m, t, dir, cap, false, why);
}

enum fail checkpoint_map(const char *path, struct model *m, struct tokenizer **t,
                         char *dir, size_t cap, struct why *why)
{
    return load_found(path, m, t, dir, cap, true, why);
}
