#include "train/validate.h"

#include "infer/score.h"
#include "tokenizer/text_bytes.h"
#include "train/ranks.h"

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

static void count_bytes(struct validation *v, const struct dataset *d)
{
    struct text_bytes b = text_bytes_open(d->tokenizer, d->prefix);

    v->bytes = 0;
    for (uint64_t i = 0; i < v->n; i++)
        v->bytes += text_bytes_next(&b, v->ids[i]);
}

enum fail validation_open(struct validation *v, const struct dataset *d, struct why *why)
{
    const struct shard *s = &d->shard[1];
    enum fail           err;

    *v = (struct validation){.eos = tokenizer_eos(d->tokenizer),
                             .prefix = strlen(d->prefix)};
    v->n = s->n < VALIDATE_TOKENS ? s->n : VALIDATE_TOKENS;
    if (v->n == 0)
        return 0;
    v->ids = malloc(v->n * sizeof *v->ids);
    v->nats = malloc(v->n * sizeof *v->nats);
    v->cut = malloc(((size_t)ranks_n() + 1) * sizeof *v->cut);
    err = v->ids && v->nats && v->cut ? read_tokens(v, s, why)
                                      : fail(why, FAIL_MEMORY, "out of memory");
    if (err)
        validation_close(v);
    else
        count_bytes(v, d);
    return err;
}

void validation_cut(struct validation *v, const struct dataset *d, uint64_t n)
{
    if (v->n > n) {
        v->n = n;
        count_bytes(v, d);
    }
}

void validation_close(struct validation *v)
{
    free(v->ids);
    free(v->nats);
    free(v->cut);
    *v = (struct validation){0};
}

static enum fail next_tokens(void *user, uint32_t *ids, long n, long *got,
                             struct why *why)
{
    struct validation *v = user;
    uint64_t           left = v->end - v->at;

    (void)why;
    if ((uint64_t)n > left)
        n = (long)left;
    memcpy(ids, v->ids + v->at, (size_t)n * sizeof *ids);
    v->at += (uint64_t)n;
    *got = n;
    return 0;
}

/* Where the nats of the next window go. */
static void keep_nats(void *user, const uint32_t *ids, const real *nats, long n)
{
    double **at = user;

    (void)ids;
    for (long i = 0; i < n; i++)
        *(*at)++ = (double)nats[i];
}

/* Give every rank whole windows of T tokens. */
static void cut_windows(struct validation *v, uint64_t T)
{
    uint64_t windows = (v->n + T - 1) / T, ranks = (uint64_t)ranks_n();

    for (uint64_t i = 0; i <= ranks; i++) {
        uint64_t at = windows * i / ranks * T;

        v->cut[i] = at < v->n ? at : v->n;
    }
}

/* The nats of this rank's windows. Nothing is carried from one window to the next but the
 * token before it. */
static enum fail score_share(struct validation *v, struct trainer *t, struct why *why)
{
    int          share = ranks_share_of(ranks_me());
    uint64_t     first = v->cut[share];
    double      *at = v->nats + first;
    struct score unread;

    v->at = first;
    v->end = v->cut[share + 1];
    if (v->at == v->end)
        return FAIL_NONE;
    return score_run(&t->model, &t->pass, t->cfg.batch,
                     first ? (int)v->ids[first - 1] : v->eos, next_tokens, v, 0,
                     keep_nats, &at, &unread, why);
}

enum fail validation_run(struct validation *v, struct trainer *t, double *loss,
                         double *bpb, struct why *why)
{
    double    nats = 0;
    enum fail err;

    *loss = *bpb = NAN;
    if (v->n == 0)
        return 0;
    cut_windows(v, (uint64_t)t->cfg.context);
    err = ranks_agree(score_share(v, t, why), why);
    if (err)
        return err;
    ranks_spread_doubles(v->nats, v->cut);
    for (uint64_t i = 0; i < v->n; i++)
        nats += v->nats[i];
    *loss = nats / (double)v->n;
    *bpb = v->bytes ? nats / log(2) / (double)v->bytes : NAN;
    return 0;
}
