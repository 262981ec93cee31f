#include "tools/bench/bench.h"

#include "data/base/clock.h"

#include <stdlib.h>

/* Rounds that are timed: at least LEAST, and no more once they have taken ENOUGH. */
enum { LEAST = 3, ROUNDS = 8 };
static const double ENOUGH = 1.5;

static bool goes_on(int round, double began)
{
    return round < LEAST || (round < ROUNDS && wall_seconds() - began < ENOUGH);
}

/* Tokens per second of S sequences, best of some rounds. */
static double decode_rate(struct session *d, const int32_t *tokens)
{
    enum { AT_ONCE = 32 };
    double best = 0, began = wall_seconds();

    for (int k = 0; goes_on(k, began); k++) {
        double start = wall_seconds(), rate;

        for (int i = 0; i < AT_ONCE; i++)
            session_extend(d, tokens + i);
        rate = AT_ONCE * d->S / (wall_seconds() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

/* The first round only touches the memory. */
static double prefill_rate(struct session *d, const int32_t *tokens)
{
    double best = 0, began = wall_seconds();

    for (int k = 0; goes_on(k, began); k++) {
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

double weights_read(const struct model *m)
{
    const struct packed_weights *p = &m->packed;
    double bytes = 0, plain = (double)m->n;

    for (int i = 0; i < p->n; i++) {
        size_t n = (size_t)p->matrix[i].rows * p->matrix[i].cols;

        bytes += (double)packed_bytes(p->type, n);
        plain -= (double)n;
    }
    if (!m->cfg.tied && p->n)
        bytes -= (double)packed_bytes(p->type, (size_t)m->cfg.vocab * m->cfg.width);
    else if (!m->cfg.tied)
        plain -= (double)m->cfg.vocab * m->cfg.width;
    return bytes + plain * sizeof(real);
}

enum fail readers_open(struct readers *r, const struct model *m, struct why *why)
{
    enum fail err = session_open(&r->one, m, 1, why);

    r->together = (struct session){0};
    return err ? err : session_open(&r->together, m, BENCH_TOGETHER, why);
}

void readers_close(struct readers *r)
{
    session_close(&r->one);
    session_close(&r->together);
}

struct decoding bench_decode(struct readers *r, const int32_t tokens[BENCH_PREFILL])
{
    struct decoding d = {.prefill = prefill_rate(&r->one, tokens),
                         .one = decode_rate(&r->one, tokens)};

    session_reset(&r->together);
    session_prompt(&r->together, tokens, BENCH_PREFILL);
    d.together = decode_rate(&r->together, tokens);
    return d;
}

enum fail bench_decoding(struct rig *r, struct result *out, struct why *why)
{
    int32_t         tokens[BENCH_PREFILL];
    struct readers  s;
    struct decoding d;
    enum fail       err;

    for (int i = 0; i < BENCH_PREFILL; i++)
        tokens[i] = r->tokens[i % r->n_tokens];
    err = readers_open(&s, &r->model, why);
    if (!err)
        d = bench_decode(&s, tokens);
    readers_close(&s);
    if (err)
        return err;
    out->prefill_tok_s = d.prefill;
    out->decode_tok_s = d.one;
    out->decode_together_tok_s = d.together;
    out->prefill_mfu = bench_share(
        out, prefill_flops(&r->model) * out->prefill_tok_s / BENCH_PREFILL / 1e9);
    out->decode_share = out->decode_tok_s * weights_read(&r->model) / 1e9 / out->read_gbs;
    out->state_bytes = (double)model_state_bytes(&r->model);
    return FAIL_NONE;
}
