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

/* Append the token's piece; false when it ends the text or there is no room. */
static bool append(const struct tokenizer *k, int32_t token, char *text, size_t *used)
{
    size_t      len;
    const char *piece = tokenizer_piece(k, (uint32_t)token, &len);

    if (token == tokenizer_eos(k) || *used + len > SAMPLE_BYTES)
        return false;
    if (len)
        memcpy(text + *used, piece, len);
    *used += len;
    return true;
}

static size_t write_tokens(struct session *s, struct sampler *sampler,
                           const struct tokenizer *k, int32_t token, int n, char *text)
{
    size_t used = 0;

    append(k, token, text, &used);
    session_prompt(s, &token, 1);
    for (int i = 0; i < n; i++) {
        token = sampler_pick(sampler, s->logits);
        if (!append(k, token, text, &used))
            break;
        session_extend(s, &token);
    }
    return used;
}

enum fail sample_text(const struct model *m, const struct tokenizer *k, int32_t first,
                      uint64_t seed, char *text, size_t *len, struct why *why)
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
        *len = write_tokens(&s, sampler, k, first, sample_length(m, k), text);
    else
        err = fail(why, FAIL_MEMORY, "out of memory for a sample");
    sampler_close(sampler);
    session_close(&s);
    return err;
}
