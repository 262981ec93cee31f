/* Time budgets: what a clock decides, that it ends in time on machines of any temper, and
 * that its decisions alone repeat a run. The clocks here are simulated. */
#include "data/base/file.h"
#include "tests/support/rig.h"
#include "train/loop.h"
#include "train/save.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- the schedule that decisions make ---- */

static struct decision plan[] = {
    {0, DECIDED_WARMUP, 4}, {0, DECIDED_EVAL, 5},   {10, DECIDED_END, 19},
    {12, DECIDED_END, 19},  {15, DECIDED_END, 20},  {16, DECIDED_ANNEAL, 0},
    {18, DECIDED_END, 18},  {18, DECIDED_WARMUP, 2}, {18, DECIDED_EVAL, 3},
};
static const struct decisions planned = {plan, sizeof plan / sizeof *plan, 0};

/* With the peak at 2: rises by quarters, stays, falls by tenths towards step 19; at step
 * 15, where half is left, the end moves to 20; ended at 18, begun anew there. */
static const double by_plan[] = {0.5, 1, 1.5, 2, 2, 2, 2, 2, 2, 2, 1.8, 1.6, 1.4, 1.2, 1,
                                 5 / 6.0, 4 / 6.0, 3 / 6.0, 1, 2, 2};

START_TEST(the_rate_follows_the_decisions)
{
    struct config c = {.lr = 2, .schedule = "cosine"};

    ck_assert_double_eq_tol(schedule_lr(&c, &planned, _i), by_plan[_i], 1e-12);
}
END_TEST

START_TEST(a_phase_is_that_of_the_decisions_made_so_far)
{
    struct config c = {.checkpoint_every = 7, .window_p = 1, .window_short = 8};

    ck_assert_int_eq(schedule_phase(&c, &planned, 9).end, 0);
    ck_assert_int_eq(schedule_phase(&c, &planned, 14).end, 19);
    ck_assert_int_eq(schedule_phase(&c, &planned, 17).end, 20);
    ck_assert_int_eq(schedule_phase(&c, &planned, 18).end, 0);
    ck_assert_int_eq(schedule_phase(&c, &planned, 17).eval_every, 5);
    ck_assert_int_eq(schedule_phase(&c, &planned, 18).eval_every, 3);
    ck_assert_int_eq(schedule_phase(&c, &planned, 18).checkpoint_every, 7);
    c.eval_every = 4;                               // set when the run was resumed
    ck_assert_int_eq(schedule_phase(&c, &planned, 18).eval_every, 4);
    ck_assert_int_eq(schedule_window(&c, &planned, 15), 8);
    ck_assert_int_eq(schedule_window(&c, &planned, 16), 0);
    ck_assert_int_eq(schedule_window(&c, &planned, 18), 8);
}
END_TEST

/* By steps as far as nothing is decided. */
START_TEST(an_extended_run_of_steps_keeps_the_schedule_it_had)
{
    struct config    c = {.lr = 2, .schedule = "cosine", .lr_end = 0.1, .steps = 10,
                          .window_p = 1, .window_short = 8, .window_anneal = 0.2};
    struct decision  more[] = {{10, DECIDED_WARMUP, 4}, {16, DECIDED_END, 20}};
    struct decisions d = {more, 2, 2};

    for (int step = 0; step < 10; step++) {
        ck_assert(schedule_lr(&c, &d, step) == schedule_lr(&c, NULL, step));
        ck_assert_int_eq(schedule_window(&c, &d, step), step < 8 ? 8 : 0);
    }
    ck_assert_int_eq(schedule_phase(&c, &d, 9).end, 10);
    ck_assert_int_eq(schedule_phase(&c, &d, 10).end, 0);
    ck_assert_double_eq_tol(schedule_lr(&c, &d, 10), 0.5, 1e-12);
    ck_assert_int_eq(schedule_window(&c, &d, 10), 8);
    ck_assert_int_eq(schedule_phase(&c, &d, 16).end, 20);
    decisions_cut(&d, 15);
    ck_assert_int_eq(d.n, 1);
}
END_TEST

/* ---- simulated machines ---- */

static struct dataset data;

static void open_data(void)
{
    char        text[6000], path[300], dir[300];
    const char *inputs[] = {path};
    struct rng  r = rng_open(5, RNG_TEST, 0);
    struct why  why;
    struct dataset_options o = {.inputs = inputs, .n_inputs = 1, .tokenizer = "bytes",
                                .val_fraction = 0.1, .lock_fd = -1};

    for (size_t i = 0; i < sizeof text; i++)
        text[i] = " abcdefgh\n"[rng_below(&r, 10)];
    path_join(path, sizeof path, rig_tmp(), "letters.txt");
    path_join(dir, sizeof dir, rig_tmp(), "letters");
    ck_assert(!file_write(path, text, sizeof text, &why));
    ck_assert_msg(!dataset_build(dir, &o, &why) && !dataset_open(&data, dir, &why), "%s",
                  why.line);
}

static void open_trainer(struct trainer *t)
{
    struct config c;
    struct model  m;
    struct why    why;

    config_defaults(&c);
    c.layers = 1, c.width = 16, c.heads = 2, c.context = 16, c.vocab = data.vocab;
    c.batch = 2, c.window_p = 0.5, c.window_short = 2;
    snprintf(c.mixers, sizeof c.mixers, "softmax(window=12)");
    ck_assert_msg(!config_resolve(&c, &why) && !model_open(&m, &c, &why) &&
                  !trainer_open(t, &c, &m, &data.shard[0], &why), "%s", why.line);
    trainer_reset(t);
}

/* A machine that takes `step` seconds a step with the full window, `eval` for a
 * validation, `save` for a checkpoint and `sample` for a sample, `slow` times as long in
 * a part of the time, and noise on top. */
struct machine {
    double step, eval, slow, from, to, noise, save, sample;
    double time, amount;
    struct rng draw;
};

static double machine_now(void *user)
{
    return ((struct machine *)user)->time;
}

static void spend(struct machine *m, double seconds)
{
    bool slow = m->time >= m->from * m->amount && m->time < m->to * m->amount;

    m->time += seconds * (slow ? m->slow : 1) *
               (1 + m->noise * (2 * rng_uniform(&m->draw) - 1));
}

static const struct {
    const char    *what;
    double         amount, guess;       // guess: of the first measurement, over the truth
    struct machine machine;
    int            evals;
} machines[] = {
    {"steady", 180, 1, {0.1, 0.6, 1, 0, 0, 0}},
    {"noisy", 180, 1, {0.1, 0.6, 1, 0, 0, 0.5}},
    {"half as fast for a while, before the fall", 180, 1, {0.1, 0.6, 2, 0.1, 0.2, 0.1}},
    {"half as fast for a while, across its beginning", 180, 1,
     {0.1, 0.6, 2, 0.2, 0.5, 0.1}},
    {"half as fast for a while, in the fall", 180, 1, {0.1, 0.6, 2, 0.7, 0.9, 0.1}},
    {"half as fast at the end", 180, 1, {0.1, 0.6, 2, 0.9, 9, 0.1}},
    {"twice as fast at the end", 180, 1, {0.1, 0.6, 0.5, 0.8, 9, 0.1}},
    {"measured while it was slow", 180, 3, {0.1, 0.6, 1, 0, 0, 0.1}},
    {"measured while it was fast", 180, 0.3, {0.1, 0.6, 1, 0, 0, 0.1}},
    {"ten seconds", 10, 1.5, {0.05, 0.3, 1, 0, 0, 0.1}},
    {"ten seconds, half as fast for a while", 10, 1.5, {0.05, 0.3, 2, 0.5, 0.8, 0.1}},
    {"ten validations, each of seven steps", 10, 1, {0.06, 0.4, 1, 0, 0, 0.1}, 10},
    {"an hour", 3600, 1, {0.5, 3, 2, 0.3, 0.7, 0.3}},
    {"a slow disk", 180, 1, {0.1, 0.6, 1, 0, 0, 0, 9}},
    {"slow samples", 180, 1, {0.1, 0.6, 1, 0, 0, 0, 0, 5}},
    {"a disk thought fast", 180, 0.1, {0.1, 0.6, 1, 0, 0, 0.1, 9}},
};
enum { MACHINES = sizeof machines / sizeof *machines };

/* What the loop does, without the work. Short windows make a step half as long. */
static void simulate(struct clock *k, struct trainer *t, struct machine *m)
{
    struct phase p;
    struct why   why;

    ck_assert(!clock_begin(k, t, &why) && !clock_decide(k, t, &why));
    do {
        int    window = schedule_window(&t->cfg, &t->decisions, t->tally.step);
        double flops = trainer_step_flops(t, window), start = m->time;

        spend(m, m->step * flops / trainer_step_flops(t, 0));
        t->tally.step++;
        clock_step(k, flops, m->time - start);
        ck_assert(!clock_decide(k, t, &why));
        p = schedule_phase(&t->cfg, &t->decisions, t->tally.step);
        start = m->time;
        if (t->tally.step == p.end || t->tally.step % p.eval_every == 0) {
            spend(m, m->eval);
            clock_validated(k, m->time - start);
        }
        start = m->time;
        if (m->sample > 0 && t->tally.step % p.sample_every == 0) {
            spend(m, m->sample);
            clock_sampled(k, m->time - start);
        }
        start = m->time;
        if (m->save > 0 &&
            (t->tally.step == p.end || t->tally.step % p.checkpoint_every == 0)) {
            spend(m, m->save);
            clock_saved(k, m->time - start);
        }
    } while (t->tally.step != p.end);
}

static void begin(struct clock *k, struct trainer *t, struct machine *m, int i)
{
    double      guess = machines[i].guess;
    struct cost cost = {.step = 0.775 * guess * machines[i].machine.step,
                        .eval = guess * machines[i].machine.eval,
                        .save = guess * machines[i].machine.save,
                        .sample = guess * machines[i].machine.sample};

    open_trainer(t);
    *m = machines[i].machine;
    m->amount = machines[i].amount;
    m->draw = rng_open(6, RNG_TEST, (uint64_t)i);
    *k = (struct clock){.now = machine_now, .user = m, .amount = m->amount,
                        .val_tokens = 500, .evals = machines[i].evals};
    clock_start(k, 0);
    clock_expect(k, t, &cost);
}

START_TEST(a_run_ends_in_time_on_every_machine)
{
    struct trainer t;
    struct machine m;
    struct clock   k;
    int            ends = 0;

    begin(&k, &t, &m, _i);
    simulate(&k, &t, &m);
    for (int i = 0; i < t.decisions.n; i++)
        ends += t.decisions.list[i].what == DECIDED_END;
    ck_assert_msg(fabs(m.time / m.amount - 1) <= 0.03, "%s: %.2f s of %g after %ld steps",
                  machines[_i].what, m.time, m.amount, t.tally.step);
    ck_assert_msg(ends < 100, "%s: the end was moved %d times", machines[_i].what, ends);
    trainer_close(&t);
}
END_TEST

/* The warm-up has its share of the steps (what is slow later takes steps from the rest
 * alone, so that it has more), the fall begins where it should and reaches the end, the
 * last steps see every layer's own window. A machine that is what it was thought to be
 * ends where it was first said to. */
START_TEST(the_phases_have_their_shares_of_the_time)
{
    struct trainer t;
    struct machine m;
    struct clock   k;
    struct phase   p;
    long           steps, fall = 0, said = 0, anneal = 0, climb = 0;
    int            climbs = 0;
    double         last, warm;

    begin(&k, &t, &m, _i);
    simulate(&k, &t, &m);
    steps = t.tally.step;
    for (int i = t.decisions.n - 1; i >= 0; i--) {
        struct decision d = t.decisions.list[i];

        fall = d.what == DECIDED_END ? d.step : fall;
        said = d.what == DECIDED_END ? d.value : said;
        anneal = d.what == DECIDED_ANNEAL ? d.step : anneal;
        climb = d.what == DECIDED_CLIMB ? d.step : climb;
        climbs += d.what == DECIDED_CLIMB;
    }
    ck_assert_msg(climbs == 0 || (climbs == 1 && climb == 10),
                  "%s: the climb was corrected %d times, first at %ld", machines[_i].what,
                  climbs, climb);
    p = schedule_phase(&t.cfg, &t.decisions, steps - 1);
    last = schedule_lr(&t.cfg, &t.decisions, steps - 1);
    warm = (double)p.warmup / (t.cfg.warmup * (double)steps);
    ck_assert_msg(warm >= 0.8 && warm <= 1.4,
                  "%s: %ld of %ld steps warm up, %.2f of their share", machines[_i].what,
                  p.warmup, steps, warm);
    ck_assert_msg(fall > steps / 8 && fall < steps / 3 && anneal > fall,
                  "%s: of %ld steps the fall begins at %ld, the last windows at %ld",
                  machines[_i].what, steps, fall, anneal);
    if (m.slow == 1 && m.noise == 0)
        ck_assert_msg(labs(said - steps) <= steps / 50, "%s: %ld steps, %ld were said",
                      machines[_i].what, steps, said);
    ck_assert_msg(schedule_lr(&t.cfg, &t.decisions, fall - 1) == t.cfg.lr && last > 0 &&
                  last < 0.05 * t.cfg.lr, "%s: the last rate is %g", machines[_i].what,
                  last / t.cfg.lr);
    trainer_close(&t);
}
END_TEST

START_TEST(a_budget_shorter_than_a_step_buys_one)
{
    struct trainer t;
    struct machine m;
    struct clock   k;

    begin(&k, &t, &m, 0);
    k.amount = 0.01;
    simulate(&k, &t, &m);
    ck_assert_int_eq(t.tally.step, 1);
    trainer_close(&t);
}
END_TEST

START_TEST(more_time_begins_another_cycle)
{
    struct trainer t;
    struct machine m;
    struct clock   k;
    double         before;
    long           steps;

    begin(&k, &t, &m, 0);
    simulate(&k, &t, &m);
    steps = t.tally.step, before = m.time;
    k.before = clock_used(&k);
    k.amount = 90;
    simulate(&k, &t, &m);
    ck_assert_double_eq_tol(m.time - before, 90, 0.03 * 90);
    ck_assert(schedule_lr(&t.cfg, &t.decisions, steps) < t.cfg.lr / 10);
    ck_assert(schedule_lr(&t.cfg, &t.decisions, steps + 100) == t.cfg.lr);
    trainer_close(&t);
}
END_TEST

START_TEST(more_steps_are_a_cycle_with_the_clocks_shares)
{
    struct trainer t;
    struct machine m;
    struct clock   k;
    struct why     why;
    int            n;

    begin(&k, &t, &m, 0);
    simulate(&k, &t, &m);
    long step = t.tally.step;

    ck_assert(!clock_extend(&k, &t, 999, &why));    // replaced by the next
    n = t.decisions.n;
    ck_assert(!clock_extend(&k, &t, 100, &why));
    ck_assert_int_le(t.decisions.n, n + 4);
    ck_assert_int_eq(schedule_phase(&t.cfg, &t.decisions, step).end, 0);
    ck_assert_int_eq(schedule_phase(&t.cfg, &t.decisions, step + 19).end, 0);
    ck_assert_int_eq(schedule_phase(&t.cfg, &t.decisions, step + 20).end, step + 100);
    ck_assert(schedule_lr(&t.cfg, &t.decisions, step + 19) == t.cfg.lr);
    ck_assert(schedule_lr(&t.cfg, &t.decisions, step + 20) < t.cfg.lr);
    ck_assert(schedule_lr(&t.cfg, &t.decisions, step + 99) > 0);
    for (int i = 1; i < t.decisions.n; i++)
        ck_assert(t.decisions.list[i - 1].step <= t.decisions.list[i].step);
    trainer_close(&t);
}
END_TEST

/* ---- the loop ---- */

/* A machine on which the loop works: time is in the steps done, and a validation, which
 * has read its text when it is over, takes `eval`. */
struct worker {
    struct trainer    *t;
    struct validation *v;
    double             step, eval;
    int                evals;
};

static double worker_now(void *user)
{
    struct worker *w = user;

    w->evals += w->v->at > 0;
    w->v->at = 0;
    return (double)w->t->tally.step * w->step + w->evals * w->eval;
}

/* Train in a new directory as loop_run does, with the checkpoint of step `saved` (-1:
 * none) there: by the clock, or (amount 0) by the decisions or steps that t has. */
static enum fail work_on(struct trainer *t, double amount, long saved,
                         const struct watch *watch, char *dir, size_t cap,
                         struct why *why)
{
    static int        n;
    char              name[16];
    struct run        run = {.lock = -1};
    struct validation v;
    struct worker     w = {t, &v, 0.05, 0.2, 0};
    struct clock      k = {.now = worker_now, .user = &w, .amount = amount,
                           .val_tokens = 500};
    struct log        log;
    struct loop       l = {.run = &run, .data = &data, .trainer = t, .validation = &v,
                           .log = &log, .watch = watch, .clock = &k, .saved = saved};
    char              path[PATH_MAX];
    bool              begun;
    enum fail         err;

    snprintf(name, sizeof name, "run-%d", n++);
    path_join(dir, cap, rig_tmp(), name);
    snprintf(run.dir, sizeof run.dir, "%s", dir);
    ck_assert(!dir_make(dir, why) && !validation_open(&v, &data, why));
    checkpoint_path(path, sizeof path, dir, saved);
    ck_assert(saved < 0 || !dir_make(path, why));
    ck_assert(!log_open(&log, dir, t->tally.step, &begun, why));
    clock_start(&k, 0);
    clock_expect(&k, t, &(struct cost){.step = 0.05, .eval = 0.2});
    err = loop_run(&l, why);
    ck_assert(!log_close(&log, &(struct why){""}));
    validation_close(&v);
    return err;
}

/* The same from the beginning, without anybody who watches. Returns the seconds. */
static double work(struct trainer *t, double amount, char *dir, size_t cap)
{
    struct watch nobody = {0};
    struct why   why;

    ck_assert_msg(!work_on(t, amount, -1, &nobody, dir, cap, &why), "%s", why.line);
    return t->tally.seconds;
}

/* The lines of a log that are decisions. */
static int logged_decisions(const char *dir)
{
    char       path[400], *text;
    size_t     len;
    struct why why;
    int        n = 0;

    path_join(path, sizeof path, dir, "log.jsonl");
    ck_assert(!file_read(path, 1 << 24, &text, &len, &why));
    for (char *at = text; (at = strstr(at, "{\"decision\": ")); at++)
        n++;
    free(text);
    return n;
}

START_TEST(decisions_alone_repeat_a_run_bit_for_bit)
{
    struct trainer   a, b;
    struct decisions d = {0};
    struct tally     y;
    struct why       why;
    char             first[300], second[300], dir[400];
    size_t           bytes;

    open_trainer(&a);
    ck_assert_double_eq_tol(work(&a, 10, first, sizeof first), 10, 0.3);
    path_join(dir, sizeof dir, first, "latest");
    ck_assert_msg(!save_load_tally(dir, &y, &d, &why), "%s", why.line);
    ck_assert(d.n == a.decisions.n && d.n > 4 && y.step == a.tally.step);
    ck_assert_int_eq(logged_decisions(first), d.n);
    open_trainer(&b);
    b.decisions = d;
    work(&b, 0, second, sizeof second);
    bytes = a.model.n * sizeof(real);
    ck_assert_int_eq(a.tally.step, b.tally.step);
    ck_assert(!memcmp(a.model.w, b.model.w, bytes) && !memcmp(a.m, b.m, bytes) &&
              !memcmp(a.v, b.v, bytes));
    ck_assert_int_eq(logged_decisions(second), d.n);
    trainer_close(&a);
    trainer_close(&b);
}
END_TEST

/* What a watch was told, in words. */
static char told[4000];

static void tell(const char *format, ...)
{
    size_t  n = strlen(told);
    va_list args;

    va_start(args, format);
    vsnprintf(told + n, sizeof told - n, format, args);
    va_end(args);
}

static void on_step(void *user, const struct log_line *line)
{
    (void)user;
    ck_assert(line->mfu > 0 && line->mfu <= 1 && line->tok_s > 0);
    ck_assert_double_eq_tol(line->tok_s * line->step->seconds, 32, 1e-6);
    tell("%s%ld%s", line->tally->step % 10 == 1 ? "\n" : " ", line->tally->step,
         isfinite(line->val_loss) && isfinite(line->val_bpb) ? "v" : "");
}

static void on_validation(void *user, long step, double nats, double bits)
{
    (void)user, (void)step;
    ck_assert(isfinite(nats) && isfinite(bits));
    tell(" v");
}

static void on_sample(void *user, long step, const char *text, size_t len)
{
    (void)user, (void)text;
    ck_assert(step > 0 && len > 0);
    tell("s");
}

static void on_note(void *user, const char *line)
{
    (void)user;
    tell("\n%s", line);
}

static const struct watch all_told = {.step = on_step, .validation = on_validation,
                                      .sample = on_sample, .note = on_note};

/* The steps whose checkpoints a run has, newest first. */
static const char *kept(const char *dir)
{
    static char text[200];
    long       *step, n = checkpoint_list(dir, &step);

    *text = 0;
    for (long i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), " %ld", step[i]);
    free(step);
    return text;
}

/* A validation is told before its step's line; the last step has one, and a checkpoint,
 * but no sample of its own. */
START_TEST(validations_samples_and_checkpoints_come_when_they_are_due)
{
    struct trainer t;
    struct why     why;
    char           dir[300];

    open_trainer(&t);
    t.cfg.steps = 17, t.cfg.eval_every = 5, t.cfg.checkpoint_every = 7;
    t.cfg.sample_every = 6, t.cfg.keep = 9;
    *told = 0;
    ck_assert_msg(!work_on(&t, 0, -1, &all_told, dir, sizeof dir, &why), "%s", why.line);
    ck_assert_str_eq(told, "\n1 2 3 4 v 5v 6s 7 8 9 v 10v\n11 12s 13 14 v 15v 16 v 17v");
    ck_assert_str_eq(kept(dir), " 17 14 7");
    ck_assert(isfinite(t.tally.val_loss) && t.tally.best_step > 0 &&
              t.tally.best_loss <= t.tally.val_loss);
    ck_assert_double_eq_tol(t.tally.seconds, 17 * 0.05 + 4 * 0.2, 1e-9);
    ck_assert(isnan(log_bpb(dir, 16)) && isfinite(log_bpb(dir, 17)));
    trainer_close(&t);
}
END_TEST

/* With a rate of 0 nothing gets better; the first, which is the best, is kept. */
START_TEST(patience_ends_at_the_last_validation_that_was_allowed)
{
    struct trainer t;
    struct why     why;
    char           dir[300], want[200];

    open_trainer(&t);
    t.cfg.steps = 90, t.cfg.eval_every = 3, t.cfg.checkpoint_every = 50;
    t.cfg.sample_every = 50, t.cfg.lr = 0, t.cfg.patience = _i;
    *told = 0;
    ck_assert_msg(!work_on(&t, 0, -1, &all_told, dir, sizeof dir, &why), "%s", why.line);
    snprintf(want, sizeof want, "\nstep %d: no new best in %d validation%s since step 3: "
             "stopping (patience=%d)", 3 + 3 * _i, _i, _i == 1 ? "" : "s", _i);
    ck_assert_msg(strstr(told, want), "%s", told);
    ck_assert_int_eq(t.tally.step, 3 + 3 * _i);
    snprintf(want, sizeof want, " %d 3", 3 + 3 * _i);
    ck_assert_str_eq(kept(dir), want);
    ck_assert_int_eq(logged_decisions(dir), 1);
    trainer_close(&t);
}
END_TEST

/* Weights that are broken, in a run that is to go on from step 2: for good when too many
 * steps were, or the last. */
static const struct {
    long        steps, saved, good;
    const char *says;
} broken[] = {
    {90, -1, -1, "for 20 steps; there is no checkpoint yet; start a new run with a lower "
                 "lr (it was 0.125)"},
    {3, -1, -1, "diverged: no finite loss and gradient for 1 step; there is no"},
    {5, 2, -1, "for 3 steps; the only checkpoint, @/ckpt-00000002, may be the cause"},
    {5, 2, 2, "for 3 steps; the last good checkpoint is @/ckpt-00000002; start"},
};

START_TEST(a_run_that_comes_apart_names_what_is_left)
{
    struct trainer t;
    struct why     why;
    char           dir[300], want[400];
    const char    *at = strchr(broken[_i].says, '@');
    int            before = at ? (int)(at - broken[_i].says) : 0;

    open_trainer(&t);
    t.cfg.steps = broken[_i].steps, t.cfg.lr = 0.125;
    t.cfg.eval_every = t.cfg.checkpoint_every = t.cfg.sample_every = 50;
    t.tally.step = 2;
    if (broken[_i].good >= 0)
        t.tally.val_loss = 1;               // it was validated
    t.model.w[0] = NAN;
    *told = 0;
    ck_assert_int_eq(work_on(&t, 0, broken[_i].saved,
                             &(struct watch){.note = on_note}, dir, sizeof dir, &why),
                     FAIL_DIVERGED);
    snprintf(want, sizeof want, "%.*s%s%s", before, broken[_i].says, at ? dir : "",
             at ? at + 1 : broken[_i].says);
    ck_assert_msg(strstr(why.line, want), "%s", why.line);
    ck_assert_msg(!strncmp(told, "\nstep 3: the loss is not finite, no update (1 skipped "
                                 "so far)", 60), "%s", told);
    trainer_close(&t);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("clock");
    TCase *tc = tcase_create("all");

    tcase_add_unchecked_fixture(tc, open_data, NULL);
    tcase_add_loop_test(tc, the_rate_follows_the_decisions, 0,
                        sizeof by_plan / sizeof *by_plan);
    tcase_add_test(tc, a_phase_is_that_of_the_decisions_made_so_far);
    tcase_add_test(tc, an_extended_run_of_steps_keeps_the_schedule_it_had);
    tcase_add_test(tc, more_steps_are_a_cycle_with_the_clocks_shares);
    tcase_add_loop_test(tc, a_run_ends_in_time_on_every_machine, 0, MACHINES);
    tcase_add_loop_test(tc, the_phases_have_their_shares_of_the_time, 0, MACHINES);
    tcase_add_test(tc, a_budget_shorter_than_a_step_buys_one);
    tcase_add_test(tc, more_time_begins_another_cycle);
    tcase_add_test(tc, decisions_alone_repeat_a_run_bit_for_bit);
    tcase_add_test(tc, validations_samples_and_checkpoints_come_when_they_are_due);
    tcase_add_loop_test(tc, patience_ends_at_the_last_validation_that_was_allowed, 1, 3);
    tcase_add_loop_test(tc, a_run_that_comes_apart_names_what_is_left, 0,
                        sizeof broken / sizeof *broken);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
