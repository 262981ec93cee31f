#include "infer/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A batch of windows on its way through the model; one allocation, at nats. */
struct batch {
    real     *nats;             // (B, T)
    uint32_t *ids;              // (B, T) as read
    int32_t  *tokens, *targets; // (B, T)
};

static enum fail batch_open(struct batch *b, size_t n, struct why *why)
{
    b->nats = malloc(n * (sizeof *b->nats + sizeof *b->ids + sizeof *b->tokens
                          + sizeof *b->targets));
    if (!b->nats)
        return fail(why, FAIL_MEMORY, "no memory to score %zu tokens at once", n);
    b->ids = (uint32_t *)(b->nats + n);
    b->tokens = (int32_t *)(b->ids + n);
    b->targets = b->tokens + n;
    return 0;
}

/* Read until want tokens are there or the end came; *n is how many. */
static enum fail fill(const struct batch *b, long want, score_next next, void *user,
                      long *n, struct why *why)
{
    enum fail err = 0;
    long      got = 1;

    for (*n = 0; !err && *n < want && got > 0; *n += err ? 0 : got)
        err = next(user, b->ids + *n, want - *n, &got, why);
    return err;
}

/* Inputs and targets of n tokens that follow `last`. */
static enum fail shift(const struct batch *b, long n, uint32_t last, int vocab,
                       struct why *why)
{
    for (long i = 0; i < n; i++) {
        if (b->ids[i] >= (uint32_t)vocab)
            return fail(why, FAIL_INPUT,
                        "token %u is not in the model's vocabulary of %d: "
                        "the text was tokenized for another model", b->ids[i], vocab);
        b->tokens[i] = (int32_t)(i ? b->ids[i - 1] : last);
        b->targets[i] = (int32_t)b->ids[i];
    }
    return 0;
}

static void add_window(struct score *s, const real *nats, long n)
{
    for (long t = 0; t < n; t++) {
        int i = 63 - __builtin_clzll((unsigned long long)t + 1);

        i = i < SCORE_BUCKETS ? i : SCORE_BUCKETS - 1;
        s->bucket_nats[i] += (double)nats[t];
        s->bucket_tokens[i]++;
        s->nats += (double)nats[t];
    }
    s->tokens += (uint64_t)n;
}

/* Whole windows in one call, a short one after them in another. */
static void score_batch(const struct model *m, struct pass *p,
                        const struct batch *b, long n)
{
    int  T = m->cfg.context, whole = (int)(n / T), rest = (int)(n % T);
    long at = (long)whole * T;

    if (whole)
        model_score(m, p, whole, T, b->tokens, b->targets, 0, b->nats);
    if (rest)
        model_score(m, p, 1, rest, b->tokens + at, b->targets + at, 0, b->nats + at);
}

enum fail score_run(const struct model *m, struct pass *p, int B, int eos,
                    score_next next, void *user, uint64_t max_tokens, score_each each,
                    void *each_user, struct score *out, struct why *why)
{
    struct batch b = {0};
    long     T = m->cfg.context, most = B * T, n;
    uint32_t last = (uint32_t)eos;
    enum fail    err = batch_open(&b, (size_t)most, why);

    *out = (struct score){0};
    while (!err) {
        uint64_t left = max_tokens ? max_tokens - out->tokens : UINT64_MAX;

        err = fill(&b, left < (uint64_t)most ? (long)left : most, next, user, &n, why);
        if (!err && n > 0)
            err = shift(&b, n, last, m->cfg.vocab, why);
        if (err || n == 0)
            break;
        score_batch(m, p, &b, n);
        last = b.ids[n - 1];
        for (long at = 0; at < n; at += T) {
            long len = n - at < T ? n - at : T;

            add_window(out, b.nats + at, len);
            if (each)
                each(each_user, b.ids + at, b.nats + at, len);
        }
    }
    free(b.nats);
    return err;
}

enum fail shard_cursor_next(void *user, uint32_t *ids, long n, long *got, struct why *why)
{
    struct shard_cursor *c = user;
    uint64_t frame = c->at / SHARD_FRAME;
    uint32_t at = (uint32_t)(c->at % SHARD_FRAME);
    enum fail            err;

    *got = 0;
    if (c->at >= c->shard->n)
        return 0;
    if (c->n == 0 || c->frame != frame) {
        c->n = 0;
        if ((err = shard_frame(c->shard, frame, c->ids, &c->n, why)))
            return err;
        c->frame = frame;
    }
    if (at >= c->n)
        return fail(why, FAIL_INPUT,
                    "%s: frame %llu is shorter than it should be; rebuild it with: "
                    "weft data build",
                    c->shard->path, (unsigned long long)frame);
    if (n > (long)(c->n - at))
        n = (long)(c->n - at);
    memcpy(ids, c->ids + at, (size_t)n * sizeof *ids);
    c->at += (uint64_t)n;
    *got = n;
    return 0;
}

void spread_add(struct spread *s, double x, double y)
{
    s->n++;
    s->x += x;
    s->y += y;
    s->xx += x * x;
    s->xy += x * y;
    s->yy += y * y;
}

double spread_error(const struct spread *s)
{
    double n = (double)s->n, r = s->x / s->y;
    double squares = s->xx - 2 * r * s->xy + r * r * s->yy;

    if (s->n < 2 || s->y <= 0)
        return NAN;
    return sqrt(n / (n - 1) * fmax(squares, 0)) / s->y;
}
