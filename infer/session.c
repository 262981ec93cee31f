#include "infer/session.h"

#include "model/kernels/arena.h"

#include <string.h>

/* Lay out what the sequences have; returns the bytes that it takes. */
static size_t lay_out(struct session *s, struct arena a)
{
    s->state = arena_bytes(&a, "state", (size_t)s->S * sizeof *s->state);
    s->pos = arena_bytes(&a, "pos", (size_t)s->S * sizeof *s->pos);
    s->row_state = arena_bytes(&a, "row_state", (size_t)s->S * sizeof *s->row_state);
    s->row_pos = arena_bytes(&a, "row_pos", (size_t)s->S * sizeof *s->row_pos);
    s->logits = arena_reals(&a, "logits", (size_t)s->S * (size_t)s->model->cfg.vocab);
    for (int i = 0; i < s->S; i++) {
        void *state = arena_bytes(&a, "sequence", s->state_bytes);

        if (a.base)
            s->state[i] = state;
    }
    return a.used;
}

enum fail session_open(struct session *s, const struct model *m, int S, struct why *why)
{
    double mib;

    *s = (struct session){.model = m, .S = S, .state_bytes = model_state_bytes(m)};
    s->bytes = lay_out(s, arena_over(NULL, 0));
    mib = (double)s->bytes / (1 << 20);
    s->memory = pages_reserve(s->bytes);
    if (!s->memory || pass_open(&s->prompt, m, 1, SESSION_CHUNK, PASS_EXTEND, why) ||
        pass_open(&s->token, m, S, 1, PASS_EXTEND, why)) {
        session_close(s);
        return fail(why, FAIL_MEMORY, "no memory for %d sequence%s (%.0f MiB)%s", S,
                    S > 1 ? "s" : "", mib, S > 1 ? "; ask for fewer" : "");
    }
    lay_out(s, arena_over(s->memory, s->bytes));
    return FAIL_NONE;
}

void session_close(struct session *s)
{
    pass_close(&s->prompt);
    pass_close(&s->token);
    pages_free(s->memory, s->bytes);
    *s = (struct session){0};
}

void session_reset(struct session *s)
{
    for (int i = 0; i < s->S; i++)
        session_clear(s, i);
}

/* ---- in step ---- */

void session_prompt(struct session *s, const int32_t *tokens, long n)
{
    size_t vocab = (size_t)s->model->cfg.vocab;

    session_feed(s, 0, tokens, n, s->logits);
    for (int i = 1; i < s->S; i++) {
        session_copy(s, i, 0);
        memcpy(s->logits + (size_t)i * vocab, s->logits, vocab * sizeof *s->logits);
    }
}

void session_extend(struct session *s, const int32_t *tokens)
{
    model_extend(s->model, &s->token, s->state, s->pos, s->S, 1, tokens, s->logits);
    for (int i = 0; i < s->S; i++)
        s->pos[i]++;
}

/* ---- each at its own pace ---- */

long session_chunk(const struct session *s, int slot, long n)
{
    long left = SESSION_CHUNK - s->pos[slot] % SESSION_CHUNK;

    return n < left ? n : left;
}

void session_feed(struct session *s, int slot, const int32_t *tokens, long n,
                  real *logits)
{
    for (long take; n > 0; tokens += take, n -= take) {
        take = session_chunk(s, slot, n);
        model_extend(s->model, &s->prompt, &s->state[slot], &s->pos[slot], 1, (int)take,
                     tokens, take == n ? logits : NULL);
        s->pos[slot] += take;
    }
}

void session_step(struct session *s, const int *slots, const int32_t *tokens, int k,
                  real *logits)
{
    for (int i = 0; i < k; i++) {
        s->row_state[i] = s->state[slots[i]];
        s->row_pos[i] = s->pos[slots[i]]++;
    }
    model_extend(s->model, &s->token, s->row_state, s->row_pos, k, 1, tokens, logits);
}

void session_clear(struct session *s, int slot)
{
    pages_clear(s->state[slot], s->state_bytes);
    s->pos[slot] = 0;
}

void session_copy(struct session *s, int to, int from)
{
    pages_copy(s->state[to], s->state[from], s->state_bytes);
    s->pos[to] = s->pos[from];
}

void session_get(const struct session *s, int slot, void *state, long *pos)
{
    memcpy(state, s->state[slot], s->state_bytes);
    *pos = s->pos[slot];
}

void session_set(struct session *s, int slot, const void *state, long pos)
{
    memcpy(s->state[slot], state, s->state_bytes);
    s->pos[slot] = pos;
}
