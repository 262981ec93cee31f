#include "model/pass.h"

#include "model/kernels/arena.h"
#include "model/meter.h"
#include "model/kernels/product.h"
#include "model/layers/loss.h"
#include "model/layers/norm.h"

#include <stdlib.h>
#include <string.h>

static struct norm final_norm(const struct model *m)
{
    return (struct norm){1, m->cfg.width, .shared = true, .eps = (real)m->cfg.eps};
}

/* ---- memory ------------------------------------------------------------------------ */

/* Of all blocks: their inputs, what they keep for backward, their scratch. */
struct places {
    struct arena inputs, kept, scratch;
};

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Lay out the blocks in at, or measure them where p->block is NULL. Each block in
 * training has an input of its own, and unless it recomputes, its own part of kept;
 * everything else is one place that they use in turn. */
static void lay_out_blocks(struct pass *p, const struct model *m, struct places *at)
{
    const size_t n = (size_t)p->now_B * p->now_T * m->cfg.width;
    const bool   train = pass_trains(p->mode);
    real        *x = train ? arena_reals(&at->inputs, "x", n) : p->x;
    size_t       kept = 0, scratch = 0, state = 0;
    struct block measured;

    for (int i = 0; i < m->cfg.layers; i++) {
        struct block *b = p->block ? &p->block[i] : &measured;

        *b = model_block(m, i, p->dwp);
        b->x = x;
        b->out = train && i < m->cfg.layers - 1 ? arena_reals(&at->inputs, "x", n) : p->x;
        x = b->out;
        at->kept.used = p->mode == PASS_TRAIN ? at->kept.used : 0;
        at->scratch.used = 0;
        block_layout(b, p->mode, p->now_B, p->now_T, &at->kept, &at->scratch);
        b->mixer.state_at = state;
        state += b->mixer.state_bytes;
        kept = larger(kept, at->kept.used);
        scratch = larger(scratch, at->scratch.used);
    }
    at->kept.used = kept;
    at->scratch.used = scratch;
}

/* Room for the panels of a layer's matrices, or of the head; none for a matrix that alone
 * would take more than ROOM_MOST. */
static size_t room_of(const struct model *m, long n)
{
    enum { ROOM_MOST = 1 << 23 };
    size_t most = 0, sum = 0;

    if (n < product_many())
        return 0;
    for (int i = 0, layer = 0; i < m->n_param; i++) {
        const struct param *is = &m->param[i].is;
        const size_t size = gemm_whole_panels(is->rows) * gemm_whole_panels(is->cols);

        if (i == m->first[layer])
            sum = 0, layer += layer < m->cfg.layers;
        if (size <= ROOM_MOST)
            sum += size;            // 0 of a vector, which has no columns
        most = sum > most ? sum : most;
    }
    return most < ROOM_MOST ? most : ROOM_MOST;
}

static struct arena part(struct arena *a, const char *name, size_t bytes)
{
    return arena_over(arena_bytes(a, name, bytes), bytes);
}

/* Lay p out in a for passes over (B, T); returns the bytes that it takes. */
static size_t lay_out(struct pass *p, const struct model *m, int B, int T, struct arena a)
{
    const size_t  n = (size_t)B * T, C = m->cfg.width;
    const bool    train = pass_trains(p->mode), extend = p->mode == PASS_EXTEND;
    struct arena  none = arena_over(NULL, 0);
    struct norm   norm = final_norm(m);
    struct places at = {none, none, none};

    p->now_B = B, p->now_T = T;
    p->block = NULL;
    lay_out_blocks(p, m, &at);
    at = (struct places){part(&a, "inputs", at.inputs.used),
                         part(&a, "kept", at.kept.used),
                         part(&a, "scratch", at.scratch.used)};
    p->x = arena_reals(&a, "x", n * C);
    p->n_room = extend ? 0 : room_of(m, (long)n);
    p->room = arena_reals(&a, "room", p->n_room);
    p->n = arena_reals(&a, "n", (extend ? (size_t)B : n) * C);
    p->dx = arena_reals(&a, "dx", train ? n * C : 0);
    p->nats = arena_reals(&a, "nats", train ? n : 0);
    p->logits = arena_reals(&a, "logits",
                            extend ? 0 : loss_scratch((long)n, m->cfg.vocab));
    p->partial = arena_reals(&a, "partial", train ? norm_partial(&norm) : 0);
    p->block = arena_bytes(&a, "block", m->cfg.layers * sizeof *p->block);
    if (p->block)
        lay_out_blocks(p, m, &at);
    return a.used;
}

/* Make p ready for m's tokens (B, T): it is laid out anew where it was for another shape,
 * and products read the matrices that model_pack has rounded, and take p's room. */
static void fit(struct pass *p, const struct model *m, int B, int T)
{
    product_take_packed(m->packed.n ? &m->packed : NULL);
    if (p->now_B != B || p->now_T != T)
        lay_out(p, m, B, T, arena_over(p->acts, p->acts_bytes));
    product_take_room(p->room, p->n_room);
}

size_t pass_bytes(const struct model *m, int B, int T, enum pass_mode mode)
{
    struct pass p = {.mode = mode};

    return lay_out(&p, m, B, T, arena_over(NULL, 0)) +
           (pass_trains(mode) ? m->n * sizeof(real) : 0);
}

/* Where each parameter's gradients begin. */
static void point_at_gradients(struct pass *p, const struct model *m)
{
    for (int i = 0; i < m->n_param; i++)
        p->dwp[i] = p->dw + m->param[i].at;
}

/* False: no memory. */
static bool take_gradients(struct pass *p, const struct model *m)
{
    p->dw_bytes = m->n * sizeof(real);
    p->dw = pages_alloc(p->dw_bytes);
    p->dwp = malloc(m->n_param * sizeof *p->dwp);
    if (p->dw && p->dwp)
        point_at_gradients(p, m);
    return p->dw && p->dwp;
}

void pass_swap_gradients(struct pass *p, const struct model *m, real **other)
{
    real *was = p->dw;

    p->dw = *other;
    *other = was;
    point_at_gradients(p, m);
    lay_out(p, m, p->now_B, p->now_T, arena_over(p->acts, p->acts_bytes));
}

enum fail pass_open(struct pass *p, const struct model *m, int B, int T,
                    enum pass_mode mode, struct why *why)
{
    *p = (struct pass){.mode = mode, .B = B, .T = T};
    p->acts_bytes = lay_out(p, m, B, T, arena_over(NULL, 0));
    p->acts = pages_alloc(p->acts_bytes);
    if (!p->acts || (pass_trains(mode) && !take_gradients(p, m))) {
        pass_close(p);
        return fail(why, FAIL_MEMORY,
                    "not enough memory for %d sequences of %d tokens; "
                    "reduce batch or context",
                    B, T);
    }
    lay_out(p, m, B, T, arena_over(p->acts, p->acts_bytes));
    return FAIL_NONE;
}

void pass_close(struct pass *p)
{
    if (p->acts)
        product_take_room(NULL, 0);
    pages_free(p->acts, p->acts_bytes);
    pages_free(p->dw, p->dw_bytes);
    free(p->dwp);
    *p = (struct pass){0};
}

/* ---- embedding --------------------------------------------------------------------- */

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

/* ---- training and scoring ---------------------------------------------------------- */

/* Tokens to the normalised stream p->n. */
static void run_forward(const struct model *m, struct pass *p, const int32_t *tokens,
                        int window)
{
    struct norm norm = final_norm(m);
    size_t      C = m->cfg.width;
    int         layers = m->cfg.layers;
    long        n = (long)p->now_B * p->now_T;

    embed(m, p->block[0].x, tokens, n);
    for (int i = 0; i < layers; i++) {
        block_forward(&p->block[i], window);
        if (p->watch)
            p->watch(p->user, i, &p->block[i].mixer);
    }
    rms_forward(&norm, p->n, C, p->x, C, m->wp[m->first[layers]], n);
}

static void tell_ready(const struct model *m, const struct pass *p, int param)
{
    if (p->ready)
        p->ready(p->ready_user, m->param[param].at);
}

/* From p->dx, the gradient of the normalised stream, to all parameters. What the last
 * block keeps still stands when it begins. */
static void run_backward(const struct model *m, struct pass *p, const int32_t *tokens,
                         int window)
{
    struct norm norm = final_norm(m);
    int         layers = m->cfg.layers, f = m->first[layers];
    size_t      C = m->cfg.width;
    long        n = (long)p->now_B * p->now_T;

    rms_backward(&norm, p->dx, C, 0, p->dwp[f], p->dx, C, p->x, C, m->wp[f], n,
                 p->partial);
    tell_ready(m, p, f);
    for (int i = layers - 1; i >= 0; i--) {
        if (p->mode == PASS_RECOMPUTE && i < layers - 1)
            block_recompute(&p->block[i], window);
        block_backward(&p->block[i], p->dx);
        tell_ready(m, p, m->first[i]);
    }
    embed_back(m, p->dwp[0], p->dx, tokens, n);
}

double model_step(const struct model *m, struct pass *p, const int32_t *tokens,
                  const int32_t *targets, int window, double scale)
{
    long   n = (long)p->B * p->T, count = 0;
    real  *dhead = p->dwp[m->cfg.tied ? 0 : m->n_param - 1];
    double sum = 0;

    fit(p, m, p->B, p->T);
    for (long i = 0; i < n; i++)
        count += targets[i] >= 0;
    if (!count)
        return 0;
    meter_switch(METER_NORMS);
    run_forward(m, p, tokens, window);
    meter_switch(METER_LOSS);
    loss_run(p->n, model_head(m), targets, p->nats, p->dx, dhead, (real)(scale / count),
             p->logits, n, m->cfg.width, m->cfg.vocab);
    meter_switch(METER_NORMS);
    run_backward(m, p, tokens, window);
    meter_switch(METER_REST);
    for (long i = 0; i < n; i++)
        sum += p->nats[i];
    return sum / count;
}

double model_imitate(const struct model *m, struct pass *p, const struct model *from,
                     struct pass *q, const int32_t *tokens, int window, double scale)
{
    const int layers = m->cfg.layers;
    double    sum = 0;

    fit(p, m, p->B, p->T);
    fit(q, from, p->B, p->T);
    run_forward(from, q, tokens, 0);
    for (int i = 0; i < layers; i++)
        sum += block_imitate(&p->block[i], window, q->block[i].x, q->block[i].a,
                             scale / layers);
    return sum / layers;
}

void model_score(const struct model *m, struct pass *p, int B, int T,
                 const int32_t *tokens, const int32_t *targets, int window, real *nats)
{
    fit(p, m, B, T);
    run_forward(m, p, tokens, window);
    loss_run(p->n, model_head(m), targets, nats, NULL, NULL, 0, p->logits, (long)B * T,
             m->cfg.width, m->cfg.vocab);
}

void model_score_top(const struct model *m, struct pass *p, int T, const int32_t *tokens,
                     const int32_t *targets, real *nats, struct likely *top, int k)
{
    int  C = m->cfg.width, V = m->cfg.vocab;
    long slice = (long)(loss_scratch(T, V) / V);

    fit(p, m, 1, T);
    run_forward(m, p, tokens, 0);
    for (long i = 0; i < T; i += slice) {
        long rows = T - i < slice ? T - i : slice;

        product_forward(p->logits, p->n + i * C, model_head(m), rows, C, V);
        #pragma omp parallel for schedule(static)
        for (long j = 0; j < rows; j++)
            nats[i + j] = cross_entropy_top(p->logits + j * V, targets[i + j], V,
                                            top + (i + j) * k, k);
    }
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
    int  C = m->cfg.width, V = m->cfg.vocab;
    long n = (long)B * T, slice = (long)(loss_scratch(n, V) / V), rows, at = 0;

    fit(p, m, B, T);
    run_forward(m, p, tokens, 0);
    rows = gather(p->n, targets, n, C);
    for (long i = 0; i < n; i++) {
        best[i] = -1;
        if (targets[i] < 0)
            continue;
        if (at % slice == 0)
            product_forward(p->logits, p->n + at * C, model_head(m),
                            rows - at < slice ? rows - at : slice, C, V);
        best[i] = largest(p->logits + at++ % slice * V, V);
    }
}

/* ---- streaming --------------------------------------------------------------------- */

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

void model_extend(const struct model *m, struct pass *p, void *const *state,
                  const long *pos, int S, int n, const int32_t *tokens, real *logits)
{
    struct norm norm = final_norm(m);
    size_t      C = m->cfg.width;

    fit(p, m, S, n);
    embed(m, p->x, tokens, (long)S * n);
    for (int i = 0; i < m->cfg.layers; i++)
        block_extend(&p->block[i], state, pos);
    meter_switch(logits ? METER_NORMS : METER_REST);
    if (!logits)
        return;
    rms_forward(&norm, p->n, C, p->x + (n - 1) * C, n * C,
                m->wp[m->first[m->cfg.layers]], S);
    meter_switch(METER_LOSS);
    product_forward(logits, p->n, model_head(m), S, (int)C, m->cfg.vocab);
    meter_switch(METER_REST);
}
