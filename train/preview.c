#include "train/preview.h"

#include "infer/prompt.h"
#include "infer/sampler.h"
#include "infer/session.h"

#include <stdlib.h>
#include <string.h>

/* Tokens of a sample: a few lines' worth, and within the trained context. */
static int sample_length(const struct model *m, const struct tokenizer *k)
{
    int n = strcmp(tokenizer_kind(k), "bytes") ? 60 : 200;

    return n < m->cfg.context ? n : m->cfg.context - 1;
}

/* Append a piece of len bytes; false: there is no room. */
static bool append(char *text, size_t *used, const char *piece, size_t len)
{
    if (*used + len > SAMPLE_BYTES)
        return false;
    if (len)
        memcpy(text + *used, piece, len);
    *used += len;
    return true;
}

static size_t write_tokens(struct session *s, struct sampler *sampler,
                           const struct tokenizer *k, int n, char *text, size_t used)
{
    for (int i = 0; i < n; i++) {
        int32_t     token = sampler_pick(sampler, s->logits);
        size_t      len;
        const char *piece = tokenizer_piece(k, (uint32_t)token, &len);

        if (token == tokenizer_eos(k) || !append(text, &used, piece, len))
            break;
        session_extend(s, &token);
    }
    return used;
}

enum fail sample_text(const struct model *m, const struct tokenizer *k, uint64_t seed,
                      char *text, size_t *len, struct why *why)
{
    const char            *opening = m->cfg.opening;
    struct sampler_options o;
    struct sampler        *sampler;
    struct session         s;
    long                   n;
    uint32_t              *ids;
    enum fail              err = session_open(&s, m, 1, why);

    *len = 0;
    if (err)
        return err;
    sampler_defaults(&o);
    o.seed = seed;
    sampler = sampler_open(&o, m->cfg.vocab, 0);
    ids = prompt_open(k, opening, &n);
    if (sampler && ids) {
        append(text, len, opening, strlen(opening));
        session_prompt(&s, (const int32_t *)ids, n);
        *len = write_tokens(&s, sampler, k, sample_length(m, k), text, *len);
    } else
        err = fail(why, FAIL_MEMORY, "out of memory for a sample");
    free(ids);
    sampler_close(sampler);
    session_close(&s);
    return err;
}
