/* Sessions and samplers. */
#include "infer/session.h"

#include "tools/api/api.h"

#include <stdlib.h>
#include <string.h>

struct weft_session {
    struct session session;
    int            vocab;
    real          *logits;      // (slots, vocab)
};

struct weft_sampler {
    struct sampler *sampler;
    int             vocab;
    real           *logits;     // (vocab)
};

/* ---- opening ---- */

WEFT_EXPORT weft_session *weft_session_open(const weft_model *m, int slots)
{
    weft_session *s = calloc(1, sizeof *s);
    struct why    why = {"no memory for a session"};

    api_begin();
    if (slots < 1) {
        snprintf(why.line, sizeof why.line, "a session has at least one slot");
    } else if (s && !session_open(&s->session, &m->model, slots, &why)) {
        s->vocab = m->model.cfg.vocab;
        s->logits = malloc((size_t)slots * (size_t)s->vocab * sizeof *s->logits);
        if (s->logits)
            return s;
    }
    api_fail(FAIL_MEMORY, "%s", why.line);
    weft_session_close(s);
    return NULL;
}

WEFT_EXPORT void weft_session_close(weft_session *s)
{
    if (!s)
        return;
    session_close(&s->session);
    free(s->logits);
    free(s);
}

/* ---- sequences ---- */

static int check_slot(const weft_session *s, int slot)
{
    if (slot >= 0 && slot < s->session.S)
        return 0;
    return api_fail(FAIL_USAGE, "there is no slot %d of %d", slot, s->session.S);
}

static int check_ids(const weft_session *s, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= s->vocab)
            return api_fail(FAIL_USAGE, "token %ld is not below the vocabulary of %d",
                            (long)ids[i], s->vocab);
    return 0;
}

static void to_floats(float *to, const real *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)from[i];
}

WEFT_EXPORT int weft_feed(weft_session *s, int slot, const int32_t *ids, size_t n,
                          float *logits)
{
    int err = check_slot(s, slot);

    if (!err && n == 0)
        err = api_fail(FAIL_USAGE, "nothing to feed");
    if (!err)
        err = check_ids(s, ids, n);
    if (err)
        return err;
    api_begin();
    session_feed(&s->session, slot, ids, (long)n, logits ? s->logits : NULL);
    if (logits)
        to_floats(logits, s->logits, (size_t)s->vocab);
    return 0;
}

WEFT_EXPORT int weft_step(weft_session *s, const int *slots, const int32_t *ids, int k,
                          float *logits)
{
    int err = k > 0 && k <= s->session.S ? check_ids(s, ids, (size_t)k)
                                         : api_fail(FAIL_USAGE, "a step is of 1 to %d "
                                                    "slots, not %d", s->session.S, k);

    for (int i = 0; i < k && !err; i++) {
        err = check_slot(s, slots[i]);
        for (int j = 0; j < i && !err; j++)
            if (slots[i] == slots[j])
                err = api_fail(FAIL_USAGE, "slot %d is twice in a step", slots[i]);
    }
    if (err)
        return err;
    api_begin();
    session_step(&s->session, slots, ids, k, s->logits);
    to_floats(logits, s->logits, (size_t)k * (size_t)s->vocab);
    return 0;
}

WEFT_EXPORT int weft_clear(weft_session *s, int slot)
{
    int err = check_slot(s, slot);

    if (!err)
        session_clear(&s->session, slot);
    return err;
}

WEFT_EXPORT int weft_copy(weft_session *s, int to, int from)
{
    int err = check_slot(s, to) ? FAIL_USAGE : check_slot(s, from);

    if (!err && to != from)
        session_copy(&s->session, to, from);
    return err;
}

WEFT_EXPORT long weft_position(const weft_session *s, int slot)
{
    return check_slot(s, slot) ? -1 : s->session.pos[slot];
}

/* ---- states: tokens seen (int64), then the layers' ---- */

WEFT_EXPORT size_t weft_state_size(const weft_session *s)
{
    return sizeof(int64_t) + s->session.state_bytes;
}

static int check_size(const weft_session *s, size_t size)
{
    if (size == weft_state_size(s))
        return 0;
    return api_fail(FAIL_USAGE, "a state has %zu bytes, not %zu", weft_state_size(s),
                    size);
}

WEFT_EXPORT int weft_state_get(const weft_session *s, int slot, void *state, size_t size)
{
    int     err = check_slot(s, slot) ? FAIL_USAGE : check_size(s, size);
    long    pos;
    int64_t seen;

    if (err)
        return err;
    session_get(&s->session, slot, (char *)state + sizeof seen, &pos);
    seen = pos;
    memcpy(state, &seen, sizeof seen);
    return 0;
}

WEFT_EXPORT int weft_state_set(weft_session *s, int slot, const void *state, size_t size)
{
    int     err = check_slot(s, slot) ? FAIL_USAGE : check_size(s, size);
    int64_t seen;

    if (err)
        return err;
    memcpy(&seen, state, sizeof seen);
    if (seen < 0)
        return api_fail(FAIL_INPUT, "not a state: it has seen %lld tokens",
                        (long long)seen);
    session_set(&s->session, slot, (const char *)state + sizeof seen, (long)seen);
    return 0;
}

/* ---- samplers ---- */

WEFT_EXPORT weft_sampler *weft_sampler_open(const weft_model *m, const char *options)
{
    json_t       *j = api_options(options);
    struct asked  a = {0};
    weft_sampler *s = NULL;

    if (j && api_sampling(&a, j, m)) {
        s = calloc(1, sizeof *s);
        if (s) {
            s->vocab = m->model.cfg.vocab;
            s->sampler = sampler_open(&a.sampler, s->vocab, 0);
            s->logits = malloc((size_t)s->vocab * sizeof *s->logits);
        }
        if (!s || !s->sampler || !s->logits) {
            api_fail(FAIL_MEMORY, "no memory for a sampler");
            weft_sampler_close(s);
            s = NULL;
        }
    }
    asked_close(&a);
    json_decref(j);
    return s;
}

WEFT_EXPORT void weft_sampler_close(weft_sampler *s)
{
    if (!s)
        return;
    sampler_close(s->sampler);
    free(s->logits);
    free(s);
}

WEFT_EXPORT int32_t weft_pick(weft_sampler *s, const float *logits)
{
    for (int i = 0; i < s->vocab; i++)
        s->logits[i] = (real)logits[i];
    return sampler_pick(s->sampler, s->logits);
}

WEFT_EXPORT void weft_accept(weft_sampler *s, int32_t id)
{
    if (id >= 0 && id < s->vocab)
        sampler_accept(s->sampler, id);
}
