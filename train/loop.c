#include "train/loop.h"

#include "data/base/clock.h"
#include "data/base/file.h"
#include "model/kernels/product.h"
#include "train/preview.h"
#include "train/save.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

static struct phase phase(const struct loop *l)
{
    const struct trainer *t = l->trainer;

    return schedule_phase(&t->cfg, &t->decisions, t->tally.step);
}

static bool last(const struct loop *l)
{
    long end = phase(l).end;

    return end && l->trainer->tally.step >= end;
}

static bool due(const struct loop *l, long every)
{
    return last(l) || l->trainer->tally.step % every == 0;
}

/* The yardstick is measured again beside it: the machine may have been slow before. */
static enum fail validate(struct loop *l, struct why *why)
{
    struct tally *y = &l->trainer->tally;
    double        start = clock_now(l->clock);
    enum fail err = validation_run(l->validation, l->trainer, &l->val_loss, &l->val_bpb,
                                   why);

    if (err)
        return err;
    l->peak = fmax(l->peak, 1e9 * product_gflops(&gemm_own, PEAK_TRIES));
    clock_validated(l->clock, clock_now(l->clock) - start);
    y->val_loss = l->val_loss;
    if (isfinite(y->val_loss) && !(y->best_loss <= y->val_loss)) {
        y->best_loss = y->val_loss;
        y->best_step = y->step;
    }
    if (l->watch->validation)
        l->watch->validation(l->watch->user, y->step, l->val_loss, l->val_bpb);
    return 0;
}

/* What the clock decided up to this step, after the step's own line. */
static enum fail write_decisions(struct loop *l, struct why *why)
{
    const struct trainer *t = l->trainer;
    enum fail             err = 0;

    while (!err && l->told < t->decisions.n &&
           t->decisions.list[l->told].step <= t->tally.step)
        err = log_decision(l->log, &t->decisions.list[l->told++], why);
    return err;
}

/* A step that is faster than the yardstick is the yardstick. */
static enum fail write_line(struct loop *l, const struct step *s, bool validated,
                            struct why *why)
{
    double          rate = s->flops / s->seconds;
    struct log_line line = {
        .tally = &l->trainer->tally,
        .step = s,
        .val_loss = validated ? l->val_loss : NAN,
        .val_bpb = validated ? l->val_bpb : NAN,
        .tok_s = (double)trainer_step_tokens(&l->trainer->cfg) / s->seconds,
    };
    enum fail err;

    l->peak = fmax(l->peak, rate);
    line.mfu = rate / l->peak;
    if (l->watch->step)
        l->watch->step(l->watch->user, &line);
    err = log_step(l->log, &line, why);
    return err ? err : write_decisions(l, why);
}

static enum fail sample(struct loop *l, struct why *why)
{
    const struct trainer *t = l->trainer;
    double start = clock_now(l->clock);
    char   text[SAMPLE_BYTES];
    size_t len;
    enum fail             err;

    err = sample_text(&t->model, l->data->tokenizer, t->cfg.seed, text, &len, why);
    if (!err)
        l->watch->sample(l->watch->user, t->tally.step, text, len);
    clock_sampled(l->clock, clock_now(l->clock) - start);
    return err;
}

/* Not while steps are skipped: these weights may be the cause. */
static enum fail save(struct loop *l, struct why *why)
{
    const struct trainer *t = l->trainer;
    double                start = clock_now(l->clock);
    enum fail             err = 0;

    if (l->saved == t->tally.step || t->tally.in_a_row > 0)
        return 0;
    err = log_sync(l->log, why);
    if (!err)
        err = save_write(l->run->dir, t, l->data->tokenizer, l->fingerprint, why);
    if (!err)
        l->saved = t->tally.step;
    clock_saved(l->clock, clock_now(l->clock) - start);
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

/* One step; the clock decides before anything asks whether it was the last. */
static enum fail take_step(struct loop *l, struct step *s, struct why *why)
{
    double start = clock_now(l->clock);
    enum fail err = trainer_step(l->trainer, s, why);

    if (err)
        return err;
    clock_step(l->clock, s->flops, clock_now(l->clock) - start);
    return clock_decide(l->clock, l->trainer, why);
}

static enum fail step(struct loop *l, struct why *why)
{
    struct step s;
    bool        validated;
    enum fail   err = take_step(l, &s, why);

    if (err)
        return err;
    validated = due(l, phase(l).eval_every);
    if (validated)
        err = validate(l, why);
    if (!err)
        err = write_line(l, &s, validated, why);
    if (!err)
        err = check_divergence(l, &s, why);
    if (!err && l->watch->sample &&
        l->trainer->tally.step % phase(l).sample_every == 0)
        err = sample(l, why);
    return err;
}

/* Those made before this step are in the log. A new budget begins with a warm-up. */
static enum fail begin(struct loop *l, struct why *why)
{
    struct trainer *t = l->trainer;
    enum fail       err = 0;

    for (l->told = 0; l->told < t->decisions.n; l->told++)
        if (t->decisions.list[l->told].step >= t->tally.step)
            break;
    if (l->clock->amount > 0 && (t->decisions.n == 0 || last(l))) {
        err = clock_begin(l->clock, t, why);
        if (!err)
            err = clock_decide(l->clock, t, why);
    }
    return err ? err : write_decisions(l, why);
}

enum fail loop_run(struct loop *l, struct why *why)
{
    struct tally *y = &l->trainer->tally;
    enum fail     err = begin(l, why);

    l->val_loss = l->val_bpb = NAN;
    l->good = -1;
    while (!err && !last(l) && !interrupted) {
        err = step(l, why);
        y->seconds = clock_used(l->clock);
        if (!err && due(l, phase(l).checkpoint_every))
            err = save(l, why);
    }
    if (!err && !last(l) && y->step > 0)
        err = save(l, why);
    return err || last(l) ? err : FAIL_INTERRUPTED;
}
