#include "tests/support/golden.h"

#include "tests/support/rig.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void golden_open(struct golden *g, const char *path)
{
    struct why why = {""};

    g->path = path;
    ck_assert_msg(safetensors_open(&g->file, path, &why) == FAIL_NONE, "%s: %s", path,
                  why.line);
    g->layer = golden_text(g, "layer");
}

void golden_close(struct golden *g)
{
    safetensors_close(&g->file);
}

const char *golden_text(const struct golden *g, const char *key)
{
    const char *text = safetensors_meta(&g->file, key);

    ck_assert_msg(text != NULL, "%s: no '%s' in the metadata", g->path, key);
    return text;
}

double golden_number(const struct golden *g, const char *key)
{
    return strtod(golden_text(g, key), NULL);
}

static const struct tensor *find(const struct golden *g, const char *name,
                                 enum dtype dtype, size_t n)
{
    const struct tensor *t = safetensors_find(&g->file, name);

    ck_assert_msg(t != NULL, "%s: no tensor %s", g->path, name);
    ck_assert_msg(t->dtype == dtype, "%s: %s is of another type", g->path, name);
    ck_assert_msg(t->n == n, "%s: %s has %zu elements, not %zu", g->path, name, t->n, n);
    return t;
}

const double *golden_values(const struct golden *g, const char *name, size_t n)
{
    return find(g, name, DTYPE_F64, n)->data;
}

int32_t *golden_ids(const struct golden *g, const char *name, size_t n)
{
    const int64_t *from = find(g, name, DTYPE_I64, n)->data;
    int32_t       *ids = malloc(n * sizeof *ids);

    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)from[i];
    return ids;
}

void golden_read(const struct golden *g, const char *name, real *a, size_t n)
{
    const double *from = golden_values(g, name, n);

    for (size_t i = 0; i < n; i++)
        a[i] = (real)from[i];
}

real *golden_new(const struct golden *g, const char *name, size_t n)
{
    real *a = rig_reals(n);

    golden_read(g, name, a, n);
    return a;
}

size_t golden_rows(const struct golden *g)
{
    return (size_t)golden_number(g, "B") * (size_t)golden_number(g, "T");
}

void golden_assert_constant(const struct golden *g, const char *key, double value)
{
    ck_assert_msg(golden_number(g, key) == value, "%s: %s is %s, not %g", g->path, key,
                  golden_text(g, key), value);
}

void golden_compare(const struct golden *g, const char *name, const char *what,
                    const real *a, size_t n)
{
    double error = rig_error(a, golden_values(g, name, n), n);

    ck_assert_msg(error <= rig_tolerance(), "%s: %s%s: error %.3g, limit %.1g", g->path,
                  name, what, error, rig_tolerance());
}

/* ---- from metadata to an entry ----------------------------------------------------- */

/* What a layer computes with when it does not offer the key as an option. feature: only
 * under this feature map. The value, or per_head times width / heads. */
static const struct constant {
    const char *layer, *key, *feature;
    double      value, per_head;
} constants[] = {
    {"softmax",   "eps",     NULL,       1e-5, 0},
    {"rela",      "eps",     NULL,       1e-6, 0},
    {"linear",    "eps",     NULL,       1e-5, 0},
    {"linear",    "den_eps", "taylor",   0,    0},
    {"linear",    "den_eps", "favor",    0,    0},
    {"linear",    "den_eps", "id",       0,    0},
    {"linear",    "den_eps", NULL,       1e-6, 0},
    {"metala",    "eps",     NULL,       1e-5, 0},
    {"metala",    "tau",     NULL,       16,   0},
    {"luna",      "den_eps", NULL,       1e-6, 0},
    {"luna",      "nonneg",  NULL,       1,    0},
    {"retention", "eps",     NULL,       1e-5, 0},
    {"retention", "dk",      NULL,       0,    1},
    {"retention", "dv",      NULL,       0,    1},
    {"gla",       "eps",     NULL,       1e-5, 0},
    {"gla",       "tau",     NULL,       16,   0},
    {"mlstm",     "eps",     NULL,       1e-6, 0},
    {"mlstm",     "cap",     NULL,       15,   0},
    {"ssd",       "eps",     NULL,       1e-5, 0},
    {"ssd",       "conv",    NULL,       4,    0},
    {"deltanet",  "eps",     NULL,       1e-5, 0},
    {"deltanet",  "conv",    NULL,       4,    0},
    {"deltanet",  "dk",      NULL,       0,    1},
    {"deltanet",  "dv",      NULL,       0,    1},
    {"qlstm",     "conv",    NULL,       4,    0},
    {"rglru",     "conv",    NULL,       4,    0},
    {"rglru",     "c",       NULL,       8,    0},
    {"s6",        "conv",    NULL,       4,    0},
    {NULL,        NULL,      NULL,       0,    0},
};

/* Keys that are no mixer's option: they describe the file, or belong to the encoding. */
static const char *const general[] = {
    "layer", "case", "B", "T", "d", "rope", "rope_base",
    "sr_rank", "sr_act", "sr_bias", "sr_gate", NULL,
};

static bool among(const char *key, const char *const *names)
{
    while (*names && strcmp(*names, key))
        names++;
    return *names != NULL;
}

static void append(char *text, size_t cap, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t cap, const char *format, ...)
{
    size_t  len = strlen(text);
    va_list args;
    int     n;

    va_start(args, format);
    n = vsnprintf(text + len, cap - len, format, args);
    va_end(args);
    ck_assert_msg(n >= 0 && (size_t)n < cap - len, "entry longer than %zu bytes", cap);
}

static const char *text_of(const struct golden *g, const char *prefix, const char *key)
{
    char full[64];

    snprintf(full, sizeof full, "%s%s", prefix, key);
    return safetensors_meta(&g->file, full);
}

static const struct mixer *mixer_of(const struct golden *g, const char *name)
{
    for (int i = 0; i < n_mixers; i++)
        if (!strcmp(mixers[i]->name, name))
            return mixers[i];
    ck_abort_msg("%s: layer %s is not in the table of mixers", g->path, name);
    return NULL;
}

static bool offers(const struct mixer *m, const char *key)
{
    for (const struct opt *o = m->opts; o && o->name; o++)
        if (!strcmp(o->name, key))
            return true;
    return !strcmp(key, "heads") || !strcmp(key, "kv_heads");
}

/* The option's name: the key's own, but for rglru's width. */
static const char *option_name(const struct mixer *m, const char *key)
{
    return !strcmp(m->name, "rglru") && !strcmp(key, "width") ? "inner" : key;
}

/* Feature counts are set for favor and luna, and follow from the map else. */
static bool derived(const struct mixer *m, const char *key, const char *feature)
{
    return !strcmp(key, "m") && !strcmp(m->name, "linear") && strcmp(feature, "favor");
}

static void check_constant(const struct golden *g, const char *prefix, const char *layer,
                           const char *key, const char *value)
{
    const char *feature = text_of(g, prefix, "feature");
    const char *heads = text_of(g, prefix, "heads");
    double      got = strtod(value, NULL), want;

    for (const struct constant *c = constants; c->layer; c++) {
        if (strcmp(c->layer, layer) || strcmp(c->key, key))
            continue;
        if (c->feature && (!feature || strcmp(c->feature, feature)))
            continue;
        want = c->value;
        if (c->per_head > 0)
            want = c->per_head * golden_number(g, "d") / strtod(heads, NULL);
        ck_assert_msg(got == want, "%s: %s computes with %s = %g, not %s", g->path, layer,
                      key, want, value);
        return;
    }
    ck_abort_msg("%s: %s has no option %s", g->path, layer, key);
}

struct mixer_cfg golden_cfg(const struct golden *g, const char *entry)
{
    const char      *heads = safetensors_meta(&g->file, "heads");
    struct mixer_cfg c = {.C = (int)golden_number(g, "d"), .layers = 1,
                          .context = (int)golden_number(g, "T")};
    struct why       why = {""};

    c.H = c.Hk = heads ? atoi(heads) : 1;
    ck_assert_msg(mixer_parse(&c, entry, &why) == FAIL_NONE, "%s: %s", g->path, why.line);
    return c;
}

void golden_position(const struct golden *g, const char *prefix, char *entry, size_t cap)
{
    const char *rope = text_of(g, prefix, "rope");
    const char *base = text_of(g, prefix, "rope_base");

    *entry = 0;
    if (!rope)
        return;
    if (!strcmp(rope, "none"))
        append(entry, cap, "none");
    else if (!strcmp(rope, "rope"))
        append(entry, cap, "rope(base=%s)", base);
    else
        append(entry, cap, "srope(base=%s,rank=%s,act=%s,bias=%s,gate=%s)", base,
               text_of(g, prefix, "sr_rank"), text_of(g, prefix, "sr_act"),
               text_of(g, prefix, "sr_bias"), text_of(g, prefix, "sr_gate"));
}

void golden_entry(const struct golden *g, const char *prefix, int window, char *entry,
                  size_t cap)
{
    const struct mixer *m = mixer_of(g, text_of(g, prefix, "layer"));
    const char         *feature = text_of(g, prefix, "feature"), *before = "(";
    size_t              skip = strlen(prefix);
    char                position[128];

    snprintf(entry, cap, "%s", m->name);
    for (int i = 0; i < g->file.n_meta; i++) {
        const char *key = g->file.meta[2 * i], *value = g->file.meta[2 * i + 1], *name;

        if (strncmp(key, prefix, skip) || among(key + skip, general))
            continue;
        name = option_name(m, key + skip);
        if (derived(m, name, feature))
            continue;
        if (!offers(m, name)) {
            check_constant(g, prefix, m->name, name, value);
            continue;
        }
        if (window >= 0 && !strcmp(name, "window"))
            append(entry, cap, "%s%s=%d", before, name, window);
        else
            append(entry, cap, "%s%s=%s", before, name, value);
        before = ",";
    }
    append(entry, cap, "%s", *before == ',' ? ")" : "");
    golden_position(g, prefix, position, sizeof position);
    append(entry, cap, "%s%s", *position ? "+" : "", position);
}
