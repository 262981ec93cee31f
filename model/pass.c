/* Passes over a model: training and scoring on (B, T), streaming with decode states. */
#include "model/kernels/arena.h"
#include "model/kernels/meter.h"
#include "model/kernels/product.h"
#include "model/layers/loss.h"
#include "model/layers/norm.h"
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

/* Activations of a pass. When only scoring, all blocks share the kept part of one. */
struct acts {
    void  *kept;                // (layers or 1) of kept_bytes each, beginning with
                                // a block's input
    size_t kept_bytes;
    void  *scratch;             // of any block
    real  *x, *n, *dx;          // (B, T, C) stream, normalised stream, gradient
    real  *nats;                // (B, T)
    real  *logits;              // a slice
    real  *partial;             // of the final norm
};

static struct norm final_norm(const struct model *m)
{
    return (struct norm){1, m->cfg.width, true, (real)1e-5};
}

/* The largest kept and scratch of any block. */
static void block_bytes(const struct model *m, int B, int T, size_t *kept,
                        size_t *scratch)
{
    struct block_kept    k;
    struct block_scratch s;

    *kept = *scratch = 0;
    for (int i = 0; i < m->cfg.layers; i++) {
        struct block b = model_block(m, i, NULL);
        size_t       nk = block_carve_kept(&k, NULL, &b, B, T);
        size_t       ns = block_carve_scratch(&s, NULL, &b, B, T);

        *kept = nk > *kept ? nk : *kept;
        *scratch = ns > *scratch ? ns : *scratch;
    }
}

static size_t carve(struct acts *a, void *base, const struct model *m, int B, int T,
                    bool train)
{
    struct arena r = arena_over(base);
    struct norm  norm = final_norm(m);
    size_t       n = (size_t)B * T, C = m->cfg.width, scratch;

    block_bytes(m, B, T, &a->kept_bytes, &scratch);
    a->kept = arena_bytes(&r, a->kept_bytes * (train ? m->cfg.layers : 1));
    a->scratch = arena_bytes(&r, scratch);
    a->x = arena_reals(&r, n * C);
    a->n = arena_reals(&r, n * C);
    a->dx = arena_reals(&r, train ? n * C : 0);
    a->nats = arena_reals(&r, n);
    a->logits = arena_reals(&r, loss_scratch((long)n, m->cfg.vocab));
    a->partial = arena_reals(&r, norm_partial(&norm));
    return r.used;
}

size_t pass_bytes(const struct model *m, int B, int T, bool train)
{
    struct acts a;

    return carve(&a, NULL, m, B, T, train) + (train ? m->n * sizeof(real) : 0);
}

enum fail pass_open(struct pass *p, const struct model *m, int B, int T, bool train,
                    struct why *why)
{
    struct acts a;

    *p = (struct pass){.B = B, .T = T, .acts_bytes = carve(&a, NULL, m, B, T, train)};
    p->acts = pages_alloc(p->acts_bytes);
    if (train) {
        p->dw_bytes = m->n * sizeof(real);
        p->dw = pages_alloc(p->dw_bytes);
        p->dwp = malloc(m->n_param * sizeof *p->dwp);
    }
    if (!p->acts || (train && (!p->dw || !p->dwp))) {
        pass_close(p);
        return fail(why, FAIL_MEMORY,
                    "not enough memory for %d sequences of %d tokens; "
                    "reduce batch or context",
                    B, T);
    }
    for (int i = 0; train && i < m->n_param; i++)
        p->dwp[i] = p->dw + m->param[i].at;
    return FAIL_NONE;
}

void pass_close(struct pass *p)
{
    pages_free(p->acts, p->acts_bytes);
    pages_free(p->dw, p->dw_bytes);
    free(p->dwp);
    *p = (struct pass){0};
}

/* x[i] = embed[tokens[i]] */
static void embed(const struct model *m, real *x, const int32_t *tokens, long n)
{
    size_t C = m->cfg.width;

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        memcpy(x + i * C, m->wp[0] + tokens[i] * C, C * sizeof *x);
}

/* dembed[tokens[i]] += dx[i]; each thread owns some channels, so that no two add
 * to one number. */
static void embed_back(const struct model *m, real *dembed, const real *dx,
                       const int32_t *tokens, long n)
{
    enum { CHANNELS = 32 };
    int C = m->cfg.width;

    #pragma omp parallel for schedule(static)
    for (int c = 0; c < C; c += CHANNELS)
        for (long i = 0; i < n; i++)
            for (int j = c; j < c + CHANNELS && j < C; j++)
                dembed[(size_t)tokens[i] * C + j] += dx[i * C + j];
}

static struct block_kept kept_of(const struct acts *a, const struct block *b, int i,
                                 int B, int T)
{
    struct block_kept k;

    block_carve_kept(&k, (char *)a->kept + a->kept_bytes * i, b, B, T);
    return k;
}

/* Tokens to the normalised stream a->n. Training keeps a part for each block:
 * a block's output is written where the next one keeps its input. Scoring has one part,
 * and the stream stays in it. */
static void run_forward(const struct model *m, const struct pass *p, struct acts *a,
                        const int32_t *tokens, int B, int T, int window, bool train)
{
    struct norm norm = final_norm(m);
    size_t      C = m->cfg.width;
    int         L = m->cfg.layers;

    embed(m, a->kept, tokens, (long)B * T);
    for (int i = 0; i < L; i++) {
        struct block         b = model_block(m, i, NULL);
        struct block_kept    k = kept_of(a, &b, train ? i : 0, B, T);
        struct block_scratch s;
        real                *next = train ? (real *)((char *)k.x + a->kept_bytes) : k.x;

        block_carve_scratch(&s, a->scratch, &b, B, T);
        block_forward(&b, &k, &s, B, T, window, i < L - 1 ? next : a->x);
        if (p->watch && !train) {
            struct ctx ctx = block_ctx(&b, &k, &s, B, T, window);

            p->watch(p->user, i, &ctx);
        }
    }
    rms_forward(&norm, a->n, C, a->x, C, m->wp[m->first[L]], (long)B * T);
}

/* From a->dx, the gradient of the normalised stream, to all parameters. */
static void run_backward(const struct model *m, struct pass *p, struct acts *a,
                         const int32_t *tokens, int window)
{
    struct norm norm = final_norm(m);
    int         L = m->cfg.layers, f = m->first[L];
    size_t      C = m->cfg.width;
    long        n = (long)p->B * p->T;

    rms_backward(&norm, a->dx, C, 0, p->dwp[f], a->dx, C, a->x, C, m->wp[f], n,
                 a->partial);
    for (int i = L - 1; i >= 0; i--) {
        struct block         b = model_block(m, i, p->dwp);
        struct block_kept    k = kept_of(a, &b, i, p->B, p->T);
        struct block_scratch s;

        block_carve_scratch(&s, a->scratch, &b, p->B, p->T);
        block_backward(&b, &k, &s, p->B, p->T, window, a->dx);
    }
    embed_back(m, p->dwp[0], a->dx, tokens, n);
}

double model_step(const struct model *m, struct pass *p, const int32_t *tokens,
                  const int32_t *targets, int window, double scale)
{
    struct acts a;
    long        n = (long)p->B * p->T, count = 0;
    real       *dhead = p->dwp[m->cfg.tied ? 0 : m->n_param - 1];
    double      sum = 0;

    carve(&a, p->acts, m, p->B, p->T, true);
    for (long i = 0; i < n; i++)
        count += targets[i] >= 0;
    if (!count)
        return 0;
    meter_switch(METER_NORMS);
    run_forward(m, p, &a, tokens, p->B, p->T, window, true);
    meter_switch(METER_LOSS);
    loss_run(a.n, model_head(m), targets, a.nats, a.dx, dhead, (real)(scale / count),
             a.logits, n, m->cfg.width, m->cfg.vocab);
    meter_switch(METER_NORMS);
    run_backward(m, p, &a, tokens, window);
    meter_switch(METER_REST);
    for (long i = 0; i < n; i++)
        sum += a.nats[i];
    return sum / count;
}

void model_score(const struct model *m, struct pass *p, int B, int T,
                 const int32_t *tokens, const int32_t *targets, int window, real *nats)
{
    struct acts a;

    carve(&a, p->acts, m, B, T, false);
    run_forward(m, p, &a, tokens, B, T, window, false);
    loss_run(a.n, model_head(m), targets, nats, NULL, NULL, 0, a.logits, (long)B * T,
             m->cfg.width, m->cfg.vocab);
}

/* Bring the rows of x (n, C) with targets >= 0 to its front; returns how many. */
static long gather(real *x, const int32_t *targets, long n, size_t C)
{
    long rows = 0;

    for (long i = 0; i < n; i++)
        if (targets[i] >= 0)
            memmove(x + rows++ * C, x + i * C, C * sizeof *x);
    return rows;
}

static int32_t largest(const real *x, int n)
{
    int32_t best = 0;

    for (int i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

void model_predict(const struct model *m, struct pass *p, int B, int T,
                   const int32_t *tokens, const int32_t *targets, int32_t *best)
{
    struct acts a;
    int         C = m->cfg.width, V = m->cfg.vocab;
    long        n = (long)B * T, slice = (long)(loss_scratch(n, V) / V), rows, at = 0;

    carve(&a, p->acts, m, B, T, false);
    run_forward(m, p, &a, tokens, B, T, 0, false);
    rows = gather(a.n, targets, n, C);
    for (long i = 0; i < n; i++) {
        best[i] = -1;
        if (targets[i] < 0)
            continue;
        if (at % slice == 0)
            product_forward(a.logits, a.n + at * C, model_head(m),
                            rows - at < slice ? rows - at : slice, C, V);
        best[i] = largest(a.logits + at++ % slice * V, V);
    }
}

size_t model_state_bytes(const struct model *m)
{
    struct sizes s;
    size_t       bytes = 0;

    for (int i = 0; i < m->cfg.layers; i++) {
        mixer_sizes(&m->layer[i], 1, 1, &s);
        bytes += s.state;
    }
    return bytes;
}

/* Scratch of model_extend. */
struct reach {
    void *block;
    real *x, *gu, *last;        // (S, n, C), (S, n, 2h), (S, C)
    void **state;               // (S) of one layer
};

static size_t carve_reach(struct reach *r, void *base, const struct model *m,
                          int S, int n)
{
    struct arena a = arena_over(base);
    size_t       kept, scratch, rows = (size_t)S * n;

    block_bytes(m, S, n, &kept, &scratch);
    r->block = arena_bytes(&a, scratch);
    r->x = arena_reals(&a, rows * m->cfg.width);
    r->gu = arena_reals(&a, rows * 2 * m->cfg.mlp);
    r->last = arena_reals(&a, (size_t)S * m->cfg.width);
    r->state = arena_bytes(&a, S * sizeof *r->state);
    return a.used;
}

size_t model_extend_bytes(const struct model *m, int S, int n)
{
    struct reach r;

    return carve_reach(&r, NULL, m, S, n);
}

void model_extend(const struct model *m, void *scratch, void *const *state,
                  const long *pos, int S, int n, const int32_t *tokens, real *logits)
{
    struct norm  norm = final_norm(m);
    struct reach r;
    size_t       C = m->cfg.width, at = 0;

    carve_reach(&r, scratch, m, S, n);
    embed(m, r.x, tokens, (long)S * n);
    for (int i = 0; i < m->cfg.layers; i++) {
        struct block         b = model_block(m, i, NULL);
        struct block_scratch s;
        struct sizes         sizes;

        block_carve_scratch(&s, r.block, &b, S, n);
        mixer_sizes(b.cfg, 1, 1, &sizes);
        for (int j = 0; j < S; j++)
            r.state[j] = (char *)state[j] + at;
        block_extend(&b, &s, r.gu, r.state, pos, S, n, r.x);
        at += sizes.state;
    }
    meter_switch(logits ? METER_NORMS : METER_REST);
    if (!logits)
        return;
    rms_forward(&norm, r.last, C, r.x + (n - 1) * C, n * C,
                m->wp[m->first[m->cfg.layers]], S);
    meter_switch(METER_LOSS);
    product_forward(logits, r.last, model_head(m), S, (int)C, m->cfg.vocab);
    meter_switch(METER_REST);
}
