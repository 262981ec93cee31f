#include "tools/bench/bench.h"

#include "data/base/clock.h"
#include "infer/session.h"

#include <stdlib.h>

/* Tokens per second of S sequences, best of some rounds. */
static double decode_rate(struct session *d, const int32_t *tokens)
{
    enum { ROUNDS = 8, AT_ONCE = 32 };
    double best = 0;

    for (int k = 0; k < ROUNDS; k++) {
        double start = wall_seconds(), rate;

        for (int i = 0; i < AT_ONCE; i++)
            session_extend(d, tokens + i);
        rate = AT_ONCE * d->S / (wall_seconds() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

static double prefill_rate(struct session *d, const int32_t *tokens)
{
    enum { ROUNDS = 8 };                    // the first touches the memory
    double best = 0;

    for (int k = 0; k < ROUNDS; k++) {
        double start, rate;

        session_reset(d);
        start = wall_seconds();
        session_prompt(d, tokens, BENCH_PREFILL);
        rate = BENCH_PREFILL / (wall_seconds() - start);
        best = k && rate > best ? rate : best;
    }
    return best;
}

/* FLOPs of a prompt: logits of its last token alone. */
static double prefill_flops(const struct model *m)
{
    double logits = 2.0 * m->cfg.width * m->cfg.vocab;

    return model_flops(m, BENCH_PREFILL, 0) - (BENCH_PREFILL - 1) * logits;
}

/* Bytes of weights that a token reads: all but the rows of an embedding that
 * is not the head. */
static double weights_read(const struct model *m)
{
    double embed = m->cfg.tied ? 0 : (double)m->cfg.vocab * m->cfg.width;

    return ((double)m->n - embed) * sizeof(real);
}

static enum fail time_session(struct rig *r, int S, struct result *out,
                              const int32_t *tokens, struct why *why)
{
    struct session d;
    enum fail      err = session_open(&d, &r->model, S, why);
    double         rate;

    if (err)
        return err;
    rate = prefill_rate(&d, tokens);
    if (S == 1) {
        out->prefill_tok_s = rate;
        out->decode_tok_s = decode_rate(&d, tokens);
    } else
        out->decode_together_tok_s = decode_rate(&d, tokens);
    session_close(&d);
    return FAIL_NONE;
}

enum fail bench_decoding(struct rig *r, struct result *out, struct why *why)
{
    int32_t tokens[BENCH_PREFILL];
    enum fail err;

    for (int i = 0; i < BENCH_PREFILL; i++)
        tokens[i] = r->tokens[i % r->n_tokens];
    if ((err = time_session(r, 1, out, tokens, why)) ||
        (err = time_session(r, BENCH_TOGETHER, out, tokens, why)))
        return err;
    out->prefill_mfu = prefill_flops(&r->model) * out->prefill_tok_s /
                       BENCH_PREFILL / 1e9 / out->own_gflops;
    out->decode_share = out->decode_tok_s * weights_read(&r->model) / 1e9 / out->read_gbs;
    out->state_bytes = (double)model_state_bytes(&r->model);
    return FAIL_NONE;
}
