/* The parts of training that need no model: optimiser, schedules, presets, plan,
 * progress, log, run directories. */
#include "data/base/file.h"
#include "data/base/json.h"
#include "data/base/version.h"
#include "tests/support/rig.h"
#include "train/log.h"
#include "train/log_read.h"
#include "train/plan.h"
#include "train/presets.h"
#include "train/progress.h"
#include "train/run.h"
#include "train/schedule.h"
#include "train/warmstart.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- AdamW ---- */

/* Three tensors, the middle one a buffer, over several blocks of the optimiser. */
enum { DECAYED = 40000, BUFFER = 30001, PLAIN = 50, ALL = DECAYED + BUFFER + PLAIN };

static struct model_param params[] = {
    {"embed", {"embed", 200, 200, INIT_ONE, 0, true, false}, 0},
    {"proj", {"proj", BUFFER, 0, INIT_ONE, 0, false, true}, DECAYED},
    {"norm", {"norm", PLAIN, 0, INIT_ONE, 0, false, false}, DECAYED + BUFFER},
};

static struct model small_model(real *w)
{
    return (struct model){.cfg = {.tied = 1}, .param = params, .n_param = 3, .n = ALL,
                          .w = w};
}

static bool is_buffer(size_t i)
{
    return i >= DECAYED && i < DECAYED + BUFFER;
}

/* SPEC's update of one element, which loses `shrink` of itself. */
static double expected(double w, double g, double shrink, double lr, double *m, double *v,
                       int n)
{
    *m = 0.9 * *m + 0.1 * g;
    *v = 0.95 * *v + 0.05 * g * g;
    w *= 1 - shrink;
    return w - lr * (*m / (1 - pow(0.9, n))) / (sqrt(*v / (1 - pow(0.95, n))) + 1e-8);
}

START_TEST(what_comes_by_more_than_six_times_decays_by_the_square)
{
    ck_assert_double_eq(adamw_decay(0), 0.1);
    ck_assert_double_eq(adamw_decay(6), 0.1);
    ck_assert_double_eq_tol(adamw_decay(12), 0.4, 1e-12);
    ck_assert_double_eq(adamw_decay(19), 1);
    ck_assert_double_eq(adamw_decay(1e9), 1);
}
END_TEST

/* The first parameter, the decayed one, is the embedding: it has twice the rate. Where a
 * head copies it has eight times that, the last an eighth, and only what goes beyond a
 * decay of 0.1 decays it, at twice the rate. */
START_TEST(adamw_follows_its_formula_and_leaves_buffers_alone)
{
    const double loud = _i ? 8 : 1, decay = _i == 2 ? 0.35 : 0.1;
    const double shrink = 0.02 * (_i ? decay - 0.1 : decay);
    struct adamw o = {0.9, 0.95, 1e-8, decay, 1, 2, .loud = loud};
    real *w = rig_reals(ALL), *g = rig_reals(ALL), *m = calloc(ALL, sizeof *m);
    real *v = calloc(ALL, sizeof *v);
    struct model model = small_model(w);
    struct rng   r = rng_open(1, RNG_TEST, 0);
    double       before[4], em[4] = {0}, ev[4] = {0};
    size_t       at[4] = {0, DECAYED - 1, DECAYED + BUFFER, ALL - 1};

    rig_normal(&r, w, ALL);
    for (int n = 1; n <= 3; n++) {
        rig_normal(&r, g, ALL);
        w[DECAYED + 7] = 3;
        for (size_t i = DECAYED; i < DECAYED + BUFFER; i++)
            g[i] = NAN;
        double norm = adamw_norm(&model, g), scale = 1 / norm;

        ck_assert(isfinite(norm) && norm > 1);
        for (int i = 0; i < 4; i++)
            before[i] = expected(w[at[i]], g[at[i]] * scale, at[i] < DECAYED ? shrink : 0,
                                 at[i] < DECAYED ? 0.02 * loud : 0.01 / loud, &em[i],
                                 &ev[i], n);
        adamw_step(&o, &model, g, m, v, norm, 0.01, n);
        for (int i = 0; i < 4; i++)
            ck_assert_double_eq_tol(w[at[i]], before[i], 1e-5);
        for (size_t i = 0; i < ALL; i++)
            ck_assert(is_buffer(i) ? m[i] == 0 && v[i] == 0 : g[i] == 0);
        ck_assert(w[DECAYED + 7] == 3);
    }
    free(w), free(g), free(m), free(v);
}
END_TEST

START_TEST(the_norm_is_that_of_the_trained_part_for_any_number_of_threads)
{
    real        *g = rig_reals(ALL);
    struct model model = small_model(NULL);
    struct rng   r = rng_open(2, RNG_TEST, 0);
    double       sum = 0, norm[3];

    rig_normal(&r, g, ALL);
    for (size_t i = 0; i < ALL; i++)
        sum += is_buffer(i) ? 0 : (double)g[i] * g[i];
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        norm[threads - 1] = adamw_norm(&model, g);
    }
    ck_assert_double_eq_tol(norm[0], sqrt(sum), 1e-9 * sqrt(sum));
    ck_assert(norm[0] == norm[1] && norm[0] == norm[2]);
    g[ALL - 1] = NAN;
    ck_assert(isnan(adamw_norm(&model, g)));
    g[ALL - 1] = -INFINITY;
    ck_assert(isinf(adamw_norm(&model, g)));
    free(g);
}
END_TEST

/* Cut where blocks begin, as ranks share them. */
START_TEST(the_norm_of_parts_is_the_norm)
{
    static const size_t cuts[] = {0, ADAMW_BLOCK, 3 * ADAMW_BLOCK, ALL};
    real        *g = rig_reals(ALL);
    struct model model = small_model(NULL);
    struct rng   r = rng_open(3, RNG_TEST, 0);
    double      *part = rig_zeros(adamw_place(&model, ALL));

    rig_normal(&r, g, ALL);
    for (int i = 0; i < 3; i++)
        adamw_squares(&model, g, cuts[i], cuts[i + 1], part);
    ck_assert(adamw_total(&model, part) == adamw_norm(&model, g));
    free(g), free(part);
}
END_TEST

/* ---- schedules ---- */

static const struct {
    const char *schedule;
    double      warmup, end;
    long        step;
    double      share;          // of the peak
} rates[] = {
    {"cosine", 10, 0.1, 0, 0.1},    {"cosine", 10, 0.1, 4, 0.5},
    {"cosine", 10, 0.1, 9, 1},      {"cosine", 0.1, 0.1, 9, 1},
    {"cosine", 10, 0.1, 54, 0.55},  {"cosine", 10, 0.1, 99, 0.1},
    {"cosine", 0, 0.1, 99, 0.1},    {"cosine", 1000, 0.1, 99, 1},
    {"cosine", 10, 0, 54, 0.5},     {"cosine", 10, 0, 99, 0},
    {"cosine", 10, 1, 70, 1},       {"wsd", 10, 0.1, 4, 0.5},
    {"wsd", 10, 0.1, 10, 1},        {"wsd", 10, 0.1, 79, 1},
    {"wsd", 10, 0.1, 80, 20 / 21.}, {"wsd", 10, 0, 90, 10 / 21.},
    {"wsd", 10, 0, 99, 1 / 21.},
};

START_TEST(learning_rates_are_those_of_the_table)
{
    struct config c = {
        .lr = 2, .steps = 100, .warmup = rates[_i].warmup, .lr_end = rates[_i].end};

    snprintf(c.schedule, sizeof c.schedule, "%s", rates[_i].schedule);
    ck_assert_double_eq_tol(schedule_lr(&c, NULL, rates[_i].step), 2 * rates[_i].share,
                            1e-12);
}
END_TEST

START_TEST(windows_are_drawn_with_their_probability_and_not_at_the_end)
{
    struct config c = {.seed = 3, .steps = 10000, .window_p = 0.3, .window_short = 8,
                       .window_anneal = 0.1};
    int narrow = 0;

    for (long s = 0; s < 9000; s++) {
        int w = schedule_window(&c, NULL, s);

        ck_assert(w == 0 || w == 8);
        ck_assert_int_eq(w, schedule_window(&c, NULL, s));
        narrow += w == 8;
    }
    ck_assert_int_gt(narrow, 2700 - 200);
    ck_assert_int_lt(narrow, 2700 + 200);
    for (long s = 9000; s < 10000; s++)
        ck_assert_int_eq(schedule_window(&c, NULL, s), 0);
    c.window_p = 0;
    ck_assert_int_eq(schedule_window(&c, NULL, 0), 0);
}
END_TEST

/* Of n pairs, as many agree as in p² + (1 - p)² of them. */
static void assert_chance(int agree, int n, double p)
{
    double want = p * p + (1 - p) * (1 - p);

    ck_assert_msg(fabs(agree - want * n) < 4 * sqrt(want * (1 - want) * n),
                  "%d of %d agree, not %.0f", agree, n, want * n);
}

START_TEST(windows_of_other_steps_and_of_other_seeds_are_drawn_on_their_own)
{
    enum { N = 9000 };
    struct config c = {.seed = 3, .steps = N, .window_p = 0.3, .window_short = 8};
    struct config other = c;
    int           steps[3] = {0}, seeds = 0;

    other.seed = 4;
    for (long s = 0; s < N - 3; s++) {
        int w = schedule_window(&c, NULL, s);

        for (int lag = 1; lag <= 3; lag++)
            steps[lag - 1] += w == schedule_window(&c, NULL, s + lag);
        seeds += w == schedule_window(&other, NULL, s);
    }
    for (int i = 0; i < 3; i++)
        assert_chance(steps[i], N - 3, 0.3);
    assert_chance(seeds, N - 3, 0.3);
}
END_TEST

/* ---- presets ---- */

START_TEST(later_sources_of_settings_win)
{
    const char    *set[] = {"batch", "3", "lr", "0.5"};
    struct sources from = {.size = "mini", .arch = "softmax(window=9)", .set = set};
    struct config  c;
    struct why     why;
    char           path[300];

    path_join(path, sizeof path, rig_tmp(), "my.cfg");
    ck_assert(!file_write(path, "include nano.cfg\nlayers = 5\nbatch = 7\n", 38, &why));
    ck_assert(!presets_apply(&c, &from, &why));
    ck_assert_int_eq(c.width, 256);
    ck_assert_str_eq(c.mixers, "softmax(window=9)");
    from.file = path;
    from.n_set = 2;
    ck_assert_msg(!presets_apply(&c, &from, &why), "%s", why.line);
    ck_assert_int_eq(c.width, 128);
    ck_assert_int_eq(c.layers, 5);
    ck_assert_int_eq(c.batch, 3);
    ck_assert(c.lr == 0.5);
}
END_TEST

/* metala asks for half of a size's rate, whichever it is, mlstm and swax for three
 * quarters; a rate that is given stands. */
START_TEST(a_preset_may_scale_the_rate)
{
    const char    *set[] = {"lr", "0.25", "lr", "x3", "lr", "x"};
    struct sources from = {.size = _i ? "mini" : "nano", .set = set};
    struct config  plain, c;
    struct why     why;

    ck_assert(!presets_apply(&plain, &from, &why));
    from.arch = "mlstm";
    ck_assert(!presets_apply(&c, &from, &why) && c.lr == plain.lr * 0.75);
    from.arch = "swax";
    ck_assert(!presets_apply(&c, &from, &why) && c.lr == plain.lr * 0.75);
    from.arch = "metala";
    ck_assert(!presets_apply(&c, &from, &why));
    ck_assert(c.lr == plain.lr / 2);
    from.n_set = 1;
    ck_assert(!presets_apply(&c, &from, &why) && c.lr == 0.25);
    from.n_set = 2;
    ck_assert(!presets_apply(&c, &from, &why) && c.lr == 0.75);
    from.n_set = 3;
    ck_assert_int_eq(presets_apply(&c, &from, &why), FAIL_USAGE);
    ck_assert_str_eq(why.line, "lr = x: not a number");
}
END_TEST

START_TEST(every_size_is_a_model)
{
    static const struct {
        const char *name;
        int layers, width, heads, context;
    } sizes[] = {
        {"pico", 3, 128, 4, 256},
        {"nano", 4, 128, 4, 256},
        {"mini", 6, 256, 4, 256},
        {"small", 6, 384, 6, 256},
        {"base", 12, 768, 12, 1024},
    };
    struct sources from = {.size = sizes[_i].name, .arch = "softmax"};
    struct config  c;
    struct why     why;

    ck_assert(!presets_apply(&c, &from, &why) && !config_resolve(&c, &why));
    ck_assert_int_eq(c.layers, sizes[_i].layers);
    ck_assert_int_eq(c.width, sizes[_i].width);
    ck_assert_int_eq(c.heads, sizes[_i].heads);
    ck_assert_int_eq(c.context, sizes[_i].context);
}
END_TEST

/* Mixers of the first five layers at context 2048, a window as its size. */
static const struct {
    const char *name, *mixer[5];
    int         window[5];
    double      p;
    int         drawn;              // with chance p
} hybrids[] = {
    {"swax", {"softmax", "mlstm", "softmax", "mlstm", "softmax"},
     {256, 0, 256, 0, 256}, 0.5, 32},
    {"swax-gla", {"softmax", "gla", "softmax", "gla", "softmax"},
     {256, 0, 256, 0, 256}, 0.5, 32},
    {"swax-delta", {"softmax", "deltanet", "softmax", "deltanet", "softmax"},
     {256, 0, 256, 0, 256}, 0.5, 32},
    {"sliding", {"softmax", "softmax", "softmax", "softmax", "softmax"},
     {256, 256, 256, 256, 256}, 0, 0},
    {"local-global", {"softmax", "softmax", "softmax", "softmax", "softmax"},
     {256, 256, 256, 0, 256}, 0, 0},
};

START_TEST(hybrids_are_those_of_the_table)
{
    const char    *set[] = {"context", "2048", "layers", "5"};
    struct sources from = {.arch = hybrids[_i].name, .set = set, .n_set = 2};
    struct config  c;
    struct why     why;

    ck_assert_msg(!presets_apply(&c, &from, &why) && !config_resolve(&c, &why), "%s",
                  why.line);
    ck_assert(c.window_p == hybrids[_i].p && c.window_anneal == 0.1);
    ck_assert_int_eq(c.window_short, hybrids[_i].drawn);
    for (int i = 0; i < 5; i++) {
        struct mixer_cfg m;

        config_layer(&c, i, &m);

        bool attends = !strcmp(hybrids[_i].mixer[i], "softmax");

        ck_assert_str_eq(m.mixer->name, hybrids[_i].mixer[i]);
        ck_assert_str_eq(m.position->name, attends ? "rope" : "none");
        if (attends)
            ck_assert_double_eq(m.opt[0], hybrids[_i].window[i]);
    }
}
END_TEST

static const struct {
    struct sources from;
    const char    *says;
} bad_sources[] = {
    {{.size = "nanno"}, "did you mean nano"},
    {{.size = "softmax"}, "nano, mini, small, base"},
    {{.arch = "softmax,softmax"}, "one architecture at a time"},
    {{.file = "/nonexistent.cfg"}, "/nonexistent.cfg"},
};

START_TEST(bad_sources_are_refused_with_a_way_on)
{
    struct config c;
    struct why    why;

    ck_assert(presets_apply(&c, &bad_sources[_i].from, &why));
    ck_assert_msg(strstr(why.line, bad_sources[_i].says), "%s", why.line);
}
END_TEST

/* ---- plan ---- */

/* What /proc/self/cgroup says, files below the root with their limits, the least. */
static const struct {
    const char *self, *file[2], *limit[2];
    double      want;
} groups[] = {
    {"0::/\n", {"memory.max"}, {"1000\n"}, 1000},
    {"0::/\n", {"memory.max"}, {"max\n"}, INFINITY},
    {"0::/a/b\n", {"a/b/memory.max", "a/memory.max"}, {"5000\n", "4000\n"}, 4000},
    {"0::/a/b\n", {"a/b/memory.max", "a/memory.max"}, {"3000\n", "max\n"}, 3000},
    {"0::/../../host\n", {"memory.max"}, {"7000\n"}, 7000},
    {"5:cpu:/a\n4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes"}, {"900\n"}, 900},
    {"4:cpu:/a\n", {"memory/a/memory.limit_in_bytes"}, {"900\n"}, INFINITY},
    {"no group\n:\n", {"memory.max"}, {"1000\n"}, INFINITY},
};

START_TEST(the_memory_is_that_of_the_narrowest_group)
{
    char       root[400], path[600], dir[600];
    struct why why;

    snprintf(root, sizeof root, "%s/groups%d", rig_tmp(), _i);
    for (int i = 0; i < 2 && groups[_i].file[i]; i++) {
        path_join(path, sizeof path, root, groups[_i].file[i]);
        snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
        ck_assert_int_eq(dir_make(dir, &why), 0);
        ck_assert_int_eq(file_write(path, groups[_i].limit[i],
                                    strlen(groups[_i].limit[i]), &why), 0);
    }
    path_join(path, sizeof path, root, "self");
    ck_assert_int_eq(file_write(path, groups[_i].self, strlen(groups[_i].self), &why), 0);
    ck_assert_double_eq(plan_group_limit(path, root), groups[_i].want);
    ck_assert_double_eq(plan_group_limit("/no/such/file", root), INFINITY);
}
END_TEST

START_TEST(intervals_are_filled_sensibly)
{
    struct config c = {.steps = 2000, .batch = 16, .context = 256, .accumulate = 1};
    struct cost   cost = {.step = 0.1};

    plan_intervals(&c, &cost, 65536);
    ck_assert_int_ge(c.steps / c.eval_every, 10);
    ck_assert_int_le(c.steps / c.eval_every, 20);
    ck_assert_int_le(c.checkpoint_every, 600);
    ck_assert_int_eq(c.checkpoint_every % c.eval_every, 0);
    ck_assert_int_ge(c.steps / c.sample_every, 4);
    ck_assert_int_le(c.steps / c.sample_every, 7);
    cost.step = 10;
    c.eval_every = c.checkpoint_every = c.sample_every = 0;
    plan_intervals(&c, &cost, 65536);
    ck_assert_int_le(c.checkpoint_every, 6);
    ck_assert_int_eq(c.eval_every % c.checkpoint_every, 0);
    c = (struct config){.steps = 76, .batch = 4, .context = 256, .accumulate = 1};
    plan_intervals(&c, &cost, 65536);
    ck_assert_int_eq(c.sample_every, 16);
}
END_TEST

/* Steps of a second, and a validation of ten of them. */
static const struct {
    long eval, checkpoint;              // as given
    long val_tokens, want[3];           // eval, checkpoint, sample
} intervals[] = {
    {0, 0, 3000, {200, 50, 200}},       // 5 % of the time are 5; a minute is above 50
    {0, 0, 0, {50, 50, 200}},           // 20 at most
    {7, 0, 3000, {7, 56, 196}},         // every eighth of them within a minute
    {150, 0, 3000, {150, 50, 150}},
    {150, 40, 3000, {150, 40, 150}},
};

START_TEST(intervals_are_those_of_the_table)
{
    struct config c = {.steps = 1000, .batch = 1, .context = 100, .accumulate = 1,
                       .eval_every = intervals[_i].eval,
                       .checkpoint_every = intervals[_i].checkpoint};

    plan_intervals(&c, &(struct cost){.step = 1}, (uint64_t)intervals[_i].val_tokens);
    ck_assert_int_eq(c.eval_every, intervals[_i].want[0]);
    ck_assert_int_eq(c.checkpoint_every, intervals[_i].want[1]);
    ck_assert_int_eq(c.sample_every, intervals[_i].want[2]);
}
END_TEST

/* 100 steps, 4 validations, 2 checkpoints, 1 sample: the last step has one of each. */
START_TEST(a_run_takes_as_long_as_all_that_it_does)
{
    struct config c = {.steps = 100, .eval_every = 30, .checkpoint_every = 60,
                       .sample_every = 100};
    struct cost   cost = {.step = 1, .eval = 10, .save = 100, .sample = 1000};

    ck_assert_double_eq(plan_seconds(&c, &cost), 100 + 40 + 200 + 1000);
}
END_TEST

/* A step is three passes; a billion floats are read and written at some GB/s. */
START_TEST(what_else_a_run_does_is_reckoned_from_a_step)
{
    struct trainer t = {.cfg = {.batch = 2, .context = 32, .accumulate = 2}};
    struct cost    small = {.step = 3}, large = {.step = 3};

    plan_rest(&t, 1280, &small);
    ck_assert_double_eq_tol(small.eval, 10, 1e-9);
    ck_assert(small.save > 0.01 && small.save < 1);
    ck_assert(small.sample > 0.001 && small.sample < 1);
    t.model.n = 1000000000;
    plan_rest(&t, 1280, &large);
    ck_assert_double_eq_tol(large.eval, 10, 1e-9);
    ck_assert(large.save > 10 && large.save < 100);
    ck_assert(large.sample > 10 && large.sample < 100);
}
END_TEST

START_TEST(given_intervals_stay)
{
    struct config c = {.steps = 7, .batch = 1, .context = 8, .accumulate = 1,
                       .eval_every = 3, .checkpoint_every = 2, .sample_every = 5};

    plan_intervals(&c, &(struct cost){.step = 1e-9}, 0);
    ck_assert(c.eval_every == 3 && c.checkpoint_every == 2 && c.sample_every == 5);
}
END_TEST

START_TEST(a_time_budget_buys_steps_and_what_goes_with_them)
{
    struct trainer t = {.cfg = {.batch = 16, .context = 256, .accumulate = 1}};
    struct cost    cost = {.step = 0.1, .eval = 0.53, .save = 0.2, .sample = 0.1};
    struct config  c = t.cfg;

    c.steps = plan_steps(&t, BUDGET_FOR, 180, &cost, 65536);
    plan_intervals(&c, &cost, 65536);
    ck_assert_double_eq_tol(plan_seconds(&c, &cost), 180, 3);
    ck_assert_int_eq(plan_steps(&t, BUDGET_FOR, 0.01, &cost, 65536), 1);
    ck_assert_int_eq(plan_steps(&t, BUDGET_TOKENS, 40961, &cost, 65536), 11);
}
END_TEST

/* ---- progress ---- */

START_TEST(the_progress_line_fits_every_width)
{
    struct progress p = {.steps = 123456, .step = 77777, .first = 5, .loss = 12.345,
                         .bpb = 2.5, .zstd = 2.62, .floor = 1.9, .seconds = 0.01,
                         .tokens = 4096, .flops = 1e9, .peak = 1e12};
    char line[256];

    for (int width = 12; width < 220; width++) {
        progress_format(&p, 1e4, width, line, sizeof line);
        ck_assert_msg(strlen(line) < (size_t)width, "%d: %s", width, line);
        if (width > 20)
            ck_assert_msg(strstr(line, "77777/123456") != NULL, "%d: %s", width, line);
    }
    ck_assert(strstr(line, "zstd 2.62") && strstr(line, "floor 1.90"));
    ck_assert(strstr(line, "val 2.50") && strstr(line, "left") &&
              strstr(line, "10% peak"));
}
END_TEST

START_TEST(eighty_columns_hold_the_bar_and_every_part)
{
    struct progress p = {.steps = 123456, .step = 77777, .first = 5, .loss = 12.345,
                         .bpb = 2.5, .zstd = 2.62, .floor = 1.9, .seconds = 0.01,
                         .tokens = 4096, .flops = 1e9, .peak = 1e12};
    char line[256];

    progress_format(&p, 1e4, 80, line, sizeof line);
    ck_assert_str_eq(line, "[=>] 77777/123456 loss 12.35 val 2.50 zstd 2.62 floor 1.90 "
                           "410k tok/s 10% 1h37m");
    p.floor = 0;
    p.steps = 5000;
    p.step = 1234;
    p.tokens = 123.4;
    progress_format(&p, 250, 80, line, sizeof line);
    ck_assert_str_eq(line, "[===>            ] 1234/5000 loss 12.35 val 2.50 zstd 2.62 "
                           "12k tok/s 10% 12m46s");
    p.tokens = 56.78;
    progress_format(&p, 250, 80, line, sizeof line);
    ck_assert_msg(strstr(line, " 5.6k tok/s "), "%s", line);
}
END_TEST

/* The bar is the share of the time, and there is no number of steps. */
START_TEST(where_the_time_decides_the_line_shows_it)
{
    struct progress p = {.step = 412, .first = 400, .span = 100, .deadline = 1000,
                         .loss = 1.8732, .bpb = NAN, .seconds = 0.01, .tokens = 123};
    char line[256];

    progress_format(&p, 975, 57, line, sizeof line);
    ck_assert_str_eq(line, "[=============>    ] 412 loss 1.873 12.3k tok/s 25s left");
    progress_format(&p, 1010, 58, line, sizeof line);
    ck_assert_str_eq(line, "[==================] 412 loss 1.873 12.3k tok/s 0.0s left");
    progress_format(&p, 800, 59, line, sizeof line);
    ck_assert_str_eq(line, "[>                 ] 412 loss 1.873 12.3k tok/s 3m20s left");
    p.steps = 500, p.span = 0, p.start = 900, p.seconds = NAN, p.loss = NAN;
    progress_format(&p, 924, 30, line, sizeof line);
    ck_assert_str_eq(line, "[======> ] 412/500 2m56s left");
    p.transfer = true, p.loss = 0.25, p.step = 400;
    progress_format(&p, 924, 200, line, sizeof line);
    ck_assert_str_eq(line, "[========================>     ] 400/500 transfer 0.250");
}
END_TEST

START_TEST(a_sample_is_broken_between_words)
{
    struct progress p = {.steps = 1};
    FILE           *f = tmpfile();
    char            text[601] = "", line[200];
    int             kept = dup(STDERR_FILENO), lines = 0;

    for (int i = 0; i < 100; i++)
        strcat(text, "words ");
    ck_assert(f && kept >= 0 && dup2(fileno(f), STDERR_FILENO) >= 0);
    progress_sample(&p, 1, text, 600);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(f);
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, "    ", 4)) {
            ck_assert_msg(!strncmp(line, "    words ", 10), "%s", line);
            ck_assert_msg(strlen(line) <= 80, "%s", line);
            lines++;
        }
    ck_assert_int_ge(lines, 9);
    fclose(f);
}
END_TEST

/* ---- log ---- */

#define HEAD "{\"settings\": {}}\n"
#define MADE(n) "{\"decision\": \"end\", \"step\": " #n ", \"value\": 9}\n"
#define LINE(n) "{\"step\": " #n ", \"loss\": 1}\n"
#define TEXT(n) "{\"sample\": " #n ", \"text\": \"Once\"}\n"

static const struct {
    const char *before;
    long        step;
    const char *after;
} cuts[] = {
    {HEAD LINE(1) LINE(2) LINE(3), 2, HEAD LINE(1) LINE(2)},
    {HEAD LINE(1) LINE(2), 2, HEAD LINE(1) LINE(2)},
    {HEAD LINE(1) LINE(2), 0, HEAD},
    {HEAD LINE(1) "{\"step\": 2, \"lo", 2, HEAD LINE(1)},
    {HEAD LINE(1) "rubbish\n" LINE(3) LINE(4), 3, HEAD LINE(1) "rubbish\n" LINE(3)},
    {HEAD LINE(9) LINE(10), 9, HEAD LINE(9)},
    {"rubbish\n" LINE(1) LINE(2), 1, "rubbish\n" LINE(1)},
    {"{\"settings\": {", 0, ""},
    {HEAD MADE(0) LINE(1) LINE(2) MADE(2) LINE(3) MADE(3), 3,
     HEAD MADE(0) LINE(1) LINE(2) MADE(2) LINE(3)},
    {HEAD MADE(0) LINE(1) LINE(2) MADE(2) LINE(3), 2, HEAD MADE(0) LINE(1) LINE(2)},
    {HEAD MADE(0) LINE(1), 0, HEAD},
    {HEAD LINE(1) LINE(2) TEXT(2) LINE(3) TEXT(4), 3,
     HEAD LINE(1) LINE(2) TEXT(2) LINE(3)},
    {"", 5, ""},
};

START_TEST(a_log_is_cut_back_to_its_checkpoint)
{
    struct log  l;
    struct why  why;
    const char *dir = rig_tmp();
    char        path[300], *text;
    size_t      len;
    bool        begun;
    int         open;

    path_join(path, sizeof path, dir, "log.jsonl");
    ck_assert(!file_write(path, cuts[_i].before, strlen(cuts[_i].before), &why));
    open = rig_open_files();
    ck_assert(!log_open(&l, dir, cuts[_i].step, &begun, &why));
    ck_assert(!log_close(&l, &why));
    ck_assert_int_eq(rig_open_files(), open);
    ck_assert(!file_read(path, 4096, &text, &len, &why));
    ck_assert_str_eq(text, cuts[_i].after);
    ck_assert(begun == (len > 0));
    free(text);
}
END_TEST

/* The disk is full after so many bytes of a step's line, and takes a few more at each. */
START_TEST(lines_that_do_not_fit_are_held_and_written_later)
{
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    struct tally        y = {.step = 1};
    struct step         s = {.loss = 1, .norm = 1};
    struct log_line     line = {.tally = &y, .step = &s};
    struct log          l;
    struct why          why;
    const char         *dir = rig_tmp();
    char                path[300], *text;
    size_t              len;
    bool                begun;

    signal(SIGXFSZ, SIG_IGN);
    path_join(path, sizeof path, dir, "log.jsonl");
    ck_assert(!log_open(&l, dir, 0, &begun, &why));
    ck_assert(!log_step(&l, &line, &why) && l.n_held == 0);
    ck_assert(!file_read(path, 4096, &text, &len, &why));
    free(text);
    bool held = true;

    for (y.step = 2; y.step <= 4; y.step++) {           // nor can Check write meanwhile
        rlim_t some = len + 20 * (rlim_t)y.step;

        held &= !setrlimit(RLIMIT_FSIZE, &(struct rlimit){some, RLIM_INFINITY}) &&
                !log_step(&l, &line, &why) && l.n_held > 0;
    }
    held &= log_sync(&l, &why) == FAIL_WRITE && !setrlimit(RLIMIT_FSIZE, &all);
    ck_assert_msg(held && strstr(why.line, "File too large"), "%s", why.line);
    ck_assert(!log_step(&l, &line, &why) && l.n_held == 0 && !log_sync(&l, &why));
    ck_assert(!log_close(&l, &why));
    ck_assert(!file_read(path, 1 << 16, &text, &len, &why));
    for (int i = 1; i <= 5; i++) {
        char *at = strchr(text, '\n');

        ck_assert_int_eq(atoi(text + strlen("{\"step\": ")), i);
        memmove(text, at + 1, strlen(at));
    }
    ck_assert_str_eq(text, "");
    free(text);
}
END_TEST

/* A disk without room for the first line, and one without room for the last. */
START_TEST(lines_that_are_lost_are_told)
{
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    struct trainer      t = {.model = small_model(NULL)};
    struct tally        y = {.step = 1};
    struct step         s = {.loss = 1, .norm = 1};
    struct log_line     line = {.tally = &y, .step = &s};
    struct log          l;
    struct why          why;
    char                says[80];
    bool                begun, held;

    signal(SIGXFSZ, SIG_IGN);
    config_defaults(&t.cfg);
    ck_assert(!log_open(&l, rig_tmp(), 0, &begun, &why));
    held = !setrlimit(RLIMIT_FSIZE, &(struct rlimit){20, RLIM_INFINITY});
    held &= log_head(&l, &t, 1, &why) == FAIL_WRITE;
    held &= !log_step(&l, &line, &why);
    snprintf(says, sizeof says, "File too large; its last %zu bytes are lost", l.n_held);
    held &= log_close(&l, &why) == FAIL_WRITE && !setrlimit(RLIMIT_FSIZE, &all);
    ck_assert_msg(held && strstr(why.line, says), "%s, not %s", why.line, says);
}
END_TEST

/* The log of a directory; the caller frees. */
static char *log_of(const char *dir)
{
    char       path[300], *text;
    size_t     len;
    struct why why;

    path_join(path, sizeof path, dir, "log.jsonl");
    ck_assert_msg(!file_read(path, 1 << 20, &text, &len, &why), "%s", why.line);
    return text;
}

/* But for the memory held, which is the machine's affair. */
START_TEST(every_line_of_the_log_is_as_written)
{
    struct tally    y = {.step = 7, .tokens = 3584, .flops = 1234.5, .skipped = 1};
    struct step     s = {.loss = 2.5, .norm = 0.75, .lr = 0.003, .seconds = 0.5,
                         .window = 8};
    struct log_line line = {&y, &s, NAN, NAN, 1024, 0.25};
    const char     *dir = rig_tmp();
    struct log      l;
    struct why      why;
    char           *text, want[2000];
    bool            begun;
    int             rss[4], n = 0;

    ck_assert(!log_open(&l, dir, 0, &begun, &why));
    ck_assert(!log_step(&l, &line, &why));
    line.val_loss = 1.5, line.val_bpb = 2.25, s.loss = INFINITY, s.norm = NAN;
    ck_assert(!log_step(&l, &line, &why));
    s.transfer = true, s.loss = 0.5;
    ck_assert(!log_step(&l, &line, &why));
    s.loss = NAN;
    ck_assert(!log_step(&l, &line, &why));
    ck_assert(!log_decision(&l, &(struct decision){7, DECIDED_END, 9}, &why));
    ck_assert(!log_sample(&l, 7, "a\"b\n\xff", 5, &why));
    ck_assert(!log_close(&l, &why));
    text = log_of(dir);
    for (char *i = text, *at; n < 4 && (at = strstr(i, "\"rss\": ")); i = at + 7) {
        rss[n] = atoi(at + 7);
        ck_assert_int_gt(rss[n++], 100000);
    }
    ck_assert_int_eq(n, 4);
#define BEGIN "{\"step\": 7, \"tokens\": 3584, \"flops\": 1234.5, \"loss\": "
#define END "\"window\": 8, \"tok_s\": 1024.0, \"mfu\": 0.2500, \"ms\": 500.000, " \
            "\"skipped\": 1, \"rss\": %d}\n"
#define VAL "\"val_loss\": 1.5, \"val_bpb\": 2.25, \"lr\": 0.003, \"grad_norm\": null, "
    snprintf(want, sizeof want,
             BEGIN "2.5, \"val_loss\": null, \"val_bpb\": null, \"lr\": 0.003, "
             "\"grad_norm\": 0.75, " END BEGIN "null, " VAL END
             BEGIN "null, \"transfer\": 0.5, " VAL END BEGIN "null, " VAL END
             "{\"decision\": \"end\", \"step\": 7, \"value\": 9}\n"
             "{\"sample\": 7, \"text\": \"a\\\"b\\n\xef\xbf\xbd\"}\n",
             rss[0], rss[1], rss[2], rss[3]);
    ck_assert_str_eq(text, want);
    free(text);
}
END_TEST

/* The first line of a log that this program begins; the caller frees it. */
static json_t *first_line(const char *dir)
{
    struct trainer t = {.model = small_model(NULL)};
    struct log     l;
    struct why     why;
    char          *text;
    bool           begun;
    json_t        *j;

    config_defaults(&t.cfg);
    ck_assert(!log_open(&l, dir, 0, &begun, &why) && !log_head(&l, &t, 12.5, &why));
    ck_assert(!log_close(&l, &why));
    text = log_of(dir);
    j = json_loads(text, 0, NULL);
    free(text);
    return j;
}

START_TEST(the_first_line_says_what_trains_where)
{
    json_t     *j = first_line(rig_tmp());
    const char *level, *cpu, *library;
    int         bits, threads, ranks, parameters;
    double      peak;
    char        line[512], name[256];
    FILE       *f = fopen("/proc/cpuinfo", "r");

    ck_assert(j && json_is_object(json_object_get(j, "settings")));
    ck_assert(!json_unpack(j, "{s:{s:s, s:i}, s:{s:s, s:i, s:i, s:s, s:F}, s:i}",
                           "build", "level", &level, "real_bits", &bits, "machine", "cpu",
                           &cpu, "threads", &threads, "ranks", &ranks, "openmp", &library,
                           "sgemm_gflops", &peak, "parameters", &parameters));
    ck_assert_str_eq(level, version_level);
    ck_assert(bits == 8 * (int)sizeof(real) && threads == omp_get_max_threads() &&
              ranks == 1 && peak == 12.5 && parameters == DECAYED + PLAIN);
    ck_assert_msg(strstr(library, ".so") && !strchr(library, '/'), "%s", library);
    snprintf(name, sizeof name, "unknown");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "model name : %255[^\n]", name) == 1)
            break;
    ck_assert_str_eq(cpu, name);
    if (f)
        fclose(f);
    json_decref(j);
}
END_TEST

/* What is another now, in the order of the first line; nothing where nothing is. */
START_TEST(a_log_knows_what_began_it)
{
    const char *dir = rig_tmp(), *cpu, *library;
    char        said[700], want[700], path[300], text[700];
    json_t     *j = first_line(dir);
    struct why  why;

    log_origin(dir, said, sizeof said);
    ck_assert_str_eq(said, "");
    strcpy(said, "before");
    log_origin(rig_tmp(), said, sizeof said);           // no log
    ck_assert_str_eq(said, "");
    ck_assert(!json_unpack(j, "{s:{s:s, s:s}}", "machine", "cpu", &cpu, "openmp",
                           &library));
    snprintf(text, sizeof text,
             "{\"build\": {\"commit\": \"0\", \"compiler\": \"cc\", \"flags\": \"-O9\", "
             "\"level\": \"v0\"}, \"machine\": {\"cpu\": \"Z80\", \"openmp\": "
             "\"libx.so\"}}\n" LINE(1));
    snprintf(want, sizeof want,
             "weft %s, not 0; %s, not cc; other compiler flags; kernels for %s, not v0; "
             "on %.80s, not Z80; threads of %s, not libx.so",
             version_commit, version_compiler, version_level, cpu, library);
    path_join(path, sizeof path, dir, "log.jsonl");
    ck_assert(!file_write(path, text, strlen(text), &why));
    log_origin(dir, said, sizeof said);
    ck_assert_str_eq(said, want);
    json_decref(j);
}
END_TEST

/* More steps than it makes room for at first; what is no step is passed over. */
START_TEST(a_log_is_read_back_as_a_table)
{
    enum { STEPS = 2500 };
    const char *dir = rig_tmp();
    char        path[300];
    FILE       *f = fopen(path_join(path, sizeof path, dir, "log.jsonl"), "w");
    struct log_table t;
    struct why       why;

    ck_assert(f && fputs("{\"settings\": {\"mixers\": \"gla/mlstm\"}, \"parameters\": "
                         "1234}\n" MADE(0) "rubbish\n", f) >= 0);
    for (int i = 1; i <= STEPS; i++)
        fprintf(f, "{\"step\": %d, \"loss\": %g, \"val_bpb\": %s, \"ms\": %s}\n%s", i,
                1.0 / i, i % 5 ? "null" : "1.25", i % 2 ? "500" : "null",
                i == 3 ? TEXT(3) : "");
    fputs("{\"step\": 2501, \"ms\"", f);
    ck_assert(!fclose(f));
    ck_assert_msg(!log_read(&t, path, &why), "%s", why.line);
    ck_assert_int_eq(t.n, STEPS);
    ck_assert_str_eq(t.mixers, "gla/mlstm");
    ck_assert_double_eq(t.parameters, 1234);
    for (int i = 0; i < STEPS; i += 83) {
        ck_assert_double_eq(t.column[LOG_STEP][i], i + 1);
        ck_assert_double_eq_tol(t.column[LOG_LOSS][i], 1.0 / (i + 1), 1e-5);
        ck_assert(i % 5 == 4 ? t.column[LOG_VAL_BPB][i] == 1.25
                             : isnan(t.column[LOG_VAL_BPB][i]));
        ck_assert(isnan(t.column[LOG_RSS][i]));
        ck_assert_double_eq(t.column[LOG_SECONDS][i], 0.5 * (i / 2 + 1));
    }
    log_table_free(&t);
    ck_assert_int_eq(log_read(&t, rig_tmp(), &why), FAIL_INPUT);
    ck_assert(!t.n && isnan(log_bpb(rig_tmp(), 5)));
    ck_assert(log_bpb(dir, 5) == 1.25 && isnan(log_bpb(dir, 6)));
    ck_assert(isnan(log_bpb(dir, STEPS + 5)));
}
END_TEST

START_TEST(a_log_that_is_no_file_of_its_own_is_refused)
{
    struct log  l;
    struct why  why;
    const char *dir = rig_tmp();
    char        path[300], other[300];
    bool        begun;

    path_join(path, sizeof path, dir, "log.jsonl");
    path_join(other, sizeof other, dir, "other");
    ck_assert(!file_write(other, "mine\n", 5, &why));
    for (int i = 0; i < 4; i++) {
        ck_assert(!(i == 0   ? mkfifo(path, 0600)
                    : i == 1 ? symlink(other, path)
                    : i == 2 ? link(other, path)
                             : mkdir(path, 0700)));
        ck_assert_int_eq(log_open(&l, dir, 0, &begun, &why), FAIL_WRITE);
        ck_assert_msg(strstr(why.line, "log.jsonl: "), "%s", why.line);
        ck_assert(!remove(path));
    }
    char  *text;
    size_t len;

    ck_assert(!file_read(other, 100, &text, &len, &why));
    ck_assert_str_eq(text, "mine\n");
    free(text);
}
END_TEST

/* ---- run directories ---- */

static const struct {
    const char *input, *run;
} names[] = {
    {"book.txt", "runs/book"},      {"a/b/book.jsonl.zst", "runs/book"},
    {"book", "runs/book"},          {"a.b.txt", "runs/a.b"},
    {".hidden", "runs/.hidden"},    {"-", "runs/stdin"},
    {"a/.zst", "runs/.zst"},        {"/", "runs/run"},
    {"none.d/", "runs/none"},       {"none//", "runs/none"},
};

START_TEST(a_run_is_named_after_its_input)
{
    char name[300];

    run_name(name, sizeof name, names[_i].input);
    ck_assert_str_eq(name, names[_i].run);
}
END_TEST

/* A directory's name is whole, also where it is named as one goes there. */
START_TEST(a_run_of_a_directory_has_its_name)
{
    static const char *const as[] = {"", "/", "/.", "/inner/..", "/inner/../"};
    char                     dir[300], path[400], name[300];
    struct why               why;

    path_join(dir, sizeof dir, rig_tmp(), "old.texts");
    ck_assert(!dir_make(path_join(path, sizeof path, dir, "inner"), &why));
    for (int i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s%s", dir, as[i]);
        run_name(name, sizeof name, path);
        ck_assert_msg(!strcmp(name, "runs/old.texts"), "%s: %s", path, name);
    }
    start_name(name, sizeof name, "book.txt", NULL);
    ck_assert_str_eq(name, "runs/book-more");
    start_name(name, sizeof name, "book.txt", "softmax(window=1/8)/s6+rope");
    ck_assert_str_eq(name, "runs/book-softmax-window-1-8--s6-rope");
    start_name(name, sizeof name, "book.txt", "gla(dk=8)");
    ck_assert_str_eq(name, "runs/book-gla-dk-8");
}
END_TEST

START_TEST(paths_are_quoted_for_the_shell)
{
    char word[64];

    path_quote(word, sizeof word, "runs/a-b_1.x");
    ck_assert_str_eq(word, "runs/a-b_1.x");
    path_quote(word, sizeof word, "my runs/it's");
    ck_assert_str_eq(word, "'my runs/it'\\''s'");
    path_quote(word, sizeof word, "-x");
    ck_assert_str_eq(word, "'-x'");
    path_quote(word, sizeof word, "a\033'\xc2\x9b");
    ck_assert_str_eq(word, "$'a\\033\\047\\302\\233'");
    path_quote(word, sizeof word, "a ~\\\x7f");
    ck_assert_str_eq(word, "$'a ~\\134\\177'");
    path_quote(word, sizeof word, "");
    ck_assert_str_eq(word, "''");
}
END_TEST

/* A text whose tokens stopped half-way is gone on with by --resume. */
START_TEST(a_run_whose_tokens_are_half_made_is_not_discarded)
{
    struct run  r = {.lock = -1};
    char        config[600], part[600];
    struct why  why;
    FILE       *f;

    snprintf(r.dir, sizeof r.dir, "%s/half", rig_tmp());
    path_join(config, sizeof config, r.dir, "config.cfg");
    path_join(part, sizeof part, r.dir, "data.part");
    ck_assert(!dir_make(r.dir, &why) && !dir_make(part, &why));
    f = fopen(config, "w");
    ck_assert(f && !fclose(f));
    run_discard(&r);
    ck_assert(path_exists(config) && path_exists(part));
    ck_assert_int_eq(rmdir(part), 0);
    run_discard(&r);
    ck_assert(!path_exists(r.dir));
}
END_TEST

/* All that a set-up makes goes, and what is somebody else's stays. */
START_TEST(a_run_that_never_trained_is_discarded)
{
    static const char *const made[] = {"config.cfg", "lock", "data/train.tok.zst",
                                       "data.tmp-0123abcd"};
    struct run               r = {.lock = -1};
    char                     path[600], data[600], other[600];
    struct why               why;

    snprintf(r.dir, sizeof r.dir, "%s/vain", rig_tmp());
    path_join(data, sizeof data, r.dir, "data");
    path_join(other, sizeof other, r.dir, "notes.txt");
    for (int i = 0; i < 2; i++) {
        ck_assert(!dir_make(data, &why) && (i || !file_write(other, "mine", 4, &why)));
        for (int k = 0; k < 4; k++)
            ck_assert(!file_write(path_join(path, sizeof path, r.dir, made[k]), "x", 1,
                                  &why));
        run_discard(&r);
        for (int k = 0; k < 4; k++)
            ck_assert(!path_exists(path_join(path, sizeof path, r.dir, made[k])));
        ck_assert(!path_exists(data) && path_exists(r.dir) == !i);
        ck_assert(i || !unlink(other));
    }
}
END_TEST

START_TEST(a_run_keeps_its_settings_input_and_budget)
{
    const char *tmp = rig_tmp();
    struct run  r = {.lock = -1, .budget = BUDGET_FOR, .amount = 90.5, .field = "body"};
    struct run  back;
    struct why  why;
    char        odd[300], left[300];

    config_defaults(&r.cfg);
    r.cfg.lr = 0.1 + 0.2;
    path_join(odd, sizeof odd, tmp, "two  words = # odd");
    ck_assert(!file_write(odd, "x", 1, &why));
    ck_assert(!run_add_input(&r, odd, &why) && !run_add_input(&r, tmp, &why));
    ck_assert(run_add_input(&r, "/nonexistent", &why) == FAIL_INPUT);
    path_join(r.dir, sizeof r.dir, tmp, "runs/it");
    path_join(left, sizeof left, r.dir, "config.cfg.tmp-0123abcd");
    ck_assert(!dir_make(r.dir, &why) && !file_write(left, "layers", 6, &why));
    ck_assert_msg(!run_create(&r, &why), "%s", why.line);
    ck_assert_msg(!path_exists(left), "what a killed set-up left is still there");
    ck_assert(run_open(&back, r.dir, &why) == FAIL_WRITE);      // in use
    close(r.lock);
    r.lock = -1;
    ck_assert_msg(!run_open(&back, r.dir, &why), "%s", why.line);
    ck_assert(back.cfg.lr == r.cfg.lr && back.budget == BUDGET_FOR &&
              back.amount == 90.5);
    ck_assert_int_eq(back.n_input, 2);
    ck_assert_str_eq(back.input[0], odd);
    ck_assert_str_eq(back.field, "body");
    ck_assert(run_create(&r, &why) == FAIL_USAGE);
    ck_assert_msg(strstr(why.line, "weft train --resume "), "%s", why.line);
    run_close(&back);
    run_close(&r);
}
END_TEST

/* All that a run is made of; of what it has not, no line. */
START_TEST(a_run_keeps_its_mix_and_what_it_extends_and_repeats)
{
    const char   *tmp = rig_tmp();
    struct run    r = {.lock = -1, .budget = BUDGET_TOKENS, .amount = 1e6,
                       .before = 180.5, .from = "/a/ckpt-00000001", .replay = "/b"};
    struct run    back;
    struct config c;
    struct why    why;
    char          path[300], *text;
    size_t        len;
    int           open = rig_open_files();

    config_defaults(&r.cfg);
    r.cfg.layers = 7;
    path_join(r.dir, sizeof r.dir, tmp, "a mix");
    ck_assert(!run_add_input(&r, tmp, &why) && !run_add_input(&r, "-", &why) &&
              !run_validate_on(&r, tmp, &why));
    r.weight[0] = 0.25;
    ck_assert_msg(!run_create(&r, &why), "%s", why.line);
    ck_assert_msg(!run_read(&back, r.dir, &why), "%s", why.line);
    ck_assert(back.budget == BUDGET_TOKENS && back.amount == 1e6 && back.before == 180.5);
    ck_assert(back.n_input == 2 && back.weight[0] == 0.25 && back.weight[1] == 1);
    ck_assert_str_eq(back.input[1], "-");
    ck_assert_str_eq(back.val, r.val);
    ck_assert_str_eq(back.from, "/a/ckpt-00000001");
    ck_assert_str_eq(back.replay, "/b");
    ck_assert(!run_settings(r.dir, &c, &why) && c.layers == 7);
    run_close(&back);
    ck_assert(run_lacks_stdin(&r));
    ck_assert(!dir_make(path_join(path, sizeof path, r.dir, "data"), &why));
    ck_assert(!run_lacks_stdin(&r));
    snprintf(r.input[1], 2, "x");
    ck_assert(!rmdir(path) && !run_lacks_stdin(&r));
    r.weight[0] = 1, r.budget = BUDGET_STEPS;
    *r.val = *r.from = *r.replay = 0;
    ck_assert(!run_write_config(&r, &why));
    ck_assert(!file_read(path_join(path, sizeof path, r.dir, "config.cfg"), 1 << 16,
                         &text, &len, &why));
    ck_assert(strstr(text, "\ninput = ") && !strstr(text, "\nweight = ") &&
              !strstr(text, "\nval = ") && !strstr(text, "\nfield = ") &&
              !strstr(text, "\nfrom = ") && !strstr(text, "\nbudget = ") &&
              !strstr(text, "\nreplay = ") && text[len - 1] == '\n');
    free(text);
    ck_assert_int_eq(run_create(&r, &why), FAIL_USAGE);
    ck_assert_msg(strstr(why.line, "/a mix', or name another"), "%s", why.line);
    run_close(&r);
    ck_assert_int_eq(rig_open_files(), open);
}
END_TEST

START_TEST(a_run_that_is_opened_is_swept_and_what_it_lacks_are_defaults)
{
    const char   *dir = rig_tmp();
    char          config[300], left[300];
    struct config c;
    struct run    r;
    struct why    why;

    config_defaults(&c);
    path_join(config, sizeof config, dir, "config.cfg");
    path_join(left, sizeof left, dir, "log.tmp-0123abcd");
    ck_assert(!file_write(config, "input = /x\nlayers = 3", 21, &why) &&
              !file_write(left, "x", 1, &why));
    ck_assert_msg(!run_open(&r, dir, &why), "%s", why.line);
    ck_assert(r.cfg.layers == 3 && r.cfg.width == c.width && !path_exists(left));
    run_close(&r);
}
END_TEST

/* A directory with a file: does a run begin there, as after a set-up that was killed? */
static const struct {
    const char *name, *text;
    bool        begins;
} leftovers[] = {
    {"lock", "", true},            {"lock", "123\n", true},
    {"lock", "123", false},        {"lock", "12x\n", false},
    {"lock", "\n", false},         {"lock", "123\n4\n", false},
    {"config.cfg.tmp-0123abcd", "x", true},
    {"data.tmp-0123abcd", "x", true},
    {"notes.tmp-0123abcd", "x", false},
    {"config.cfg.old", "x", false},
};

START_TEST(a_run_begins_where_nothing_of_value_is)
{
    struct run r = {.lock = -1};
    char       path[300], *text;
    size_t     len;
    struct why why;

    config_defaults(&r.cfg);
    path_join(r.dir, sizeof r.dir, rig_tmp(), "it");
    path_join(path, sizeof path, r.dir, leftovers[_i].name);
    ck_assert(!dir_make(r.dir, &why) && !run_add_input(&r, r.dir, &why) &&
              !file_write(path, leftovers[_i].text, strlen(leftovers[_i].text), &why));
    ck_assert_int_eq(run_create(&r, &why), leftovers[_i].begins ? 0 : FAIL_USAGE);
    ck_assert(path_exists(path) == !(leftovers[_i].begins && strstr(path, ".tmp-")));
    if (!leftovers[_i].begins) {
        ck_assert_msg(strstr(why.line, "exists and is not a run"), "%s", why.line);
        ck_assert(!file_read(path, 100, &text, &len, &why));
        ck_assert_str_eq(text, leftovers[_i].text);
        free(text);
    }
    run_close(&r);
}
END_TEST

static bool unlisted;           // no directory can be listed

/* This stands before libc's own in this program. */
DIR *opendir(const char *path)
{
    if (!unlisted)
        return fdopendir(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    errno = EIO;
    return NULL;
}

START_TEST(a_place_that_cannot_be_listed_is_not_taken_for_a_full_one)
{
    struct run r = {.lock = -1};
    struct why why;

    config_defaults(&r.cfg);
    path_join(r.dir, sizeof r.dir, rig_tmp(), "it");
    ck_assert(!dir_make(r.dir, &why) && !run_add_input(&r, r.dir, &why));
    unlisted = true;
    ck_assert_int_eq(run_create(&r, &why), FAIL_INPUT);
    unlisted = false;
    ck_assert_msg(strstr(why.line, "cannot be listed"), "%s", why.line);
    run_close(&r);
}
END_TEST

/* Its second half would be a line of its own in config.cfg. */
START_TEST(a_name_with_a_line_break_is_refused)
{
    struct run r = {.lock = -1, .from = "/a\nb/ckpt-00000001"};
    struct why why;

    config_defaults(&r.cfg);
    path_join(r.dir, sizeof r.dir, rig_tmp(), "broken");
    ck_assert(!run_add_input(&r, rig_tmp(), &why));
    ck_assert_int_eq(run_create(&r, &why), FAIL_INPUT);
    ck_assert(strstr(why.line, "line break") && !path_exists(r.dir));
    run_close(&r);
}
END_TEST

static const struct {
    const char *text, *says;
} bad_configs[] = {
    {"", "input"},
    {"input = /x\nlauers = 3\n", "layers"},
    {"input = /x\nlayers = many\n", "layers"},
    {"input = /x\nbudget = forever\n", "budget"},
    {"input = /x\nbudget = for -3\n", "budget"},
    {"weight = 2\ninput = /x\n", "weight '2' is not that of an input"},
    {"input = /x\nweight = 1001\n", "from 0.001 to 1000"},
    {"input = /x\nweight = 0.0009\n", "from 0.001 to 1000"},
    {"input = /x\nbudget = for 0\n", "budget"},
    {"input = /x\nbudget = tokens 2e18\n", "budget"},
    {"input = /x\nbudget = tokensx 2\n", "budget"},
    {"input = /x\nbudget = abc 2\n", "budget"},
    {"input = /x\nbudget = for 5 after -1\n", "budget"},
    {"input = /x\nbudget = for 5\nbudget = for 5\n", "'budget = for 5' is given twice"},
    {"input = /x\nfield = a\nfield = b\n", "'field = b' is given twice"},
    {"input = /x\nfrom = a\nfrom = b\n", "'from = b' is given twice"},
    {"input = /x\nreplay = a\nreplay = b\n", "'replay = b' is given twice"},
    {"input = /x\nval = a\nval = b\n", "'val = b' is given twice"},
    {"layers = 4\n", "input"},
};

START_TEST(broken_run_settings_are_an_input_error)
{
    const char *dir = rig_tmp();
    struct run  r;
    struct why  why;
    char        path[300];

    path_join(path, sizeof path, dir, "config.cfg");
    const char *text = bad_configs[_i].text;

    ck_assert(!file_write(path, text, strlen(text), &why));
    ck_assert_int_eq(run_open(&r, dir, &why), FAIL_INPUT);
    ck_assert_msg(strstr(why.line, bad_configs[_i].says), "%s", why.line);
}
END_TEST

#define ROWS(table) (int)(sizeof table / sizeof *table)

static Suite *suite(void)
{
    Suite *s = suite_create("train");
    TCase *tc = tcase_create("all");

    tcase_add_test(tc, what_comes_by_more_than_six_times_decays_by_the_square);
    tcase_add_loop_test(tc, adamw_follows_its_formula_and_leaves_buffers_alone, 0, 3);
    tcase_add_test(tc, the_norm_is_that_of_the_trained_part_for_any_number_of_threads);
    tcase_add_test(tc, the_norm_of_parts_is_the_norm);
    tcase_add_loop_test(tc, learning_rates_are_those_of_the_table, 0, ROWS(rates));
    tcase_add_test(tc, windows_are_drawn_with_their_probability_and_not_at_the_end);
    tcase_add_test(tc,
                   windows_of_other_steps_and_of_other_seeds_are_drawn_on_their_own);
    tcase_add_test(tc, later_sources_of_settings_win);
    tcase_add_loop_test(tc, a_preset_may_scale_the_rate, 0, 2);
    tcase_add_loop_test(tc, every_size_is_a_model, 0, 5);
    tcase_add_loop_test(tc, hybrids_are_those_of_the_table, 0,
                        sizeof hybrids / sizeof *hybrids);
    tcase_add_loop_test(tc, bad_sources_are_refused_with_a_way_on, 0, ROWS(bad_sources));
    tcase_add_loop_test(tc, the_memory_is_that_of_the_narrowest_group, 0,
                        sizeof groups / sizeof *groups);
    tcase_add_test(tc, intervals_are_filled_sensibly);
    tcase_add_loop_test(tc, intervals_are_those_of_the_table, 0, ROWS(intervals));
    tcase_add_test(tc, a_run_takes_as_long_as_all_that_it_does);
    tcase_add_test(tc, what_else_a_run_does_is_reckoned_from_a_step);
    tcase_add_test(tc, given_intervals_stay);
    tcase_add_test(tc, a_time_budget_buys_steps_and_what_goes_with_them);
    tcase_add_test(tc, the_progress_line_fits_every_width);
    tcase_add_test(tc, eighty_columns_hold_the_bar_and_every_part);
    tcase_add_test(tc, where_the_time_decides_the_line_shows_it);
    tcase_add_test(tc, a_sample_is_broken_between_words);
    tcase_add_loop_test(tc, a_log_is_cut_back_to_its_checkpoint, 0, ROWS(cuts));
    tcase_add_test(tc, lines_that_do_not_fit_are_held_and_written_later);
    tcase_add_test(tc, lines_that_are_lost_are_told);
    tcase_add_test(tc, every_line_of_the_log_is_as_written);
    tcase_add_test(tc, the_first_line_says_what_trains_where);
    tcase_add_test(tc, a_log_knows_what_began_it);
    tcase_add_test(tc, a_log_is_read_back_as_a_table);
    tcase_add_test(tc, a_log_that_is_no_file_of_its_own_is_refused);
    tcase_add_loop_test(tc, a_run_is_named_after_its_input, 0, ROWS(names));
    tcase_add_test(tc, a_run_of_a_directory_has_its_name);
    tcase_add_test(tc, paths_are_quoted_for_the_shell);
    tcase_add_test(tc, a_run_keeps_its_settings_input_and_budget);
    tcase_add_test(tc, a_run_keeps_its_mix_and_what_it_extends_and_repeats);
    tcase_add_test(tc, a_run_that_is_opened_is_swept_and_what_it_lacks_are_defaults);
    tcase_add_loop_test(tc, a_run_begins_where_nothing_of_value_is, 0, ROWS(leftovers));
    tcase_add_test(tc, a_place_that_cannot_be_listed_is_not_taken_for_a_full_one);
    tcase_add_test(tc, a_name_with_a_line_break_is_refused);
    tcase_add_test(tc, a_run_whose_tokens_are_half_made_is_not_discarded);
    tcase_add_test(tc, a_run_that_never_trained_is_discarded);
    tcase_add_loop_test(tc, broken_run_settings_are_an_input_error, 0, ROWS(bad_configs));
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
