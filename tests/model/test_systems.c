/* Every mixer with a finite state is the dynamical system it says, and tells its |L|
 * truly. The outputs of the elementwise ones are held to theirs in test_scan. */
#include "model/mixer_instruments.h"
#include "tests/support/memories.h"
#include "tests/support/rig.h"
#include "tests/support/systems.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2 };

static const char *const entries[] = {
    "linear",
    "linear(feature=relu)",
    "linear(feature=hedgehog)",
    "linear(feature=id,normalise=0)",
    "luna(m=5,channels=3,hidden=9)",
    "luna(m=3,channels=2,hidden=7,shared=0)",
    "normattn",
    "normattn(eta=exp)+none",
    "inline(local=0)",
    "inline(local=0,feature=elu1)",
    "retention",
    "retention+none",
    "retention(expand_v=2)",
    "gla",
    "gla(conv=4)",
    "metala",
    "mlstm",
    "mlstm(norm=rms)",
    "ssd",
    "ssd(expand=1,state=5)",
    "deltanet",
    "deltanet(neg_eig=1)",
    "deltanet(expand_v=2)",
    "linear+srope(base=10)",
    "linear(feature=hedgehog)+rope(base=100)",
    "luna(m=5,channels=3,hidden=9)+srope(base=10,bias=1)",
    "normattn+srope(base=10,rank=3)",
    "inline(local=0)+srope(base=10,bias=1)",
    "inline(local=0,feature=elu1)+rope",
    "retention+srope(base=10,act=none,gate=0)",
    "gla+srope(base=10,bias=1)",
    "gla(conv=4)+rope",
    "mlstm+rope",
    "linear(decay=fixed)+rope",
    "linear(decay=learned)",
    "linear(feature=id,normalise=0,decay=fixed)",
    "linear(feature=hedgehog,normalise=0,decay=learned)",
    "luna(m=5,channels=3,hidden=9,decay=fixed)+rope",
    "luna(m=5,channels=3,hidden=9,psi=exp,decay=learned)",
    "mlstm+srope(base=10,bias=1)",
    "deltanet+srope(base=10,rank=3,bias=1)",
};
enum { N_ENTRIES = sizeof entries / sizeof *entries };

static const char *const scans[] = {
    "qlstm", "qlstm(reversed=1,expand=1)", "rglru", "mingru", "s6",
};
enum { N_SCANS = sizeof scans / sizeof *scans };

static void run_layer(struct layer *l, const char *entry, int T)
{
    struct mixer_cfg c = layer_cfg(entry, 16, HEADS, T);

    layer_open(l, entry, &c, 1, T, 11);
    layer_forward(l);
}

/* mixer_decay of the layer that just ran against the range of its system. */
static void assert_range(struct layer *l, const struct range *want, int heads)
{
    struct range got[HEADS] = {{INFINITY, 0}, {INFINITY, 0}};

    ck_assert_msg(mixer_decay(&l->mixer, got) == heads, "%s", l->entry);
    for (int h = 0; h < heads; h++)
        ck_assert_msg(fabs(got[h].lo - want[h].lo) <= rig_tolerance() * want[h].hi &&
                      fabs(got[h].hi - want[h].hi) <= rig_tolerance() * want[h].hi,
                      "%s, head %d: %g to %g, not %g to %g", l->entry, h, got[h].lo,
                      got[h].hi, want[h].lo, want[h].hi);
}

/* Normalisation alone may grow a state; nothing else does. */
static void assert_bounded(const struct layer *l, const struct range *r, int heads)
{
    static const char *const free_rows[] = {"linear", "luna", "normattn"};
    bool bounded = true;

    for (int i = 0; i < 3; i++)
        bounded &= strcmp(l->cfg.mixer->name, free_rows[i]) != 0;
    for (int h = 0; h < heads; h++)
        ck_assert_msg(r[h].lo >= 0 && (!bounded || r[h].hi <= 1), "%s: %g to %g",
                      l->entry, r[h].lo, r[h].hi);
}

/* y of the layer against that of its system as a plain recurrence. */
static void assert_system(const struct layer *l)
{
    struct memory s;

    memory_open(&s, l);
    double *v = memory_run(&s, l);
    double *y = system_product(l, "wo", 0, l->cfg.C, s.H * s.P, v, NULL);

    ck_assert_msg(rig_error(l->y, y, l->n_x) <= rig_tolerance(), "%s, T = %d: error %.3g",
                  l->entry, l->T, rig_error(l->y, y, l->n_x));
    free(v), free(y);
    memory_close(&s);
}

START_TEST(a_memory_is_the_dynamical_system_it_says)
{
    static const int lengths[] = {9, 33, 80};

    for (int i = 0; i < 3; i++) {
        struct layer l;

        run_layer(&l, entries[_i], lengths[i]);
        assert_system(&l);
        layer_close(&l);
    }
}
END_TEST

/* Gates of the memories; those of the scans are driven to their ends in test_scan. */
static const struct {
    const char *entry, *gate[2];
} gated[] = {
    {"normattn", {"wn"}},          {"retention", {NULL}},
    {"gla", {"wa2"}},              {"gla(conv=4)", {"wa2"}},
    {"metala", {"wa"}},            {"mlstm", {"wi", "wf"}},
    {"mlstm(norm=rms)", {"wi", "wf"}}, {"ssd", {"win", "alog"}},
    {"deltanet", {"wa", "wb"}},    {"deltanet(neg_eig=1)", {"wa", "wb"}},
};
enum { N_GATED = sizeof gated / sizeof *gated };

/* 40 times as steep: most tokens find a gate shut or open. Of win only the rows of the
 * step, its last. */
static void steepen(struct layer *l, const char *name)
{
    size_t n = name ? weights_count(l, name) : 0;
    size_t first = name && !strcmp(name, "win") ? n - (size_t)HEADS * l->cfg.C : 0;

    for (size_t i = first; i < n; i++)
        weights_of(l, name)[i] *= strcmp(name, "alog") ? 40 : 2;
}

/* mlstm divides by sums that cancel here, which float cannot follow to 1e-4; without
 * cancelling it does, in test_scalar. */
START_TEST(extreme_gates_over_8192_tokens_follow_the_recurrence)
{
    struct mixer_cfg c = layer_cfg(gated[_i].entry, 16, HEADS, 8192);
    bool exact = sizeof(real) == sizeof(double) || strncmp(gated[_i].entry, "mlstm", 5);
    struct layer     l;

    layer_open(&l, gated[_i].entry, &c, 1, 8192, 11);
    steepen(&l, gated[_i].gate[0]);
    steepen(&l, gated[_i].gate[1]);
    layer_forward(&l);
    layer_backward(&l);
    layer_assert_results(&l);
    if (exact)
        assert_system(&l);
    layer_restart(&l);
    while (l.pos[0] < l.T)
        layer_extend(&l, (int[]){0}, 1, l.pos[0] < 100 ? 1 : 4046);
    if (exact)
        assert_system(&l);
    layer_close(&l);
}
END_TEST

START_TEST(a_memory_tells_how_fast_it_forgets)
{
    struct range  want[HEADS] = {{INFINITY, 0}, {INFINITY, 0}};
    struct layer  l;
    struct memory s;

    run_layer(&l, entries[_i], 50);
    memory_open(&s, &l);
    memory_range(&s, want);
    assert_range(&l, want, HEADS);
    assert_bounded(&l, want, HEADS);
    memory_close(&s);
    layer_close(&l);
}
END_TEST

START_TEST(a_scan_tells_how_fast_it_forgets)
{
    struct range  want[HEADS] = {{INFINITY, 0}, {INFINITY, 0}};
    struct layer  l;
    struct system s;

    run_layer(&l, scans[_i], 50);
    system_open(&s, &l);
    int heads = strcmp(l.cfg.mixer->name, "rglru") ? 1 : HEADS;

    for (long i = 0; i < (long)s.T * s.e * s.N; i++)
        range_add(&want[i / s.N % s.e * heads / s.e], s.L[i]);
    assert_range(&l, want, heads);
    assert_bounded(&l, want, heads);
    system_close(&s);
    layer_close(&l);
}
END_TEST

/* favor's features are held in another scale, which must cancel: with all tokens alike,
 * the sum of t weights grows to t + 1. */
START_TEST(the_scale_of_favor_cancels_in_its_ratios)
{
    struct range want[HEADS] = {{1 / 2.0, 49 / 50.0}, {1 / 2.0, 49 / 50.0}};
    struct layer l;
    struct mixer_cfg c = layer_cfg("linear(feature=favor)", 16, HEADS, 50);

    layer_open(&l, "linear(feature=favor)", &c, 1, 50, 11);
    for (size_t i = 16; i < l.n_x; i++)
        l.x[i] = l.x[i % 16];
    layer_forward(&l);
    assert_range(&l, want, HEADS);
    layer_close(&l);
}
END_TEST

/* The systems above are those of mixers that say that theirs is finite. */
START_TEST(a_mixer_with_a_system_of_its_own_says_so)
{
    const struct mixer *m = mixers[_i];
    bool                held = false;

    for (int i = 0; i < N_ENTRIES; i++)
        held |= !strncmp(entries[i], m->name, strlen(m->name));
    for (int i = 0; i < N_SCANS; i++)
        held |= !strncmp(scans[i], m->name, strlen(m->name));
    ck_assert_msg(!held || m->instruments->decay, "%s has no decay()", m->name);
    ck_assert_msg(m->instruments->decay || strstr(m->instruments->system, "infinite"),
                  "%s has neither decay() nor an infinite system", m->name);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("systems");
    TCase *tc = tcase_create("systems");

    tcase_add_loop_test(tc, a_memory_is_the_dynamical_system_it_says, 0, N_ENTRIES);
    tcase_add_loop_test(tc, extreme_gates_over_8192_tokens_follow_the_recurrence, 0,
                        N_GATED);
    tcase_add_loop_test(tc, a_memory_tells_how_fast_it_forgets, 0, N_ENTRIES);
    tcase_add_loop_test(tc, a_scan_tells_how_fast_it_forgets, 0, N_SCANS);
    tcase_add_test(tc, the_scale_of_favor_cancels_in_its_ratios);
    tcase_add_loop_test(tc, a_mixer_with_a_system_of_its_own_says_so, 0, n_mixers);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
