#include "tools/lab/task.h"

#include "model/kernels/arena.h"
#include "train/adamw.h"
#include "train/schedule.h"
#include "train/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Held-out sequences are counted from here; no training reaches it. */
static const uint64_t held_out = (uint64_t)1 << 48;

static void take_shape(struct config *c, const struct config *like)
{
    for (const struct key *k = config_keys; k->name; k++)
        if (k->part == KEY_MODEL)
            memcpy((char *)c + k->at, (const char *)like + k->at, k->size);
}

/* Settle c, with these mixers and an MLP of this hidden width; 0: none. */
static enum fail settle(struct config *c, const char *entries, int mlp, struct why *why)
{
    enum fail err = config_set(c, "mixers", entries, why);

    if (!err)
        err = config_resolve(c, why);
    c->mlp = mlp;
    return err;
}

enum fail task_mixers_alone(struct model *m, struct config *c, const char *entries,
                            struct why *why)
{
    enum fail err = settle(c, entries, 0, why);

    *m = (struct model){0};
    return err ? err : model_open(m, c, why);
}

static enum fail configure(const struct task *t, struct config *c, struct why *why)
{
    config_defaults(c);
    c->layers = t->layers, c->width = t->width, c->heads = t->heads, c->vocab = t->vocab;
    c->context = t->length, c->batch = t->batch, c->steps = t->steps;
    c->lr = t->lr, c->weight_decay = t->weight_decay, c->clip = t->clip,
    c->seed = t->seed;
    c->warmup = 0.1, c->window_short = t->window_short, c->window_p = t->window_p;
    if (t->like)
        take_shape(c, t->like);
    return settle(c, t->mixers, t->like ? t->like->mlp : t->mlp, why);
}

static size_t state_at(const char *entry, int context)
{
    struct mixer_cfg c = {.C = 32, .H = 1, .Hk = 1, .layers = 1, .context = context};
    struct sizes     s = {0};
    struct why       why;

    if (!mixer_parse(&c, entry, &why))
        mixer_sizes(&c, 1, 1, &s);
    return s.state;
}

bool task_grows(const char *entry) { return state_at(entry, 128) > state_at(entry, 64); }

enum fail task_check(const struct task *t, struct why *why)
{
    struct config c;

    return configure(t, &c, why);
}

/* Sequences first, first + 1, ... into (B, T). */
static void fill_batch(const struct task *t, uint64_t first, int B, int T,
                       int32_t *tokens, int32_t *targets)
{
    #pragma omp parallel for schedule(static)
    for (int b = 0; b < B; b++) {
        struct rng r = rng_open(t->seed, RNG_LAB, first + (uint64_t)b);

        t->fill(t->user, &r, T, tokens + (size_t)b * T, targets + (size_t)b * T);
    }
}

/* ---- training ---- */

/* What training needs besides the model. */
struct gym {
    struct pass  pass;
    struct pass  teacher;           // of transfer
    real        *m, *v;             // moments
    size_t       bytes;             // of each
    int32_t     *tokens, *targets;  // (B, T), one allocation at tokens
};

static enum fail gym_open(struct gym *g, const struct task *t, const struct model *m,
                          struct why *why)
{
    size_t n = (size_t)t->batch * t->length;

    *g = (struct gym){.bytes = m->n * sizeof(real)};
    g->m = pages_alloc(g->bytes);
    g->v = pages_alloc(g->bytes);
    g->tokens = malloc(2 * n * sizeof *g->tokens);
    g->targets = g->tokens + n;
    if (!g->m || !g->v || !g->tokens)
        return fail(why, FAIL_MEMORY, "out of memory for a task's model");
    enum fail err = pass_open(&g->pass, m, t->batch, t->length, pass_training(&m->cfg),
                              why);

    if (!err && t->transfer)
        err = pass_open(&g->teacher, t->start, t->batch, t->length, PASS_TRAIN, why);
    return err;
}

static void gym_close(struct gym *g)
{
    pass_close(&g->pass);
    pass_close(&g->teacher);
    pages_free(g->m, g->bytes);
    pages_free(g->v, g->bytes);
    free(g->tokens);
}

/* One optimiser step; false when loss or gradient was not finite: nothing was changed. */
static bool train_step(const struct task *t, struct model *m, struct gym *g, long step,
                       long update)
{
    struct adamw o = {m->cfg.beta1, m->cfg.beta2, 1e-8, t->weight_decay, t->clip, 1,
                      .mixers = step < t->transfer};
    int          window = schedule_window(&m->cfg, NULL, step);
    double       lr = schedule_lr(&m->cfg, NULL, step), loss, norm;

    fill_batch(t, (uint64_t)step * (uint64_t)t->batch, t->batch, t->length, g->tokens,
               g->targets);
    loss = o.mixers ? model_imitate(m, &g->pass, t->start, &g->teacher, g->tokens,
                                    window, 1)
                    : model_step(m, &g->pass, g->tokens, g->targets, window, 1);
    norm = adamw_norm(m, g->pass.dw);
    if (!isfinite(loss) || !isfinite(norm)) {
        memset(g->pass.dw, 0, g->bytes);
        return false;
    }
    adamw_step(&o, m, g->pass.dw, g->m, g->v, norm, lr, update);
    return true;
}

static enum fail train_steps(const struct task *t, struct model *m, struct gym *g,
                             struct lab *l, const char *key, double share,
                             struct why *why)
{
    long updates = 0, bad = 0;

    for (long step = 0; step < t->steps; step++) {
        if (!lab_progress(l, key, share * (double)step / (double)t->steps))
            return FAIL_INTERRUPTED;
        if (t->mark)
            t->mark(t->marker, m, step);
        if (train_step(t, m, g, step, updates + 1))
            updates++, bad = 0;
        else if (++bad >= TRAINER_PATIENCE)
            return fail(why, FAIL_DIVERGED,
                        "%s: no finite gradient in %d steps; this arm needs "
                        "a smaller learning rate than %g",
                        key, TRAINER_PATIENCE, t->lr);
    }
    if (t->mark)
        t->mark(t->marker, m, t->steps);
    return FAIL_NONE;
}

enum fail task_train(const struct task *t, struct model *m, struct lab *l,
                     const char *key, double share, struct why *why)
{
    struct config c;
    struct gym    g = {0};
    enum fail     err = configure(t, &c, why);

    *m = (struct model){0};
    if (!err)
        err = model_open(m, &c, why);
    if (err)
        return err;
    model_init(m, t->seed);
    lab_cost(l, (double)t->steps * t->batch * t->length, (double)model_count(m));
    if (t->start)
        model_take(m, t->start, NULL);
    err = gym_open(&g, t, m, why);
    if (!err)
        err = train_steps(t, m, &g, l, key, share, why);
    gym_close(&g);
    if (err)
        model_close(m);
    return err;
}

/* ---- testing ---- */

enum fail task_test(const struct task *t, const struct model *m, int T, int n,
                    task_each each, void *user, struct why *why)
{
    enum { AT_ONCE = 1 << 13 };         // tokens
    int         B = AT_ONCE / T > 1 ? AT_ONCE / T : 1;
    enum fail   err;
    size_t      size = (size_t)B * T;
    struct pass p = {0};
    int32_t    *tokens = malloc(3 * size * sizeof *tokens);
    int32_t    *targets = tokens + size, *best = targets + size;

    err = tokens ? pass_open(&p, m, B, T, PASS_SCORE, why)
                 : fail(why, FAIL_MEMORY, "out of memory for %d tokens", T);
    for (int at = 0; !err && at < n; at += B) {
        int now = n - at < B ? n - at : B;

        fill_batch(t, held_out + (uint64_t)at, now, T, tokens, targets);
        model_predict(m, &p, now, T, tokens, targets, best);
        for (int b = 0; b < now; b++)
            each(user, T, tokens + (size_t)b * T, targets + (size_t)b * T,
                 best + (size_t)b * T);
    }
    pass_close(&p);
    free(tokens);
    return err;
}

void task_count_each(void *user, int T, const int32_t *tokens, const int32_t *targets,
                     const int32_t *best)
{
    struct task_count *c = user;
    long               asked = 0, right = 0;

    (void)tokens;
    for (int i = 0; i < T; i++) {
        asked += targets[i] >= 0;
        right += targets[i] >= 0 && best[i] == targets[i];
    }
    c->asked += asked;
    c->right += right;
    c->strings++;
    c->whole += asked == right;
}

double task_accuracy(const struct task_count *c)
{
    return c->asked ? (double)c->right / (double)c->asked : NAN;
}

void task_places_each(void *user, int T, const int32_t *tokens, const int32_t *targets,
                      const int32_t *best)
{
    struct task_places *p = user;

    (void)tokens;
    for (int i = 0; i < T; i++) {
        p->asked[i] += targets[i] >= 0;
        p->right[i] += targets[i] >= 0 && best[i] == targets[i];
    }
}

/* ---- what attention does ---- */

static double entropy(const double *p, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum -= p[i] > 0 ? p[i] * log2(p[i]) : 0;
    return sum;
}

/* Of H heads' weights p (H, n): the entropy of their mean less the mean of theirs; heads
 * without weights are left out. */
static void add_apart(struct attended *sum, const double *p, int H, int n, double *mean)
{
    double own = 0;
    int    heads = 0;

    memset(mean, 0, (size_t)n * sizeof *mean);
    for (int h = 0; h < H; h++, p += n) {
        double all = 0;

        for (int u = 0; u < n; u++)
            mean[u] += p[u], all += p[u];
        heads += all > 0;
        own += entropy(p, n);
    }
    if (heads < 2)
        return;
    for (int u = 0; u < n; u++)
        mean[u] /= heads;
    sum->met++;
    sum->apart += entropy(mean, n) - own / heads;
}

static void add_zeros(struct attended *sum, const double *p, int H, int n)
{
    for (int h = 0; h < H; h++, p += n) {
        int zeros = 0;

        for (int u = 0; u < n; u++)
            zeros += p[u] == 0;
        sum->pairs += n, sum->zeros += zeros;
        sum->rows++, sum->nulls += zeros == n;
    }
}

struct looking {
    struct attended *sum;
    double          *p;             // (H + 1, T)
};

static void look(void *user, int layer, struct mixer_layer *l)
{
    struct looking *k = user;
    const int       H = l->ctx.cfg->H;

    (void)layer;
    for (int b = 0; b < l->ctx.B; b++)
        for (int t = 0; t < l->ctx.T; t++)
            if (mixer_weights(l, b, t, k->p)) {
                add_zeros(k->sum, k->p, H, t + 1);
                add_apart(k->sum, k->p, H, t + 1, k->p + (size_t)H * (t + 1));
            }
}

static int most_heads(const struct model *m)
{
    int most = 0;

    for (int i = 0; i < m->cfg.layers; i++)
        most = m->layer[i].H > most ? m->layer[i].H : most;
    return most;
}

enum fail task_attended(const struct model *m, int B, int T, const int32_t *tokens,
                        struct attended *sum, struct why *why)
{
    const long     n = (long)B * T;
    struct pass    p = {0};
    int32_t       *targets = calloc(n, sizeof *targets);
    real          *nats = malloc(n * sizeof *nats);
    struct looking k = {sum, malloc((size_t)(most_heads(m) + 1) * T * sizeof *k.p)};
    enum fail      err = targets && nats && k.p
                             ? pass_open(&p, m, B, T, PASS_SCORE, why)
                             : fail(why, FAIL_MEMORY, "out of memory");

    *sum = (struct attended){0};
    p.watch = look, p.user = &k;
    if (!err)
        model_score(m, &p, B, T, tokens, targets, 0, nats);
    pass_close(&p);
    free(targets);
    free(nats);
    free(k.p);
    return err;
}
