/* A text written, and a text scored. */
#include "data/base/memory.h"
#include "infer/prompt.h"
#include "infer/score.h"
#include "infer/session.h"
#include "infer/stream.h"
#include "tools/api/api.h"

#include <stdlib.h>
#include <string.h>

/* Ids of a text behind an EOS and the model's prefix, malloc'ed, *n of them; NULL: no
 * memory, which is left. */
static int32_t *ids_of(const weft_model *m, const char *text, size_t len, long *n)
{
    uint32_t *ids = prompt_encode(m->tokenizer, m->model.cfg.prefix,
                                  tokenizer_eos(m->tokenizer), text, len, n);

    if (!ids)
        api_fail(FAIL_MEMORY, "no memory for a text of %zu bytes", len);
    return (int32_t *)ids;
}

/* Those that a text is written on from: a prompt's, or, without one, the opening's. */
static int32_t *ids_to_feed(const weft_model *m, const char *prompt, size_t len, long *n)
{
    const struct config *c = &m->model.cfg;

    return !len && *c->opening
               ? (int32_t *)prompt_open(m->tokenizer, c->opening, n)
               : ids_of(m, prompt, len, n);
}

/* ---- writing ---- */

struct writing {
    const weft_model *m;
    struct session    session;
    struct sampler   *sampler;
    struct stream    *stream;
    FILE             *out;          // into bytes
    char             *bytes;
    size_t            len, told;
    int             (*on_bytes)(void *user, const char *bytes, size_t len);
    void             *user;
};

/* Hand over what is certain by now; false: enough. */
static bool tell(struct writing *w)
{
    size_t from = w->told;

    w->told = w->len;
    return w->told == from || !w->on_bytes(w->user, w->bytes + from, w->told - from);
}

/* True when it was told to stop. */
static bool write_on(struct writing *w, long most)
{
    const struct tokenizer *t = w->m->tokenizer;
    bool                    stopped = false, goes_on = true;
    int32_t                 id;
    size_t                  len;

    for (long i = 0; i < most && !stopped && goes_on; i++) {
        if (i)
            session_extend(&w->session, &id);
        id = sampler_pick(w->sampler, w->session.logits);
        if (id == tokenizer_eos(t))
            break;
        const char *piece = tokenizer_piece(t, (uint32_t)id, &len);

        stopped = stream_push(w->stream, piece, len);
        goes_on = tell(w);
    }
    stream_end(w->stream);
    return goes_on && !tell(w) ? true : !goes_on;
}

static int open_writing(struct writing *w, const struct asked *a)
{
    struct why why;
    int        err = session_open(&w->session, &w->m->model, 1, &why);

    if (err)
        return api_fail(err, "%s", why.line);
    w->sampler = sampler_open(&a->sampler, w->m->model.cfg.vocab, 0);
    w->out = memory_stream(&w->bytes, &w->len);
    w->stream = w->out ? stream_open(w->out, false, a->stop, a->n_stop) : NULL;
    if (!w->sampler || !w->stream)
        return api_fail(FAIL_MEMORY, "no memory for a text");
    return 0;
}

static void close_writing(struct writing *w)
{
    stream_close(w->stream);
    if (w->out)
        fclose(w->out);
    free(w->bytes);
    sampler_close(w->sampler);
    session_close(&w->session);
}

/* Feed the prompt; a text without one begins with the model's opening, which is told.
 * False: enough. */
static bool feed(struct writing *w, const int32_t *ids, long n, bool empty)
{
    const struct config *c = &w->m->model.cfg;
    const char          *opening = empty ? c->opening : "";

    for (long i = !*opening; i < n; i++)        // not the EOS
        sampler_accept(w->sampler, ids[i]);
    session_prompt(&w->session, ids, n);
    stream_echo(w->stream, opening, strlen(opening));
    stream_skip(w->stream, empty && !*opening ? c->prefix : "");
    return tell(w);
}

WEFT_EXPORT int weft_generate(const weft_model *m, const char *prompt, size_t len,
                              const char *options,
                              int (*on_bytes)(void *user, const char *bytes, size_t len),
                              void *user)
{
    struct writing w = {.m = m, .on_bytes = on_bytes, .user = user};
    json_t        *j = api_options(options);
    struct refusal why = {0};
    struct asked   a = {0};
    long           n, most = 256;
    int32_t       *ids = NULL;
    int            err = j && api_sampling(&a, j, m) ? 0 : FAIL_USAGE;

    api_begin();
    if (!err && !asked_whole(j, "max_tokens", 0, 1L << 40, &most, &why))
        err = api_fail(FAIL_USAGE, "options: %s", why.message);
    if (!err && !(ids = ids_to_feed(m, prompt, len, &n)))
        err = FAIL_MEMORY;
    if (!err)
        err = open_writing(&w, &a);
    if (!err && (!feed(&w, ids, n, len == 0) || write_on(&w, most)))
        err = api_fail(FAIL_INTERRUPTED, "stopped");
    close_writing(&w);
    free(ids);
    asked_close(&a);
    json_decref(j);
    return err;
}

/* ---- scoring ---- */

struct scoring {
    const uint32_t *ids;
    long            n, at;
    float          *nats;
    size_t          cap, told;
};

/* score_next */
static enum fail next_ids(void *user, uint32_t *ids, long n, long *got, struct why *why)
{
    struct scoring *s = user;

    (void)why;
    *got = n < s->n - s->at ? n : s->n - s->at;
    memcpy(ids, s->ids + s->at, (size_t)*got * sizeof *ids);
    s->at += *got;
    return 0;
}

/* score_each */
static void take_nats(void *user, const uint32_t *ids, const real *nats, long n)
{
    struct scoring *s = user;

    (void)ids;
    for (long i = 0; i < n; i++, s->told++)
        if (s->told < s->cap)
            s->nats[s->told] = (float)nats[i];
}

WEFT_EXPORT long weft_score(const weft_model *m, const char *text, size_t len,
                            float *nats, size_t cap)
{
    long           n;
    int32_t       *ids = ids_of(m, text, len, &n);
    struct scoring s = {.nats = nats, .cap = cap};
    struct pass    p = {0};
    struct score   sum;
    struct why     why;
    int            err;

    api_begin();
    if (!ids)
        return -1;
    s.ids = (uint32_t *)ids + 1;
    s.n = n - 1;
    err = pass_open(&p, &m->model, 1, m->model.cfg.context, PASS_SCORE, &why);
    if (!err)
        err = score_run(&m->model, &p, 1, tokenizer_eos(m->tokenizer), next_ids, &s, 0,
                        take_nats, &s, &sum, &why);
    pass_close(&p);
    free(ids);
    return err ? api_fail(-1, "%s", why.line) : n - 1;
}
