/* mixer_flops() against the multiply-adds that a forward pass runs: those of matrix
 * products are counted where they run (tools/bench/trace.h), of the others the mixer says
 * how many of its flops they are. */
#include "model/mixer_instruments.h"
#include "model/pass.h"
#include "tests/support/rig.h"
#include "tests/support/variants.h"
#include "tools/bench/trace.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { T = 1024, C = 128, H = 4 };

static const double near_enough = 0.05;

static struct trace trace;

/* FLOPs of the products since the last call. */
static double counted(void)
{
    double flops = 2.0 * (double)trace.madds;

    trace = (struct trace){0};
    return flops;
}

static void assert_near(const char *what, double said, double done)
{
    ck_assert_msg(fabs(said / done - 1) <= near_enough,
                  "%s: mixer_flops() says %.0f, %.0f were run", what, said, done);
}

/* Blocks of keys are computed whole, so that a window of a few tokens costs more than its
 * size, which is what counts: windows have a test of their own. */
START_TEST(a_mixer_runs_the_flops_that_it_says)
{
    const char      *entry = variant_entry(_i);
    struct mixer_cfg cfg = layer_cfg(entry, C, H, T);
    struct layer     l;
    double           said = mixer_flops(&cfg, T, 0), forward,
                     others = mixer_elementwise(&cfg, T);

    if (strstr(entry, "window="))
        return;
    layer_open(&l, entry, &cfg, 1, T, 7);
    (void)counted();
    layer_forward(&l);
    forward = counted();
    layer_backward(&l);
    printf("%-52s %8.0f FLOPs a token, said %8.0f; backward %.2f times that\n", entry,
           (forward + others) / T, said / T, counted() / forward);
    assert_near(entry, said, forward + others);
    layer_close(&l);
}
END_TEST

/* A s, its exponential, a h, (s u) B, their sum, C h and its sum: seven for each number
 * of a state, which no product shows. */
START_TEST(a_selective_state_costs_seven_flops_a_number)
{
    struct mixer_cfg cfg = layer_cfg("s6(expand=3,state=5)", C, H, T);

    ck_assert_double_eq(mixer_elementwise(&cfg, T), 7.0 * T * 3 * C * 5);
}
END_TEST

static const struct {
    const char *entry;
    int         draw;
} windows[] = {
    {"softmax(window=2048)", 0}, {"softmax", 2048}, {"softmax(window=3000)", 2048},
};

START_TEST(a_window_counts_at_the_size_drawn)
{
    const char      *entry = windows[_i].entry;
    struct mixer_cfg cfg = layer_cfg(entry, C, H, 4 * T);
    struct layer     l;

    layer_open(&l, entry, &cfg, 1, 4 * T, 7);
    l.window = windows[_i].draw;
    (void)counted();
    layer_forward(&l);
    assert_near(entry, mixer_flops(&cfg, 4 * T, windows[_i].draw), counted());
    layer_close(&l);
}
END_TEST

/* Products, cores and logits; neither embeddings nor norms. */
START_TEST(a_model_runs_the_flops_that_it_says)
{
    struct config c;
    struct model  m;
    struct pass   p;
    struct why    why;
    int32_t      *tokens = calloc(T, sizeof *tokens);
    real         *nats = rig_reals(T);

    config_defaults(&c);
    c.layers = 2, c.width = C, c.heads = H, c.context = T, c.vocab = 1000;
    snprintf(c.mixers, sizeof c.mixers, "softmax/gla");
    ck_assert(!config_resolve(&c, &why) && !model_open(&m, &c, &why));
    model_init(&m, 1);
    ck_assert(!pass_open(&p, &m, 1, T, PASS_SCORE, &why));
    (void)counted();
    model_score(&m, &p, 1, T, tokens, tokens, 0, nats);
    assert_near("softmax/gla", model_flops(&m, T, 0), counted());
    pass_close(&p);
    model_close(&m);
    free(tokens), free(nats);
}
END_TEST

static void one_thread(void)
{
    omp_set_num_threads(1);
    trace_products(&trace);
}

int main(void)
{
    Suite *s = suite_create("flops");
    TCase *t = tcase_create("forward");

    tcase_add_checked_fixture(t, one_thread, NULL);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_mixer_runs_the_flops_that_it_says, 0, variant_count());
    tcase_add_test(t, a_selective_state_costs_seven_flops_a_number);
    tcase_add_loop_test(t, a_window_counts_at_the_size_drawn, 0,
                        (int)(sizeof windows / sizeof *windows));
    tcase_add_test(t, a_model_runs_the_flops_that_it_says);
    suite_add_tcase(s, t);
    return rig_run(s, 0);
}
