/* Settings in files: `key = value` lines with comments and includes, and JSON. */
#include "model/config.h"

#include "data/base/file.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { INCLUDE_DEPTH = 8, CONFIG_MAX = 1 << 20 };

struct source {
    const char    *where;  // its name, for messages and for the place of what it includes
    config_include include;
    int            depth;
    bool          *seen;   // keys that it has set, by their place in config_keys
};

static enum fail parse_text(struct config *c, char *text, const struct source *s,
                            struct why *why);

/* Without the blanks around it; cuts text. */
static char *trim(char *text)
{
    size_t len;

    while (isspace((unsigned char)*text))
        text++;
    for (len = strlen(text); len && isspace((unsigned char)text[len - 1]); len--)
        ;
    text[len] = '\0';
    return text;
}

static enum fail parse_copy(struct config *c, const char *text, const struct source *s,
                            struct why *why)
{
    char *copy = strdup(text);
    enum fail err;

    if (!copy)
        return fail(why, FAIL_MEMORY, "%s: out of memory", s->where);
    err = parse_text(c, copy, s, why);
    free(copy);
    return err;
}

static enum fail parse_path(struct config *c, const char *path, config_include include,
                            int depth, struct why *why)
{
    struct source s = {path, include, depth, NULL};
    char         *text;
    size_t        len;
    enum fail     err = file_read(path, CONFIG_MAX, &text, &len, why);

    if (err)
        return err;
    err = strlen(text) == len ? parse_text(c, text, &s, why)
                              : fail(why, FAIL_USAGE, "%s: not a text file", path);
    free(text);
    return err;
}

/* Does path lie in the directory of `where`, links followed? What is not there does. */
static bool lies_beside(const char *path, const char *where)
{
    char   dir[PATH_MAX], full[PATH_MAX], base[PATH_MAX];
    char  *slash;
    size_t n;

    snprintf(dir, sizeof dir, "%s", where);
    slash = strrchr(dir, '/');
    if (slash)
        slash[slash == dir] = 0;
    if (!realpath(path, full) || !realpath(slash ? dir : ".", base))
        return true;
    n = strlen(base);
    return !strncmp(full, base, n) && (full[n] == '/' || n == 1);
}

static enum fail parse_include(struct config *c, const char *name, const struct source *s,
                               struct why *why)
{
    const char *text = s->include ? s->include(name) : NULL,
               *slash = strrchr(s->where, '/');
    char        path[PATH_MAX];

    if (s->depth >= INCLUDE_DEPTH)
        return fail(why, FAIL_USAGE, "include %s: more than %d files inside each other",
                    name, INCLUDE_DEPTH);
    if (text)
        return parse_copy(c, text, &(struct source){name, s->include, s->depth + 1, NULL},
                          why);
    snprintf(path, sizeof path, "%.*s%s",
             *name != '/' && slash ? (int)(slash + 1 - s->where) : 0, s->where, name);
    if (!s->include && !lies_beside(path, s->where))
        return fail(why, FAIL_USAGE, "include %s: it lies outside of this file's "
                    "directory; copy its lines", name);
    return parse_path(c, path, s->include, s->depth + 1, why);
}

/* Once in a file: of two values one would be lost without a word. */
static enum fail set_once(struct config *c, const char *key, const char *value,
                          const struct source *s, struct why *why)
{
    const struct key *k = config_find(key);

    if (k && s->seen[k - config_keys])
        return fail(why, FAIL_USAGE, "%s is given twice; leave one out", k->name);
    if (k)
        s->seen[k - config_keys] = true;
    return config_set(c, key, value, why);
}

static enum fail parse_line(struct config *c, char *line, const struct source *s,
                            struct why *why)
{
    char *equals;

    line[strcspn(line, "#")] = '\0';
    line = trim(line);
    if (!*line)
        return FAIL_NONE;
    if (!strncmp(line, "include", 7) && isblank((unsigned char)line[7]))
        return parse_include(c, trim(line + 7), s, why);
    equals = strchr(line, '=');
    if (!equals)
        return fail(why, FAIL_USAGE, "'%.40s': write key = value, or include NAME", line);
    *equals = '\0';
    return set_once(c, trim(line), trim(equals + 1), s, why);
}

static enum fail parse_text(struct config *c, char *text, const struct source *source,
                            struct why *why)
{
    enum { KEYS = 256 };
    bool                seen[KEYS] = {false};
    const struct source with = {source->where, source->include, source->depth, seen};
    const struct source *s = &with;
    int                 number = 0;

    for (char *line = text, *next; line; line = next) {
        struct why inner;
        enum fail  err;

        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        number++;
        err = parse_line(c, line, s, &inner);
        if (err)
            return fail(why, err, "%.200s:%d: %.700s", s->where, number, inner.line);
    }
    return FAIL_NONE;
}

enum fail config_parse(struct config *c, const char *text, const char *where,
                       config_include include, struct why *why)
{
    return parse_copy(c, text, &(struct source){where, include, 0, NULL}, why);
}

enum fail config_parse_file(struct config *c, const char *path, config_include include,
                            struct why *why)
{
    return parse_path(c, path, include, 0, why);
}

void config_print(const struct config *c, FILE *f)
{
    for (const struct key *k = config_keys; k->name; k++) {
        char value[sizeof c->mixers];
        int  n;

        config_format(c, k, value, sizeof value);
        n = fprintf(f, "%s = %s", k->name, value);
        fprintf(f, "%*s# %s\n", n < 30 ? 30 - n : 2, "", k->about);
    }
}

/* ---- JSON -------------------------------------------------------------------------- */

static json_t *value_to_json(const struct config *c, const struct key *k)
{
    const void *at = (const char *)c + k->at;
    char        text[sizeof c->mixers];

    if (k->type == KEY_INT)
        return json_integer(*(const int *)at);
    if (k->type == KEY_LONG)
        return json_integer(*(const long *)at);
    if (k->type == KEY_REAL)
        return json_real(*(const double *)at);
    if (k->type == KEY_QUOTED)
        return json_string(at);
    if (k->type == KEY_SEED && *(const uint64_t *)at <= INT64_MAX)
        return json_integer((json_int_t)*(const uint64_t *)at);
    config_format(c, k, text, sizeof text);
    return json_string(text);
}

static bool is_default(const struct config *c, const struct key *k)
{
    struct config d;
    char          a[sizeof c->mixers], b[sizeof c->mixers];

    config_defaults(&d);
    config_format(c, k, a, sizeof a);
    config_format(&d, k, b, sizeof b);
    return !strcmp(a, b);
}

json_t *config_to_json(const struct config *c, int part)
{
    json_t *j = json_object();

    for (const struct key *k = config_keys; k->name; k++)
        if ((part < 0 || k->part == (enum key_part)part) &&
            !(k->optional && is_default(c, k)))
            json_object_set_new(j, k->name, value_to_json(c, k));
    return j;
}

/* What an optional key that j has not stands for. */
static void set_default(struct config *c, const struct key *k)
{
    struct config d;

    config_defaults(&d);
    memcpy((char *)c + k->at, (const char *)&d + k->at, k->size);
}

static enum fail set_from_json(struct config *c, const struct key *k, const json_t *v,
                               struct why *why)
{
    bool text_key = k->type == KEY_TEXT || k->type == KEY_QUOTED;
    bool number = !text_key, whole = number && k->type != KEY_REAL;
    char text[32];

    if (json_is_string(v) && (!number || k->type == KEY_SEED))
        return config_set(c, k->name, json_string_value(v), why);
    if (json_is_integer(v) && number)
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else if (json_is_real(v) && number && !whole)
        snprintf(text, sizeof text, "%.17g", json_real_value(v));
    else
        return fail(why, FAIL_INPUT, "%s: give a %s", k->name,
                    !number ? "string" : whole ? "whole number" : "number");
    return config_set(c, k->name, text, why);
}

enum fail config_from_json(struct config *c, const json_t *j, int part, const char *where,
                           struct why *why)
{
    struct why  inner;
    const char *name;
    json_t     *v;
    size_t      expected = 0;

    if (!json_is_object(j))
        return fail(why, FAIL_INPUT, "%s: not a JSON object of settings", where);
    json_object_foreach((json_t *)j, name, v) {
        const struct key *k = config_find(name);

        if (!k || strcmp(k->name, name) || (part >= 0 && k->part != (enum key_part)part))
            return fail(why, FAIL_INPUT, "%s: unknown setting '%.60s'", where, name);
        if (set_from_json(c, k, v, &inner))
            return fail(why, FAIL_INPUT, "%.200s: %.700s", where, inner.line);
    }
    for (const struct key *k = config_keys; k->name; k++) {
        if (part >= 0 && k->part != (enum key_part)part)
            continue;
        if (k->optional && !json_object_get(j, k->name)) {
            set_default(c, k);
            continue;
        }
        expected++;
        if (!json_object_get(j, k->name))
            return fail(why, FAIL_INPUT, "%s: the setting '%s' is missing", where,
                        k->name);
    }
    return json_object_size(j) == expected ? FAIL_NONE
           : fail(why, FAIL_INPUT, "%s: a setting is given twice", where);
}
