#include "tools/lab/text/corpus.h"

#include "data/stories/stories.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* B windows of T tokens, scored: their nats and bytes are added. */
static void add(const int32_t *targets, const real *scored, int B, int T, double *nats,
                double *bytes)
{
    for (int i = 0; i < B * T; i++) {
        nats[i % T] += (double)scored[i];
        bytes[i % T] += targets[i] != CORPUS_EOS;
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
        add(targets, scored, B, T, nats, bytes);
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
