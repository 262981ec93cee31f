#include "train/preview.h"

#include "infer/sampler.h"
#include "infer/session.h"

#include <string.h>

/* Tokens of a sample: a few lines' worth, and within the trained context. */
static int sample_length(const struct model *m, const struct tokenizer *k)
{
    int n = strcmp(tokenizer_kind(k), "bytes") ? 60 : 200;

    return n < m->cfg.context ? n : m->cfg.context - 1;
}

static size_t write_tokens(struct session *s, struct sampler *sampler,
                           const struct tokenizer *k, int n, char *text)
{
    int32_t token = tokenizer_eos(k);
    size_t  used = 0, len;

    session_prompt(s, &token, 1);
    for (int i = 0; i < n; i++) {
        token = sampler_pick(sampler, s->logits);
        const char *piece = tokenizer_piece(k, (uint32_t)token, &len);

        if (token == tokenizer_eos(k) || used + len > SAMPLE_BYTES)
            break;
        if (len)
            memcpy(text + used, piece, len);
        used += len;
        session_extend(s, &token);
    }
    return used;
}

enum fail sample_text(const struct model *m, const struct tokenizer *k, uint64_t seed,
                      char *text, size_t *len, struct why *why)
{
    struct sampler_options o;
    struct sampler *sampler;
    struct session  s;
    enum fail              err = session_open(&s, m, 1, why);

    *len = 0;
    if (err)
        return err;
    sampler_defaults(&o);
    o.seed = seed;
    sampler = sampler_open(&o, m->cfg.vocab, 0);
    if (sampler)
        *len = write_tokens(&s, sampler, k, sample_length(m, k), text);
    else
        err = fail(why, FAIL_MEMORY, "out of memory for a sample");
    sampler_close(sampler);
    session_close(&s);
    return err;
}
