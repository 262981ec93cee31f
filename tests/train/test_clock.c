/* Time budgets: what a clock decides, that it ends in time on machines of any temper, and
 * that its decisions alone repeat a run. The clocks here are simulated. */
#include "data/base/file.h"
#include "tests/support/rig.h"
#include "train/loop.h"
#include "train/save.h"

#include <math.h>
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

/* A machine that takes `step` seconds a step with the full window and `eval` for a
 * validation, `slow` times as long in a part of the time, and noise on top. */
struct machine {
    double step, eval, slow, from, to, noise;
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
    } while (t->tally.step != p.end);
}

static void begin(struct clock *k, struct trainer *t, struct machine *m, int i)
{
    double      guess = machines[i].guess;
    struct cost cost = {.step = 0.775 * guess * machines[i].machine.step,
                        .eval = guess * machines[i].machine.eval};

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
 * last steps see every layer's own window. */
START_TEST(the_phases_have_their_shares_of_the_time)
{
    struct trainer t;
    struct machine m;
    struct clock   k;
    struct phase   p;
    long           steps, fall = 0, anneal = 0;
    double         last, warm;

    begin(&k, &t, &m, _i);
    simulate(&k, &t, &m);
    steps = t.tally.step;
    for (int i = t.decisions.n - 1; i >= 0; i--) {
        struct decision d = t.decisions.list[i];

        fall = d.what == DECIDED_END ? d.step : fall;
        anneal = d.what == DECIDED_ANNEAL ? d.step : anneal;
    }
    p = schedule_phase(&t.cfg, &t.decisions, steps - 1);
    last = schedule_lr(&t.cfg, &t.decisions, steps - 1);
    warm = (double)p.warmup / (t.cfg.warmup * (double)steps);
    ck_assert_msg(warm >= 0.8 && warm <= 1.4,
                  "%s: %ld of %ld steps warm up, %.2f of their share", machines[_i].what,
                  p.warmup, steps, warm);
    ck_assert_msg(fall > steps / 8 && fall < steps / 3 && anneal > fall,
                  "%s: of %ld steps the fall begins at %ld, the last windows at %ld",
                  machines[_i].what, steps, fall, anneal);
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

/* Train in a new directory as loop_run does: by the clock, or (amount 0) by the decisions
 * that t has. Returns the seconds. */
static double work(struct trainer *t, double amount, char *dir, size_t cap)
{
    static int        n;
    char              name[16];
    struct run        run = {.lock = -1};
    struct validation v;
    struct worker     w = {t, &v, 0.05, 0.2, 0};
    struct clock      k = {.now = worker_now, .user = &w, .amount = amount,
                           .val_tokens = 500};
    struct watch      nobody = {0};
    struct log        log;
    struct loop       l = {.run = &run, .data = &data, .trainer = t, .validation = &v,
                           .log = &log, .watch = &nobody, .clock = &k, .saved = -1};
    struct why        why;
    bool              begun;

    snprintf(name, sizeof name, "run-%d", n++);
    path_join(dir, cap, rig_tmp(), name);
    snprintf(run.dir, sizeof run.dir, "%s", dir);
    ck_assert(!dir_make(dir, &why) && !validation_open(&v, &data, &why));
    ck_assert(!log_open(&log, dir, t->tally.step, &begun, &why));
    clock_start(&k, 0);
    clock_expect(&k, t, &(struct cost){.step = 0.05, .eval = 0.2});
    ck_assert_msg(!loop_run(&l, &why), "%s", why.line);
    ck_assert(!log_close(&log, &why));
    validation_close(&v);
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
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
