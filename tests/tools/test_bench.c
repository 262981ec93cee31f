/* weft bench from end to end: what it prints adds up, flags change a shape, and two files
 * are compared by more than their noise. */
#include "tests/support/rig.h"
#include "tests/support/spawn.h"
#include "tools/bench/bench.h"
#include "tools/verbs.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct ran *bench(const char *line)
{
    return spawn_verb(bench_main, line, "");
}

static double number(const json_t *line, const char *key)
{
    const json_t *x = json_object_get(line, key);

    ck_assert_msg(json_is_number(x), "no number '%s'", key);
    return json_number_value(x);
}

START_TEST(a_line_holds_every_figure_and_its_parts_add_up_to_the_step)
{
    static const char *const figures[] = {
        "tok_s", "tok_s_median", "mfu", "sgemm_gflops", "read_gbs", "peak_rss_mib",
        "decode_tok_s", "prefill_tok_s", "state_bytes", "products_ms",
        "decode_together_tok_s", "activations", "recomputed",
    };
    static const char *const parts[] = {
        "projections_ms", "core_ms", "mlp_ms", "norms_ms", "loss_ms", "optimiser_ms",
        "data_ms",
    };
    const struct ran *r = bench("bench tiny --batch 2 --context 64 --steps 2 --json");
    json_t           *line = json_loads(r->out, 0, NULL);
    double            sum = 0, step;

    ck_assert_int_eq(r->code, 0);
    ck_assert_msg(line != NULL, "%s", r->out);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        ck_assert_double_gt(number(line, figures[i]), 0);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        sum += number(line, parts[i]);
    step = number(line, "step_ms");
    ck_assert_double_gt(sum, 0.9 * step);
    ck_assert_double_lt(sum, 1.01 * step);
    ck_assert_double_eq_tol(number(line, "tok_s"), 2 * 64 / step * 1e3,
                            0.01 * number(line, "tok_s"));
    json_decref(line);
}
END_TEST

/* On a machine that becomes faster during the run. */
START_TEST(what_is_faster_than_the_yardstick_is_the_yardstick)
{
    struct result r = {.own_gflops = 100};

    ck_assert_double_eq(bench_share(&r, 80), 0.8);
    ck_assert_double_eq(r.own_gflops, 100);
    ck_assert_double_eq(bench_share(&r, 125), 1);
    ck_assert_double_eq(bench_share(&r, 100), 0.8);
}
END_TEST

START_TEST(flags_change_a_named_shape)
{
    const struct ran *r = bench("bench tiny --arch gla --layers 1 --context 32 --batch 2 "
                                "--steps 1");

    ck_assert_int_eq(r->code, 0);
    ck_assert_msg(strstr(r->out, "tiny: gla, 1 layer, width 128, 4 heads, "
                                 "vocabulary 512, context 32, batch 2") == r->out,
                  "%s", r->out);
}
END_TEST

START_TEST(recomputing_is_said_and_measured)
{
    const struct ran *r = bench("bench tiny --batch 2 --context 64 --steps 1 --recompute "
                                "--json");
    json_t           *line = json_loads(r->out, 0, NULL);

    ck_assert_msg(line != NULL, "%s", r->out);
    ck_assert(json_is_true(json_object_get(line, "recompute")));
    ck_assert_double_lt(number(line, "recomputed"), number(line, "activations"));
    json_decref(line);
}
END_TEST

START_TEST(a_preset_is_an_architecture_too)
{
    const struct ran *r = bench("bench --arch swax --layers 2 --context 32 --batch 2 "
                                "--steps 1");

    ck_assert_msg(r->code == 0, "%s", r->err);
    ck_assert_msg(strstr(r->out, "swax, 2 layers") == r->out, "%s", r->out);
}
END_TEST

/* A line a type, in the order of their bits, each of which a token reads fewer bytes. */
START_TEST(weights_of_every_type_are_timed_beside_each_other)
{
    static const char *const types[] = {"f32", "bf16", "q8_0"};
    const struct ran *r = bench("bench --arch gla --layers 1 --width 64 --heads 2 "
                                "--weights --json");
    const char *at = r->out;
    double      more = INFINITY;

    ck_assert_msg(r->code == 0, "%s", r->err);
    for (int i = 0; i < 3; i++) {
        json_t *line = json_loads(at, JSON_DISABLE_EOF_CHECK, NULL);

        ck_assert_msg(line != NULL, "%s", at);
        ck_assert_str_eq(json_string_value(json_object_get(line, "weights")), types[i]);
        ck_assert_double_lt(number(line, "weight_bytes"), more);
        more = number(line, "weight_bytes");
        ck_assert_double_gt(number(line, "decode_tok_s"), 0);
        ck_assert_double_gt(number(line, "decode_together_tok_s"), 0);
        ck_assert_double_gt(number(line, "prefill_tok_s"), 0);
        at = strchr(at, '\n') + 1;
        json_decref(line);
    }
    ck_assert_str_eq(at, "");
}
END_TEST

START_TEST(a_shape_that_does_not_exist_is_refused)
{
    spawn_refused(bench("bench huge"), "bench huge", 2, "'huge' is no shape");
}
END_TEST

static char dir[256];

/* dir/name.jsonl, three lines whose training speeds are speed, speed - step, … */
static void write_lines(const char *name, double speed, double step)
{
    char  path[512];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s.jsonl", dir, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < 3; i++)
        fprintf(f, "{\"arch\": \"gla\", \"layers\": 1, \"width\": 8, \"heads\": 1, "
                   "\"vocab\": 9, \"context\": 4, \"batch\": 1, \"threads\": 1, "
                   "\"tok_s\": %f, \"tok_s_median\": %f}\n", speed - i * step, speed);
    fclose(f);
}

/* What --changes says of 100 tok/s, give or take a step, and another speed. */
static void compared(double step, double speed, const char *verdict)
{
    char              line[600];
    const struct ran *r;

    write_lines("was", 100, step);
    write_lines("is", speed, step);
    snprintf(line, sizeof line, "bench --changes %s/was.jsonl %s/is.jsonl", dir, dir);
    r = bench(line);
    ck_assert_int_eq(r->code, 0);
    ck_assert_msg(strstr(r->out, verdict) != NULL, "%s", r->out);
}

START_TEST(a_change_counts_when_it_is_larger_than_the_noise_of_both_files)
{
    snprintf(dir, sizeof dir, "%s", rig_tmp());
    compared(0, 110, "better");
    compared(0, 90, "worse");
    compared(0, 101, "within noise");
    compared(10, 110, "within noise");
    compared(1, 110, "better");
}
END_TEST

/* A line of a shape with one more key, "" or ", \"muon\": true". */
static void write_line(FILE *f, const char *more, double speed)
{
    fprintf(f, "{\"arch\": \"gla\", \"layers\": 1%s, \"tok_s\": %f, "
               "\"tok_s_median\": %f}\n", more, speed, speed);
}

static const struct { const char *key, *heading; } switches[] = {
    {", \"muon\": true", "muon 1 recompute 0 openblas 0 bf16 0\n"},
    {", \"recompute\": true", "muon 0 recompute 1 openblas 0 bf16 0\n"},
    {", \"openblas\": true", "muon 0 recompute 0 openblas 1 bf16 0\n"},
    {", \"bf16\": true", "muon 0 recompute 0 openblas 0 bf16 1\n"},
};

/* With and without a switch: one falls from 100 to 50, the other stays at 200. */
START_TEST(a_switch_makes_another_shape)
{
    char              line[600], path[512];
    const struct ran *r;

    snprintf(dir, sizeof dir, "%s", rig_tmp());
    for (int after = 0; after < 2; after++) {
        FILE *f;

        snprintf(path, sizeof path, "%s/%s.jsonl", dir, after ? "is" : "was");
        f = fopen(path, "w");
        ck_assert_ptr_nonnull(f);
        write_line(f, "", after ? 50 : 100);
        write_line(f, switches[_i].key, 200);
        fclose(f);
    }
    snprintf(line, sizeof line, "bench --changes %s/was.jsonl %s/is.jsonl", dir, dir);
    r = bench(line);
    ck_assert_msg(r->code == 0, "%s", r->err);
    ck_assert_msg(strstr(r->out, "worse") && strstr(r->out, "within noise"), "%s",
                  r->out);
    ck_assert_msg(strstr(r->out, switches[_i].heading) != NULL, "%s", r->out);
}
END_TEST

START_TEST(files_without_measurements_are_refused)
{
    char line[600];

    snprintf(line, sizeof line, "bench --changes %s/none %s/none", rig_tmp(), rig_tmp());
    spawn_refused(bench(line), line, 3, "cannot be read");
    spawn_refused(bench("bench --changes"), "bench --changes", 2, "two files");
}
END_TEST

START_TEST(openblas_multiplies_no_bf16)
{
    const char *line = "bench tiny --bf16 --openblas";

    spawn_refused(bench(line), line, 2, "does not go with");
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("bench");
    TCase *tc = tcase_create("bench");

    tcase_add_test(tc, a_line_holds_every_figure_and_its_parts_add_up_to_the_step);
    tcase_add_test(tc, what_is_faster_than_the_yardstick_is_the_yardstick);
    tcase_add_test(tc, flags_change_a_named_shape);
    tcase_add_test(tc, recomputing_is_said_and_measured);
    tcase_add_test(tc, a_preset_is_an_architecture_too);
    tcase_add_test(tc, weights_of_every_type_are_timed_beside_each_other);
    tcase_add_test(tc, a_shape_that_does_not_exist_is_refused);
    tcase_add_test(tc, a_change_counts_when_it_is_larger_than_the_noise_of_both_files);
    tcase_add_loop_test(tc, a_switch_makes_another_shape, 0,
                        sizeof switches / sizeof *switches);
    tcase_add_test(tc, files_without_measurements_are_refused);
    tcase_add_test(tc, openblas_multiplies_no_bf16);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
