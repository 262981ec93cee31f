#include "infer/session.h"

#include "model/kernels/arena.h"

#include <string.h>

/* Lay a session's memory out from base; NULL only counts. */
static size_t carve(struct session *s, void *base)
{
    struct arena a = arena_over(base);
    size_t       prompt = model_extend_bytes(s->model, 1, SESSION_CHUNK);
    size_t       token = model_extend_bytes(s->model, s->S, 1);

    s->state = arena_bytes(&a, (size_t)s->S * sizeof *s->state);
    s->pos = arena_bytes(&a, (size_t)s->S * sizeof *s->pos);
    s->logits = arena_reals(&a, (size_t)s->S * (size_t)s->model->cfg.vocab);
    s->scratch = arena_bytes(&a, prompt > token ? prompt : token);
    for (int i = 0; i < s->S; i++) {
        void *state = arena_bytes(&a, model_state_bytes(s->model));

        if (base)
            s->state[i] = state;
    }
    return a.used;
}

enum fail session_open(struct session *s, const struct model *m, int S, struct why *why)
{
    *s = (struct session){.model = m, .S = S};
    s->bytes = carve(s, NULL);
    s->memory = pages_alloc(s->bytes);
    if (!s->memory) {
        double mib = (double)s->bytes / (1 << 20);

        *s = (struct session){0};
        return fail(why, FAIL_MEMORY, "no memory for %d sequence%s (%.0f MiB)%s", S,
                    S > 1 ? "s" : "", mib, S > 1 ? "; ask for fewer" : "");
    }
    carve(s, s->memory);
    return 0;
}

void session_close(struct session *s)
{
    pages_free(s->memory, s->bytes);
    *s = (struct session){0};
}

void session_reset(struct session *s)
{
    for (int i = 0; i < s->S; i++) {
        memset(s->state[i], 0, model_state_bytes(s->model));
        s->pos[i] = 0;
    }
}

void session_prompt(struct session *s, const int32_t *tokens, long n)
{
    size_t vocab = (size_t)s->model->cfg.vocab;

    for (long at = 0; at < n; at += SESSION_CHUNK) {
        int take = n - at < SESSION_CHUNK ? (int)(n - at) : SESSION_CHUNK;

        model_extend(s->model, s->scratch, s->state, s->pos, 1, take, tokens + at,
                     at + take == n ? s->logits : NULL);
        s->pos[0] += take;
    }
    for (int i = 1; i < s->S; i++) {
        memcpy(s->state[i], s->state[0], model_state_bytes(s->model));
        memcpy(s->logits + (size_t)i * vocab, s->logits, vocab * sizeof *s->logits);
        s->pos[i] = s->pos[0];
    }
}

void session_extend(struct session *s, const int32_t *tokens)
{
    model_extend(s->model, s->scratch, s->state, s->pos, s->S, 1, tokens, s->logits);
    for (int i = 0; i < s->S; i++)
        s->pos[i]++;
}
