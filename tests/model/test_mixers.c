/* What every mixer must satisfy, for every variant of tests/support/variants.c. */
#include "model/mixer_instruments.h"
#include "tests/support/rig.h"
#include "tests/support/variants.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- declarations ------------------------------------------------------------------ */

START_TEST(a_mixer_declares_itself_completely)
{
    const struct mixer *m = variant_mixer(_i);
    bool                known = !m->position;
    int                 times = 0;

    ck_assert_msg(m->about && *m->about, "%s: no about", m->name);
    ck_assert_msg(m->instruments && m->instruments->system && *m->instruments->system,
                  "%s: no system", m->name);
    for (int i = 0; !known && positions[i]; i++)
        known = !strcmp(positions[i]->name, m->position);
    ck_assert_msg(known, "%s: default encoding '%s' is not in the table", m->name,
                  m->position);
    for (int i = 0; i < n_mixers; i++)
        times += !strcmp(mixers[i]->name, m->name);
    ck_assert_msg(times == 1, "%s is in the table %d times", m->name, times);
    ck_assert_ptr_null(mixers[n_mixers]);
}
END_TEST

START_TEST(parameters_have_names_and_shapes_of_their_own)
{
    struct mixer_cfg c = variant_cfg(_i, 24);
    struct param     p[MIXER_PARAMS];
    int              n = mixer_params(&c, p);

    ck_assert_int_gt(n, 0);
    ck_assert_int_le(n, MIXER_PARAMS);
    for (int i = 0; i < n; i++) {
        ck_assert_msg(p[i].rows > 0 && p[i].cols >= 0, "%s: %s is (%d, %d)",
                      variant_entry(_i), p[i].name, p[i].rows, p[i].cols);
        for (int j = 0; j < i; j++)
            ck_assert_msg(strcmp(p[i].name, p[j].name), "%s: two parameters are named %s",
                          variant_entry(_i), p[i].name);
    }
}
END_TEST

static void init_from(const struct layer *l, uint64_t seed, real *w)
{
    real *wp[MIXER_PARAMS];

    for (int i = 0; i < l->n_param; i++)
        wp[i] = w + (l->wp[i] - l->w);
    rig_poison(w, l->n_w * sizeof *w);
    mixer_init(&l->cfg, wp, seed, 0);
}

START_TEST(initialisation_fills_everything_and_follows_the_seed)
{
    struct layer l;

    variant_open(&l, _i, 1, 1);
    real *a = malloc(l.n_w * sizeof *a), *b = malloc(l.n_w * sizeof *b);

    init_from(&l, 1, a);
    layer_assert_finite(&l, "initial parameters", a, l.n_w);
    init_from(&l, 1, b);
    layer_assert_bits(&l, "the same seed", b, a, l.n_w);
    init_from(&l, 2, b);
    ck_assert_msg(memcmp(a, b, l.n_w * sizeof *a), "%s: two seeds, one model", l.entry);
    free(a);
    free(b);
    layer_close(&l);
}
END_TEST

/* A pass opened for (B, T) also serves smaller ones, and a state any of them. */
START_TEST(sizes_grow_with_the_call_and_the_state_does_not)
{
    struct mixer_cfg c = variant_cfg(_i, 24);
    struct sizes     small, wide, deep;

    for (int T = 1; T < VARIANT_LONGEST; T += 13) {
        mixer_sizes(&c, 1, T, &small);
        mixer_sizes(&c, 2, T, &wide);
        mixer_sizes(&c, 1, T + 13, &deep);
        ck_assert_msg(small.kept <= wide.kept && small.kept <= deep.kept,
                      "%s: kept shrinks at T = %d", variant_entry(_i), T);
        ck_assert_msg(small.scratch <= wide.scratch && small.scratch <= deep.scratch,
                      "%s: scratch shrinks at T = %d", variant_entry(_i), T);
        ck_assert_msg(small.state == wide.state && small.state == deep.state,
                      "%s: the state changes at T = %d", variant_entry(_i), T);
    }
}
END_TEST

START_TEST(flops_are_positive_and_grow_with_the_length)
{
    struct mixer_cfg c = variant_cfg(_i, 24);
    double           before = 0;

    for (int T = 1; T <= VARIANT_LONGEST; T++) {
        double now = mixer_flops(&c, T, 0);

        ck_assert_msg(now > before, "%s: %g flops for %d tokens, %g for one less",
                      variant_entry(_i), now, T, before);
        ck_assert_msg(mixer_flops(&c, T, 3) <= now,
                      "%s: a drawn window costs more at T = %d", variant_entry(_i), T);
        before = now;
    }
}
END_TEST

/* ---- forward and backward ---------------------------------------------------------- */

/* Lengths: one token; shorter than any block; not a multiple of one; across several. */
static const int lengths[] = {1, 9, 150, VARIANT_LONGEST};

START_TEST(a_finite_system_tells_the_range_of_its_decays)
{
    struct range r[64];
    struct layer l;
    int          heads, most;

    variant_open(&l, _i, 2, 21);
    layer_forward(&l);
    for (int h = 0; h < 64; h++)
        r[h] = (struct range){INFINITY, 0};
    heads = mixer_decay(&l.mixer, r);
    most = l.cfg.mixer->instruments->decay ? l.cfg.H : 0;
    ck_assert_msg(heads == most || (heads == 1 && most),
                  "%s: decays of %d heads", l.entry, heads);
    for (int h = 0; h < heads; h++)
        ck_assert_msg(r[h].lo >= 0 && r[h].lo <= r[h].hi && isfinite(r[h].hi),
                      "%s: decays of head %d from %g to %g", l.entry, h, r[h].lo,
                      r[h].hi);
    layer_close(&l);
}
END_TEST

START_TEST(results_are_finite_whatever_memory_held)
{
    for (int i = 0; i < 4; i++) {
        struct layer l;

        variant_open(&l, _i, 2, lengths[i]);
        layer_forward(&l);
        layer_backward(&l);
        layer_assert_results(&l);
        layer_close(&l);
    }
}
END_TEST

START_TEST(gradients_of_weights_add_up_and_buffers_have_none)
{
    struct layer l;

    variant_open(&l, _i, 2, 21);
    layer_forward(&l);
    layer_backward(&l);
    real *dx = layer_copy(l.dx, l.n_x), *dw = layer_copy(l.dw, l.n_w);

    for (int p = 0; p < l.n_param; p++)
        for (size_t j = 0; l.param[p].buffer && j < param_size(&l.param[p]); j++)
            ck_assert_msg(l.dwp[p][j] == 0, "%s: buffer %s has a gradient", l.entry,
                          l.param[p].name);
    layer_forward(&l);
    layer_backward(&l);
    for (size_t i = 0; i < l.n_w; i++)
        dw[i] *= 2;
    layer_assert_bits(&l, "dx of a second backward", l.dx, dx, l.n_x);
    layer_assert_near(&l, "dw of a second backward", l.dw, dw, l.n_w);
    free(dx);
    free(dw);
    layer_close(&l);
}
END_TEST

START_TEST(outputs_before_a_changed_token_keep_their_bits)
{
    static const int at[] = {1, 17, 64, 149};
    struct rng       r = rng_open(4, RNG_TEST, 0);
    struct layer     l;

    variant_open(&l, _i, 2, 150);
    layer_forward(&l);
    real *y = layer_copy(l.y, l.n_x);

    for (int k = 0; k < 4; k++) {
        size_t C = (size_t)l.cfg.C, row = 150 * C, from = at[k] * C;

        rig_normal(&r, l.x + from, row - from);
        rig_normal(&r, l.x + row + from, row - from);
        layer_forward(&l);
        layer_assert_bits(&l, "sequence 0 before the change", l.y, y, from);
        layer_assert_bits(&l, "sequence 1 before the change", l.y + row, y + row, from);
        ck_assert_msg(memcmp(l.y + from, y + from, C * sizeof *y),
                      "%s: the changed token shows nowhere", l.entry);
        memcpy(y, l.y, l.n_x * sizeof *y);
    }
    free(y);
    layer_close(&l);
}
END_TEST

/* A layer with the parameters of l, over T tokens of its sequences b .. b + B - 1. */
static void open_part(struct layer *part, const struct layer *l, int b, int B, int T)
{
    size_t C = (size_t)l->cfg.C, row = l->T * C;

    layer_open(part, l->entry, &l->cfg, B, T, 1);
    memcpy(part->w, l->w, l->n_w * sizeof(real));
    for (int i = 0; i < B; i++) {
        memcpy(part->x + i * T * C, l->x + (b + i) * row, T * C * sizeof(real));
        memcpy(part->dy + i * T * C, l->dy + (b + i) * row, T * C * sizeof(real));
    }
}

START_TEST(a_prefix_gives_the_same_outputs)
{
    static const int prefix[] = {1, 9, 64, 65, 128, 150};
    struct layer     l, part;

    variant_open(&l, _i, 1, VARIANT_LONGEST);
    layer_forward(&l);
    for (int k = 0; k < 6; k++) {
        open_part(&part, &l, 0, 1, prefix[k]);
        layer_forward(&part);
        layer_assert_near(&part, "outputs of a prefix", part.y, l.y, part.n_x);
        layer_close(&part);
    }
    layer_close(&l);
}
END_TEST

START_TEST(sequences_of_a_batch_do_not_see_each_other)
{
    struct rng   r = rng_open(5, RNG_TEST, 0);
    struct layer l;

    variant_open(&l, _i, 3, 70);
    size_t row = l.n_x / 3;

    layer_forward(&l);
    layer_backward(&l);
    real *y = layer_copy(l.y, l.n_x), *dx = layer_copy(l.dx, l.n_x);

    rig_normal(&r, l.x + row, row);
    layer_zero(&l);
    layer_forward(&l);
    layer_backward(&l);
    layer_assert_bits(&l, "y of sequence 0", l.y, y, row);
    layer_assert_bits(&l, "y of sequence 2", l.y + 2 * row, y + 2 * row, row);
    layer_assert_bits(&l, "dx of sequence 0", l.dx, dx, row);
    layer_assert_bits(&l, "dx of sequence 2", l.dx + 2 * row, dx + 2 * row, row);
    free(y);
    free(dx);
    layer_close(&l);
}
END_TEST

START_TEST(a_batch_equals_its_sequences_alone)
{
    struct layer l, one;

    variant_open(&l, _i, 3, 70);
    layer_forward(&l);
    layer_backward(&l);
    real *dw = calloc(l.n_w, sizeof *dw);

    for (int b = 0; b < 3; b++) {
        open_part(&one, &l, b, 1, 70);
        layer_forward(&one);
        layer_backward(&one);
        layer_assert_near(&one, "y alone", one.y, l.y + b * one.n_x, one.n_x);
        layer_assert_near(&one, "dx alone", one.dx, l.dx + b * one.n_x, one.n_x);
        for (size_t i = 0; i < l.n_w; i++)
            dw[i] += one.dw[i];
        layer_close(&one);
    }
    layer_assert_near(&l, "dw of the batch", l.dw, dw, l.n_w);
    free(dw);
    layer_close(&l);
}
END_TEST

START_TEST(the_number_of_threads_changes_no_bit)
{
    int          threads = omp_get_max_threads();
    struct layer a, b;

    variant_open(&a, _i, 3, 150);
    variant_open(&b, _i, 3, 150);
    omp_set_num_threads(1);
    layer_forward(&a);
    layer_backward(&a);
    for (int n = 2; n <= 3; n++) {
        omp_set_num_threads(n);
        layer_zero(&b);
        layer_forward(&b);
        layer_backward(&b);
        layer_assert_bits(&a, "y on more threads", b.y, a.y, a.n_x);
        layer_assert_bits(&a, "dx on more threads", b.dx, a.dx, a.n_x);
        layer_assert_bits(&a, "dw on more threads", b.dw, a.dw, a.n_w);
    }
    omp_set_num_threads(threads);
    layer_close(&a);
    layer_close(&b);
}
END_TEST

/* ---- streaming --------------------------------------------------------------------- */

START_TEST(forward_equals_one_prefill)
{
    static const int all[] = {0, 1, 2};
    struct layer     l;

    variant_open(&l, _i, 3, VARIANT_LONGEST);
    layer_forward(&l);
    real *y = layer_copy(l.y, l.n_x);

    layer_restart(&l);
    layer_extend(&l, all, 3, VARIANT_LONGEST);
    layer_assert_near(&l, "one extend over everything", l.y, y, l.n_x);
    free(y);
    layer_close(&l);
}
END_TEST

START_TEST(forward_equals_one_token_at_a_time)
{
    static const int all[] = {0, 1};
    struct layer     l;

    variant_open(&l, _i, 2, VARIANT_LONGEST);
    layer_forward(&l);
    real *y = layer_copy(l.y, l.n_x);

    layer_restart(&l);
    for (int t = 0; t < VARIANT_LONGEST; t++)
        layer_extend(&l, all, 2, 1);
    layer_assert_near(&l, "token by token", l.y, y, l.n_x);
    free(y);
    layer_close(&l);
}
END_TEST

/* Some of the sequences take a few more tokens, so that running positions drift apart. */
static void extend_some(struct layer *l, struct rng *r)
{
    static const int most[] = {1, 3, 20, 130};
    int              seq[LAYER_BATCH], n_seq = 0, n = most[rng_below(r, 4)];

    n = 1 + (int)rng_below(r, (uint64_t)n);
    for (int b = 0; b < l->B; b++)
        if (l->pos[b] < l->T && (rng_below(r, 3) || n_seq == 0)) {
            seq[n_seq++] = b;
            n = n < l->T - l->pos[b] ? n : (int)(l->T - l->pos[b]);
        }
    layer_extend(l, seq, n_seq, n);
}

static bool finished(const struct layer *l)
{
    for (int b = 0; b < l->B; b++)
        if (l->pos[b] < l->T)
            return false;
    return true;
}

START_TEST(forward_equals_extend_in_any_split)
{
    struct rng   r = rng_open(6, RNG_TEST, variant_seed(_i));
    struct layer l;

    variant_open(&l, _i, 3, 150);
    layer_forward(&l);
    real *y = layer_copy(l.y, l.n_x);

    for (int k = 0; k < 8; k++) {
        layer_restart(&l);
        while (!finished(&l))
            extend_some(&l, &r);
        layer_assert_near(&l, "a random split", l.y, y, l.n_x);
    }
    free(y);
    layer_close(&l);
}
END_TEST

/* More sequences than a call takes at once, the first half a token ahead. */
START_TEST(a_crowd_of_sequences_streams_as_each_would_alone)
{
    int          all[LAYER_BATCH];
    struct layer l;

    for (int b = 0; b < LAYER_BATCH; b++)
        all[b] = b;
    variant_open(&l, _i, LAYER_BATCH, 6);
    layer_forward(&l);
    real *y = layer_copy(l.y, l.n_x);

    layer_restart(&l);
    layer_extend(&l, all, LAYER_BATCH / 2, 1);
    layer_extend(&l, all, LAYER_BATCH, 1);
    layer_extend(&l, all, LAYER_BATCH, 4);
    layer_extend(&l, all + LAYER_BATCH / 2, LAYER_BATCH / 2, 1);
    layer_assert_near(&l, "a crowd", l.y, y, l.n_x);
    free(y);
    layer_close(&l);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("mixers");
    TCase *tc = tcase_create("every mixer");
    int    n = variant_count();

    tcase_add_loop_test(tc, a_mixer_declares_itself_completely, 0, variant_mixers());
    tcase_add_loop_test(tc, parameters_have_names_and_shapes_of_their_own, 0, n);
    tcase_add_loop_test(tc, initialisation_fills_everything_and_follows_the_seed, 0, n);
    tcase_add_loop_test(tc, sizes_grow_with_the_call_and_the_state_does_not, 0, n);
    tcase_add_loop_test(tc, flops_are_positive_and_grow_with_the_length, 0, n);
    tcase_add_loop_test(tc, a_finite_system_tells_the_range_of_its_decays, 0, n);
    tcase_add_loop_test(tc, results_are_finite_whatever_memory_held, 0, n);
    tcase_add_loop_test(tc, gradients_of_weights_add_up_and_buffers_have_none, 0, n);
    tcase_add_loop_test(tc, outputs_before_a_changed_token_keep_their_bits, 0, n);
    tcase_add_loop_test(tc, a_prefix_gives_the_same_outputs, 0, n);
    tcase_add_loop_test(tc, sequences_of_a_batch_do_not_see_each_other, 0, n);
    tcase_add_loop_test(tc, a_batch_equals_its_sequences_alone, 0, n);
    tcase_add_loop_test(tc, the_number_of_threads_changes_no_bit, 0, n);
    tcase_add_loop_test(tc, forward_equals_one_prefill, 0, n);
    tcase_add_loop_test(tc, forward_equals_one_token_at_a_time, 0, n);
    tcase_add_loop_test(tc, forward_equals_extend_in_any_split, 0, n);
    tcase_add_loop_test(tc, a_crowd_of_sequences_streams_as_each_would_alone, 0, n);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
