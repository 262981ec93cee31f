#include "data/encode.h"

#include "data/corpus_sample.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SLICE = 1 << 14, BATCH = 1 << 21, SLICES = 1 << 13 };

struct slice {
    int    split;
    size_t at, len;                 // in the batch's text
    long   n;                       // ids it became, at the same place in the batch's ids
    bool   eos;                     // a document ends after it
    uint64_t *mark;                 // gets the tokens of shard 0 before it; or NULL
};

struct batch {
    int          n;                 // slices
    size_t       used;              // bytes of text
    struct slice slice[SLICES];
    char         text[BATCH];
    uint32_t     ids[BATCH];        // an id stands for one byte or more
};

struct encoder {
    const struct tokenizer *tokenizer;
    const char             *prefix;
    bool                    inside; // a document whose beginning was given
    struct shard_writer    *to[2];
    uint64_t                tokens; // appended to the first of them
    struct batch           *now;    // being filled
    struct batch           *before; // encoded, not yet appended
    struct batch            batch[2];
};

enum fail encoder_open(struct encoder **out, const struct tokenizer *t,
                       const char *prefix, struct shard_writer *const to[2],
                       struct why *why)
{
    struct encoder *e = malloc(sizeof *e);

    *out = e;
    if (!e)
        return fail(why, FAIL_MEMORY, "out of memory for encoding");
    e->tokenizer = t;
    e->prefix = prefix;
    e->inside = false;
    e->to[0] = to[0];
    e->to[1] = to[1];
    e->tokens = 0;
    e->now = &e->batch[0];
    e->before = &e->batch[1];
    e->now->n = e->before->n = 0;
    e->now->used = 0;
    return 0;
}

void encoder_close(struct encoder *e)
{
    free(e);
}

static enum fail append(struct encoder *e, const struct batch *b, struct why *why)
{
    uint32_t eos = (uint32_t)tokenizer_eos(e->tokenizer);
    enum fail err = 0;

    for (int i = 0; i < b->n && !err; i++) {
        const struct slice *s = &b->slice[i];

        if (s->n < 0 || (size_t)s->n > s->len)
            err = fail(why, FAIL_MEMORY, "out of memory while encoding");
        else
            err = shard_append(e->to[s->split], b->ids + s->at, (uint64_t)s->n, why);
        if (!err && s->eos)
            err = shard_append(e->to[s->split], &eos, 1, why);
        if (!err && s->split == 0)
            e->tokens += (uint64_t)s->n + s->eos;
        if (!err && s->mark)
            *s->mark = e->tokens;
    }
    return err;
}

/* Encode the batch at hand while one thread appends (and compresses) the one before. */
static enum fail turn(struct encoder *e, struct why *why)
{
    struct batch *b = e->now;
    enum fail     err = 0;

    #pragma omp parallel for schedule(dynamic)
    for (int i = -1; i < b->n; i++) {
        struct slice *s = &b->slice[i < 0 ? 0 : i];

        if (i < 0)
            err = append(e, e->before, why);
        else
            s->n = tokenizer_encode(e->tokenizer, b->text + s->at, s->len, b->ids + s->at,
                                    s->len);
    }
    e->now = e->before;
    e->before = b;
    e->now->n = 0;
    e->now->used = 0;
    return err;
}

enum fail encoder_flush(struct encoder *e, struct why *why)
{
    enum fail err = turn(e, why);

    return err ? err : turn(e, why);
}

void encoder_record(struct encoder *e, struct record *r)
{
    record_bytes(r, &e->inside, sizeof e->inside);
    record_bytes(r, &e->tokens, sizeof e->tokens);
}

static enum fail add(struct encoder *e, const struct slice *s, const char *bytes,
                     struct why *why)
{
    struct batch *b = e->now;
    size_t        before = e->inside || s->eos || s->mark ? 0 : strlen(e->prefix);
    enum fail     err;

    if (b->n == SLICES || b->used + before + s->len > BATCH) {
        if ((err = turn(e, why)))
            return err;
        b = e->now;
    }
    memcpy(b->text + b->used, e->prefix, before);
    memcpy(b->text + b->used + before, bytes, s->len);
    b->slice[b->n] = *s;
    b->slice[b->n].at = b->used;
    b->slice[b->n++].len += before;
    b->used += before + s->len;
    e->inside = !s->eos && !s->mark;
    return 0;
}

enum fail encoder_text(struct encoder *e, int split, const char *bytes, size_t len,
                       struct why *why)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = text_slice(bytes + at, len - at, SLICE);

        enum fail err = add(e, &(struct slice){.split = split, .len = n}, bytes + at,
                            why);

        if (err)
            return err;
    }
    return 0;
}

enum fail encoder_eos(struct encoder *e, int split, struct why *why)
{
    return add(e, &(struct slice){.split = split, .eos = true}, "", why);
}

enum fail encoder_mark(struct encoder *e, uint64_t *tokens, struct why *why)
{
    return add(e, &(struct slice){.mark = tokens}, "", why);
}
