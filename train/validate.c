#include "train/validate.h"

#include "infer/score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The first tokens of a shard. */
static enum fail read_tokens(struct validation *v, const struct shard *s, struct why *why)
{
    uint32_t frame[SHARD_FRAME], n;

    for (uint64_t i = 0, at = 0; at < v->n; i++, at += n) {
        enum fail err = shard_frame(s, i, frame, &n, why);

        if (err)
            return err;
        if (n > v->n - at)
            n = (uint32_t)(v->n - at);
        memcpy(v->ids + at, frame, n * sizeof *frame);
    }
    return 0;
}

static void count_bytes(struct validation *v, const struct tokenizer *k)
{
    size_t len;

    v->bytes = 0;
    for (uint64_t i = 0; i < v->n; i++) {
        tokenizer_piece(k, v->ids[i], &len);
        v->bytes += len;
    }
}

enum fail validation_open(struct validation *v, const struct dataset *d, struct why *why)
{
    const struct shard *s = &d->shard[1];
    enum fail           err;

    *v = (struct validation){.eos = tokenizer_eos(d->tokenizer)};
    v->n = s->n < VALIDATE_TOKENS ? s->n : VALIDATE_TOKENS;
    if (v->n == 0)
        return 0;
    v->ids = malloc(v->n * sizeof *v->ids);
    err = v->ids ? read_tokens(v, s, why) : fail(why, FAIL_MEMORY, "out of memory");
    if (err)
        validation_close(v);
    else
        count_bytes(v, d->tokenizer);
    return err;
}

void validation_cut(struct validation *v, const struct tokenizer *k, uint64_t n)
{
    if (v->n > n) {
        v->n = n;
        count_bytes(v, k);
    }
}

void validation_close(struct validation *v)
{
    free(v->ids);
    *v = (struct validation){0};
}

static enum fail next_tokens(void *user, uint32_t *ids, long n, long *got,
                             struct why *why)
{
    struct validation *v = user;
    uint64_t           left = v->n - v->at;

    (void)why;
    if ((uint64_t)n > left)
        n = (long)left;
    memcpy(ids, v->ids + v->at, (size_t)n * sizeof *ids);
    v->at += (uint64_t)n;
    *got = n;
    return 0;
}

enum fail validation_run(struct validation *v, struct trainer *t, double *loss,
                         double *bpb, struct why *why)
{
    struct score s;
    enum fail    err;

    *loss = *bpb = NAN;
    if (v->n == 0)
        return 0;
    v->at = 0;
    err = score_run(&t->model, &t->pass, t->cfg.batch, v->eos, next_tokens, v, 0, NULL,
                    NULL, &s, why);
    if (err)
        return err;
    *loss = s.nats / (double)s.tokens;
    *bpb = v->bytes ? s.nats / log(2) / (double)v->bytes : NAN;
    return 0;
}
