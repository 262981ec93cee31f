/* Two files of `weft bench --json` lines. Lines of the same shape belong together;
 * several in one file (the command repeated) tell how noisy the machine was. */
#include "tools/bench/bench.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const shape_keys[] = {
    "arch", "layers", "width", "heads", "vocab", "context", "batch", "threads",
    "muon", "recompute", "openblas", "bf16",
};

static const struct measure {
    const char *key, *about;
    bool        smaller_is_better;
} measures[] = {
    {"tok_s", "training tok/s", false},
    {"prefill_tok_s", "prefill tok/s", false},
    {"decode_tok_s", "decoding tok/s", false},
    {"decode_together_tok_s", "decoding 8 at once, tok/s", false},
    {"peak_rss_mib", "training memory, MiB", true},
};

enum {
    SHAPE_KEYS = sizeof shape_keys / sizeof *shape_keys,
    MEASURES = sizeof measures / sizeof *measures,
};

/* An array of all lines, or NULL. */
static json_t *read_lines(const char *path, struct why *why)
{
    json_t      *all = json_array(), *one;
    json_error_t error;
    FILE        *f = fopen(path, "re");

    if (f) {
        while ((one = json_loadf(f, JSON_DISABLE_EOF_CHECK, &error)))
            json_array_append_new(all, one);
        fclose(f);
    }
    if (json_array_size(all))
        return all;
    json_decref(all);
    (void)fail(why, FAIL_INPUT, "%s: %s; make it with `weft bench --json`", path,
               f ? "holds no measurements" : "cannot be read");
    return NULL;
}

static bool same_shape(const json_t *a, const json_t *b)
{
    for (int i = 0; i < SHAPE_KEYS; i++) {
        json_t *x = json_object_get(a, shape_keys[i]);
        json_t *y = json_object_get(b, shape_keys[i]);

        if ((x || y) && !json_equal(x, y))
            return false;
    }
    return true;
}

/* The best of a measure over all lines of a shape, and its noise: how far the others fell
 * behind, or, of a single line, its median step behind its best. */
struct best {
    double value, noise;
    int    n;
};

static struct best best_of(const json_t *lines, const json_t *shape,
                           const struct measure *m)
{
    struct best b = {0};
    double      worst = 0, median = 0;

    for (size_t i = 0; i < json_array_size(lines); i++) {
        const json_t *line = json_array_get(lines, i);
        double        x = json_number_value(json_object_get(line, m->key));

        if (!same_shape(line, shape) || !(x > 0))
            continue;
        if (!b.n || (m->smaller_is_better ? x < b.value : x > b.value)) {
            b.value = x;
            median = json_number_value(json_object_get(line, "tok_s_median")) /
                     json_number_value(json_object_get(line, "tok_s"));
        }
        if (!b.n || (m->smaller_is_better ? x > worst : x < worst))
            worst = x;
        b.n++;
    }
    if (b.n)
        b.noise = b.n > 1              ? fabs(1 - worst / b.value)
                : m->smaller_is_better ? 0
                                       : 1 - median;
    return b;
}

static void print_measure(const struct measure *m, struct best was, struct best is)
{
    enum { PERCENT = 100 };
    double change = is.value / was.value - 1, least = 0.02;
    double noise = fmax(least, fmax(was.noise, is.noise));
    bool   better = m->smaller_is_better ? change < 0 : change > 0;

    printf("  %-28s %10.0f -> %10.0f  %+6.1f %%  %s (noise %.1f %%)\n", m->about,
           was.value, is.value, change * PERCENT,
           fabs(change) <= noise ? "within noise" : better ? "better" : "worse",
           noise * PERCENT);
}

static void print_shape(const json_t *shape)
{
    printf("%s:", json_string_value(json_object_get(shape, "arch")));
    for (int i = 1; i < SHAPE_KEYS; i++) {
        const json_t *x = json_object_get(shape, shape_keys[i]);

        printf(" %s %lld", shape_keys[i],
               json_is_true(x) ? 1 : (long long)json_integer_value(x));
    }
    printf("\n");
}

static bool seen_before(const json_t *lines, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (same_shape(json_array_get(lines, i), json_array_get(lines, at)))
            return true;
    return false;
}

enum fail bench_changes(const char *before, const char *after, struct why *why)
{
    json_t *was = read_lines(before, why), *is = was ? read_lines(after, why) : NULL;
    int     shapes = 0;

    for (size_t i = 0; is && i < json_array_size(is); i++) {
        const json_t *shape = json_array_get(is, i);

        if (seen_before(is, i) || !best_of(was, shape, measures).n)
            continue;
        print_shape(shape);
        for (int k = 0; k < MEASURES; k++) {
            struct best a = best_of(was, shape, &measures[k]),
                        b = best_of(is, shape, &measures[k]);

            if (a.n && b.n)
                print_measure(&measures[k], a, b);
        }
        shapes++;
    }
    json_decref(was), json_decref(is);
    if (shapes)
        return FAIL_NONE;
    return is ? fail(why, FAIL_INPUT, "%s and %s have no shape in common", before, after)
              : FAIL_INPUT;
}
