#include "train/loop.h"

#include "data/file.h"
#include "infer/term.h"
#include "model/linear.h"
#include "train/sample.h"
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
static int validate(struct loop *l, struct why *why)
{
    struct tally *y = &l->trainer->tally;
    double        start = clock_now(l->clock);
    int code = validation_run(l->validation, l->trainer, &l->val_loss, &l->val_bpb, why);

    if (code)
        return code;
    l->peak = fmax(l->peak, 1e9 * linear_peak_gflops(PEAK_TRIES));
    clock_validated(l->clock, clock_now(l->clock) - start);
    y->val_loss = l->val_loss;
    if (isfinite(y->val_loss) && !(y->best_loss <= y->val_loss)) {
        y->best_loss = y->val_loss;
        y->best_step = y->step;
    }
    progress_validation(l->progress, y->step, l->val_loss, l->val_bpb);
    return 0;
}

/* What the clock decided up to this step, after the step's own line. */
static int write_decisions(struct loop *l, struct why *why)
{
    const struct trainer *t = l->trainer;
    int                   code = 0;

    while (!code && l->told < t->decisions.n &&
           t->decisions.list[l->told].step <= t->tally.step)
        code = log_decision(l->log, &t->decisions.list[l->told++], why);
    return code;
}

/* A step that is faster than the yardstick is the yardstick. */
static int write_line(struct loop *l, const struct step *s, bool validated,
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
    int code;

    l->peak = fmax(l->peak, rate);
    line.mfu = rate / l->peak;
    l->progress->peak = l->peak;
    progress_step(l->progress, &line);
    code = log_step(l->log, &line, why);
    return code ? code : write_decisions(l, why);
}

static int sample(struct loop *l, struct why *why)
{
    const struct trainer *t = l->trainer;
    double start = clock_now(l->clock);
    char   text[SAMPLE_BYTES];
    size_t len;
    int    code;

    code = sample_text(&t->model, l->data->tokenizer, t->cfg.seed, text, &len, why);
    if (!code)
        progress_sample(l->progress, t->tally.step, text, len);
    clock_sampled(l->clock, clock_now(l->clock) - start);
    return code;
}

/* Not while steps are skipped: these weights may be the cause. */
static int save(struct loop *l, struct why *why)
{
    const struct trainer *t = l->trainer;
    double                start = clock_now(l->clock);
    int                   code = 0;

    if (l->saved == t->tally.step || t->tally.in_a_row > 0)
        return 0;
    code = log_sync(l->log, why);
    if (!code)
        code = save_write(l->run->dir, t, l->data->tokenizer, l->fingerprint, why);
    if (!code)
        l->saved = t->tally.step;
    clock_saved(l->clock, clock_now(l->clock) - start);
    return code;
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
static int check_divergence(struct loop *l, const struct step *s, struct why *why)
{
    const struct tally *y = &l->trainer->tally;
    char good[1000];

    if (!s->skipped) {
        l->good = l->saved;
        return 0;
    }
    progress_say(l->progress,
                 "step %ld: %s is not finite, no update (%ld skipped so far)", y->step,
                 isfinite(s->loss) ? "the gradient" : "the loss", y->skipped);
    if (y->in_a_row < TRAINER_PATIENCE && !last(l))
        return 0;
    name_good(l, good, sizeof good);
    return fail(why, FAIL_DIVERGED,
                "diverged: no finite loss and gradient for %ld step%s; %s; start "
                "a new run with a lower lr (it was %g)",
                y->in_a_row, y->in_a_row == 1 ? "" : "s", good, l->trainer->cfg.lr);
}

/* One step; the clock decides before anything asks whether it was the last. */
static int take_step(struct loop *l, struct step *s, struct why *why)
{
    double start = clock_now(l->clock);
    int    code = trainer_step(l->trainer, s, why);

    if (code)
        return code;
    clock_step(l->clock, s->flops, clock_now(l->clock) - start);
    return clock_decide(l->clock, l->trainer, why);
}

static int step(struct loop *l, struct why *why)
{
    struct step s;
    bool        validated;
    int         code = take_step(l, &s, why);

    if (code)
        return code;
    validated = due(l, phase(l).eval_every);
    if (validated)
        code = validate(l, why);
    if (!code)
        code = write_line(l, &s, validated, why);
    if (!code)
        code = check_divergence(l, &s, why);
    if (!code && l->trainer->tally.step % phase(l).sample_every == 0)
        code = sample(l, why);
    return code;
}

/* Those made before this step are in the log. A new budget begins with a warm-up. */
static int begin(struct loop *l, struct why *why)
{
    struct trainer *t = l->trainer;
    int             code = 0;

    for (l->told = 0; l->told < t->decisions.n; l->told++)
        if (t->decisions.list[l->told].step >= t->tally.step)
            break;
    if (l->clock->amount > 0 && (t->decisions.n == 0 || last(l))) {
        code = clock_begin(l->clock, t, why);
        if (!code)
            code = clock_decide(l->clock, t, why);
    }
    return code ? code : write_decisions(l, why);
}

int loop_run(struct loop *l, struct why *why)
{
    struct tally *y = &l->trainer->tally;
    int           code = begin(l, why);

    l->val_loss = l->val_bpb = NAN;
    l->good = -1;
    while (!code && !last(l) && !interrupted) {
        code = step(l, why);
        y->seconds = clock_used(l->clock);
        if (!code && due(l, phase(l).checkpoint_every))
            code = save(l, why);
    }
    if (!code && !last(l) && y->step > 0)
        code = save(l, why);
    progress_clear(l->progress);
    return code || last(l) ? code : FAIL_INTERRUPTED;
}
