#include "infer/session.h"

#include "model/kernels/arena.h"

#include <string.h>

/* Lay out what the sequences have; returns the bytes that it takes. */
static size_t lay_out(struct session *s, struct arena a)
{
    s->state = arena_bytes(&a, "state", (size_t)s->S * sizeof *s->state);
    s->pos = arena_bytes(&a, "pos", (size_t)s->S * sizeof *s->pos);
    s->logits = arena_reals(&a, "logits", (size_t)s->S * (size_t)s->model->cfg.vocab);
    for (int i = 0; i < s->S; i++) {
        void *state = arena_bytes(&a, "state", s->state_bytes);

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
    s->memory = pages_alloc(s->bytes);
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
    for (int i = 0; i < s->S; i++) {
        memset(s->state[i], 0, s->state_bytes);
        s->pos[i] = 0;
    }
}

void session_prompt(struct session *s, const int32_t *tokens, long n)
{
    size_t vocab = (size_t)s->model->cfg.vocab;

    for (long at = 0; at < n; at += SESSION_CHUNK) {
        int take = n - at < SESSION_CHUNK ? (int)(n - at) : SESSION_CHUNK;

        model_extend(s->model, &s->prompt, s->state, s->pos, 1, take, tokens + at,
                     at + take == n ? s->logits : NULL);
        s->pos[0] += take;
    }
    for (int i = 1; i < s->S; i++) {
        memcpy(s->state[i], s->state[0], s->state_bytes);
        memcpy(s->logits + (size_t)i * vocab, s->logits, vocab * sizeof *s->logits);
        s->pos[i] = s->pos[0];
    }
}

void session_extend(struct session *s, const int32_t *tokens)
{
    model_extend(s->model, &s->token, s->state, s->pos, s->S, 1, tokens, s->logits);
    for (int i = 0; i < s->S; i++)
        s->pos[i]++;
}
