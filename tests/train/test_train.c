/* The parts of training that need no model: optimiser, schedules, presets, plan,
 * progress, log, run directories. */
#include "data/base/file.h"
#include "tests/support/rig.h"
#include "train/log.h"
#include "train/plan.h"
#include "train/presets.h"
#include "train/progress.h"
#include "train/run.h"
#include "train/schedule.h"

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

/* SPEC's update of one element. */
static double expected(double w, double g, bool decay, double lr, double *m, double *v,
                       int n)
{
    *m = 0.9 * *m + 0.1 * g;
    *v = 0.95 * *v + 0.05 * g * g;
    w *= decay ? 1 - lr * 0.1 : 1;
    return w - lr * (*m / (1 - pow(0.9, n))) / (sqrt(*v / (1 - pow(0.95, n))) + 1e-8);
}

/* The first parameter, the decayed one, is the embedding: it has twice the rate. Where a
 * head copies it has eight times that and does not decay, and the last an eighth. */
START_TEST(adamw_follows_its_formula_and_leaves_buffers_alone)
{
    const double loud = _i ? 8 : 1;
    struct adamw o = {0.9, 0.95, 1e-8, 0.1, 1, 2, .loud = loud};
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
            before[i] = expected(w[at[i]], g[at[i]] * scale, at[i] < DECAYED && !_i,
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

/* metala asks for half of a size's rate, whichever it is; a rate that is given stands. */
START_TEST(a_preset_may_scale_the_rate)
{
    const char    *set[] = {"lr", "0.25", "lr", "x3", "lr", "x"};
    struct sources from = {.size = _i ? "mini" : "nano", .set = set};
    struct config  plain, c;
    struct why     why;

    ck_assert(!presets_apply(&plain, &from, &why));
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

/* The disk is full after so many bytes: of the first line, of a step's, for a while. */
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
    bool held = !setrlimit(RLIMIT_FSIZE, &(struct rlimit){len + 20, RLIM_INFINITY});

    for (y.step = 2; y.step <= 4; y.step++)             // nor can Check write meanwhile
        held &= !log_step(&l, &line, &why) && l.n_held > 0;
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
};

START_TEST(a_run_is_named_after_its_input)
{
    char name[300];

    run_name(name, sizeof name, names[_i].input);
    ck_assert_str_eq(name, names[_i].run);
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

    tcase_add_loop_test(tc, adamw_follows_its_formula_and_leaves_buffers_alone, 0, 2);
    tcase_add_test(tc, the_norm_is_that_of_the_trained_part_for_any_number_of_threads);
    tcase_add_test(tc, the_norm_of_parts_is_the_norm);
    tcase_add_loop_test(tc, learning_rates_are_those_of_the_table, 0, ROWS(rates));
    tcase_add_test(tc, windows_are_drawn_with_their_probability_and_not_at_the_end);
    tcase_add_test(tc,
                   windows_of_other_steps_and_of_other_seeds_are_drawn_on_their_own);
    tcase_add_test(tc, later_sources_of_settings_win);
    tcase_add_loop_test(tc, a_preset_may_scale_the_rate, 0, 2);
    tcase_add_loop_test(tc, every_size_is_a_model, 0, 4);
    tcase_add_loop_test(tc, hybrids_are_those_of_the_table, 0,
                        sizeof hybrids / sizeof *hybrids);
    tcase_add_loop_test(tc, bad_sources_are_refused_with_a_way_on, 0, ROWS(bad_sources));
    tcase_add_loop_test(tc, the_memory_is_that_of_the_narrowest_group, 0,
                        sizeof groups / sizeof *groups);
    tcase_add_test(tc, intervals_are_filled_sensibly);
    tcase_add_test(tc, given_intervals_stay);
    tcase_add_test(tc, a_time_budget_buys_steps_and_what_goes_with_them);
    tcase_add_test(tc, the_progress_line_fits_every_width);
    tcase_add_test(tc, eighty_columns_hold_the_bar_and_every_part);
    tcase_add_test(tc, a_sample_is_broken_between_words);
    tcase_add_loop_test(tc, a_log_is_cut_back_to_its_checkpoint, 0, ROWS(cuts));
    tcase_add_test(tc, lines_that_do_not_fit_are_held_and_written_later);
    tcase_add_test(tc, a_log_that_is_no_file_of_its_own_is_refused);
    tcase_add_loop_test(tc, a_run_is_named_after_its_input, 0, ROWS(names));
    tcase_add_test(tc, paths_are_quoted_for_the_shell);
    tcase_add_test(tc, a_run_keeps_its_settings_input_and_budget);
    tcase_add_test(tc, a_name_with_a_line_break_is_refused);
    tcase_add_test(tc, a_run_whose_tokens_are_half_made_is_not_discarded);
    tcase_add_loop_test(tc, broken_run_settings_are_an_input_error, 0, ROWS(bad_configs));
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
