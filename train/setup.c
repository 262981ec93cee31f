#include "train/setup.h"

#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/utf8.h"
#include "model/kernels/product.h"
#include "train/ranks.h"
#include "train/save.h"
#include "train/warmstart.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double measure_seconds = 2, measure_share = 0.02;

/* ---- data ---- */

/* The directory of the tokenized data; *built: it is the run's own. */
static enum fail data_dir(const struct run *r, char *dir, size_t cap, bool *built,
                          struct why *why)
{
    *built = true;
    for (int i = 0; i < r->n_input; i++)
        if (dataset_is(r->input[i])) {
            if (r->n_input > 1)
                return fail(why, FAIL_USAGE,
                            "%s: a dataset must be the only input; build one of "
                            "all texts with: weft data build",
                            r->input[i]);
            *built = false;
        }
    if (*built)
        path_join(dir, cap, r->dir, "data");
    else
        snprintf(dir, cap, "%s", r->input[0]);
    return 0;
}

/* Refuse what cannot fit whatever the vocabulary will be, before the time for tokenizing
 * is spent. */
static enum fail check_early(const struct run *r, struct why *why)
{
    struct config c = r->cfg;
    struct model  m;
    enum fail     err;

    if (c.vocab == 0)
        c.vocab = 257;
    err = model_open(&m, &c, why);
    if (!err)
        err = plan_check_memory(&m, &c, why);
    if (!err)
        err = save_check_room(r->dir, &m, 1, why);
    model_close(&m);
    return err;
}

static enum fail build_data(struct setup *s, const char *dir, struct why *why)
{
    const struct run      *r = &s->run;
    struct dataset_options o = {
        .inputs = (const char *const *)r->input,
        .n_inputs = r->n_input,
        .weights = r->weight,
        .val = *r->val ? r->val : NULL,
        .field = *r->field ? r->field : NULL,
        .tokenizer = r->cfg.tokenizer,
        .vocab = s->tokenizer ? 0 : r->cfg.vocab,
        .given = s->tokenizer,
        .prefix = r->cfg.prefix,
        .val_fraction = r->cfg.val_fraction,
        .lock_fd = r->lock,
        .progress = s->watch.phase,
        .user = s->watch.user,
        .stop = &interrupted,
    };

    return dataset_build(dir, &o, why);
}

/* Is there a window of `context` tokens and the token after it? */
static enum fail check_window(const struct dataset *d, int context, struct why *why)
{
    int fits = 1;

    if (d->train.tokens > (uint64_t)context)
        return 0;
    while (2 * (uint64_t)fits < d->train.tokens)
        fits *= 2;
    if (d->train.tokens < 3)
        return fail(why, FAIL_INPUT,
                    "the text gives %llu tokens to train on; give more text",
                    (unsigned long long)d->train.tokens);
    return fail(why, FAIL_INPUT,
                "the text gives %llu tokens to train on, fewer than one window "
                "of context=%d; context=%d fits, or give more text",
                (unsigned long long)d->train.tokens, context, fits);
}

/* Take over what the data decides. */
static enum fail settle_vocab(struct config *c, const struct dataset *d, bool built,
                              struct why *why)
{
    if (!built && c->vocab && c->vocab != d->vocab)
        return fail(why, FAIL_USAGE,
                    "vocab=%d, but the dataset %s has %d; leave vocab out, or "
                    "build another dataset",
                    c->vocab, d->dir, d->vocab);
    if (!built && *c->prefix && strcmp(c->prefix, d->prefix))
        return fail(why, FAIL_USAGE,
                    "prefix=\"%s\", but the dataset %s was built with \"%s\"; give the "
                    "text it was built from instead",
                    c->prefix, d->dir, d->prefix);
    c->vocab = d->vocab;
    snprintf(c->prefix, sizeof c->prefix, "%s", d->prefix);
    snprintf(c->tokenizer, sizeof c->tokenizer, "%s", tokenizer_kind(d->tokenizer));
    return 0;
}

/* Does a word go on with the character of len bytes (0: none) at text? */
static bool in_word(const char *text, size_t len)
{
    return len > 1 ? !utf8_is_control(utf8_code(text, (int)len))
                   : len && isalnum((unsigned char)*text);
}

/* The first word of the validation text; "": there is none. */
static void first_word(const struct validation *v, const struct tokenizer *k, char *word,
                       size_t cap)
{
    char   text[256];
    size_t n = tokenizer_decode(k, v->ids, v->n < 64 ? v->n : 64, text, sizeof text);
    size_t used = 0;

    n = n < sizeof text ? n : sizeof text;
    for (size_t i = v->prefix, len; i < n; i += len ? len : 1) {
        len = (size_t)utf8_length(text + i, n - i);
        bool in = in_word(text + i, len);

        if ((used && !in) || used + len >= cap)
            break;
        if (in) {
            memcpy(word + used, text + i, len);
            used += len;
        }
    }
    word[used] = 0;
}

/* Of few documents, such as one book, a model learns nothing about what follows their
 * ends; without a prompt it then begins as the validation text does. */
static void settle_opening(struct config *c, const struct dataset *d,
                           const struct validation *v)
{
    enum { LEARNED = 16 };              // documents

    if (!*c->opening && d->train.documents < LEARNED)
        first_word(v, d->tokenizer, c->opening, sizeof c->opening);
}

/* Every rank reads the data itself: is it the same? */
static enum fail compare_data(const struct setup *s, struct why *why)
{
    uint64_t first = s->fingerprint;

    ranks_share(&first, sizeof first);
    if (s->fingerprint == first)
        return FAIL_NONE;
    return fail(why, FAIL_INPUT,
                "%s: not the data of rank 0; copy that here, or share it", s->data.dir);
}

static enum fail open_data(struct setup *s, struct why *why)
{
    char dir[PATH_MAX];
    bool built;
    enum fail err = data_dir(&s->run, dir, sizeof dir, &built, why);

    if (!err && ranks_me() == 0 && built && !dataset_is(dir)) {
        err = check_early(&s->run, why);
        if (!err)
            err = build_data(s, dir, why);
    }
    err = ranks_agree(err, why);
    if (!err)
        err = dataset_open(&s->data, dir, why);
    if (!err)
        err = start_check(s, why);
    if (!err)
        err = settle_vocab(&s->run.cfg, &s->data, built, why);
    if (!err)
        err = check_window(&s->data, s->run.cfg.context, why);
    if (!err)
        err = save_fingerprint(dir, &s->fingerprint, why);
    err = ranks_agree(err, why);
    if (err)
        return err;
    err = compare_data(s, why);
    if (!err)
        err = validation_open(&s->validation, &s->data, why);
    if (!err)
        settle_opening(&s->run.cfg, &s->data, &s->validation);
    return ranks_agree(err, why);
}

/* ---- model ---- */

/* Where the first steps learn from the model that --from named. */
static enum fail open_teacher(struct setup *s, struct why *why)
{
    long      transfer = s->run.cfg.transfer;
    enum fail err;

    if (s->trainer.tally.step >= transfer)
        return 0;
    if (ranks_n() > 1)
        return fail(why, FAIL_USAGE, "transfer=%ld goes with one process, not with %d",
                    transfer, ranks_n());
    if (!s->start.w && !*s->run.from)
        return fail(why, FAIL_USAGE,
                    "transfer=%ld needs a model to learn from: --from RUN", transfer);
    err = start_load(s, why);
    if (err)
        return err;
    return ranks_agree(trainer_teach(&s->trainer, &s->start, why), why);
}

/* The newest checkpoint of the run into dir; "": none. Rank 0 looks. */
static enum fail find_newest(struct setup *s, char *dir, size_t cap, struct why *why)
{
    struct why note = {""};
    enum fail  err = FAIL_NONE;

    memset(dir, 0, cap);
    if (ranks_me() == 0)
        err = save_newest(s->run.dir, dir, cap, &note, why);
    if (!err && note.line[0] && s->watch.note)
        s->watch.note(s->watch.user, note.line);
    err = ranks_agree(err, why);
    ranks_share(dir, cap);
    return err;
}

/* A model with memory for its training: from the checkpoint dir, which rank 0 reads, or
 * not filled. Also after a failure it needs closing. */
static enum fail open_model(const struct setup *s, const char *dir, struct model *m,
                            struct why *why)
{
    const struct config *c = &s->run.cfg;
    enum fail            err;

    *m = (struct model){0};
    err = *dir && ranks_me() == 0 ? save_load_model(dir, c, s->data.tokenizer, m, why)
                                  : model_open(m, c, why);
    if (!err)
        err = plan_check_memory(m, c, why);
    return ranks_agree(err, why);
}

/* Another build or machine may round otherwise. */
static void tell_origin(const struct setup *s)
{
    char line[700], note[1000];

    log_origin(s->run.dir, line, sizeof line);
    snprintf(note, sizeof note,
             "resumed by another build or machine than began it (%s): from here its bits "
             "may differ from those of an uninterrupted run", line);
    if (*line && s->watch.note)
        s->watch.note(s->watch.user, note);
}

static enum fail open_trainer(struct setup *s, struct why *why)
{
    struct trainer *t = &s->trainer;
    struct model    m = {0};
    char            dir[PATH_MAX], word[1200];
    enum fail       err = find_newest(s, dir, sizeof dir, why);

    if (!err)
        err = open_model(s, dir, &m, why);
    if (!err)
        err = trainer_open(t, &s->run.cfg, &m, &s->data.shard[0], why);
    if (err) {
        model_close(&m);
        return err;
    }
    if (!*dir) {
        t->start = s->start.w ? &s->start : NULL;
        trainer_reset(t);
        return open_teacher(s, why);
    }
    ranks_share(t->model.w, t->model.n * sizeof(real));
    err = save_load_state(dir, t, s->fingerprint, why);
    s->saved = t->tally.step;
    if (!err)
        err = open_teacher(s, why);
    if (!err && s->stretch && t->decisions.n > 0)
        err = fail(why, FAIL_USAGE,
                   "%s is not counted in steps any more; give it more with: weft train "
                   "--resume %s --for 3m, --tokens N or --flops X",
                   s->run.dir, path_quote(word, sizeof word, s->run.dir));
    return err;
}

/* The decisions of the run that this one repeats, and what its steps took. */
static enum fail read_decisions(struct setup *s, struct why *why)
{
    struct trainer *t = &s->trainer;
    struct tally    y;
    char            dir[PATH_MAX];
    enum fail       err;

    path_join(dir, sizeof dir, s->run.replay, "latest");
    err = save_load_tally(dir, &y, &t->decisions, why);
    if (!err && s->run.budget != BUDGET_STEPS && t->decisions.n == 0)
        err = fail(why, FAIL_INPUT, "%s: its decisions are not those of its budget", dir);
    if (!err)
        s->cost.step = y.seconds / (double)y.step;
    return err;
}

static enum fail take_decisions(struct setup *s, struct why *why)
{
    enum fail err = FAIL_NONE;

    if (!*s->run.replay)
        return FAIL_NONE;
    if (ranks_me() == 0)
        err = read_decisions(s, why);
    err = ranks_agree(err, why);
    ranks_share(&s->cost, sizeof s->cost);
    return err ? err : trainer_share_decisions(&s->trainer, why);
}

/* ---- plan ---- */

/* Is an extension to begin, asked for now, or before a process was killed? */
static bool unbegun(const struct setup *s)
{
    const struct run *r = &s->run;

    return !*r->replay && (s->more.amount > 0 ||
                           (r->before > 0 && s->trainer.tally.seconds <= r->before));
}

bool setup_finished(const struct setup *s)
{
    const struct trainer *t = &s->trainer;
    long                  step = t->tally.step;
    long                  end = schedule_phase(&s->run.cfg, &t->decisions, step).end;
    bool                  planned = s->run.budget <= BUDGET_FOR || s->run.before > 0;

    return planned && !unbegun(s) && end && step >= end;
}

/* Nothing is decided for the steps to come, or that there are none. */
static bool open_ended(const struct trainer *t)
{
    long step = t->tally.step, end = schedule_phase(&t->cfg, &t->decisions, step).end;

    return t->decisions.n == 0 || (end && step >= end);
}

/* A run that has not done a step gets another budget; one that has, gets more. Time alone
 * goes on with the cycle that a clock has begun. */
static void take_more(struct setup *s)
{
    struct run         *r = &s->run;
    const struct tally *y = &s->trainer.tally;
    bool                more;

    if (s->more.amount > 0) {
        r->budget = s->more.kind;
        r->amount = s->more.amount;
        r->before = y->step ? y->seconds : 0;
        if (y->step == 0)
            r->cfg.steps = 0;
    }
    more = y->step > 0 && unbegun(s);
    if (more) {
        decisions_cut(&s->trainer.decisions, y->step);
        s->trainer.tally.waited = 0;
    }
    s->extends = more && (r->budget != BUDGET_FOR || open_ended(&s->trainer));
}

/* A budget of time goes on, or begins; what other runs take is counted without their
 * preparation. */
static void start_clock(struct setup *s)
{
    struct run *r = &s->run;

    take_more(s);
    if (r->budget == BUDGET_FOR && !*r->replay) {
        s->clock.amount = r->amount;
        s->clock.before = r->before;
    }
    clock_start(&s->clock, s->trainer.tally.seconds);
}

static enum fail measure(struct setup *s, struct why *why)
{
    const struct tally *y = &s->trainer.tally;
    struct run *r = &s->run;
    double      limit = measure_seconds;
    enum fail           err;

    if (y->step > 0)
        s->cost.step = y->seconds / (double)y->step;
    if (s->cost.step > 0) {
        plan_rest(&s->trainer, s->validation.n, &s->cost);
        return 0;
    }
    if (r->budget == BUDGET_FOR)
        limit = fmin(limit, measure_share * r->amount);
    err = plan_measure(&s->trainer, s->validation.n, limit, &s->cost, why);
    if (err || r->budget <= BUDGET_FOR)
        return err;
    r->cfg.steps =
        plan_steps(&s->trainer, r->budget, r->amount, &s->cost, s->validation.n);
    r->budget = BUDGET_STEPS;
    return 0;
}

/* Room for the checkpoints that will lie there at once: those to keep, the best and the
 * next; or as many as the run will save. */
static enum fail check_room(struct setup *s, struct why *why)
{
    struct config c = s->run.cfg;
    long          most = c.keep + 2L, saves;

    if (c.steps == 0)
        c.steps = plan_steps(&s->trainer, BUDGET_FOR, fmax(clock_left(&s->clock), 0),
                             &s->cost, s->validation.n);
    plan_intervals(&c, &s->cost, s->validation.n);
    saves = (c.steps + c.checkpoint_every - 1) / c.checkpoint_every;
    return save_check_room(s->run.dir, &s->trainer.model, saves < most ? saves : most,
                           why);
}

/* The steps that more tokens or FLOPs buy; more time is for the clock to share out. */
static enum fail extend(struct setup *s, struct why *why)
{
    const struct run *r = &s->run;
    long              n = plan_steps(&s->trainer, r->budget, r->amount, &s->cost,
                                     s->validation.n);
    enum fail         err;

    s->clock.val_tokens = s->validation.n;
    clock_expect(&s->clock, &s->trainer, &s->cost);
    err = ranks_agree(clock_extend(&s->clock, &s->trainer, n, why), why);
    return err ? err : trainer_share_decisions(&s->trainer, why);
}

/* The weight decay that nobody gave, from how often the text will come by. */
static void settle_decay(struct setup *s)
{
    struct config *c = &s->run.cfg;
    long           steps = c->steps;
    double         passes;
    char           note[100];

    if (c->weight_decay >= 0)
        return;
    if (steps == 0)
        steps = plan_steps(&s->trainer, BUDGET_FOR, fmax(clock_left(&s->clock), 0),
                           &s->cost, s->validation.n);
    passes = (double)steps * (double)trainer_step_tokens(c) /
             (double)s->data.train.tokens;
    ranks_share(&passes, sizeof passes);
    c->weight_decay = adamw_decay(passes);
    snprintf(note, sizeof note, "weight_decay=%.2g: the text will come by %.3g times",
             c->weight_decay, passes);
    if ((c->weight_decay > adamw_decay(1) || *s->run.from) && s->watch.note)
        s->watch.note(s->watch.user, note);
}

static enum fail settle_plan(struct setup *s, struct why *why)
{
    enum fail err = measure(s, why);

    if (!err && s->extends && s->run.budget != BUDGET_FOR)
        err = extend(s, why);
    // a measurement that was cut short plans nothing; what goes on needs none
    if (!err && s->trainer.tally.step == 0 && ranks_any(interrupted))
        err = FAIL_INTERRUPTED;
    if (err)
        return err;
    settle_decay(s);
    if (s->run.budget == BUDGET_STEPS)
        plan_intervals(&s->run.cfg, &s->cost, s->validation.n);
    s->trainer.cfg = s->run.cfg;
    if (ranks_me() == 0) {
        err = check_room(s, why);
        if (!err)
            err = run_write_config(&s->run, why);
    }
    return ranks_agree(err, why);
}

/* ---- all of it ---- */

/* Who makes the products of this run, and of what. */
static enum fail choose_products(struct setup *s, struct why *why)
{
    const struct gemm *by = &gemm_own;
    bool               bf16 = !strcmp(s->run.cfg.precision, "bf16");
    enum fail          err = FAIL_NONE;

    if (!strcmp(s->run.cfg.products, "openblas"))
        err = bf16 ? fail(why, FAIL_USAGE, "precision=bf16 needs products=own")
                   : gemm_openblas(&by, why);
    else if (bf16)
        by = gemm_in_bf16();
    if (err)
        return err;
    gemm_use(by);
    if (by != &gemm_own && s->watch.note)
        s->watch.note(s->watch.user,
                      bf16 ? "products of numbers rounded to bf16; decoding stays f32"
                           : "products by OpenBLAS: the same bits again only with as "
                             "many threads and the same library");
    return FAIL_NONE;
}

/* FLOP/s of products, of all ranks, at first, measured once: a comparison sets up many
 * runs. */
static double machine_peak(void)
{
    static double             peak;
    static const struct gemm *of;

    if (of != gemm_yardstick()) {
        of = gemm_yardstick();
        peak = 1e9 * ranks_n() * product_gflops(of, 3);
    }
    return peak;
}

enum fail setup_open(struct setup *s, struct why *why)
{
    enum fail err = choose_products(s, why);

    if (!err && ranks_me() == 0)
        err = start_reload(s, why);
    err = ranks_agree(err, why);
    if (!err)
        err = open_data(s, why);
    if (!err)
        err = open_trainer(s, why);
    if (!err)
        err = take_decisions(s, why);
    if (err || setup_finished(s))
        return err;
    if (s->saved >= 0)
        tell_origin(s);
    start_clock(s);
    s->peak = machine_peak();
    if (s->watch.opened)
        s->watch.opened(s->watch.user, s);
    err = settle_plan(s, why);
    if (!trainer_transfers(&s->trainer))
        start_drop(s);
    if (!err && s->watch.planned)
        s->watch.planned(s->watch.user, s);
    return err;
}

long setup_steps(const struct setup *s)
{
    return s->clock.amount > 0
               ? 0
               : schedule_phase(&s->run.cfg, &s->trainer.decisions, LONG_MAX).end;
}

/* What a validation takes, from as much of its text as measure_share / 2 of the time: in
 * a short run the only one is at the end, and must be inside the time. */
static enum fail measure_validation(struct setup *s, struct why *why)
{
    const struct config *c = &s->run.cfg;
    struct validation    part = s->validation;
    uint64_t             n = part.n;
    double               start, seconds = 0, nats, bits;
    enum fail            err = 0;

    part.n = 2 * (uint64_t)c->batch * (uint64_t)c->context;
    for (bool enough = n == 0; !err && !enough; part.n *= 4) {
        part.n = part.n < n ? part.n : n;
        start = wall_seconds();
        err = validation_run(&part, &s->trainer, &nats, &bits, why);
        seconds = (wall_seconds() - start) * (double)n / (double)part.n;
        enough = part.n == n ||
                 wall_seconds() - start > measure_share / 2 * s->clock.amount;
        ranks_share(&enough, sizeof enough);
    }
    start = wall_seconds();
    s->peak = fmax(s->peak,
                   1e9 * ranks_n() * product_gflops(gemm_yardstick(), PEAK_TRIES));
    s->cost.eval = seconds + wall_seconds() - start;
    return err;
}

static enum fail open_log(struct setup *s, struct log *log, struct why *why)
{
    bool      begun;
    enum fail err = log_open(log, s->run.dir, s->trainer.tally.step, &begun, why);

    return err || begun ? err : log_head(log, &s->trainer, s->peak / 1e9, why);
}

enum fail setup_train(struct setup *s, double *nats, double *bits, struct why *why)
{
    struct log  log = {.fd = -1};
    struct loop l = {
        .run = &s->run,
        .data = &s->data,
        .fingerprint = s->fingerprint,
        .trainer = &s->trainer,
        .validation = &s->validation,
        .log = &log,
        .watch = &s->watch,
        .clock = &s->clock,
        .saved = s->saved,
        .val_loss = NAN,
        .val_bpb = NAN,
    };
    enum fail   err = FAIL_NONE;

    if (ranks_me() == 0)
        err = open_log(s, &log, why);
    err = ranks_agree(err, why);
    if (!err && s->clock.amount > 0)
        err = measure_validation(s, why);
    s->clock.val_tokens = s->validation.n;
    clock_expect(&s->clock, &s->trainer, &s->cost);
    if (s->clock.amount == 0)
        clock_start(&s->clock, s->trainer.tally.seconds);
    if (s->watch.begun)
        s->watch.begun(s->watch.user, s);
    l.peak = s->peak;
    if (!err)
        err = loop_run(&l, why);
    if (!err || err == FAIL_INTERRUPTED) {
        enum fail lost = log_close(&log, why);

        err = lost ? lost : err;
    } else {
        struct why unread;

        (void)log_close(&log, &unread);
    }
    s->saved = l.saved;
    s->peak = l.peak;
    *nats = l.val_loss;
    *bits = l.val_bpb;
    return err;
}

void setup_close(struct setup *s)
{
    start_drop(s);
    validation_close(&s->validation);
    trainer_close(&s->trainer);
    dataset_close(&s->data);
    run_close(&s->run);
}
