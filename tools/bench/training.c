#include "tools/bench/bench.h"

#include "data/base/clock.h"
#include "data/base/rng.h"
#include "model/kernels/arena.h"
#include "model/kernels/product.h"
#include "tools/bench/trace.h"
#include "train/adamw.h"
#include "train/presets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum fail shape_config(struct config *c, const struct shape *s, struct why *why)
{
    enum fail err = presets_apply(c, &(struct sources){.arch = s->arch}, why);

    if (err)
        return err;
    c->layers = s->layers, c->width = s->width, c->heads = s->heads;
    c->context = s->context, c->batch = s->batch, c->vocab = s->vocab;
    c->mlp = c->kv_heads = 0, c->tied = 1, c->recompute = s->recompute;
    return config_resolve(c, why);
}

enum fail rig_open(struct rig *r, const struct shape *s, struct why *why)
{
    struct config c;
    enum fail     err;

    *r = (struct rig){.n_tokens = (long)s->batch * s->context + 1};
    if ((err = shape_config(&c, s, why)) || (err = model_open(&r->model, &c, why)) ||
        (err = pass_open(&r->pass, &r->model, s->batch, s->context, pass_training(&c),
                         why)))
        return err;
    model_init(&r->model, 1);
    r->bytes = r->model.n * sizeof(real);
    if (s->muon && (err = muon_open(&r->muon, &r->model, 0.1, 1, why)))
        return err;
    r->m = pages_alloc(r->bytes);
    r->v = pages_alloc(r->bytes);
    r->tokens = malloc(r->n_tokens * sizeof *r->tokens);
    if (!r->m || !r->v || !r->tokens)
        return fail(why, FAIL_MEMORY, "not enough memory for this shape");
    return FAIL_NONE;
}

void rig_close(struct rig *r)
{
    pages_free(r->m, r->bytes);
    pages_free(r->v, r->bytes);
    free(r->tokens);
    muon_close(&r->muon);
    pass_close(&r->pass);
    model_close(&r->model);
}

static void draw_tokens(struct rig *r)
{
    struct rng draw = rng_open(1, RNG_TEST, (uint64_t)r->step);

    for (long i = 0; i < r->n_tokens; i++)
        r->tokens[i] = (int32_t)rng_below(&draw, r->model.cfg.vocab);
}

double rig_step(struct rig *r, struct parts *p)
{
    const struct adamw o = {0.9, 0.95, 1e-8, 0.1, 1, 1, r->muon.scratch != NULL};
    double start = wall_seconds(), drawn, trained, norm;

    draw_tokens(r);
    drawn = wall_seconds();
    if (p)
        meter_start();
    model_step(&r->model, &r->pass, r->tokens, r->tokens + 1, 0, 1);
    trained = wall_seconds();
    norm = adamw_norm(&r->model, r->pass.dw);
    if (o.muon)
        muon_step(&r->muon, &r->model, r->pass.dw, r->m, norm, 1e-4);
    adamw_step(&o, &r->model, r->pass.dw, r->m, r->v, norm, 1e-4, ++r->step);
    for (int i = 0; p && i < METER_PARTS; i++)
        p->seconds[i] = meter_seconds(i);
    meter_stop();
    if (p)
        p->data = drawn - start, p->optimiser = wall_seconds() - trained;
    return wall_seconds() - start;
}

/* ---- the products of a step alone ---- */

struct span {
    const void *from;
    size_t      bytes;
};

static bool inside(const struct span *s, const void *p)
{
    return (const char *)p >= (const char *)s->from &&
           (const char *)p < (const char *)s->from + s->bytes;
}

/* An operand of a product that is to run again: itself when it lies in memory that is
 * still there, else (it lay on a thread's stack) a place of this thread's own. */
static void *still_there(const struct rig *r, const void *p, void *own)
{
    const struct span spans[] = {
        {r->pass.acts, r->pass.acts_bytes}, {r->pass.dw, r->pass.dw_bytes},
        {r->model.w, r->bytes},
        {r->muon.scratch, r->muon.each * (size_t)r->muon.threads * sizeof(real)},
    };

    for (int i = 0; i < 4; i++)
        if (inside(&spans[i], p))
            return (void *)p;
    return own;
}

/* Run all products of the log again, the threads taking them in order; their seconds.
 * Activations are spoilt, gradients are left zero, as a step wants them. */
static double replay(const struct rig *r, const struct trace *log)
{
    enum { OWN = 1 << 17 };                 // reals: the largest block on any stack
    double start = wall_seconds(), seconds;

    #pragma omp parallel
    {
        real *own = malloc(3 * OWN * sizeof *own);

        #pragma omp for schedule(dynamic)
        for (long i = 0; i < log->n; i++) {
            const struct trace_call *g = &log->call[i];

            g->product(still_there(r, g->c, own), g->ldc,
                       still_there(r, g->a, own + OWN), g->lda,
                       still_there(r, g->b, own + 2 * OWN), g->ldb, g->m, g->n, g->k,
                       g->alpha, g->beta);
        }
        free(own);
    }
    seconds = wall_seconds() - start;
    memset(r->pass.dw, 0, r->pass.dw_bytes);
    return seconds;
}

/* Two steps to warm up. The first counts its products, the second writes them down. */
static void warm_up(struct rig *r, struct trace *log)
{
    trace_products(log);
    rig_step(r, NULL);
    log->call = malloc(log->n * sizeof *log->call);
    log->cap = log->call ? log->n : 0;
    log->n = 0;
    rig_step(r, NULL);
    trace_products(NULL);
}

/* ---- training ---- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The best and the median of some steps, the best of their products alone, and the rate
 * of products; in turns, since machines are faster at times. Without memory for the log
 * products take 0. */
static void time_steps(struct rig *r, const struct shape *s, const struct trace *log,
                       struct result *out)
{
    enum { MOST = 64, SECONDS = 20 };
    double seconds[MOST], start = wall_seconds(), tokens = (double)s->batch * s->context,
           best = 0, products = 0;
    int    n = 0;

    while (n < MOST && n < s->steps && (n < 3 || wall_seconds() - start < SECONDS)) {
        struct parts p;
        double       alone;

        seconds[n] = rig_step(r, &p);
        if (n == 0 || seconds[n] < best)
            best = seconds[n], out->parts = p;
        alone = log->call ? replay(r, log) : 0;
        products = n == 0 || alone < products ? alone : products;
        out->own_gflops = fmax(out->own_gflops, product_gflops(gemm_yardstick(), 1));
        n++;
    }
    qsort(seconds, n, sizeof *seconds, ascending);
    out->step_ms = best * 1e3;
    out->products_ms = products * 1e3;
    out->tok_s = tokens / best;
    out->tok_s_median = tokens / seconds[n / 2];
}

/* Bytes of a pass but its gradients. */
static double activations(const struct model *m, const struct shape *s,
                          enum pass_mode mode)
{
    return (double)(pass_bytes(m, s->batch, s->context, mode) - m->n * sizeof(real));
}

double bench_share(struct result *r, double gflops)
{
    r->own_gflops = fmax(r->own_gflops, gflops);
    return gflops / r->own_gflops;
}

enum fail bench_training(struct rig *r, const struct shape *s, struct result *out,
                         struct why *why)
{
    struct trace log = {0};
    enum fail    err;

    peak_reset();
    if ((err = rig_open(r, s, why)))
        return err;
    warm_up(r, &log);
    out->peak_rss_mib = peak_mib();
    time_steps(r, s, &log, out);
    out->mfu = bench_share(out, (3 * model_flops(&r->model, s->context, 0) * s->batch +
                                 (s->muon ? muon_flops(&r->model) : 0)) /
                                    (out->step_ms * 1e6));
    out->activations = activations(&r->model, s, PASS_TRAIN);
    out->recomputed = activations(&r->model, s, PASS_RECOMPUTE);
    out->params = (double)model_count(&r->model);
    free(log.call);
    return FAIL_NONE;
}
