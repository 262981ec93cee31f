#include "train/trainer.h"

#include "data/base/clock.h"
#include "model/kernels/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
    t->adamw = (struct adamw){.beta1 = cfg->beta1, .beta2 = cfg->beta2, .eps = 1e-8,
                              .decay = cfg->weight_decay, .clip = cfg->clip,
                              .table_lr = cfg->table_lr, .muon = with_muon(cfg)};
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
    if (!err && with_muon(cfg))
        err = muon_open(&t->muon, &t->model, cfg->weight_decay, cfg->clip, why);
    if (!err)
        err = leaves_open(&t->leaves, &t->model, cfg->accumulate, why);
    if (!err)
        err = loader_open(&t->loader, shard, cfg->seed, cfg->batch, cfg->context, why);
    if (err)
        trainer_close(t);
    return err;
}

void trainer_close(struct trainer *t)
{
    size_t bytes = t->model.n * sizeof(real);

    loader_close(t->loader);
    leaves_close(&t->leaves);
    pass_close(&t->pass);
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
    size_t bytes = t->model.n * sizeof(real);

    model_init(&t->model, t->cfg.seed);
    if (t->start)
        model_take(&t->model, t->start, t->taken);
    memset(t->m, 0, bytes);
    memset(t->v, 0, bytes);
    memset(t->pass.dw, 0, bytes);
    t->tally = (struct tally){.best_loss = NAN, .val_loss = NAN};
    t->decisions.n = 0;
}

uint64_t trainer_step_tokens(const struct config *c)
{
    return (uint64_t)c->batch * (uint64_t)c->context * (uint64_t)c->accumulate;
}

double trainer_step_flops(const struct trainer *t, int window)
{
    return 3.0 * t->cfg.batch * t->cfg.accumulate *
               model_flops(&t->model, t->cfg.context, window) +
           (with_muon(&t->cfg) ? muon_flops(&t->model) : 0);
}

/* Leaf i of the step: the loss of a micro-batch, and its gradient, added to pass.dw. */
static enum fail leaf(void *user, int i, double *loss, struct why *why)
{
    struct trainer *t = user;
    const int32_t  *tokens, *targets;
    int             n = t->cfg.accumulate;
    uint64_t        first = (uint64_t)t->tally.step * (uint64_t)n;
    enum fail       err = loader_batch(t->loader, first + (uint64_t)i, &tokens, &targets,
                                       why);

    if (!err)
        *loss = model_step(&t->model, &t->pass, tokens, targets, t->window, 1.0 / n);
    return err;
}

/* Mean loss over the step's micro-batches, and its gradient in pass.dw, which is zero
 * before. */
static enum fail gradients(struct trainer *t, double *loss, struct why *why)
{
    int       n = t->cfg.accumulate;
    enum fail err = leaves_sum(&t->leaves, &t->model, &t->pass, 0, n, leaf, t, why);

    *loss = 0;
    for (int i = 0; !err && i < n; i++)
        *loss += t->leaves.loss[i] / n;
    return err;
}

/* The z-score of norm among the last OUTLIER_WINDOW, itself included, as in llm.c; NAN
 * while there are fewer. Summed from the oldest on, so that a resumed run has its bits. */
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
    long      update = t->tally.step - t->tally.skipped + 1;    // AdamW's n
    enum fail err;

    s->window = t->window = schedule_window(&t->cfg, &t->decisions, t->tally.step);
    s->lr = schedule_lr(&t->cfg, &t->decisions, t->tally.step);
    s->flops = trainer_step_flops(t, s->window);
    err = gradients(t, &s->loss, why);
    if (err)
        return err;
    s->norm = adamw_norm(&t->model, t->pass.dw);
    judge(t, s);
    if (s->skipped) {
        memset(t->pass.dw, 0, t->model.n * sizeof(real));
    } else {
        if (t->muon.scratch)
            muon_step(&t->muon, &t->model, t->pass.dw, t->m, s->norm, s->lr);
        adamw_step(&t->adamw, &t->model, t->pass.dw, t->m, t->v, s->norm, s->lr, update);
    }
    count(&t->tally, &t->cfg, s);
    s->seconds = wall_seconds() - start;
    return 0;
}
