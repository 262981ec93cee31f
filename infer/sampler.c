#include "infer/sampler.h"

#include "data/base/rng.h"
#include "model/kernels/vmath.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
    double  weight;             // of the draw
    real    logit;
    int32_t id;
};

struct sampler {
    struct sampler_options o;
    struct rng        rng;
    uint64_t          stream;
    int               vocab;
    int32_t           banned;       // -1: none
    int32_t          *recent;       // (repeat_last_n) a ring
    int               n_recent, at; // filled, next to be replaced
    int              *times;        // (vocab) how often in recent
    int              *picked;       // (vocab) how often picked
    double           *bias;         // (vocab)
    real             *x;            // (vocab) logits after ban, bias and penalties
    struct candidate *c;            // (vocab)
};

void sampler_defaults(struct sampler_options *o)
{
    *o = (struct sampler_options){
        .temp = 0.8,
        .top_k = 40,
        .top_p = 0.95,
        .min_p = 0.05,
        .repeat_penalty = 1,
        .repeat_last_n = 64,
    };
}

struct sampler *sampler_open(const struct sampler_options *o, int vocab, uint64_t stream)
{
    struct sampler *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->o = *o;
    s->rng = rng_open(o->seed, RNG_SAMPLE, stream);
    s->stream = stream;
    s->vocab = vocab;
    s->banned = -1;
    s->recent = calloc((size_t)o->repeat_last_n + 1, sizeof *s->recent); // not of 0
    s->times = calloc((size_t)vocab, sizeof *s->times);
    s->picked = calloc((size_t)vocab, sizeof *s->picked);
    s->bias = calloc((size_t)vocab, sizeof *s->bias);
    s->x = calloc((size_t)vocab, sizeof *s->x);
    s->c = calloc((size_t)vocab, sizeof *s->c);
    if (!s->recent || !s->times || !s->picked || !s->bias || !s->x || !s->c) {
        sampler_close(s);
        return NULL;
    }
    for (int i = 0; i < o->n_bias; i++)
        s->bias[o->bias[i].id] += o->bias[i].add;
    return s;
}

void sampler_close(struct sampler *s)
{
    if (!s)
        return;
    free(s->recent);
    free(s->times);
    free(s->picked);
    free(s->bias);
    free(s->x);
    free(s->c);
    free(s);
}

void sampler_temp(struct sampler *s, double temp)
{
    s->o.temp = temp;
}

void sampler_seed(struct sampler *s, uint64_t seed)
{
    s->o.seed = seed;
    s->rng = rng_open(seed, RNG_SAMPLE, s->stream);
}

void sampler_restore(struct sampler *s, const struct sampler *was)
{
    size_t vocab = (size_t)s->vocab;

    if (s->o.seed == was->o.seed)
        s->rng = was->rng;
    s->n_recent = was->n_recent;
    s->at = was->at;
    memcpy(s->recent, was->recent, (size_t)s->o.repeat_last_n * sizeof *s->recent);
    memcpy(s->times, was->times, vocab * sizeof *s->times);
    memcpy(s->picked, was->picked, vocab * sizeof *s->picked);
}

struct sampler *sampler_copy(const struct sampler *s)
{
    struct sampler *copy = sampler_open(&s->o, s->vocab, s->stream);

    if (copy)
        sampler_restore(copy, s);
    return copy;
}

void sampler_ban(struct sampler *s, int32_t token)
{
    s->banned = token;
}

void sampler_accept(struct sampler *s, int32_t token)
{
    int size = s->o.repeat_last_n;

    if (size == 0)
        return;
    if (s->n_recent == size)
        s->times[s->recent[s->at]]--;
    else
        s->n_recent++;
    s->recent[s->at] = token;
    s->times[token]++;
    s->at = (s->at + 1) % size;
}

/* s->x of these logits; never NaN or +infinity, so that differences from the best are
 * numbers. */
static void adjust(struct sampler *s, const real *logits)
{
    const struct sampler_options *o = &s->o;
    const real                    penalty = (real)o->repeat_penalty;

    #pragma omp simd
    for (int id = 0; id < s->vocab; id++) {
        real x = logits[id] + (real)s->bias[id];
        real less = (real)(o->presence_penalty + o->frequency_penalty * s->picked[id]);
        real repeated = x > 0 ? x / penalty : x * penalty;

        x = s->times[id] ? repeated : x;
        x = s->picked[id] ? x - less : x;
        x = x < (real)1e30 ? x : x == x ? (real)1e30 : -(real)INFINITY;
        s->x[id] = x;
    }
    if (s->banned >= 0)
        s->x[s->banned] = -(real)INFINITY;
}

/* Does a rank before b? */
static bool before(const struct candidate *a, const struct candidate *b)
{
    return a->logit > b->logit || (a->logit == b->logit && a->id < b->id);
}

static int by_rank(const void *a, const void *b)
{
    return before(a, b) ? -1 : 1;
}

/* Move c[i] down a heap of n whose root ranks last. */
static void sift(struct candidate *c, int n, int i)
{
    struct candidate moved = c[i];

    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(&c[child], &c[child + 1]))
            child++;
        if (!before(&moved, &c[child]))
            break;
        c[i] = c[child];
    }
    c[i] = moved;
}

/* The k best (0: all) into s->c, in no particular order; returns how many. */
static int top_k(struct sampler *s)
{
    enum { AT_ONCE = 64 };
    int k = s->o.top_k > 0 && s->o.top_k < s->vocab ? s->o.top_k : s->vocab;

    for (int32_t id = 0; id < k; id++)
        s->c[id] = (struct candidate){0, s->x[id], id};
    if (k == s->vocab)
        return k;
    for (int i = k / 2 - 1; i >= 0; i--)
        sift(s->c, k, i);
    for (int32_t id = k, end; id < s->vocab; id = end) {
        end = s->vocab - id < AT_ONCE ? s->vocab : id + AT_ONCE;
        if (vmax(s->x + id, end - id, s->c[0].logit) == s->c[0].logit)
            continue;               // an equal one ranks after it, by its id
        for (; id < end; id++)
            if (s->x[id] > s->c[0].logit) {
                s->c[0] = (struct candidate){0, s->x[id], id};
                sift(s->c, k, 0);
            }
    }
    return k;
}

/* Keep those of at least `share` of the most likely one's probability;
 * returns how many. */
static int min_p(struct candidate *c, int n, double best, double share)
{
    double least = best + log(share);
    int    kept = 0;

    for (int i = 0; i < n; i++)
        if (c[i].logit >= least)
            c[kept++] = c[i];
    return kept;
}

/* Keep the most likely ones whose probabilities, out of total, reach p;
 * returns how many. */
static int top_p(struct candidate *c, int n, double best, double total, double p)
{
    double sum = 0;
    int    kept = 0;

    qsort(c, (size_t)n, sizeof *c, by_rank);
    while (kept < n && (kept == 0 || sum < p * total))
        sum += exp(c[kept++].logit - best);
    return kept;
}

/* Weights, temperature included, laid end to end: the one that a uniform point falls
 * into. Where rounding lets it fall behind all of them, the last with a weight. */
static int32_t draw(struct sampler *s, int n, double best)
{
    double  total = 0, left;
    int32_t id = 0;

    for (int i = 0; i < n; i++)
        total += s->c[i].weight = exp((s->c[i].logit - best) / s->o.temp);
    left = rng_uniform(&s->rng) * total;
    for (int i = 0; i < n && left >= 0; i++)
        if (s->c[i].weight > 0) {
            id = s->c[i].id;
            left -= s->c[i].weight;
        }
    return id;
}

static int32_t most_likely(const struct sampler *s)
{
    real    best = vmax(s->x, s->vocab, -(real)INFINITY);
    int32_t id = 0;

    while (s->x[id] != best)
        id++;
    return id;
}

/* min-p and top-p both keep a prefix of the ranking, so that min-p may go first: then
 * only what it leaves is sorted. top-p's total is that of all candidates. */
static int32_t choose(struct sampler *s)
{
    int    n = top_k(s);
    double best = -INFINITY, total = 0;

    for (int i = 0; i < n; i++)
        best = fmax(best, s->c[i].logit);
    if (best == -INFINITY)
        return 0;
    for (int i = 0; s->o.top_p < 1 && i < n; i++)
        total += exp(s->c[i].logit - best);
    if (s->o.min_p > 0)
        n = min_p(s->c, n, best, s->o.min_p);
    if (s->o.top_p < 1)
        n = top_p(s->c, n, best, total, s->o.top_p);
    return draw(s, n, best);
}

int32_t sampler_pick(struct sampler *s, const real *logits)
{
    int32_t id;

    adjust(s, logits);
    id = s->o.temp > 0 ? choose(s) : most_likely(s);
    s->picked[id]++;
    sampler_accept(s, id);
    return id;
}
