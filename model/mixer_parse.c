/* One entry of `mixers`:  NAME[(opt=value,...)][+POSITION[(opt=value,...)]] */
#include "data/base/split.h"
#include "model/mixer.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRY_MAX = 512, NAMES = 64 };

/* Every mixer takes these besides its own. */
enum { HEADS, KV_HEADS, N_GENERAL };

static const struct opt general[] = {
    [HEADS]    = {.name = "heads", .type = OPT_INT, .min = 1, .max = 4096},
    [KV_HEADS] = {.name = "kv_heads", .type = OPT_INT, .min = 1, .max = 4096},
    {.name = NULL},
};

/* ---- names ------------------------------------------------------------------------- */

/* Refuse a name that is none of n known ones: says the nearest and lists them. */
static enum fail unknown(const char *what, const char *name, const char *const *known,
                         int n, struct why *why)
{
    const char *near = nearest_name(name, known, n);
    char        list[512] = "none";

    for (int i = 0, at = 0; i < n && at < (int)sizeof list - 1; i++)
        at += snprintf(list + at, sizeof list - at, "%s%s", i ? ", " : "", known[i]);
    if (near)
        return fail(why, FAIL_USAGE, "unknown %s '%.60s'; did you mean '%s'? (known: %s)",
                    what, name, near, list);
    return fail(why, FAIL_USAGE, "unknown %s '%.60s' (known: %s)", what, name, list);
}

static enum fail find_mixer(struct mixer_cfg *c, const char *name, struct why *why)
{
    const char *known[NAMES];
    int         n = 0;

    for (; n < NAMES && mixers[n]; n++) {
        known[n] = mixers[n]->name;
        if (!strcmp(name, known[n])) {
            c->mixer = mixers[n];
            return FAIL_NONE;
        }
    }
    return unknown("mixer", name, known, n, why);
}

static enum fail find_position(struct mixer_cfg *c, const char *name, struct why *why)
{
    const char *known[NAMES];
    int         n = 0;

    for (; n < NAMES && positions[n]; n++) {
        known[n] = positions[n]->name;
        if (!strcmp(name, known[n])) {
            c->position = positions[n];
            return FAIL_NONE;
        }
    }
    return unknown("position encoding", name, known, n, why);
}

static const struct opt *find_opt(const struct opt *opts, const char *name)
{
    for (; opts && opts->name; opts++)
        if (!strcmp(name, opts->name))
            return opts;
    return NULL;
}

static enum fail unknown_opt(const char *whose, const char *name, const struct opt *own,
                             const struct opt *shared, struct why *why)
{
    const char *known[MIXER_OPTS + N_GENERAL];
    char        what[80];
    int         n = 0;

    for (; own && own->name && n < MIXER_OPTS; own++)
        known[n++] = own->name;
    for (; shared && shared->name; shared++)
        known[n++] = shared->name;
    snprintf(what, sizeof what, "option of %s", whose);
    return unknown(what, name, known, n, why);
}

/* ---- values ------------------------------------------------------------------------ */

static bool read_whole(const char *text, double *v)
{
    char *end;
    long  n;

    errno = 0;
    n = strtol(text, &end, 10);
    *v = (double)n;
    return end != text && !*end && !errno;
}

static bool read_real(const char *text, double *v)
{
    char *end;

    *v = strtod(text, &end);
    return end != text && !*end && isfinite(*v);
}

/* Tokens, or a share a/b of the context, at least 1. */
static bool read_span(const char *text, int context, double *v)
{
    int a, b, end = 0;

    if (sscanf(text, "%6d/%6d%n", &a, &b, &end) != 2 || text[end])
        return read_whole(text, v);
    if (a < 1 || b < a)
        return false;
    *v = floor((double)context * a / b);
    if (*v < 1)
        *v = 1;
    return true;
}

static bool read_choice(const char *text, const char *choices, double *v)
{
    size_t len = strlen(text);

    *v = 0;
    for (const char *p = choices; p; *v += 1) {
        if (strcspn(p, "|") == len && !strncmp(p, text, len))
            return true;
        p = strchr(p, '|');
        p = p ? p + 1 : NULL;
    }
    return false;
}

/* What a value of this option must be, for messages. */
static void describe(const struct opt *o, char *buf, size_t cap)
{
    static const char *const kinds[] = {
        [OPT_INT]  = "a whole number",
        [OPT_REAL] = "a number",
        [OPT_SPAN] = "a number of tokens, or a share of the context such as 1/8,",
    };

    if (o->type == OPT_FLAG)
        snprintf(buf, cap, "0 or 1");
    else if (o->type == OPT_CHOICE)
        snprintf(buf, cap, "one of %s", o->choices);
    else
        snprintf(buf, cap, "%s from %.9g to %.9g", kinds[o->type], o->min, o->max);
}

static enum fail read_value(const struct opt *o, const char *text, int context, double *v,
                            struct why *why)
{
    bool good = false;
    char wanted[160];

    switch (o->type) {
    case OPT_INT:
        good = read_whole(text, v) && *v >= o->min && *v <= o->max;
        break;
    case OPT_REAL:
        good = read_real(text, v) && *v >= o->min && *v <= o->max;
        break;
    case OPT_FLAG:
        good = read_whole(text, v) && (*v == 0 || *v == 1);
        break;
    case OPT_CHOICE:
        good = read_choice(text, o->choices, v);
        break;
    case OPT_SPAN:
        good = read_span(text, context, v) && *v >= o->min && *v <= o->max;
        break;
    }
    if (good)
        return FAIL_NONE;
    describe(o, wanted, sizeof wanted);
    return fail(why, FAIL_USAGE, "%s = %.60s: give %s", o->name, text, wanted);
}

/* ---- the entry --------------------------------------------------------------------- */

static void set_standard(const struct opt *opts, double *values)
{
    for (int i = 0; opts && opts[i].name; i++)
        values[i] = opts[i].standard;
}

/* Take "a=1,b=2" into the values of own, and of shared (NULL: none), in their orders. */
static enum fail take_opts(char *list, const char *whose, const struct opt *own,
                           double *values, const struct opt *shared,
                           double *shared_values, int context, struct why *why)
{
    for (char *next; list && *list; list = next) {
        const struct opt *o;
        double           *into;
        char             *value;
        enum fail         err;

        next = list + split_length(list, ',');
        if (*next)
            *next++ = '\0';
        value = strchr(list, '=');
        if (!value)
            return fail(why, FAIL_USAGE, "'%.60s': write option=value", list);
        *value++ = '\0';
        o = find_opt(own, list);
        into = o ? values + (o - own) : NULL;
        if (!o && (o = find_opt(shared, list)))
            into = shared_values + (o - shared);
        if (!o)
            return unknown_opt(whose, list, own, shared, why);
        err = read_value(o, value, context, into, why);
        if (err)
            return err;
    }
    return FAIL_NONE;
}

/* Cut "NAME(opts)" into its two parts; *opts is NULL without parentheses. */
static enum fail cut(char *half, char **opts, struct why *why)
{
    size_t len = strlen(half);
    char  *open = strchr(half, '(');

    *opts = NULL;
    if (!open && !strchr(half, ')'))
        return FAIL_NONE;
    if (!open || half[len - 1] != ')' || strchr(open + 1, '(') ||
        strchr(half, ')') != half + len - 1)
        return fail(why, FAIL_USAGE,
                    "parentheses do not match; write NAME(option=value,...)");
    half[len - 1] = *open = '\0';
    *opts = open + 1;
    return FAIL_NONE;
}

/* The position part of the entry, after a '+'; cut off. NULL: none. */
static char *cut_position(char *entry)
{
    entry += split_length(entry, '+');
    if (!*entry)
        return NULL;
    *entry = '\0';
    return entry + 1;
}

static enum fail parse_mixer(struct mixer_cfg *c, char *half, struct why *why)
{
    double own_heads[N_GENERAL] = {0};
    char  *opts;
    enum fail err = cut(half, &opts, why);

    if (!err)
        err = find_mixer(c, half, why);
    if (err)
        return err;
    set_standard(c->mixer->opts, c->opt);
    err = take_opts(opts, c->mixer->name, c->mixer->opts, c->opt, general, own_heads,
                    c->context, why);
    if (err)
        return err;
    if (own_heads[HEADS] > 0)
        c->H = c->Hk = (int)own_heads[HEADS];
    if (own_heads[KV_HEADS] > 0)
        c->Hk = (int)own_heads[KV_HEADS];
    return FAIL_NONE;
}

static enum fail parse_position(struct mixer_cfg *c, char *half, struct why *why)
{
    char *opts;
    enum fail err = cut(half, &opts, why);

    if (!err)
        err = find_position(c, half, why);
    if (err)
        return err;
    set_standard(c->position->opts, c->position_opt);
    return take_opts(opts, c->position->name, c->position->opts, c->position_opt,
                     NULL, NULL, c->context, why);
}

/* Heads must divide the width, and whatever is rotated must come in pairs. */
static enum fail check_heads(const struct mixer_cfg *c, struct why *why)
{
    int heads, dk;

    if (c->C % c->H)
        return fail(why, FAIL_USAGE, "heads = %d do not divide width = %d", c->H, c->C);
    if (c->H % c->Hk)
        return fail(why, FAIL_USAGE, "kv_heads = %d do not divide heads = %d",
                    c->Hk, c->H);
    if (c->position == &position_none)
        return FAIL_NONE;
    if (!c->mixer->position)
        return fail(why, FAIL_USAGE, "%s takes no position encoding; leave out +%s",
                    c->mixer->name, c->position->name);
    mixer_angles(c, &heads, &dk);
    if (dk % 2)
        return fail(why, FAIL_USAGE,
                    "%s turns pairs, but the keys of a head are %d wide; make that even "
                    "by width%s, or write %s+none", c->position->name, dk,
                    find_opt(c->mixer->opts, "dk") ? ", heads or dk" : " or heads",
                    c->mixer->name);
    return FAIL_NONE;
}

enum fail mixer_parse(struct mixer_cfg *c, const char *entry, struct why *why)
{
    char       text[ENTRY_MAX], standard[32], *half;
    size_t     n = 0;
    struct why inner;
    enum fail  err;

    for (const char *p = entry; *p && n < sizeof text - 1; p++)
        if (!isspace((unsigned char)*p))
            text[n++] = *p;
    text[n] = '\0';
    half = cut_position(text);
    c->eps = c->eps > 0 ? c->eps : MIXER_EPS;
    err = parse_mixer(c, text, &inner);
    if (!err && !half) {
        snprintf(standard, sizeof standard, "%s",
                 c->mixer->position ? c->mixer->position : position_none.name);
        half = standard;
    }
    if (!err)
        err = parse_position(c, half, &inner);
    if (!err)
        err = check_heads(c, &inner);
    return err ? fail(why, err, "mixers = %.120s: %.800s", entry, inner.line) : FAIL_NONE;
}
