#include "tools/lab/text/streams.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The first k of a random permutation of [0, n). */
static void choose(struct rng *r, int *out, int k, int n)
{
    struct rng key = {rng_next(r), 0};

    for (int i = 0; i < k; i++)
        out[i] = (int)rng_permute(&key, i, n);
}

static void blank(int32_t *targets, int T)
{
    for (int t = 0; t < T; t++)
        targets[t] = -1;
}

/* ---- needles ---------------------------------------------------------------------- */

enum { LETTERS = 26 };

static void write_hay(struct rng *r, int32_t *tokens, int n)
{
    static const char hay[] = "the grass is green. the sky is blue. the sun is yellow. "
                              "here we go. there and back again. ";
    size_t            at = rng_below(r, sizeof hay - 1);

    for (int i = 0; i < n; i++)
        tokens[i] = hay[(at + i) % (sizeof hay - 1)];
}

static void write_needle(int32_t *at, char key, const char *digits)
{
    const char text[NEEDLE_BYTES] = {key, digits[0], digits[1], digits[2], '.', ' '};

    for (int i = 0; i < NEEDLE_BYTES; i++)
        at[i] = text[i];
}

static void write_question(int32_t *at, int32_t *target, char key, const char *digits)
{
    const char text[NEEDLE_QUESTION] = {key, digits[0], digits[1], digits[2], ' '};

    for (int i = 0; i < NEEDLE_QUESTION; i++)
        at[i] = text[i];
    for (int i = 0; i < NEEDLE_DIGITS; i++)
        target[i] = digits[i];
}

/* Slots of the needles, the first where depth says. */
static void place(const struct needle *n, struct rng *r, int *slot, int slots)
{
    int first = (int)lround(n->depth * (slots - 1));

    choose(r, slot, n->needles, slots);
    if (n->depth < 0)
        return;
    for (int i = 1; i < n->needles; i++)
        if (slot[i] == first)
            slot[i] = slot[0];
    slot[0] = first;
}

void needle_fill(const void *user, struct rng *r, int T, int32_t *tokens,
                 int32_t *targets)
{
    const struct needle *n = user;
    int                  body = T - n->questions * NEEDLE_QUESTION;
    int                  key[LETTERS], slot[LETTERS];

    blank(targets, T);
    write_hay(r, tokens, T);
    choose(r, key, n->needles, LETTERS);
    place(n, r, slot, body / NEEDLE_BYTES);
    for (int i = 0; i < n->needles; i++) {
        char digits[NEEDLE_DIGITS];
        int  at = body + i * NEEDLE_QUESTION;

        for (int j = 0; j < NEEDLE_DIGITS; j++)
            digits[j] = (char)('0' + rng_below(r, 10));
        write_needle(tokens + slot[i] * NEEDLE_BYTES, (char)('A' + key[i]), digits);
        if (i < n->questions)
            write_question(tokens + at, targets + at, (char)('A' + key[i]), digits);
    }
}

/* ---- facts ------------------------------------------------------------------------ */

enum { KEYS = 256, LONGEST = 4096, TRIES = 64 };

static int draw_distance(const struct facts *f, struct rng *r)
{
    double span = log((f->far + 1.0) / f->near);
    int    d = (int)(f->near * exp(span * rng_uniform(r)));

    return d < f->far ? d : f->far;
}

/* Two free places, so far apart as drawn; false when none are found. */
static bool find_room(const struct facts *f, struct rng *r, bool *taken, int T, int *from,
                      int *to)
{
    for (int i = 0; i < TRIES; i++) {
        int d = draw_distance(f, r);

        *from = (int)rng_below(r, T - d);
        *to = *from + d;
        if (!taken[*from] && !taken[*to])
            return taken[*from] = taken[*to] = true;
    }
    return false;
}

void facts_fill(const void *user, struct rng *r, int T, int32_t *tokens, int32_t *targets)
{
    const struct facts *f = user;
    const int           question = f->keys * f->values, noise = question + f->keys;
    bool                taken[LONGEST] = {false};
    int                 key[KEYS], from, to;

    blank(targets, T);
    for (int t = 0; t < T; t++)
        tokens[t] = noise + (int32_t)rng_below(r, f->noise);
    choose(r, key, f->facts, f->keys);
    for (int i = 0; i < f->facts && find_room(f, r, taken, T, &from, &to); i++) {
        int value = (int)rng_below(r, f->values);

        tokens[from] = key[i] * f->values + value;
        tokens[to] = question + key[i];
        targets[to] = value;
    }
}
