#include "train/trainer.h"

#include "data/base/clock.h"
#include "model/kernels/arena.h"
#include "train/ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In the last backward pass of a step: from this element on no gradient changes any more,
 * and ranks may begin to exchange them. */
static void gradients_ready(void *user, size_t from)
{
    (void)user;
    ranks_sum_ready(from);
}

static bool with_muon(const struct config *c)
{
    return !strcmp(c->optimiser, "muon");
}

enum fail trainer_open(struct trainer *t, const struct config *cfg, struct model *model,
                       const struct shard *shard, struct why *why)
{
    size_t bytes = model->n * sizeof(real);
    enum fail err;

    *t = (struct trainer){.cfg = *cfg, .model = *model};
    *model = (struct model){0};
    if (cfg->weight_decay < 0)
        t->cfg.weight_decay = adamw_decay(1);
    t->adamw = (struct adamw){.beta1 = cfg->beta1, .beta2 = cfg->beta2, .eps = 1e-8,
                              .clip = cfg->clip, .table_lr = cfg->table_lr,
                              .muon = with_muon(cfg), .loud = model_loudness(cfg)};
    t->tally.best_loss = t->tally.val_loss = NAN;
    t->taken = calloc(t->model.n_param, sizeof *t->taken);
    t->m = pages_alloc(bytes);
    t->v = pages_alloc(bytes);
    err = pass_open(&t->pass, &t->model, cfg->batch, cfg->context, pass_training(cfg),
                    why);
    if (!err && !(t->m && t->v && t->taken))
        err = fail(why, FAIL_MEMORY,
                   "out of memory for the moments of %zu parameters; "
                   "reduce width, layers or vocab",
                   t->model.n);
    if (!err)
        err = shares_open(&t->shares, &t->model, ranks_n(), ranks_share_of(ranks_me()),
                          with_muon(cfg), why);
    if (!err && with_muon(cfg))
        err = muon_open(&t->muon, &t->model, t->cfg.weight_decay, cfg->clip, why);
    if (!err)
        err = leaves_open(&t->leaves, &t->model, cfg->accumulate, ranks_n(), why);
    if (!err)
        err = loader_open(&t->loader, shard, cfg->seed, cfg->batch, cfg->context, why);
    t->leaves.ready = gradients_ready;
    err = ranks_agree(err, why);
    if (err)
        trainer_close(t);
    return err;
}

void trainer_close(struct trainer *t)
{
    size_t bytes = t->model.n * sizeof(real);

    loader_close(t->loader);
    leaves_close(&t->leaves);
    shares_close(&t->shares);
    pass_close(&t->pass);
    pass_close(&t->teacher);
    muon_close(&t->muon);
    pages_free(t->m, bytes);
    pages_free(t->v, bytes);
    free(t->taken);
    decisions_free(&t->decisions);
    model_close(&t->model);
    *t = (struct trainer){0};
}

void trainer_reset(struct trainer *t)
{
    model_init(&t->model, t->cfg.seed);
    if (t->start)
        model_take(&t->model, t->start, t->taken);
    ranks_share(t->model.w, t->model.n * sizeof(real));
    shares_zero_own(&t->shares, t->m);
    shares_zero_own(&t->shares, t->v);
    memset(t->pass.dw, 0, t->model.n * sizeof(real));
    t->tally = (struct tally){.best_loss = NAN, .val_loss = NAN};
    t->decisions.n = 0;
}

/* ---- a step ---- */

uint64_t trainer_step_tokens(const struct config *c)
{
    return (uint64_t)c->batch * (uint64_t)c->context * (uint64_t)c->accumulate;
}

bool trainer_transfers(const struct trainer *t)
{
    return t->tally.step < t->cfg.transfer && t->teacher.acts;
}

/* The teacher forward; the mixers forward and backward. */
static double transfer_flops(const struct trainer *t, int window)
{
    const int T = t->cfg.context;
    double    f = model_flops(t->start, T, 0);

    for (int i = 0; i < t->cfg.layers; i++)
        f += 3 * mixer_flops(&t->model.layer[i], T, window);
    return f * t->cfg.batch * t->cfg.accumulate;
}

double trainer_step_flops(const struct trainer *t, int window)
{
    if (trainer_transfers(t))
        return transfer_flops(t, window);
    return 3.0 * t->cfg.batch * t->cfg.accumulate *
               model_flops(&t->model, t->cfg.context, window) +
           (with_muon(&t->cfg) ? muon_flops(&t->model) : 0);
}

/* Micro-batch i of the step (a leaf of the tree in which gradients are summed): its loss,
 * and its gradient, added to pass.dw. Before its last one each rank hears whether the
 * others could read theirs; what comes then, the exchange of gradients included, cannot
 * fail. */
static enum fail leaf(void *user, int i, double *loss, struct why *why)
{
    struct trainer *t = user;
    const int32_t  *tokens, *targets;
    int             n = t->cfg.accumulate;
    uint64_t        first = (uint64_t)t->tally.step * (uint64_t)n;
    enum fail       err = loader_batch(t->loader, first + (uint64_t)i, &tokens, &targets,
                                       why);

    if (err || (i + 1) % (n / ranks_n()) == 0)
        err = ranks_agree(err, why);
    if (err)
        return err;
    if ((i + 1) % (n / ranks_n()) == 0)
        ranks_sum_begin(t->pass.dw, t->shares.cut, t->shares.buckets);
    *loss = trainer_transfers(t)
                ? model_imitate(&t->model, &t->pass, t->start, &t->teacher, tokens,
                                t->window, 1.0 / n)
                : model_step(&t->model, &t->pass, tokens, targets, t->window, 1.0 / n);
    return 0;
}

/* Mean loss over the step's micro-batches, and its gradient in this rank's share of
 * pass.dw, which is zero before. */
static enum fail gradients(struct trainer *t, double *loss, struct why *why)
{
    int       n = t->cfg.accumulate, each = n / ranks_n();
    enum fail err = leaves_sum(&t->leaves, &t->model, &t->pass, each * ranks_me(), each,
                               leaf, t, why);

    if (err)
        return err;
    ranks_sum_end();
    ranks_gather(t->leaves.loss, each);
    *loss = 0;
    for (int i = 0; i < n; i++)
        *loss += t->leaves.loss[i] / n;
    return FAIL_NONE;
}

/* Update this rank's share of every bucket, and take over the others'. A rank alone has
 * one share, all of them. Leaves the gradients zero. */
static void update(struct trainer *t, const struct step *s)
{
    long n = t->tally.step - t->tally.skipped + 1;      // updates, with this

    t->adamw.decay = t->muon.decay = t->cfg.weight_decay;
    for (int i = 0; i < t->shares.buckets; i++) {
        if (!shares_own(&t->shares, i, &t->adamw.from, &t->adamw.to))
            continue;
        t->muon.from = t->adamw.from;
        t->muon.to = t->adamw.to;
        if (t->muon.scratch)
            muon_step(&t->muon, &t->model, t->pass.dw, t->m, s->norm, s->lr);
        adamw_step(&t->adamw, &t->model, t->pass.dw, t->m, t->v, s->norm, s->lr, n);
    }
    shares_zero_others(&t->shares, t->pass.dw);
    shares_spread(&t->shares, t->model.w);
}

/* The z-score of norm among the last OUTLIER_WINDOW, itself included, as in llm.c; NAN
 * while there are fewer. Summed from the oldest on: a resumed run has its bits. */
static double norm_score(struct tally *y, double norm)
{
    double mean = 0, square = 0;

    if (y->n_norms == OUTLIER_WINDOW)
        memmove(y->norms, y->norms + 1, (size_t)--y->n_norms * sizeof *y->norms);
    y->norms[y->n_norms++] = norm;
    if (y->n_norms < OUTLIER_WINDOW)
        return NAN;
    for (int i = 0; i < OUTLIER_WINDOW; i++)
        mean += y->norms[i] / OUTLIER_WINDOW;
    for (int i = 0; i < OUTLIER_WINDOW; i++)
        square += (y->norms[i] - mean) * (y->norms[i] - mean) / OUTLIER_WINDOW;
    return square > 0 ? (norm - mean) / sqrt(square) : 0;
}

/* Weights that say nothing and learn nothing: every token is as likely as any other. */
static bool has_collapsed(const struct trainer *t, const struct step *s)
{
    return fabs(s->loss - log(t->cfg.vocab)) < 1e-3 && s->norm < 1e-6;
}

static void judge(struct trainer *t, struct step *s)
{
    s->finite = isfinite(s->loss) && isfinite(s->norm);
    s->z = t->cfg.outlier > 0 && s->finite ? norm_score(&t->tally, s->norm) : NAN;
    s->skipped = !s->finite || s->z > t->cfg.outlier;
    s->collapsed = s->finite && has_collapsed(t, s);
}

static void count(struct tally *y, const struct config *c, const struct step *s)
{
    y->step++;
    y->skipped += s->skipped;
    y->in_a_row = !s->finite || s->collapsed ? y->in_a_row + 1 : 0;
    y->tokens += trainer_step_tokens(c);
    y->flops += s->flops;
    y->val_loss = NAN;
}

/* Gradients are zero again when it ends, whether the weights were updated or not. */
enum fail trainer_step(struct trainer *t, struct step *s, struct why *why)
{
    double    start = wall_seconds();
    enum fail err;

    s->transfer = t->adamw.mixers = trainer_transfers(t);
    s->window = t->window = schedule_window(&t->cfg, &t->decisions, t->tally.step);
    s->lr = schedule_lr(&t->cfg, &t->decisions, t->tally.step);
    s->flops = trainer_step_flops(t, s->window);
    err = gradients(t, &s->loss, why);
    if (err)
        return err;
    s->norm = shares_norm(&t->shares, &t->model, t->pass.dw);
    judge(t, s);
    if (s->skipped)
        memset(t->pass.dw, 0, t->model.n * sizeof(real));
    else
        update(t, s);
    count(&t->tally, &t->cfg, s);
    s->seconds = wall_seconds() - start;
    return 0;
}

/* ---- a teacher ---- */

enum fail trainer_teach(struct trainer *t, const struct model *start, struct why *why)
{
    const struct config *c = &t->cfg, *from = &start->cfg;

    if (with_muon(c))
        return fail(why, FAIL_USAGE, "transfer=%ld goes with optimiser=adamw",
                    c->transfer);
    if (c->layers != from->layers || c->width != from->width || c->vocab != from->vocab)
        return fail(why, FAIL_USAGE,
                    "transfer=%ld needs the layers and the width of --from: %d and %d",
                    c->transfer, from->layers, from->width);
    t->start = start;
    return pass_open(&t->teacher, start, c->batch, c->context, PASS_TRAIN, why);
}

/* ---- what ranks share ---- */

enum fail trainer_share_decisions(struct trainer *t, struct why *why)
{
    int       n = t->decisions.n;
    enum fail err = FAIL_NONE;

    ranks_share(&n, sizeof n);
    if (ranks_me() > 0)
        t->decisions.n = 0;
    for (int i = 0; i < n; i++) {
        struct decision d = {0};

        if (i < t->decisions.n)
            d = t->decisions.list[i];
        ranks_share(&d, sizeof d);
        if (!err && ranks_me() > 0)
            err = decisions_add(&t->decisions, d, why);
    }
    return ranks_agree(err, why);
}

/* The gradients' arrays are zero between steps, and lend themselves. */
enum fail trainer_whole(struct trainer *t, real **m, real **v, struct why *why)
{
    bool rank_0 = ranks_me() == 0, lent = t->leaves.depth > 0;

    *m = *v = NULL;
    if (ranks_n() == 1) {
        *m = t->m;
        *v = t->v;
    } else if (rank_0) {
        *m = t->pass.dw;
        *v = lent ? t->leaves.held[0] : pages_alloc(t->model.n * sizeof(real));
    }
    return ranks_agree(rank_0 && !*v ? fail(why, FAIL_MEMORY,
                                            "out of memory for the moments of all ranks")
                                     : FAIL_NONE,
                       why);
}

void trainer_collect(struct trainer *t, real *m, real *v)
{
    if (ranks_n() == 1)
        return;
    shares_collect(&t->shares, m, t->m);
    shares_collect(&t->shares, v, t->v);
}

void trainer_deal(struct trainer *t, const real *m, const real *v)
{
    if (ranks_n() == 1)
        return;
    shares_deal(&t->shares, m, t->m);
    shares_deal(&t->shares, v, t->v);
}

void trainer_release(struct trainer *t, real *m, real *v)
{
    size_t bytes = t->model.n * sizeof(real);

    if (ranks_n() == 1 || ranks_me() > 0)
        return;
    memset(m, 0, bytes);
    if (t->leaves.depth > 0)
        memset(v, 0, bytes);
    else
        pages_free(v, bytes);
}
