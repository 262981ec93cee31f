#include "train/loop.h"

#include "data/base/clock.h"
#include "data/base/file.h"
#include "model/kernels/product.h"
#include "train/preview.h"
#include "train/ranks.h"
#include "train/save.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

/* Too many validations without a new best: the end is here. A run that is repeated has
 * that among its decisions. */
static enum fail lose_patience(struct loop *l, struct why *why)
{
    struct trainer     *t = l->trainer;
    const struct tally *y = &t->tally;
    char                line[160];

    if (!t->cfg.patience || y->waited < t->cfg.patience || last(l) || *l->run->replay)
        return 0;
    snprintf(line, sizeof line,
             "step %ld: no new best in %ld validation%s since step %ld: stopping "
             "(patience=%d)",
             y->step, y->waited, y->waited == 1 ? "" : "s", y->best_step,
             t->cfg.patience);
    if (l->watch->note)
        l->watch->note(l->watch->user, line);
    decisions_cut(&t->decisions, y->step);
    return decisions_add(&t->decisions,
                         (struct decision){y->step, DECIDED_END, y->step}, why);
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
    l->peak = fmax(l->peak,
                   1e9 * ranks_n() * product_gflops(gemm_yardstick(), PEAK_TRIES));
    clock_validated(l->clock, clock_now(l->clock) - start);
    y->val_loss = l->val_loss;
    y->waited++;
    if (isfinite(y->val_loss) && !(y->best_loss <= y->val_loss)) {
        y->best_loss = y->val_loss;
        y->best_step = y->step;
        y->waited = 0;
    }
    if (l->watch->validation)
        l->watch->validation(l->watch->user, y->step, l->val_loss, l->val_bpb);
    return lose_patience(l, why);
}

/* What the clock decided up to this step, after the step's own line. */
static enum fail write_decisions(struct loop *l, struct why *why)
{
    const struct trainer *t = l->trainer;
    enum fail             err = 0;

    while (!err && ranks_me() == 0 && l->told < t->decisions.n &&
           t->decisions.list[l->told].step <= t->tally.step)
        err = log_decision(l->log, &t->decisions.list[l->told++], why);
    return err;
}

static void note(const struct loop *l, const char *format, ...)
{
    char    line[1200];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (l->watch->note)
        l->watch->note(l->watch->user, line);
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

    if (ranks_me() > 0)
        return FAIL_NONE;
    l->peak = fmax(l->peak, rate);
    line.mfu = rate / l->peak;
    if (l->watch->step)
        l->watch->step(l->watch->user, &line);
    err = log_step(l->log, &line, why);
    if (!err)
        err = write_decisions(l, why);
    if (l->log->n_held > 0 && !l->held)
        note(l, "step %ld: %s cannot be written; its lines are kept until it can",
             l->trainer->tally.step, l->log->path);
    l->held = l->log->n_held > 0;
    return err;
}

static enum fail sample(struct loop *l, struct why *why)
{
    const struct trainer *t = l->trainer;
    double start = clock_now(l->clock);
    char   text[SAMPLE_BYTES];
    size_t len;
    enum fail             err;

    err = sample_text(&t->model, l->data->tokenizer, t->cfg.seed, text, &len, why);
    if (!err) {
        l->watch->sample(l->watch->user, t->tally.step, text, len);
        err = log_sample(l->log, t->tally.step, text, len, why);
    }
    clock_sampled(l->clock, clock_now(l->clock) - start);
    return err;
}

/* ---- checkpoints ---- */

/* What lies on the disk after trouble: the newest checkpoint that is known to be good, or
 * the newest of all, which may not be. */
static void name_good(const struct loop *l, char *line, size_t cap)
{
    long *step, n = checkpoint_list(l->run->dir, &step), i = 0;
    char  path[PATH_MAX];

    while (i < n && step[i] > l->good && (l->good >= 0 || step[i] == l->saved))
        i++;
    checkpoint_path(path, sizeof path, l->run->dir, i < n ? step[i] : l->saved);
    if (i < n)
        snprintf(line, cap, "the last good checkpoint is %.900s", path);
    else if (n > 0)
        snprintf(line, cap, "the only checkpoint, %.900s, may be the cause", path);
    else
        snprintf(line, cap, "there is no checkpoint yet");
    free(step);
}

/* What a run has after its last save failed. */
static enum fail keep_weights(struct loop *l, const struct why *failed, struct why *why)
{
    const struct trainer *t = l->trainer;
    char                  dir[PATH_MAX], kept[1200], word[1200];
    struct why            unread;
    enum fail err = save_weights(l->run->dir, t, l->data->tokenizer, dir, sizeof dir,
                                 &unread);

    snprintf(kept, sizeof kept, "the weights alone are in %.900s", dir);
    if (err && !path_exists(dir))
        snprintf(kept, sizeof kept, "nor is there room for the weights alone");
    path_quote(word, sizeof word, l->run->dir);
    if (l->saved >= 0)
        return fail(why, FAIL_WRITE,
                    "%.400s; step %ld is not saved; %.300s; --resume %.200s goes on from "
                    "step %ld",
                    failed->line, t->tally.step, kept, word, l->saved);
    return fail(why, FAIL_WRITE, "%.500s; step %ld is not saved; %.400s", failed->line,
                t->tally.step, kept);
}

/* What was validated is good. */
static enum fail write_checkpoint(struct loop *l, struct why *why)
{
    const struct tally *y = &l->trainer->tally;
    struct why          late;
    enum fail           log = ranks_me() ? FAIL_NONE : log_sync(l->log, &late), err;

    err = save_write(l->run->dir, l->trainer, l->data->tokenizer, l->fingerprint,
                     isfinite(y->val_loss) ? y->step : l->good, why);
    if (err)
        return err;
    l->saved = y->step;
    if (isfinite(y->val_loss))
        l->good = y->step;
    if (log)
        note(l, "step %ld: %.900s; its last lines are kept until there is room", y->step,
             late.line);
    return 0;
}

/* The checkpoint of this step failed; or it is there, but something beside it failed. */
static enum fail after_failure(struct loop *l, const struct why *failed, bool end,
                               struct why *why)
{
    long step = l->trainer->tally.step;
    char path[PATH_MAX];

    if (path_is_dir(checkpoint_path(path, sizeof path, l->run->dir, step))) {
        l->saved = step;
        if (end)
            return fail(why, FAIL_WRITE, "%s", failed->line);
        note(l, "step %ld is saved, but: %.900s", step, failed->line);
        return 0;
    }
    if (end)
        return keep_weights(l, failed, why);
    note(l, "step %ld is not saved: %.900s; training goes on, and the next save tries "
         "again", step, failed->line);
    return 0;
}

/* What rank 0 makes of a failure is that of all. */
static enum fail go_on(struct loop *l, const struct why *failed, struct why *why)
{
    bool      end = last(l) || ranks_any(interrupted);
    enum fail err = ranks_me() ? FAIL_NONE : after_failure(l, failed, end, why);

    ranks_share(&l->saved, sizeof l->saved);
    return ranks_agree(err, why);
}

static enum fail fail_finite(const struct loop *l, const struct why *failed,
                             struct why *why)
{
    char good[1000];

    name_good(l, good, sizeof good);
    return fail(why, FAIL_DIVERGED,
                "diverged: %.500s; %.400s; start a new run with a lower lr (it was %g)",
                failed->line, good, l->trainer->cfg.lr);
}

/* Not while steps are broken: these weights may be the cause. A save that fails is said,
 * and the next one tries again; after the last one there is none. */
static enum fail save(struct loop *l, struct why *why)
{
    const struct tally *y = &l->trainer->tally;
    double              start = clock_now(l->clock);
    struct why          failed;
    enum fail           err;

    if (l->saved == y->step || y->in_a_row > 0)
        return 0;
    err = write_checkpoint(l, &failed);
    clock_saved(l->clock, clock_now(l->clock) - start);
    if (err == FAIL_DIVERGED)
        return fail_finite(l, &failed, why);
    return err ? go_on(l, &failed, why) : 0;
}

/* ---- trouble ---- */

static void tell_broken(const struct loop *l, const struct step *s)
{
    const struct tally *y = &l->trainer->tally;

    if (!s->finite)
        note(l, "step %ld: %s is not finite, no update (%ld skipped so far)", y->step,
             isfinite(s->loss) ? "the gradient" : "the loss", y->skipped);
    else if (s->skipped)
        note(l,
             "step %ld: skipped, its gradient norm %.3g is %.1f deviations high (%ld so "
             "far)", y->step, s->norm, s->z, y->skipped);
    else if (s->collapsed && y->in_a_row == 1)
        note(l,
             "step %ld: the loss, %.4f, is that of guessing, and the gradient is gone",
             y->step, s->loss);
}

/* Say what is wrong with a step, and stop when too many were broken, or the last. */
static enum fail check_divergence(struct loop *l, const struct step *s, struct why *why)
{
    const struct tally *y = &l->trainer->tally;
    char good[1000], what[128];

    tell_broken(l, s);
    if (y->in_a_row == 0)
        l->good = l->saved;
    if (y->in_a_row == 0 || (y->in_a_row < TRAINER_PATIENCE && !last(l)))
        return 0;
    snprintf(what, sizeof what, "%s for %ld step%s",
             s->collapsed
                 ? "collapsed: the loss is that of guessing and the gradient gone"
                 : "diverged: no finite loss and gradient",
             y->in_a_row, y->in_a_row == 1 ? "" : "s");
    name_good(l, good, sizeof good);
    return fail(why, FAIL_DIVERGED, "%s; %s; start a new run with a lower lr (it was %g)",
                what, good, l->trainer->cfg.lr);
}

/* What the clock of rank 0 says now; at the beginning of a budget it decides more. */
static enum fail decide(struct loop *l, bool begin, struct why *why)
{
    struct trainer *t = l->trainer;
    enum fail       err = FAIL_NONE;

    if (l->clock->amount == 0)
        return FAIL_NONE;
    if (ranks_me() == 0 && begin)
        err = clock_begin(l->clock, t, why);
    if (ranks_me() == 0 && !err)
        err = clock_decide(l->clock, t, why);
    err = ranks_agree(err, why);
    return err ? err : trainer_share_decisions(t, why);
}

/* One step; the clock decides before anything asks whether it was the last. */
static enum fail take_step(struct loop *l, struct step *s, struct why *why)
{
    double start = clock_now(l->clock);
    enum fail err = trainer_step(l->trainer, s, why);

    if (err)
        return err;
    clock_step(l->clock, s->flops, clock_now(l->clock) - start);
    return decide(l, false, why);
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
    if (!err && l->watch->sample && ranks_me() == 0 &&
        l->trainer->tally.step % phase(l).sample_every == 0)
        err = sample(l, why);
    return ranks_agree(err, why);
}

/* Those made before this step are in the log. A new budget begins with a warm-up. */
static enum fail begin(struct loop *l, struct why *why)
{
    struct trainer *t = l->trainer;
    enum fail       err = 0;

    for (l->told = 0; l->told < t->decisions.n; l->told++)
        if (t->decisions.list[l->told].step >= t->tally.step)
            break;
    if (t->decisions.n == 0 || last(l))
        err = decide(l, true, why);
    if (!err)
        err = write_decisions(l, why);
    return ranks_agree(err, why);
}

/* Who stops when it gets no better wants the best. */
static bool best_to_keep(const struct loop *l)
{
    const struct tally *y = &l->trainer->tally;

    return l->trainer->cfg.patience > 0 && y->best_step == y->step;
}

enum fail loop_run(struct loop *l, struct why *why)
{
    struct tally *y = &l->trainer->tally;
    enum fail     err = begin(l, why);

    l->val_loss = l->val_bpb = NAN;
    l->good = isfinite(y->val_loss) ? l->saved : -1;
    while (!err && !last(l) && !ranks_any(interrupted)) {
        err = step(l, why);
        y->seconds = clock_used(l->clock);
        if (!err && (due(l, phase(l).checkpoint_every) || best_to_keep(l)))
            err = save(l, why);
    }
    if (!err && !last(l) && y->step > 0)
        err = save(l, why);
    return err || last(l) ? err : FAIL_INTERRUPTED;
}
