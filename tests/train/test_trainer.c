/* A model in training: steps, checkpoints, resuming, validation, allocations. */
#include "data/base/file.h"
#include "data/base/format.h"
#include "data/base/json.h"
#include "tests/support/rig.h"
#include "train/log.h"
#include "train/plan.h"
#include "train/preview.h"
#include "train/progress.h"
#include "train/save.h"
#include "train/schedule.h"
#include "train/validate.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- counting allocations ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTED 0
#endif
#endif
#ifndef COUNTED
#define COUNTED 1
#endif

static volatile long allocations;

#if COUNTED
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);

void *malloc(size_t n)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    return __libc_realloc(p, n);
}
#endif

/* ---- a small run ---- */

static struct dataset data;

/* Words in a fixed order, tokenized as bytes. */
static void open_data(void)
{
    static const char *const words[] = {"the ", "old ", "boy ", "lost ", "a ", "red ",
                                        "ball.\n"};
    const char *tmp = rig_tmp();
    char        text[4200] = "", path[300], dir[300];
    const char *inputs[] = {path};
    struct why  why;
    size_t      n = 0;

    for (uint64_t i = 0; n < 4000; i++) {
        struct rng r = rng_open(4, RNG_TEST, i);

        n += (size_t)sprintf(text + n, "%s", words[rng_below(&r, 7)]);
    }
    path_join(path, sizeof path, tmp, "text.txt");
    path_join(dir, sizeof dir, tmp, "data");
    ck_assert(!file_write(path, text, n, &why));
    struct dataset_options o = {.inputs = inputs, .n_inputs = 1, .tokenizer = "bytes",
                                .val_fraction = 0.1, .lock_fd = -1};

    ck_assert_msg(!dataset_build(dir, &o, &why), "%s", why.line);
    ck_assert_msg(!dataset_open(&data, dir, &why), "%s", why.line);
}

static const char *optimiser = "adamw";

static struct config small_config(long steps)
{
    struct config c;
    struct why    why;

    config_defaults(&c);
    c.layers = 2, c.width = 32, c.heads = 2, c.context = 24, c.vocab = data.vocab;
    c.batch = 4, c.accumulate = 2, c.steps = steps, c.keep = 2;
    c.window_p = 0.5, c.window_short = 5;
    snprintf(c.mixers, sizeof c.mixers, "softmax(window=12)");
    snprintf(c.optimiser, sizeof c.optimiser, "%s", optimiser);
    ck_assert_msg(!config_resolve(&c, &why), "%s", why.line);
    return c;
}

static void open_trainer(struct trainer *t, const struct config *c)
{
    struct model m;
    struct why   why;

    ck_assert_msg(!model_open(&m, c, &why), "%s", why.line);
    ck_assert_msg(!trainer_open(t, c, &m, &data.shard[0], &why), "%s", why.line);
    trainer_reset(t);
}

static void open_small(struct trainer *t, long steps)
{
    struct config c = small_config(steps);

    open_trainer(t, &c);
}

/* Take steps; the losses go into loss (n), which may be NULL. */
static void take_steps(struct trainer *t, int n, double *loss)
{
    struct step s;
    struct why  why;

    for (int i = 0; i < n; i++) {
        ck_assert_msg(!trainer_step(t, &s, &why), "%s", why.line);
        if (loss)
            loss[i] = s.loss;
    }
}

static bool same_bits(const struct trainer *a, const struct trainer *b)
{
    size_t n = a->model.n * sizeof(real);

    return a->model.n == b->model.n && !memcmp(a->model.w, b->model.w, n) &&
           !memcmp(a->m, b->m, n) && !memcmp(a->v, b->v, n);
}

/* ---- steps ---- */

/* A shard of one window and the token after it. */
static void open_window(struct shard *s, int context)
{
    struct shard_writer *w;
    struct why           why;
    char                 path[300];
    uint32_t             ids[100];
    uint64_t             n;

    for (int i = 0; i <= context; i++)
        ids[i] = (uint32_t)(i * i * 7 % 257);
    path_join(path, sizeof path, rig_tmp(), "one.tok.zst");
    ck_assert(!shard_create(&w, path, 2, &why) &&
              !shard_append(w, ids, (uint64_t)context + 1, &why));
    ck_assert(!shard_finish(w, &n, &why) && !shard_open(s, path, 2, &why));
}

START_TEST(training_lowers_the_loss_and_overfits_one_batch)
{
    struct trainer t;
    struct config  c = small_config(300);
    struct model   m;
    struct why     why;
    double         loss[300];
    struct shard   one;

    open_window(&one, c.context);
    c.lr = 1e-2;
    ck_assert(!model_open(&m, &c, &why));
    ck_assert_msg(!trainer_open(&t, &c, &m, &one, &why), "%s", why.line);
    trainer_reset(&t);
    take_steps(&t, 300, loss);
    ck_assert_double_eq_tol(loss[0], log(257), 1);
    ck_assert_msg(loss[299] < 0.05, "%g", loss[299]);
    trainer_close(&t);
    shard_close(&one);
}
END_TEST

START_TEST(the_number_of_threads_does_not_matter)
{
    struct trainer a, b;
    double         x[10], y[10];

    omp_set_num_threads(1);
    open_small(&a, 10);
    take_steps(&a, 10, x);
    omp_set_num_threads(2);
    open_small(&b, 10);
    take_steps(&b, 10, y);
    ck_assert(!memcmp(x, y, sizeof x));
    ck_assert(same_bits(&a, &b));
    trainer_close(&a);
    trainer_close(&b);
}
END_TEST

/* 640 tokens: more threads have smaller tiles, and share sums over tokens. */
START_TEST(nor_does_it_where_there_are_more_threads_than_tiles)
{
    struct config  c = small_config(3);
    struct trainer a, b;
    double         x[3], y[3];

    c.context = 80, c.batch = 8;
    omp_set_num_threads(1);
    open_trainer(&a, &c);
    take_steps(&a, 3, x);
    omp_set_num_threads(6);
    open_trainer(&b, &c);
    take_steps(&b, 3, y);
    ck_assert(!memcmp(x, y, sizeof x));
    ck_assert(same_bits(&a, &b));
    trainer_close(&a);
    trainer_close(&b);
}
END_TEST

static const char *const stacks[] = {
    "softmax", "gla", "softmax(window=1/8)/mlstm", "deltanet", "softmax+srope/s6/luna",
};
enum { N_STACKS = sizeof stacks / sizeof *stacks };

START_TEST(what_is_recomputed_has_the_bits_of_what_was_kept)
{
    struct trainer kept, made;
    struct config  c = small_config(6);
    double         x[6], y[6];

    c.layers = 3;
    snprintf(c.mixers, sizeof c.mixers, "%s", stacks[_i]);
    open_trainer(&kept, &c);
    c.recompute = 1;
    open_trainer(&made, &c);
    ck_assert_uint_lt(made.pass.acts_bytes, kept.pass.acts_bytes);
    take_steps(&kept, 6, x);
    take_steps(&made, 6, y);
    ck_assert_msg(!memcmp(x, y, sizeof x) && same_bits(&kept, &made), "%s", stacks[_i]);
    trainer_close(&kept);
    trainer_close(&made);
}
END_TEST

START_TEST(the_plan_knows_what_recomputing_saves)
{
    struct config c = small_config(1), r = c;
    struct model  m;
    struct why    why;
    size_t        kept, made;

    r.recompute = 1;
    ck_assert(!model_open(&m, &c, &why));
    kept = pass_bytes(&m, c.batch, c.context, PASS_TRAIN);
    made = pass_bytes(&m, c.batch, c.context, PASS_RECOMPUTE);
    ck_assert_uint_lt(made, kept);
    ck_assert_double_eq(plan_memory(&m, &c) - plan_memory(&m, &r), (double)(kept - made));
    model_close(&m);
}
END_TEST

/* Weights, two moments, and what the parts say that they need; the gradients are of the
 * pass. */
START_TEST(the_plan_counts_all_the_memory_of_training)
{
    struct config c = small_config(1);
    struct model  m;
    struct why    why;
    double        parts;

    ck_assert(!model_open(&m, &c, &why));
    parts = 3.0 * (double)(m.n * sizeof(real)) + LOADER_CACHE +
            (double)leaves_bytes(&m, c.accumulate, 1) +
            (double)pass_bytes(&m, c.batch, c.context, PASS_TRAIN);
    ck_assert_double_eq(plan_memory(&m, &c), parts);
    snprintf(c.optimiser, sizeof c.optimiser, "muon");
    ck_assert_double_eq(plan_memory(&m, &c), parts + (double)muon_bytes(&m));
    model_close(&m);
}
END_TEST

/* What ulimit -v leaves, where that is less than the machine has. */
START_TEST(training_fits_in_the_memory_there_is_or_says_what_to_reduce)
{
    struct config c = small_config(1);
    struct model  m, large;
    struct why    why;
    struct rlimit all, half;
    double        have = plan_memory_limit(), now = floor(have / 2);

    if (COUNTED && !getrlimit(RLIMIT_AS, &all)) {
        half = (struct rlimit){(rlim_t)(have / 2), all.rlim_max};
        ck_assert(!setrlimit(RLIMIT_AS, &half));
        now = plan_memory_limit();
        ck_assert(!setrlimit(RLIMIT_AS, &all));
    }
    ck_assert(now == floor(have / 2) && plan_memory_limit() == have);
    ck_assert_double_eq_tol(plan_most_parameters(1), have / (4 * sizeof(real)), 1);
    ck_assert_double_eq_tol(plan_most_parameters(2), have / (3 * sizeof(real)), 1);
    ck_assert(!model_open(&m, &c, &why));
    ck_assert_int_eq(plan_check_memory(&m, &c, &why), 0);
    large = m;
    large.n = (size_t)have;
    ck_assert_int_eq(plan_check_memory(&large, &c, &why), FAIL_MEMORY);
    ck_assert_msg(strstr(why.line, "reduce width=32 or layers=2"), "%s", why.line);
    model_close(&m);
}
END_TEST

static void take_windows(int batch, int accumulate, double *loss)
{
    struct trainer t;
    struct config  c = small_config(12);

    c.batch = batch, c.accumulate = accumulate;
    open_trainer(&t, &c);
    take_steps(&t, 12, loss);
    trainer_close(&t);
}

START_TEST(micro_batches_share_the_window_drawn_for_their_step)
{
    double whole[12], parts[12];

    take_windows(8, 1, whole);
    take_windows(2, 4, parts);
    for (int i = 0; i < 12; i++)
        ck_assert_double_eq_tol(whole[i], parts[i], 1e-5 * whole[i]);
}
END_TEST

/* Of the gradient of the first step. */
static double first_norm(int batch, int accumulate)
{
    struct trainer t;
    struct config  c = small_config(12);
    struct step    s;
    struct why     why;

    c.batch = batch, c.accumulate = accumulate;
    open_trainer(&t, &c);
    ck_assert_msg(!trainer_step(&t, &s, &why), "%s", why.line);
    trainer_close(&t);
    return s.norm;
}

START_TEST(accumulated_gradients_are_divided_by_their_number)
{
    static const int parts[] = {2, 3, 6, 12};

    for (int i = 0; i < 4; i++)
        ck_assert_double_eq_tol(first_norm(12, 1), first_norm(12 / parts[i], parts[i]),
                                1e-4 * first_norm(12, 1));
}
END_TEST

/* Numbers of very different sizes, so that every other order of sums shows. */
static enum fail drawn_leaf(void *user, int i, double *loss, struct why *why)
{
    struct trainer *t = user;
    struct rng      r = rng_open(5, RNG_TEST, (uint64_t)i);

    (void)why;
    *loss = i;
    for (size_t j = 0; j < t->model.n; j++)
        t->pass.dw[j] += (real)(rng_normal(&r) * exp(3 * rng_normal(&r)));
    return 0;
}

/* The sum of n leaves from `first` on into out; the pass is zero again. */
static void drawn_sum(struct trainer *t, int first, int n, real *out)
{
    size_t     bytes = t->model.n * sizeof(real);
    struct why why;

    ck_assert(
        !leaves_sum(&t->leaves, &t->model, &t->pass, first, n, drawn_leaf, t, &why));
    memcpy(out, t->pass.dw, bytes);
    memset(t->pass.dw, 0, bytes);
}

/* The sum of sums of `parts` equal shares of n leaves, pairwise, into sum[0]. */
static void sum_shares(struct trainer *t, int n, int parts, real *const *sum)
{
    for (int i = 0; i < parts; i++)
        drawn_sum(t, i * (n / parts), n / parts, sum[i]);
    for (int step = 1; step < parts; step *= 2)
        for (int i = 0; i < parts; i += 2 * step)
            for (size_t j = 0; j < t->model.n; j++)
                sum[i][j] += sum[i + step][j];
}

static const int leaf_counts[] = {2, 4, 6, 8, 12, 24};

START_TEST(the_sum_of_leaves_has_the_same_bits_in_any_number_of_equal_shares)
{
    int            n = leaf_counts[_i];
    struct config  c = small_config(1);
    struct trainer t;
    real          *whole, *sum[8];

    c.accumulate = n;
    open_trainer(&t, &c);
    whole = malloc(t.model.n * sizeof *whole);
    for (int i = 0; i < 8; i++)
        sum[i] = malloc(t.model.n * sizeof *whole);
    drawn_sum(&t, 0, n, whole);
    for (int i = 0; i < n; i++)
        ck_assert_double_eq(t.leaves.loss[i], i);
    for (int parts = 1; parts <= 8 && n % parts == 0; parts *= 2) {
        sum_shares(&t, n, parts, sum);
        ck_assert_msg(!memcmp(whole, sum[0], t.model.n * sizeof *whole),
                      "%d leaves in %d shares", n, parts);
    }
    for (int i = 0; i < 8; i++)
        free(sum[i]);
    free(whole);
    trainer_close(&t);
}
END_TEST

/* Log the step that t has just taken; its line, read back. */
static json_t *logged(const char *dir, const struct trainer *t, const struct step *s)
{
    struct log_line line = {.tally = &t->tally, .step = s, .val_loss = NAN,
                            .val_bpb = NAN};
    struct log      l;
    struct why      why;
    char            path[300], *text, *last;
    bool            begun;
    size_t          n;

    ck_assert_msg(!log_open(&l, dir, t->tally.step, &begun, &why), "%s", why.line);
    ck_assert(!log_step(&l, &line, &why));
    ck_assert(!log_close(&l, &why));
    path_join(path, sizeof path, dir, "log.jsonl");
    ck_assert(!file_read(path, 1 << 20, &text, &n, &why));
    text[n - 1] = '\0';
    last = strrchr(text, '\n');
    json_t *j = json_loads(last ? last + 1 : text, 0, NULL);

    free(text);
    return j;
}

static double number(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

/* And costs what a step with that window costs, which is less. */
START_TEST(every_line_of_the_log_has_the_window_drawn)
{
    struct trainer t;
    struct step    s;
    struct why     why;
    char           dir[300];
    double         spent = 0;
    int            narrow = 0;

    path_join(dir, sizeof dir, rig_tmp(), "windows");
    ck_assert(!dir_make(dir, &why));
    open_small(&t, 20);
    ck_assert(trainer_step_flops(&t, 5) < trainer_step_flops(&t, 0));
    for (long i = 0; i < 20; i++) {
        int window = schedule_window(&t.cfg, NULL, i);

        ck_assert(!trainer_step(&t, &s, &why));
        json_t *j = logged(dir, &t, &s);

        ck_assert(json_is_integer(json_object_get(j, "window")));
        ck_assert_double_eq(number(j, "step"), (double)i + 1);
        ck_assert_double_eq(number(j, "window"), window);
        ck_assert_double_eq(number(j, "flops") - spent, trainer_step_flops(&t, window));
        spent = number(j, "flops");
        narrow += window == 5;
        json_decref(j);
    }
    ck_assert(narrow > 0 && narrow < 18);
    trainer_close(&t);
}
END_TEST

/* Of the steps, 0.9 may draw, half of them do. */
START_TEST(a_budget_of_flops_counts_the_windows_to_be_drawn)
{
    struct trainer t;

    open_small(&t, 20);
    double mean = 0.45 * trainer_step_flops(&t, 5) + 0.55 * trainer_step_flops(&t, 0);

    ck_assert_int_eq(plan_steps(&t, BUDGET_FLOPS, 10000.5 * mean, NULL, 0), 10000);
    trainer_close(&t);
}
END_TEST

START_TEST(a_step_that_is_not_finite_changes_nothing_but_the_count)
{
    struct trainer t;
    struct step    s;
    struct why     why;

    open_small(&t, 20);
    take_steps(&t, 3, NULL);
    real kept = t.model.w[5], other = t.model.w[6], moment = t.m[6];

    t.model.w[5] = NAN;
    ck_assert(!trainer_step(&t, &s, &why));
    ck_assert(s.skipped && t.tally.skipped == 1 && t.tally.in_a_row == 1 &&
              t.tally.step == 4);
    ck_assert(t.model.w[6] == other && t.m[6] == moment);
    for (size_t i = 0; i < t.model.n; i++)
        ck_assert(t.pass.dw[i] == 0);
    t.model.w[5] = kept;
    ck_assert(!trainer_step(&t, &s, &why));
    ck_assert(!s.skipped && t.tally.skipped == 1 && t.tally.in_a_row == 0 &&
              t.tally.step == 5);
    ck_assert(isfinite(s.loss) && t.model.w[6] != other);
    trainer_close(&t);
}
END_TEST

/* A spike among OUTLIER_WINDOW norms: the weights stay, and the run goes on. */
START_TEST(a_step_whose_gradient_is_an_outlier_is_skipped_and_counted)
{
    struct config  c = small_config(400);
    struct trainer t;
    struct step    s;
    struct why     why;

    c.outlier = 6;
    open_trainer(&t, &c);
    take_steps(&t, OUTLIER_WINDOW, NULL);
    ck_assert(t.tally.skipped == 0 && t.tally.n_norms == OUTLIER_WINDOW);
    for (int i = 0; i < OUTLIER_WINDOW; i++)
        t.tally.norms[i] = 1e-3 + 1e-6 * i;
    real first = t.model.w[0], moment = t.m[0];

    ck_assert(!trainer_step(&t, &s, &why));
    ck_assert_msg(s.skipped && s.finite && s.z > 6, "z %g", s.z);
    ck_assert(t.tally.skipped == 1 && t.tally.in_a_row == 0);
    ck_assert(t.model.w[0] == first && t.m[0] == moment);
    for (size_t i = 0; i < t.model.n; i++)
        ck_assert(t.pass.dw[i] == 0);
    ck_assert_double_eq(t.tally.norms[OUTLIER_WINDOW - 1], s.norm);
    for (int i = 0; i < OUTLIER_WINDOW; i++)
        t.tally.norms[i] = s.norm * (1 + 0.1 * (i % 3 - 1));
    ck_assert(!trainer_step(&t, &s, &why) && !s.skipped && t.model.w[0] != first);
    trainer_close(&t);
}
END_TEST

START_TEST(a_model_that_guesses_and_learns_nothing_has_collapsed)
{
    struct trainer t;
    struct step    s;
    struct why     why;

    open_small(&t, 20);
    ck_assert(!trainer_step(&t, &s, &why) && !s.collapsed && t.tally.in_a_row == 0);
    memset(t.model.w, 0, t.model.n * sizeof *t.model.w);
    ck_assert(!trainer_step(&t, &s, &why) && s.collapsed && t.tally.in_a_row == 1);
    ck_assert(!s.skipped && t.tally.skipped == 0);
    trainer_close(&t);
}
END_TEST

/* AdamW's first update moves a weight by the learning rate, whatever its gradient. */
START_TEST(a_skipped_step_does_not_count_as_an_update)
{
    struct trainer t;
    struct step    s;
    struct why     why;

    open_small(&t, 20);
    size_t norm = t.model.param[t.model.first[t.cfg.layers]].at;       // 1 at first
    real   kept = t.model.w[0];

    t.model.w[0] = NAN;
    ck_assert(!trainer_step(&t, &s, &why) && s.skipped);
    t.model.w[0] = kept;
    ck_assert(!trainer_step(&t, &s, &why) && !s.skipped);
    for (size_t i = norm; i < norm + (size_t)t.cfg.width; i++)
        ck_assert_double_eq_tol(fabs((double)t.model.w[i] - 1), s.lr, 0.01 * s.lr);
    trainer_close(&t);
}
END_TEST

START_TEST(measuring_leaves_the_initial_state)
{
    struct trainer a, b;
    struct cost    cost;
    struct why     why;

    open_small(&a, 10);
    open_small(&b, 10);
    ck_assert(!plan_measure(&a, 100, 0.05, &cost, &why));
    ck_assert(cost.step > 1e-7 && cost.step < 100 && cost.eval > 0);
    ck_assert(a.cfg.accumulate == 2 && a.cfg.steps == 10);
    take_steps(&a, 5, NULL);
    take_steps(&b, 5, NULL);
    ck_assert(same_bits(&a, &b) && a.tally.tokens == b.tally.tokens);
    trainer_close(&a);
    trainer_close(&b);
}
END_TEST

START_TEST(a_step_allocates_nothing)
{
    struct trainer  t;
    struct step     s = {0};
    struct log      l;
    struct progress p = {0};
    struct log_line line = {.tally = &t.tally, .step = &s, .val_loss = NAN,
                            .val_bpb = NAN, .tok_s = 123.4, .mfu = 0.5};
    struct why      why;
    bool            begun, logged = true;
    int             err = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);

    open_small(&t, 60);
    ck_assert(!log_open(&l, rig_tmp(), 0, &begun, &why) && !log_head(&l, &t, 1, &why));
    progress_open(&p, 60, 0, &data, 1e9);
    take_steps(&t, 10, NULL);
    ck_assert(allocations > 0 || !COUNTED);
    dup2(null, STDERR_FILENO);
    long count = allocations;

    for (int i = 0; i < 40; i++) {
        if (trainer_step(&t, &s, &why))
            break;
        p.live.terminal = i % 2;
        p.live.every = 1, p.live.shown = 0;
        progress_step(&p, &line);
        logged &= !log_step(&l, &line, &why);
    }
    count = allocations - count;
    dup2(err, STDERR_FILENO);
    ck_assert_int_eq(count, 0);
    ck_assert(logged);
    ck_assert_int_eq(t.tally.step, 50);
    close(err), close(null);
    ck_assert(!log_close(&l, &why));
    trainer_close(&t);
}
END_TEST

/* ---- checkpoints ---- */

static const struct {
    int    keep;
    double loss[6];             // newest first; 0: the end
    bool   stay[6];
} prunings[] = {
    {2, {3, 4, 5, 6}, {1, 1, 0, 0}},
    {2, {5, 4, 3, 6}, {1, 1, 1, 0}},
    {1, {5, 4, 2, 2}, {1, 0, 1, 0}},
    {1, {NAN, 4, 2}, {1, 0, 1}},
    {2, {NAN, NAN, NAN}, {1, 1, 0}},
    {9, {1, 2}, {1, 1}},
};

START_TEST(the_newest_and_the_best_stay)
{
    long n = 0;
    bool stay[6];

    while (n < 6 && !(prunings[_i].loss[n] == 0))
        n++;
    save_choose(prunings[_i].loss, n, prunings[_i].keep, stay);
    ck_assert(!memcmp(stay, prunings[_i].stay, (size_t)n));
}
END_TEST

/* A trainer restored from dir. */
static int restore(struct trainer *t, const char *dir, long steps, uint64_t hash,
                   struct why *why)
{
    struct config c = small_config(steps);
    struct model  m;
    enum fail     code = save_load_model(dir, &c, data.tokenizer, &m, why);

    if (!code)
        code = trainer_open(t, &c, &m, &data.shard[0], why);
    return code ? code : save_load_state(dir, t, hash, why);
}

/* Files hold float32: a double loses bits on the way, a float none. */
static bool exact(void)
{
    return sizeof(real) == sizeof(float);
}

START_TEST(half_and_resumed_half_are_the_whole)
{
    struct trainer whole, half;
    struct why     why, note;
    const char    *run = rig_tmp();
    double         x[12], y[12];
    char           dir[300];
    uint64_t       hash;

    optimiser = _i ? "muon" : "adamw";
    ck_assert(!save_fingerprint(data.dir, &hash, &why));
    open_small(&whole, 12);
    take_steps(&whole, 12, x);
    open_small(&half, 12);
    take_steps(&half, 6, y);
    half.tally.best_loss = 1.0 / 3;
    ck_assert_msg(!save_write(run, &half, data.tokenizer, hash, -1, &why), "%s",
                  why.line);
    trainer_close(&half);
    ck_assert(!save_newest(run, dir, sizeof dir, &note, &why) && !note.line[0]);
    ck_assert_msg(!restore(&half, dir, 12, hash, &why), "%s", why.line);
    ck_assert(half.tally.best_loss == 1.0 / 3 && isnan(half.tally.val_loss));
    take_steps(&half, 6, y + 6);
    ck_assert(!exact() || !memcmp(x, y, sizeof x));
    ck_assert(!exact() || same_bits(&whole, &half));
    ck_assert(whole.tally.flops == half.tally.flops &&
              whole.tally.tokens == half.tally.tokens);
    trainer_close(&half);
    ck_assert_int_eq(restore(&half, dir, 12, hash + 1, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "data has changed"), "%s", why.line);
    trainer_close(&half);
    trainer_close(&whole);
    optimiser = "adamw";
}
END_TEST

/* With norms of a window in trainer.json, so that the same steps are outliers. */
START_TEST(a_resumed_half_skips_the_outliers_of_the_whole)
{
    enum { FIRST = OUTLIER_WINDOW + 6, ALL = FIRST + 20 };
    struct config  c = small_config(ALL);
    struct trainer whole, half;
    struct why     why;
    struct model   m;
    const char    *run = rig_tmp();
    char           dir[300];
    double         x[ALL], y[ALL];

    c.outlier = 0.5, c.lr = 1e-5;           // norms that do not fall
    open_trainer(&whole, &c);
    take_steps(&whole, ALL, x);
    open_trainer(&half, &c);
    take_steps(&half, FIRST, y);
    ck_assert(half.tally.skipped > 0 && whole.tally.skipped > half.tally.skipped);
    ck_assert_msg(!save_write(run, &half, data.tokenizer, 1, -1, &why), "%s", why.line);
    trainer_close(&half);
    checkpoint_path(dir, sizeof dir, run, FIRST);
    ck_assert(!save_load_model(dir, &c, data.tokenizer, &m, &why));
    ck_assert(!trainer_open(&half, &c, &m, &data.shard[0], &why));
    ck_assert_msg(!save_load_state(dir, &half, 1, &why), "%s", why.line);
    take_steps(&half, ALL - FIRST, y + FIRST);
    ck_assert(!exact() || (!memcmp(x, y, sizeof x) && same_bits(&whole, &half)));
    ck_assert(!exact() || half.tally.skipped == whole.tally.skipped);
    trainer_close(&half);
    trainer_close(&whole);
}
END_TEST

static bool has(const char *run, const char *name)
{
    char path[300];

    return path_exists(path_join(path, sizeof path, run, name));
}

/* Save t's state into run as version 1 wrote it; dir gets its path. */
static void save_version_1(const char *run, struct trainer *t, char *dir, size_t cap)
{
    struct why why;
    char       path[300], *text, *at;
    size_t     n;

    ck_assert(!dir_make(run, &why));
    ck_assert_msg(!save_write(run, t, data.tokenizer, 7, -1, &why), "%s", why.line);
    path_join(dir, cap, run, "latest");
    path_join(path, sizeof path, dir, "trainer.json");
    ck_assert(!file_read(path, 1 << 20, &text, &n, &why));
    at = strstr(text, "\"version\": 2");
    ck_assert(at);
    at[11] = '1';
    ck_assert(!file_write(path, text, n, &why));
    free(text);
}

START_TEST(a_state_of_version_1_goes_on_with_one_pass_a_step_only)
{
    struct config  c = small_config(8);
    struct trainer t;
    struct why     why;
    char           run[300], dir[300];

    for (int n = 1; n <= 2; n++) {
        path_join(run, sizeof run, rig_tmp(), n == 1 ? "one-pass" : "two-passes");
        c.accumulate = n;
        open_trainer(&t, &c);
        take_steps(&t, 2, NULL);
        save_version_1(run, &t, dir, sizeof dir);
        why.line[0] = 0;
        ck_assert_int_eq(save_load_state(dir, &t, 7, &why), n == 1 ? 0 : FAIL_INPUT);
        ck_assert((n == 1) == !strstr(why.line, "accumulate=2"));
        trainer_close(&t);
    }
}
END_TEST

START_TEST(checkpoints_are_pruned_and_damaged_ones_set_aside)
{
    static const double losses[] = {3, 1, 2, 2.5, NAN};
    struct trainer t;
    struct why     why, note;
    const char    *run = rig_tmp();
    char           dir[300], path[400];

    open_small(&t, 12);
    for (int i = 0; i < 5; i++) {
        t.tally.step = 10 * (i + 1);
        t.tally.val_loss = losses[i];
        ck_assert_msg(!save_write(run, &t, data.tokenizer, 1, -1, &why), "%s", why.line);
    }
    trainer_close(&t);
    ck_assert(!has(run, "ckpt-00000010") && has(run, "ckpt-00000020"));     // the best
    ck_assert(!has(run, "ckpt-00000030") && has(run, "ckpt-00000040"));
    ck_assert(has(run, "ckpt-00000050") && has(run, "latest"));
    path_join(path, sizeof path, run, "ckpt-00000050/trainer.json");
    ck_assert(!file_write(path, "{}", 2, &why));
    ck_assert(!save_newest(run, dir, sizeof dir, &note, &why));
    ck_assert_msg(strstr(note.line, "damaged-ckpt-00000050"), "%s", note.line);
    ck_assert_msg(strstr(dir, "ckpt-00000040"), "%s", dir);
    path_join(path, sizeof path, run, "latest");
    ck_assert_int_eq(readlink(path, dir, sizeof dir), 13);
    ck_assert(!strncmp(dir, "ckpt-00000040", 13));
}
END_TEST

START_TEST(the_last_good_checkpoint_stays_whatever_keep_says)
{
    struct trainer t;
    struct why     why;
    const char    *run = rig_tmp();

    open_small(&t, 12);
    t.cfg.keep = 1;
    for (int i = 1; i <= 3; i++) {
        t.tally.step = 10 * i;
        ck_assert_msg(!save_write(run, &t, data.tokenizer, 1, i > 1 ? 10 : -1, &why),
                      "%s", why.line);
    }
    ck_assert(has(run, "ckpt-00000010") && !has(run, "ckpt-00000020"));
    ck_assert(has(run, "ckpt-00000030"));
    trainer_close(&t);
}
END_TEST

/* What is not said of every run stands there only where it holds. */
START_TEST(a_tally_is_read_back_as_it_was)
{
    static const char *const keys[] = {"waited", "products", "precision", "decisions",
                                       "norms"};
    const struct tally was = {.step = 10, .skipped = 2, .in_a_row = 1, .tokens = 1920,
                              .flops = 12345.5, .val_loss = 1.5, .best_loss = 1.25,
                              .best_step = 7, .waited = 3, .seconds = 4.75,
                              .norms = {0.5, 0.25}, .n_norms = 2};
    struct decisions   d = {0};
    struct trainer     t;
    struct tally       y;
    struct why         why;
    const char        *run = rig_tmp();
    char               dir[300], path[400];
    json_t            *j;

    open_small(&t, 12);
    checkpoint_path(dir, sizeof dir, run, 10);
    path_join(path, sizeof path, dir, "trainer.json");
    for (int more = 0; more < 2; more++) {
        t.tally = was;
        t.tally.n_norms = more ? 2 : 0;
        t.cfg.patience = more ? 5 : 0;
        snprintf(t.cfg.products, sizeof t.cfg.products, "%s", more ? "openblas" : "own");
        snprintf(t.cfg.precision, sizeof t.cfg.precision, "%s", more ? "bf16" : "f32");
        ck_assert(!more || !decisions_add(&t.decisions,
                                          (struct decision){8, DECIDED_END, 12}, &why));
        ck_assert_msg(!save_write(run, &t, data.tokenizer, 1, -1, &why), "%s", why.line);
        ck_assert_msg(!save_load_tally(dir, &y, &d, &why), "%s", why.line);
        ck_assert(y.step == 10 && y.skipped == 2 && y.in_a_row == 1 && y.tokens == 1920 &&
                  y.flops == 12345.5 && y.val_loss == 1.5 && y.best_loss == 1.25 &&
                  y.best_step == 7 && y.seconds == 4.75);
        ck_assert(y.waited == (more ? 3 : 0) && d.n == more && y.n_norms == 2 * more);
        ck_assert(!more || (y.norms[0] == 0.5 && y.norms[1] == 0.25 &&
                            d.list[0].step == 8 && d.list[0].what == DECIDED_END &&
                            d.list[0].value == 12));
        ck_assert(!json_read(&j, path, 1 << 20, "", &why));
        for (int i = 0; i < 5; i++)
            ck_assert_msg(!json_object_get(j, keys[i]) == !more, "%s", keys[i]);
        json_decref(j);
        dir_remove(dir);
    }
    decisions_free(&d);
    trainer_close(&t);
}
END_TEST

/* Another seed, shape or step than it was saved with; an opening is the run's. */
START_TEST(a_checkpoint_of_another_run_is_refused)
{
    struct trainer t;
    struct config  c = small_config(12);
    struct model   m;
    struct why     why;
    const char    *run = rig_tmp();
    char           dir[300], other[300], says[100];
    struct tally   y;
    struct decisions d = {0};

    open_small(&t, 12);
    t.tally.step = 10;
    ck_assert_msg(!save_write(run, &t, data.tokenizer, 1, -1, &why), "%s", why.line);
    checkpoint_path(dir, sizeof dir, run, 10);
    ck_assert_msg(!save_load_state(dir, &t, 1, &why), "%s", why.line);
    t.cfg.seed++;
    ck_assert_int_eq(save_load_state(dir, &t, 1, &why), FAIL_INPUT);
    snprintf(says, sizeof says, "trained with seed %d, config.cfg says %d", (int)c.seed,
             (int)c.seed + 1);
    ck_assert_msg(strstr(why.line, says), "%s", why.line);
    strcpy(c.opening, "Zebra");
    ck_assert_msg(!save_load_model(dir, &c, data.tokenizer, &m, &why), "%s", why.line);
    ck_assert_str_eq(m.cfg.opening, "Zebra");
    model_close(&m);
    c.context = 25;
    ck_assert_int_eq(save_load_model(dir, &c, data.tokenizer, &m, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "context is 24 here and 25 in the run's config.cfg"),
                  "%s", why.line);
    for (int i = 0; i < 2; i++) {
        path_join(other, sizeof other, run, i ? "ckpt-00000011" : "copy");
        ck_assert_int_eq(rename(dir, other), 0);
        ck_assert_int_eq(save_load_tally(other, &y, &d, &why), i ? FAIL_INPUT : 0);
        snprintf(dir, sizeof dir, "%s", other);
    }
    ck_assert_msg(strstr(why.line, "it is of step 10; restore its directory's name"),
                  "%s", why.line);
    trainer_close(&t);
}
END_TEST

/* What wrote a dataset and its own hash are not what it is. */
START_TEST(a_fingerprint_is_of_the_data_alone)
{
    static const char *const text[] = {
        "{\n  \"build\": \"weft 1\",\n  \"check\": \"ab\",\n  \"vocab\": 5\n}\n",
        "{\n  \"build\": \"weft two\",\n  \"check\": \"ab\",\n  \"vocab\": 5\n}\n",
        "{\n  \"build\": \"weft 1\",\n  \"check\": \"c\",\n  \"vocab\": 5\n}\n",
        "{\n  \"vocab\": 5\n}\n",
        "{\n  \"build\": \"weft 1\",\n  \"check\": \"ab\",\n  \"vocab\": 6\n}\n",
    };
    const char *dir = rig_tmp();
    char        path[300];
    uint64_t    hash[5];
    struct why  why;

    path_join(path, sizeof path, dir, "dataset.json");
    for (int i = 0; i < 5; i++)
        ck_assert(!file_write(path, text[i], strlen(text[i]), &why) &&
                  !save_fingerprint(dir, &hash[i], &why));
    ck_assert(hash[0] == hash[1] && hash[0] == hash[2] && hash[0] == hash[3]);
    ck_assert(hash[0] != hash[4]);
    ck_assert_int_eq(save_fingerprint(rig_tmp(), &hash[0], &why), FAIL_INPUT);
}
END_TEST

/* A disk for five checkpoints and a half, where `had` lie already. */
static const struct {
    long        n, had;
    const char *says;               // NULL: they fit
} rooms[] = {
    {5, 0, NULL}, {7, 2, NULL}, {2, 9, NULL},
    {6, 0, "and 6 checkpoints of "},
    {6, 0, "must fit; free some space, give keep=3, or choose another disk with --out"},
    {9, 2, "and 7 checkpoints of "},
    {9, 2, "must fit; free some space, give keep=5, or move the run to another disk"},
};

/* A model whose checkpoint fills this share of the disk that dir lies on. */
static struct model large_model(const char *dir, double share)
{
    struct statvfs disk;

    ck_assert(!statvfs(dir, &disk));
    return (struct model){
        .n = (size_t)((double)disk.f_bavail * (double)disk.f_frsize * share / 12)};
}

START_TEST(checkpoints_that_do_not_fit_are_told_before)
{
    const char  *run = rig_tmp();
    struct model m = large_model(run, 1 / 5.5);
    struct why   why;
    char         dir[300], bytes[32], says[100];

    for (long i = 1; i <= rooms[_i].had; i++)
        ck_assert(!dir_make(checkpoint_path(dir, sizeof dir, run, i), &why));
    ck_assert_int_eq(save_check_room(run, &m, rooms[_i].n, &why),
                     rooms[_i].says ? FAIL_WRITE : 0);
    if (rooms[_i].says)
        ck_assert_msg(strstr(why.line, rooms[_i].says), "%s", why.line);
    m = large_model(run, 2);
    format_bytes(bytes, sizeof bytes, 12.0 * (double)m.n);
    snprintf(says, sizeof says, " of %s must fit; free some space, or ", bytes);
    ck_assert_int_eq(save_check_room(run, &m, 3, &why), FAIL_WRITE);
    ck_assert_msg(strstr(why.line, says), "%s", why.line);
    ck_assert_msg(!strstr(why.line, "checkpoints of") == (rooms[_i].had > 0), "%s",
                  why.line);
}
END_TEST

START_TEST(weights_and_moments_that_are_not_finite_are_not_saved)
{
    struct trainer t;
    struct why     why;
    const char    *run = rig_tmp();

    open_small(&t, 12);
    for (int i = 0; i < 3; i++) {
        real *at = (i == 0 ? t.model.w : i == 1 ? t.m : t.v) + 7, kept = *at;

        *at = NAN;
        ck_assert_int_eq(save_write(run, &t, data.tokenizer, 1, -1, &why), FAIL_DIVERGED);
        *at = kept;
        ck_assert_int_eq(checkpoint_list(run, &(long *){NULL}), 0);
        ck_assert(!has(run, "latest"));
    }
    trainer_close(&t);
}
END_TEST

/* The checkpoint with a file's last float replaced, and a manifest that agrees. */
static void spoil(const char *dir, const char *name)
{
    float      bad = NAN;
    char       path[400], *bytes;
    size_t     len;
    struct why why;

    path_join(path, sizeof path, dir, name);
    ck_assert(!file_read(path, 1 << 24, &bytes, &len, &why));
    memcpy(bytes + len - sizeof bad, &bad, sizeof bad);
    ck_assert(!file_write(path, bytes, len, &why) && !manifest_write(dir, &why));
    free(bytes);
}

START_TEST(a_checkpoint_that_is_not_finite_is_refused_on_loading_and_checking)
{
    struct trainer t, back = {0};
    struct why     why;
    const char    *run = rig_tmp();
    char           dir[300];

    open_small(&t, 12);
    t.tally.step = 10;
    ck_assert_msg(!save_write(run, &t, data.tokenizer, 1, -1, &why), "%s", why.line);
    checkpoint_path(dir, sizeof dir, run, 10);
    ck_assert_msg(!save_check(dir, &t.model, &why), "%s", why.line);
    spoil(dir, "trainer.safetensors");
    ck_assert_int_eq(save_check(dir, &t.model, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "not finite"), "%s", why.line);
    ck_assert_int_eq(restore(&back, dir, 12, 1, &why), FAIL_INPUT);
    trainer_close(&back);
    spoil(dir, "model.safetensors");
    ck_assert_int_eq(restore(&back, dir, 12, 1, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "not finite"), "%s", why.line);
    trainer_close(&t);
}
END_TEST

/* Its hashes hold, but there is nothing to go on with. */
START_TEST(a_checkpoint_that_is_not_finite_is_set_aside_for_an_earlier_one)
{
    struct trainer t;
    struct why     why, note;
    const char    *run = rig_tmp();
    char           dir[300];

    open_small(&t, 12);
    for (t.tally.step = 10; t.tally.step <= 11; t.tally.step++)
        ck_assert_msg(!save_write(run, &t, data.tokenizer, 1, -1, &why), "%s", why.line);
    spoil(checkpoint_path(dir, sizeof dir, run, 11), "trainer.safetensors");
    ck_assert_msg(!save_newest(run, dir, sizeof dir, &note, &why), "%s", why.line);
    ck_assert_msg(strstr(dir, "ckpt-00000010"), "%s", dir);
    ck_assert_msg(strstr(note.line, "not finite") &&
                      strstr(note.line, "set it aside as damaged-ckpt-00000011"),
                  "%s", note.line);
    trainer_close(&t);
}
END_TEST

/* One row, one number of trainer.json that no run has. */
static const struct {
    const char *key, *value;
} nonsense[] = {
    {"step", "-1"}, {"step", "11"}, {"step", "2e3"}, {"tokens", "-5"},
    {"flops", "-1.0"}, {"flops", "1e308"}, {"seconds", "1e308"}, {"seconds", "-0.5"},
    {"skipped", "-1"}, {"skipped", "11"}, {"skipped_in_a_row", "-2"},
    {"skipped_in_a_row", "11"}, {"best_step", "-3"}, {"best_step", "99"},
    {"val_loss", "-2.5"}, {"best_val_loss", "\"low\""},
    {"decisions", "[[9000000000000000, \"end\", 20]]"},
    {"decisions", "[[1, \"end\", 9e18]]"}, {"waited", "-1"}, {"waited", "11"},
    {"decisions", "[[1, \"end\", 9000000000000000000]]"},
    {"norms", "[-1.0]"}, {"norms", "[null]"}, {"norms", "5"},
};

START_TEST(a_tally_that_no_run_has_is_refused)
{
    struct trainer   t;
    struct tally     y;
    struct decisions d = {0};
    struct why       why;
    const char      *run = rig_tmp();
    char             dir[300], path[400];
    json_t          *j;

    open_small(&t, 12);
    t.tally.step = 10;
    ck_assert_msg(!save_write(run, &t, data.tokenizer, 1, -1, &why), "%s", why.line);
    checkpoint_path(dir, sizeof dir, run, 10);
    path_join(path, sizeof path, dir, "trainer.json");
    ck_assert_msg(!save_load_tally(dir, &y, &d, &why), "%s", why.line);
    ck_assert(!json_read(&j, path, 1 << 20, "", &why));
    json_object_set_new(j, nonsense[_i].key,
                        json_loads(nonsense[_i].value, JSON_DECODE_ANY, NULL));
    ck_assert(!json_write(path, j, 0, &why));
    ck_assert_int_eq(save_load_tally(dir, &y, &d, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "trainer.json: "), "%s", why.line);
    decisions_free(&d);
    trainer_close(&t);
}
END_TEST

START_TEST(what_cannot_be_read_is_not_taken_for_damage)
{
    struct trainer t;
    struct why     why, note;
    const char    *run = rig_tmp();
    char           dir[300], path[400], aside[400];

    open_small(&t, 12);
    t.tally.step = 10;
    ck_assert_msg(!save_write(run, &t, data.tokenizer, 1, -1, &why), "%s", why.line);
    t.tally.step = 20;
    ck_assert_msg(!save_write(run, &t, data.tokenizer, 1, -1, &why), "%s", why.line);
    trainer_close(&t);
    path_join(path, sizeof path, run, "ckpt-00000020/trainer.json");
    ck_assert(!unlink(path) && !symlink("/proc/self/mem", path));       // reading: EIO
    ck_assert_int_eq(save_newest(run, dir, sizeof dir, &note, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "cannot read"), "%s", why.line);
    ck_assert(has(run, "ckpt-00000020") && !has(run, "damaged-ckpt-00000020"));
    ck_assert(!unlink(path));
    path_join(aside, sizeof aside, run, "damaged-ckpt-00000020");
    ck_assert(!dir_make(aside, &why));
    ck_assert(!save_newest(run, dir, sizeof dir, &note, &why));
    ck_assert_msg(strstr(note.line, "damaged-ckpt-00000020-2"), "%s", note.line);
    ck_assert(has(run, "damaged-ckpt-00000020") && has(run, "damaged-ckpt-00000020-2"));
    path_join(path, sizeof path, run, "none");
    ck_assert_int_eq(save_newest(path, dir, sizeof dir, &note, &why), FAIL_INPUT);
}
END_TEST

/* ---- validation and samples ---- */

START_TEST(a_file_too_many_is_no_damage)
{
    struct trainer t;
    struct why     why, note;
    struct model   m;
    const char    *run = rig_tmp();
    char           dir[300], path[400];

    open_small(&t, 12);
    t.tally.step = 10;
    ck_assert_msg(!save_write(run, &t, data.tokenizer, 1, -1, &why), "%s", why.line);
    path_join(path, sizeof path, run, "ckpt-00000010/.notes");
    ck_assert(!file_write(path, "x", 1, &why));
    ck_assert_msg(!save_newest(run, dir, sizeof dir, &note, &why), "%s", why.line);
    ck_assert_str_eq(note.line, "");
    ck_assert_int_eq(save_load_model(dir, &t.cfg, data.tokenizer, &m, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, ".notes: not listed"), "%s", why.line);
    trainer_close(&t);
}
END_TEST

START_TEST(without_an_intact_checkpoint_nothing_moves_or_begins_anew)
{
    struct trainer t;
    struct why     why, note;
    const char    *run = rig_tmp();
    char           dir[300], path[400];

    open_small(&t, 12);
    t.tally.step = 10;
    ck_assert_msg(!save_write(run, &t, data.tokenizer, 1, -1, &why), "%s", why.line);
    trainer_close(&t);
    path_join(path, sizeof path, run, "ckpt-00000010/trainer.json");
    ck_assert(!file_write(path, "{}", 2, &why));
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(save_newest(run, dir, sizeof dir, &note, &why), FAIL_INPUT);
        ck_assert_msg(strstr(why.line, "every checkpoint is damaged"), "%s", why.line);
        ck_assert(has(run, "ckpt-00000010"));
    }
    dir_remove(path_join(path, sizeof path, run, "ckpt-00000010"));
    ck_assert_int_eq(save_newest(run, dir, sizeof dir, &note, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, "gone"), "%s", why.line);
}
END_TEST

START_TEST(validation_counts_every_token_and_the_texts_own_bytes)
{
    struct trainer    t;
    struct validation v;
    struct why        why;
    double            loss, bpb;

    open_small(&t, 1);
    memset(t.model.w, 0, t.model.n * sizeof(real));     // all tokens are equally likely
    ck_assert(!validation_open(&v, &data, &why));
    ck_assert(v.n == data.val.tokens && v.bytes == data.val.bytes);
    for (int i = 0; i < 2; i++) {
        ck_assert(!validation_run(&v, &t, &loss, &bpb, &why));
        ck_assert_double_eq_tol(loss, log(257), 1e-5);
        ck_assert_double_eq_tol(bpb, log2(257) * (double)v.n / (double)v.bytes, 1e-4);
    }
    validation_close(&v);
    trainer_close(&t);
}
END_TEST

START_TEST(a_validation_may_be_cut)
{
    struct validation v;
    struct why        why;
    uint64_t          bytes;

    ck_assert(!validation_open(&v, &data, &why));
    bytes = v.bytes;
    validation_cut(&v, &data, v.n);
    ck_assert(v.n == data.val.tokens && v.bytes == bytes);
    validation_cut(&v, &data, 10);
    ck_assert(v.n == 10 && v.bytes == 10);
    validation_cut(&v, &data, 20);
    ck_assert(v.n == 10 && v.bytes == 10);
    validation_close(&v);
}
END_TEST

START_TEST(validation_takes_every_layers_own_window)
{
    struct trainer    t;
    struct validation v;
    struct why        why;
    double            own, drawn, bpb;

    open_small(&t, 20);
    take_steps(&t, 4, NULL);
    ck_assert(!validation_open(&v, &data, &why));
    t.cfg.window_p = t.model.cfg.window_p = 0;
    ck_assert(!validation_run(&v, &t, &own, &bpb, &why));
    t.cfg.window_p = t.model.cfg.window_p = 1;
    ck_assert_int_eq(schedule_window(&t.cfg, NULL, t.tally.step), 5);
    ck_assert(!validation_run(&v, &t, &drawn, &bpb, &why));
    ck_assert(own == drawn);
    validation_close(&v);
    trainer_close(&t);
}
END_TEST

START_TEST(samples_depend_on_the_seed_alone_and_leave_training_as_it_is)
{
    struct trainer a, b;
    struct why     why;
    char           x[SAMPLE_BYTES], y[SAMPLE_BYTES];
    size_t         n, k;

    open_small(&a, 20);
    open_small(&b, 20);
    take_steps(&a, 4, NULL);
    take_steps(&b, 4, NULL);
    ck_assert(!sample_text(&a.model, data.tokenizer, 7, x, &n, &why));
    ck_assert(!sample_text(&a.model, data.tokenizer, 7, y, &k, &why));
    ck_assert(n > 0 && n <= 23 && n == k && !memcmp(x, y, n));
    strcpy(a.model.cfg.opening, "Zebra");
    ck_assert(!sample_text(&a.model, data.tokenizer, 7, y, &k, &why));
    ck_assert(k > 5 && !memcmp(y, "Zebra", 5));
    take_steps(&a, 4, NULL);
    take_steps(&b, 4, NULL);
    ck_assert(same_bits(&a, &b));
    trainer_close(&a);
    trainer_close(&b);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("trainer");
    TCase *tc = tcase_create("all");

    tcase_add_unchecked_fixture(tc, open_data, NULL);
    tcase_add_test(tc, training_lowers_the_loss_and_overfits_one_batch);
    tcase_add_test(tc, the_number_of_threads_does_not_matter);
    tcase_add_test(tc, nor_does_it_where_there_are_more_threads_than_tiles);
    tcase_add_loop_test(tc, what_is_recomputed_has_the_bits_of_what_was_kept, 0,
                        N_STACKS);
    tcase_add_test(tc, the_plan_knows_what_recomputing_saves);
    tcase_add_test(tc, the_plan_counts_all_the_memory_of_training);
    tcase_add_test(tc, training_fits_in_the_memory_there_is_or_says_what_to_reduce);
    tcase_add_test(tc, micro_batches_share_the_window_drawn_for_their_step);
    tcase_add_test(tc, accumulated_gradients_are_divided_by_their_number);
    tcase_add_loop_test(
        tc, the_sum_of_leaves_has_the_same_bits_in_any_number_of_equal_shares, 0,
        sizeof leaf_counts / sizeof *leaf_counts);
    tcase_add_test(tc, every_line_of_the_log_has_the_window_drawn);
    tcase_add_test(tc, a_budget_of_flops_counts_the_windows_to_be_drawn);
    tcase_add_test(tc, a_step_that_is_not_finite_changes_nothing_but_the_count);
    tcase_add_test(tc, a_skipped_step_does_not_count_as_an_update);
    tcase_add_test(tc, a_step_whose_gradient_is_an_outlier_is_skipped_and_counted);
    tcase_add_test(tc, a_model_that_guesses_and_learns_nothing_has_collapsed);
    tcase_add_test(tc, measuring_leaves_the_initial_state);
    tcase_add_test(tc, a_step_allocates_nothing);
    tcase_add_loop_test(tc, the_newest_and_the_best_stay, 0,
                        sizeof prunings / sizeof *prunings);
    tcase_add_loop_test(tc, half_and_resumed_half_are_the_whole, 0, 2);
    tcase_add_test(tc, a_state_of_version_1_goes_on_with_one_pass_a_step_only);
    tcase_add_test(tc, a_resumed_half_skips_the_outliers_of_the_whole);
    tcase_add_test(tc, checkpoints_are_pruned_and_damaged_ones_set_aside);
    tcase_add_test(tc, a_checkpoint_that_is_not_finite_is_set_aside_for_an_earlier_one);
    tcase_add_test(tc, the_last_good_checkpoint_stays_whatever_keep_says);
    tcase_add_test(tc, a_tally_is_read_back_as_it_was);
    tcase_add_test(tc, a_checkpoint_of_another_run_is_refused);
    tcase_add_test(tc, a_fingerprint_is_of_the_data_alone);
    tcase_add_loop_test(tc, checkpoints_that_do_not_fit_are_told_before, 0,
                        sizeof rooms / sizeof *rooms);
    tcase_add_test(tc, weights_and_moments_that_are_not_finite_are_not_saved);
    tcase_add_test(tc,
                   a_checkpoint_that_is_not_finite_is_refused_on_loading_and_checking);
    tcase_add_loop_test(tc, a_tally_that_no_run_has_is_refused, 0,
                        (int)(sizeof nonsense / sizeof *nonsense));
    tcase_add_test(tc, a_file_too_many_is_no_damage);
    tcase_add_test(tc, without_an_intact_checkpoint_nothing_moves_or_begins_anew);
    tcase_add_test(tc, what_cannot_be_read_is_not_taken_for_damage);
    tcase_add_test(tc, validation_counts_every_token_and_the_texts_own_bytes);
    tcase_add_test(tc, a_validation_may_be_cut);
    tcase_add_test(tc, validation_takes_every_layers_own_window);
    tcase_add_test(tc, samples_depend_on_the_seed_alone_and_leave_training_as_it_is);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
