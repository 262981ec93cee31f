#include "tools/lab/text/subject.h"

#include "data/base/split.h"
#include "model/files/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- heads ---- */

/* Each of from's heads, of `head` elements, G times. */
static void repeat_heads(real *to, const real *from, size_t heads, size_t head, size_t G)
{
    for (size_t i = 0; i < heads * G; i++)
        memcpy(to + i * head, from + i / G * head, head * sizeof *to);
}

/* The same model with a key head for each query head. FAIL_MEMORY. */
static enum fail ungroup(struct model *m, struct why *why)
{
    struct config c = m->cfg;
    struct model  wide;
    enum fail     err;
    int           H = c.kv_heads, G = c.heads / H;

    if (G == 1)
        return FAIL_NONE;
    c.kv_heads = c.heads;
    err = model_open(&wide, &c, why);
    if (err)
        return err;
    model_take(&wide, m, NULL);
    for (int i = 0; i < m->n_param; i++) {
        size_t n = param_size(&m->param[i].is);

        if (param_size(&wide.param[i].is) == n * (size_t)G)
            repeat_heads(wide.w + wide.param[i].at, m->wp[i], (size_t)H, n / (size_t)H,
                         (size_t)G);
    }
    model_close(m);
    *m = wide;
    return FAIL_NONE;
}

enum fail subject_open(struct subject *s, const char *path, struct why *why)
{
    enum fail err;

    *s = (struct subject){0};
    err = checkpoint_load(path, &s->model, &s->tokenizer, NULL, 0, why);
    if (!err) {
        s->hash = XXH3_64bits(s->model.w, s->model.n * sizeof *s->model.w);
        err = ungroup(&s->model, why);
    }
    if (err)
        subject_close(s);
    return err;
}

void subject_close(struct subject *s)
{
    model_close(&s->model);
    tokenizer_free(s->tokenizer);
    *s = (struct subject){0};
}

/* ---- mixers ---- */

/* The entry or, when it is softmax, what comes into its place. */
static bool replace(const char *entry, const char *arm, char *to, size_t cap)
{
    size_t name = strcspn(entry, "(+"), turn = split_length(entry, '+');

    if (name != strlen("softmax") || strncmp(entry, "softmax", name)) {
        snprintf(to, cap, "%s", entry);
        return false;
    }
    snprintf(to, cap, "%s%s", arm,
             arm[split_length(arm, '+')] ? "" : entry[turn] ? entry + turn : "+rope");
    return true;
}

enum fail subject_mixers(const struct subject *s, const char *arm, char *to,
                         size_t cap, struct why *why)
{
    const char *list = s->model.cfg.mixers;
    bool        any = false;
    size_t      len = 0;

    for (size_t n; len < cap; list += n + 1) {
        char entry[sizeof s->model.cfg.mixers], now[sizeof entry + 128];

        n = split_length(list, '/');
        snprintf(entry, sizeof entry, "%.*s", (int)n, list);
        any |= replace(entry, arm, now, sizeof now);
        len += (size_t)snprintf(to + len, cap - len, "%s%s", len ? "/" : "", now);
        if (!list[n])
            break;
    }
    if (!any)
        return fail(why, FAIL_USAGE, "mixers = %.200s: no softmax to convert",
                    s->model.cfg.mixers);
    return FAIL_NONE;
}
