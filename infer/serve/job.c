#include "infer/serve/job.h"

#include "data/base/clock.h"
#include "data/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool open_parts(struct job *j)
{
    const struct job_ask *a = &j->ask;

    j->out = memory_stream(&j->text, &j->len);
    j->sampler = sampler_open(&a->sampler, j->engine->model.cfg.vocab, a->stream);
    if (!j->out || !j->sampler)
        return false;
    j->stream = stream_open(j->out, false, a->stop, a->n_stop);
    if (j->stream && a->n_prompt == a->hidden)      // the model begins the document
        stream_skip(j->stream, j->engine->model.cfg.prefix);
    for (long i = a->hidden; i < a->n_prompt; i++)
        sampler_accept(j->sampler, a->prompt[i]);
    return j->stream && fflush(j->out) == 0;
}

struct job *job_open(struct engine *e, struct line *line, const struct job_ask *ask)
{
    struct job *j = calloc(1, sizeof *j);

    if (!j)
        return NULL;
    j->ask = *ask;
    j->engine = engine_hold(e);
    j->line = line;
    j->slot = -1;
    j->read = -1;
    j->since = wall_seconds();
    if (open_parts(j))
        return j;
    job_close(j);
    return NULL;
}

void job_close(struct job *j)
{
    stream_close(j->stream);
    sampler_close(j->sampler);
    if (j->out)
        fclose(j->out);
    free(j->text);
    free(j->token);
    free(j->likely);
    engine_release(j->engine);
    free(j);
}

/* Room for one token more. */
static bool grow(struct job *j)
{
    long              cap = j->cap ? 2 * j->cap : 64;
    size_t            top = (size_t)j->ask.top;
    struct job_token *token = realloc(j->token, (size_t)cap * sizeof *token);
    struct likely    *likely;

    if (!token)
        return false;
    j->token = token;
    likely = realloc(j->likely, ((size_t)cap * top + 1) * sizeof *likely);
    if (!likely)
        return false;
    j->likely = likely;
    j->cap = cap;
    return true;
}

bool job_add(struct job *j, int32_t id, real nats, const struct likely *top)
{
    size_t k = (size_t)j->ask.top;

    if (j->n == j->cap && !grow(j))
        return false;
    if (k && top)
        memcpy(j->likely + (size_t)j->n * k, top, k * sizeof *top);
    for (size_t i = 0; i < k && !top; i++)
        j->likely[(size_t)j->n * k + i] = (struct likely){-1, (real)NAN};
    j->token[j->n++] = (struct job_token){id, nats, j->len};
    return true;
}

/* Its nats, and the likeliest beside it into top. */
static real weigh(const struct job *j, int32_t id, const real *logits, real *row,
                  struct likely *top)
{
    int V = j->engine->model.cfg.vocab;

    if (!j->ask.nats)
        return (real)NAN;
    memcpy(row, logits, (size_t)V * sizeof *row);
    return cross_entropy_top(row, id, V, top, j->ask.top);
}

bool job_pick(struct job *j, const real *logits, real *row)
{
    const struct tokenizer *t = j->engine->tokenizer;
    struct likely           top[32];
    int32_t                 id = sampler_pick(j->sampler, logits);
    real                    nats = weigh(j, id, logits, row, top);
    size_t                  len;
    const char             *piece = tokenizer_piece(t, (uint32_t)id, &len);

    pthread_mutex_lock(&j->line->lock);
    j->last = id;
    j->failed |= !job_add(j, id, nats, top);
    if (id == tokenizer_eos(t))
        j->stopped = true;
    else
        j->stopped = stream_push(j->stream, piece, len);
    j->skipped = stream_skipped(j->stream);
    if (j->n)
        j->token[j->n - 1].end = j->len;
    if (!j->line->for_end)
        pthread_cond_signal(&j->line->news);
    pthread_mutex_unlock(&j->line->lock);
    return !j->stopped && !j->failed && j->n - j->n_prompt < j->ask.max_tokens;
}

void job_end(struct job *j, bool failed)
{
    pthread_mutex_lock(&j->line->lock);
    stream_end(j->stream);
    j->skipped = stream_skipped(j->stream);
    j->failed |= failed;
    j->state = JOB_DONE;
    pthread_cond_signal(&j->line->news);
    pthread_mutex_unlock(&j->line->lock);
}
