#include "tools/lab/text/corpus.h"

#include "data/stories/stories.h"
#include "data/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int end_token(const struct corpus *c)
{
    return c->tokenizer ? tokenizer_eos(c->tokenizer) : CORPUS_EOS;
}

/* ---- stories ---- */

/* Story k with its end. Returns its bits. */
static double append(struct corpus *c, uint64_t seed, uint64_t k)
{
    char       story[STORY_MAX];
    double     bits;
    struct rng r = rng_open(seed, RNG_STORY, k);
    size_t     len = story_write(&r, story, sizeof story, &bits);

    for (size_t i = 0; i < len; i++)
        c->id[c->n++] = (unsigned char)story[i];
    c->id[c->n++] = CORPUS_EOS;
    return bits;
}

enum fail corpus_open(struct corpus *c, long bytes, long held_out, uint64_t seed,
                      struct why *why)
{
    size_t   room = (size_t)(bytes + held_out + 2 * STORY_MAX);
    uint64_t k = 0, first;
    double   bits = 0;

    *c = (struct corpus){.id = malloc(room * sizeof *c->id)};
    if (!c->id)
        return fail(why, FAIL_MEMORY, "out of memory for %zu bytes of stories", room);
    while (c->n < bytes)
        append(c, seed, k++);
    c->held = c->n;
    for (first = k; c->n < c->held + held_out; k++)
        bits += append(c, seed, k);
    c->floor = bits / (double)(c->n - c->held - (long)(k - first));
    return FAIL_NONE;
}

/* ---- text as a model's tokenizer cuts it ---- */

/* before and text in one, then, when it ends there, the document's end. */
static enum fail encode(struct corpus *c, const char *before, const char *text,
                        size_t len, bool ends, struct why *why)
{
    size_t   more = strlen(before), all = more + len;
    char    *joined = malloc(all + 1);
    int32_t *id = realloc(c->id, ((size_t)c->n + all + 1) * sizeof *id);
    long     n = -1;

    c->id = id ? id : c->id;
    if (joined && id) {
        memcpy(joined, before, more);
        memcpy(joined + more, text, len);
        n = tokenizer_encode(c->tokenizer, joined, all, (uint32_t *)id + c->n, all);
    }
    free(joined);
    if (n < 0)
        return fail(why, FAIL_MEMORY, "out of memory for the tokens of a text");
    c->n += n;
    if (ends)
        id[c->n++] = end_token(c);
    return FAIL_NONE;
}

static enum fail encode_stories(struct corpus *c, const char *prefix, long bytes,
                                uint64_t seed, struct why *why)
{
    enum fail err = FAIL_NONE;

    for (uint64_t k = 0; !err && bytes > 0; k++) {
        char       story[STORY_MAX];
        double     bits;
        struct rng r = rng_open(seed, RNG_STORY, k);
        size_t     len = story_write(&r, story, sizeof story, &bits);

        err = encode(c, prefix, story, len, true, why);
        bytes -= (long)len;
    }
    return err;
}

static enum fail encode_file(struct corpus *c, const char *prefix, const char *path,
                             long bytes, struct why *why)
{
    struct text      *t = NULL;
    struct text_piece piece = {.last = true};
    enum fail         err = text_open(&t, &path, 1, NULL, why);

    while (!err && bytes > 0) {
        const char *before = piece.last ? prefix : "";

        err = text_next(t, &piece, why);
        if (err || !piece.bytes)
            break;
        err = encode(c, before, piece.bytes, piece.len, piece.last, why);
        bytes -= (long)piece.len;
    }
    text_close(t);
    return err;
}

enum fail corpus_open_for(struct corpus *c, const struct tokenizer *t, const char *prefix,
                          const char *path, long bytes, long held_out, uint64_t seed,
                          struct why *why)
{
    enum fail err;

    *c = (struct corpus){.tokenizer = t, .floor = NAN};
    err = encode(c, "", "", 0, true, why);      // every document begins after an end
    if (!err)
        err = path ? encode_file(c, prefix, path, bytes + held_out, why)
                   : encode_stories(c, prefix, bytes + held_out, seed, why);
    if (err)
        corpus_close(c);
    c->held = c->n - (held_out < c->n / 8 ? held_out : c->n / 8);
    return err;
}

/* ---- windows ---- */

void corpus_close(struct corpus *c)
{
    free(c->id);
    *c = (struct corpus){0};
}

static void window(const struct corpus *c, long from, int T, int32_t *tokens,
                   int32_t *targets)
{
    for (int t = 0; t < T; t++) {
        tokens[t] = c->id[from + t];
        targets[t] = c->id[from + t + 1];
    }
}

void corpus_fill(const void *user, struct rng *r, int T, int32_t *tokens,
                 int32_t *targets)
{
    const struct corpus *c = user;

    window(c, (long)rng_below(r, (uint64_t)(c->held - T)), T, tokens, targets);
}

static double bytes_of(const struct corpus *c, int32_t token)
{
    size_t len;

    if (!c->tokenizer)
        return token != CORPUS_EOS;
    tokenizer_piece(c->tokenizer, (uint32_t)token, &len);
    return (double)len;
}

/* B windows of T tokens, scored: their nats and bytes are added. */
static void add(const struct corpus *c, const int32_t *targets, const real *scored, int B,
                int T, double *nats, double *bytes)
{
    for (int i = 0; i < B * T; i++) {
        nats[i % T] += (double)scored[i];
        bytes[i % T] += bytes_of(c, targets[i]);
    }
}

enum fail corpus_score(const struct corpus *c, const struct model *m, int T, double *nats,
                       double *bytes, struct why *why)
{
    enum { AT_ONCE = 16 };
    size_t      size = (size_t)AT_ONCE * T;
    struct pass p = {0};
    int32_t    *tokens = malloc(2 * size * sizeof *tokens), *targets = tokens + size;
    real       *scored = malloc(size * sizeof *scored);
    enum fail   err = tokens && scored
                          ? pass_open(&p, m, AT_ONCE, T, PASS_SCORE, why)
                          : fail(why, FAIL_MEMORY, "out of memory for scoring text");

    memset(nats, 0, (size_t)T * sizeof *nats);
    memset(bytes, 0, (size_t)T * sizeof *bytes);
    for (long at = c->held - 1; !err && at + T < c->n;) {
        int B = 0;

        for (; B < AT_ONCE && at + T < c->n; B++, at += T)
            window(c, at, T, tokens + B * T, targets + B * T);
        model_score(m, &p, B, T, tokens, targets, 0, scored);
        add(c, targets, scored, B, T, nats, bytes);
    }
    pass_close(&p);
    free(tokens);
    free(scored);
    return err;
}

double corpus_bits(const double *nats, const double *bytes, int from, int to)
{
    double sum = 0, n = 0;

    for (int t = from; t < to; t++)
        sum += nats[t], n += bytes[t];
    return sum / n / M_LN2;
}
