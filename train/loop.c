#include "train/loop.h"

#include "data/base/clock.h"
#include "data/base/file.h"
#include "train/preview.h"
#include "train/save.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

static bool last(const struct loop *l)
{
    return l->trainer->tally.step >= l->trainer->cfg.steps;
}

static bool due(const struct loop *l, long every)
{
    return last(l) || l->trainer->tally.step % every == 0;
}

static enum fail validate(struct loop *l, struct why *why)
{
    struct tally *y = &l->trainer->tally;
    enum fail err = validation_run(l->validation, l->trainer, &l->val_loss, &l->val_bpb,
                                   why);

    if (err)
        return err;
    y->val_loss = l->val_loss;
    if (isfinite(y->val_loss) && !(y->best_loss <= y->val_loss)) {
        y->best_loss = y->val_loss;
        y->best_step = y->step;
    }
    if (l->watch->validation)
        l->watch->validation(l->watch->user, y->step, l->val_loss, l->val_bpb);
    return 0;
}

static enum fail write_line(struct loop *l, const struct step *s, bool validated,
                            struct why *why)
{
    struct log_line line = {
        .tally = &l->trainer->tally,
        .step = s,
        .val_loss = validated ? l->val_loss : NAN,
        .val_bpb = validated ? l->val_bpb : NAN,
        .tok_s = (double)trainer_step_tokens(&l->trainer->cfg) / s->seconds,
        .mfu = l->peak > 0 ? s->flops / s->seconds / l->peak : 0,
    };

    if (l->watch->step)
        l->watch->step(l->watch->user, &line);
    return log_step(l->log, &line, why);
}

static enum fail sample(struct loop *l, struct why *why)
{
    const struct trainer *t = l->trainer;
    char   text[SAMPLE_BYTES];
    size_t len;
    enum fail             err;

    err = sample_text(&t->model, l->data->tokenizer, t->cfg.seed, text, &len, why);
    if (!err)
        l->watch->sample(l->watch->user, t->tally.step, text, len);
    return err;
}

/* Not while steps are skipped: these weights may be the cause. */
static enum fail save(struct loop *l, struct why *why)
{
    const struct trainer *t = l->trainer;
    enum fail             err = 0;

    if (l->saved == t->tally.step || t->tally.in_a_row > 0)
        return 0;
    err = log_sync(l->log, why);
    if (!err)
        err = save_write(l->run->dir, t, l->data->tokenizer, l->fingerprint, why);
    if (!err)
        l->saved = t->tally.step;
    return err;
}

/* The newest checkpoint that a finite step went on from, while it is kept. */
static void name_good(const struct loop *l, char *line, size_t cap)
{
    char path[PATH_MAX], name[32];

    checkpoint_name(name, sizeof name, l->good);
    if (l->good >= 0 && path_is_dir(path_join(path, sizeof path, l->run->dir, name)))
        snprintf(line, cap, "the last good checkpoint is %.900s/%s", l->run->dir, name);
    else
        snprintf(line, cap, "there is no good checkpoint");
}

/* Say that a step was skipped, and stop when too many were, or the last. */
static enum fail check_divergence(struct loop *l, const struct step *s, struct why *why)
{
    const struct tally *y = &l->trainer->tally;
    char good[1000];

    if (!s->skipped) {
        l->good = l->saved;
        return 0;
    }
    if (l->watch->note) {
        char line[128];

        snprintf(line, sizeof line,
                 "step %ld: %s is not finite, no update (%ld skipped so far)", y->step,
                 isfinite(s->loss) ? "the gradient" : "the loss", y->skipped);
        l->watch->note(l->watch->user, line);
    }
    if (y->in_a_row < TRAINER_PATIENCE && !last(l))
        return 0;
    name_good(l, good, sizeof good);
    return fail(why, FAIL_DIVERGED,
                "diverged: no finite loss and gradient for %ld step%s; %s; start "
                "a new run with a lower lr (it was %g)",
                y->in_a_row, y->in_a_row == 1 ? "" : "s", good, l->trainer->cfg.lr);
}

static enum fail step(struct loop *l, struct why *why)
{
    const struct config *c = &l->trainer->cfg;
    struct step s;
    bool        validated;
    enum fail            err = trainer_step(l->trainer, &s, why);

    if (err)
        return err;
    validated = due(l, c->eval_every);
    if (validated)
        err = validate(l, why);
    if (!err)
        err = write_line(l, &s, validated, why);
    if (!err)
        err = check_divergence(l, &s, why);
    if (!err && l->watch->sample && l->trainer->tally.step % c->sample_every == 0)
        err = sample(l, why);
    return err;
}

enum fail loop_run(struct loop *l, struct why *why)
{
    struct tally *y = &l->trainer->tally;
    double        before = y->seconds, start = wall_seconds();
    enum fail     err = 0;

    l->val_loss = l->val_bpb = NAN;
    l->good = -1;
    while (!err && !last(l) && !interrupted) {
        err = step(l, why);
        y->seconds = before + wall_seconds() - start;
        if (!err && due(l, l->trainer->cfg.checkpoint_every))
            err = save(l, why);
    }
    if (!err && !last(l) && y->step > 0)
        err = save(l, why);
    return err || last(l) ? err : FAIL_INTERRUPTED;
}
