/* What must hold for softmax attention alone. */
#include "model/cores/attention.h"
#include "model/cores/kv_cache.h"
#include "tests/support/layer.h"
#include "tests/support/rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void open_layer(struct layer *l, const char *entry, int B, int T)
{
    struct mixer_cfg c = layer_cfg(entry, 24, 2, T);

    layer_open(l, entry, &c, B, T, 11);
}

/* Forward and backward of two layers that must compute the same, from the same x and dy.
 * Their parameters are equal where they have the same name. */
static void run_both(struct layer *a, struct layer *b)
{
    for (int i = 0; i < a->n_param; i++) {
        int j = layer_param(b, a->param[i].name);

        if (j >= 0 && param_size(&a->param[i]) == param_size(&b->param[j]))
            memcpy(b->wp[j], a->wp[i], param_size(&a->param[i]) * sizeof(real));
    }
    memcpy(b->x, a->x, a->n_x * sizeof(real));
    memcpy(b->dy, a->dy, a->n_x * sizeof(real));
    layer_forward(a);
    layer_backward(a);
    layer_forward(b);
    layer_backward(b);
}

static void close_both(struct layer *a, struct layer *b)
{
    layer_close(a);
    layer_close(b);
}

static void assert_equal_layers(const struct layer *a, const struct layer *b)
{
    layer_assert_near(a, "y", a->y, b->y, a->n_x);
    layer_assert_near(a, "dx", a->dx, b->dx, a->n_x);
    layer_assert_near(a, "dw", a->dw, b->dw, a->n_w);
}

/* ---- the definition, in double ----------------------------------------------------- */

/* o (e) of query head h at position t; sink may be NULL. */
static void naive_head(const struct layer *l, const double *q, const double *k,
                       const double *v, int t, int h, int window, const real *sink,
                       double *o)
{
    int    H = l->cfg.H, Hk = l->cfg.Hk, e = l->cfg.C / H, kv = h / (H / Hk);
    int    from = window > 0 && t - window + 1 > 0 ? t - window + 1 : 0;
    double sum = sink ? exp((double)*sink) : 0;

    memset(o, 0, e * sizeof *o);
    for (int u = from; u <= t; u++) {
        double s = 0, p;

        for (int j = 0; j < e; j++)
            s += q[(t * H + h) * e + j] * k[(u * Hk + kv) * e + j];
        p = exp(s / sqrt(e));
        sum += p;
        for (int j = 0; j < e; j++)
            o[j] += p * v[(u * Hk + kv) * e + j];
    }
    for (int j = 0; j < e; j++)
        o[j] /= sum;
}

/* y (T, C) of sequence b by the formula, without qk_norm and rotation. */
static void naive(const struct layer *l, int b, int window, double *y)
{
    int         C = l->cfg.C, H = l->cfg.H, sink = layer_param(l, "sink");
    const real *wo = l->wp[layer_param(l, "wo")];
    double     *q = layer_project(l, "wq", b), *k = layer_project(l, "wk", b);
    double     *v = layer_project(l, "wv", b), *o = malloc(C * sizeof *o);

    memset(y, 0, (size_t)l->T * C * sizeof *y);
    for (int t = 0; t < l->T; t++) {
        for (int h = 0; h < H; h++)
            naive_head(l, q, k, v, t, h, window, sink < 0 ? NULL : l->wp[sink] + h,
                       o + h * (C / H));
        for (int i = 0; i < C; i++)
            for (int j = 0; j < C; j++)
                y[t * C + i] += (double)wo[i * C + j] * o[j];
    }
    free(q), free(k), free(v), free(o);
}

static const struct {
    const char *entry;
    int         window;
} plain[] = {
    {"softmax+none", 0},
    {"softmax(sink=1)+none", 0},
    {"softmax(window=1)+none", 1},
    {"softmax(window=64)+none", 64},
    {"softmax(window=100,sink=1)+none", 100},
    {"softmax(heads=6,kv_heads=2)+none", 0},
    {"softmax(heads=6,kv_heads=3,window=33,sink=1)+none", 33},
};

enum { N_PLAIN = sizeof plain / sizeof *plain };

START_TEST(blocks_compute_the_formula)
{
    struct layer l;
    double       error;

    open_layer(&l, plain[_i].entry, 1, 600);
    double *y = malloc(l.n_x * sizeof *y);

    layer_forward(&l);
    naive(&l, 0, plain[_i].window, y);
    error = rig_error(l.y, y, l.n_x);
    ck_assert_msg(error <= rig_tolerance(), "%s: error %.3g", l.entry, error);
    free(y);
    layer_close(&l);
}
END_TEST

/* ---- windows ----------------------------------------------------------------------- */

START_TEST(a_window_as_long_as_the_sequence_is_full_attention)
{
    struct layer full, window;

    open_layer(&full, "softmax", 2, 150);
    open_layer(&window, "softmax(window=150)", 2, 150);
    run_both(&full, &window);
    assert_equal_layers(&full, &window);
    close_both(&full, &window);
}
END_TEST

START_TEST(a_drawn_window_is_the_window)
{
    struct layer drawn, built;

    open_layer(&drawn, "softmax(window=90,sink=1)", 2, 150);
    open_layer(&built, "softmax(window=7,sink=1)", 2, 150);
    drawn.window = 7;
    run_both(&drawn, &built);
    assert_equal_layers(&drawn, &built);
    close_both(&drawn, &built);
}
END_TEST

START_TEST(a_draw_changes_neither_smaller_windows_nor_full_attention)
{
    static const char *const entry[] = {"softmax(window=5)", "softmax"};
    struct layer             drawn, whole;

    for (int i = 0; i < 2; i++) {
        open_layer(&drawn, entry[i], 2, 70);
        open_layer(&whole, entry[i], 2, 70);
        drawn.window = 6;
        run_both(&drawn, &whole);
        layer_assert_bits(&drawn, "y under a draw", drawn.y, whole.y, whole.n_x);
        close_both(&drawn, &whole);
    }
}
END_TEST

START_TEST(tokens_out_of_sight_get_exactly_zero_gradient)
{
    enum { AT = 100, WINDOW = 7 };
    struct layer l;

    open_layer(&l, "softmax(window=7)", 1, 150);
    size_t C = (size_t)l.cfg.C;

    for (int t = 0; t < l.T; t++)
        if (t != AT)
            memset(l.dy + t * C, 0, C * sizeof(real));
    layer_forward(&l);
    layer_backward(&l);
    for (int t = 0; t < l.T; t++) {
        bool seen = t <= AT && t > AT - WINDOW;

        for (size_t j = 0; j < C; j++)
            ck_assert_msg((l.dx[t * C + j] != 0) == seen,
                          "dx of token %d, channel %zu is %g", t, j,
                          (double)l.dx[t * C + j]);
    }
    layer_close(&l);
}
END_TEST

/* ---- sinks, groups, positions, sizes ----------------------------------------------- */

static void set_sink(struct layer *l, double to)
{
    int i = layer_param(l, "sink");

    for (int h = 0; h < l->cfg.H; h++)
        l->wp[i][h] = (real)to;
}

START_TEST(a_sink_far_below_is_no_sink)
{
    static const double far[] = {-1e4, -INFINITY};
    struct layer        none, sink;

    for (int i = 0; i < 2; i++) {
        open_layer(&none, "softmax", 2, 70);
        open_layer(&sink, "softmax(sink=1)", 2, 70);
        set_sink(&sink, far[i]);
        run_both(&none, &sink);
        assert_equal_layers(&none, &sink);
        layer_restart(&sink);
        for (int t = 0; t < sink.T; t++)
            layer_extend(&sink, (int[]){0, 1}, 2, 1);
        layer_assert_near(&sink, "y streamed", sink.y, none.y, none.n_x);
        close_both(&none, &sink);
    }
}
END_TEST

START_TEST(a_sink_far_above_takes_everything)
{
    struct layer l;

    open_layer(&l, "softmax(sink=1)", 2, 70);
    set_sink(&l, 1e4);
    layer_forward(&l);
    layer_backward(&l);
    for (size_t i = 0; i < l.n_x; i++)
        ck_assert_msg(l.y[i] == 0 && l.dx[i] == 0, "y is %g, dx %g", (double)l.y[i],
                      (double)l.dx[i]);
    layer_close(&l);
}
END_TEST

/* Rows of each key or value head of `few` to those of its whole group in `many`. */
static void duplicate(const struct layer *few, struct layer *many, const char *name)
{
    int    group = few->cfg.H / few->cfg.Hk, p = layer_param(few, name);
    size_t head = (size_t)few->cfg.C / few->cfg.H * few->cfg.C;

    for (int h = 0; h < few->cfg.H; h++)
        memcpy(many->wp[layer_param(many, name)] + h * head,
               few->wp[p] + h / group * head, head * sizeof(real));
}

static void assert_group_sums(const struct layer *few, const struct layer *many,
                              const char *name)
{
    int    group = few->cfg.H / few->cfg.Hk, p = layer_param(few, name);
    size_t head = (size_t)few->cfg.C / few->cfg.H * few->cfg.C;
    real  *sum = calloc(head * few->cfg.Hk, sizeof *sum);

    for (int h = 0; h < few->cfg.H; h++)
        for (size_t i = 0; i < head; i++)
            sum[h / group * head + i] += many->dwp[layer_param(many, name)][h * head + i];
    layer_assert_near(few, name, few->dwp[p], sum, head * few->cfg.Hk);
    free(sum);
}

START_TEST(grouped_keys_are_duplicated_keys)
{
    struct layer few, many;

    open_layer(&few, "softmax(heads=6,kv_heads=2)", 2, 70);
    open_layer(&many, "softmax(heads=6,kv_heads=6)", 2, 70);
    duplicate(&few, &many, "wk");
    duplicate(&few, &many, "wv");
    run_both(&few, &many);
    layer_assert_near(&few, "y", few.y, many.y, few.n_x);
    layer_assert_near(&few, "dx", few.dx, many.dx, few.n_x);
    assert_group_sums(&few, &many, "wk");
    assert_group_sums(&few, &many, "wv");
    close_both(&few, &many);
}
END_TEST

/* The same 40 tokens at the end of sequences of different lengths: from the ninth on
 * they see only each other, and rotation must not tell where they are. */
START_TEST(positions_matter_only_by_their_distance)
{
    enum { COMMON = 40, WINDOW = 9 };
    struct layer near, far;

    open_layer(&near, "softmax(window=9)", 1, COMMON);
    open_layer(&far, "softmax(window=9)", 1, COMMON + 211);
    size_t C = (size_t)near.cfg.C, start = 211 * C, skip = (WINDOW - 1) * C;

    memcpy(far.x + start, near.x, near.n_x * sizeof(real));
    layer_forward(&near);
    layer_forward(&far);
    layer_assert_near(&far, "y further on", far.y + start + skip, near.y + skip,
                      near.n_x - skip);
    close_both(&near, &far);
}
END_TEST

START_TEST(logits_of_ten_thousand_stay_finite)
{
    struct layer l;
    int          i;

    open_layer(&l, "softmax(sink=1)", 2, 70);
    i = layer_param(&l, "wq");
    for (size_t j = 0; j < param_size(&l.param[i]); j++)
        l.wp[i][j] *= 1e4;
    layer_forward(&l);
    layer_backward(&l);
    layer_assert_results(&l);
    for (int t = 0; t < l.T; t++)
        layer_extend(&l, (int[]){0, 1}, 2, 1);
    layer_assert_finite(&l, "y streamed", l.y, l.n_x);
    layer_close(&l);
}
END_TEST

/* Scores of 1e9, whose last digit is 64: weights are 0 or 1, and never more. */
START_TEST(gradients_of_scores_beyond_their_digits_stay_finite)
{
    enum { T = 40, E = 8, N = T * E };
    real            *q = rig_normals(N), *k = rig_normals(N), *v = rig_normals(N);
    real            *d_o = rig_normals(N), *o = rig_reals(N), *lse = rig_reals(T);
    real            *dq = rig_reals(N), *dk = rig_reals(N), *dv = rig_reals(N);
    struct attention a = {ATTENTION_SOFTMAX, 1, T, 1, 1, E, .scale = (real)3e8, .q = q,
                          .k = k, .v = v, .ld_q = E, .ld_kv = E};
    double           most = 0;

    attention_forward(&a, o, lse);
    attention_backward(&a, o, lse, d_o, dq, dk, dv, NULL);
    for (int i = 0; i < N; i++) {
        ck_assert(isfinite(o[i]) && isfinite(dq[i]) && isfinite(dk[i]));
        most = fmax(most, fabs((double)dv[i]));
    }
    ck_assert_msg(most < 5 * T, "dv is up to %g", most);
    free(q), free(k), free(v), free(d_o), free(o), free(lse), free(dq), free(dk);
    free(dv);
}
END_TEST

/* A model with room for 16 tokens streams on with the oldest dropped: a window of 16. */
START_TEST(a_full_state_drops_its_oldest_tokens)
{
    static const int steps[] = {1, 5, 23, 60};
    struct mixer_cfg c = layer_cfg("softmax", 24, 2, 16);
    struct layer     window, full;

    open_layer(&window, "softmax(window=16)", 2, 60);
    layer_open(&full, "softmax", &c, 2, 60, 11);
    memcpy(full.x, window.x, window.n_x * sizeof(real));
    layer_forward(&window);
    for (int i = 0; i < 4; i++) {
        layer_restart(&full);
        for (int t = 0; t < 60; t += steps[i])
            layer_extend(&full, (int[]){0, 1}, 2, 60 - t < steps[i] ? 60 - t : steps[i]);
        layer_assert_near(&full, "y past the context", full.y, window.y, window.n_x);
    }
    close_both(&window, &full);
}
END_TEST

/* ---- the cache --------------------------------------------------------------------- */

enum { CROWD = 7, LENGTH = 130 };

/* Heads of one vector, of several and of some with a rest; full, windowed, wrapped. */
static const struct {
    enum attention_kind kind;
    int                 H, Hk, e, span, window;
    bool                sink;
} caches[] = {
    {ATTENTION_SOFTMAX, 4, 2, 8, LENGTH, 0, false},
    {ATTENTION_SOFTMAX, 4, 4, 12, 33, 20, true},
    {ATTENTION_SOFTMAX, 2, 1, 76, 50, 0, false},
    {ATTENTION_SOFTMAX, 6, 3, 64, 40, 64, true},
    {ATTENTION_RELU, 4, 2, 40, 45, 0, false},
};

/* n more tokens for sequences from .. to - 1 of a, whose rows are those of whole
 * sequences; seen (CROWD) tokens are in their states. */
static void feed(const struct attention *a, int span, void *const *state, long *seen,
                 int from, int to, int n, real *o)
{
    struct attention part = *a;
    size_t rows = (size_t)(to - from) * n, wide = (size_t)a->H * a->e;
    real  *q = rig_reals(rows * a->ld_q), *kv = rig_reals(rows * a->ld_kv);
    real  *got = rig_reals(rows * wide), *scratch;

    part.B = to - from, part.T = n;
    part.q = q, part.k = kv, part.v = kv + (a->v - a->k);
    for (int b = from; b < to; b++)
        for (int t = 0; t < n; t++) {
            size_t at = (size_t)(b - from) * n + t, row = (size_t)b * a->T + seen[b] + t;

            memcpy(q + at * a->ld_q, a->q + row * a->ld_q, wide * sizeof *q);
            memcpy(kv + at * a->ld_kv, a->k + row * a->ld_kv, a->ld_kv * sizeof *kv);
        }
    scratch = rig_reals(kv_cache_scratch(&part, span));
    kv_cache_extend(&part, span, state + from, seen + from, got, scratch);
    for (int b = from; b < to; b++) {
        memcpy(o + ((size_t)b * a->T + seen[b]) * wide,
               got + (size_t)(b - from) * n * wide, n * wide * sizeof *o);
        seen[b] += n;
    }
    free(q), free(kv), free(got), free(scratch);
}

/* Sequences of different lengths, each fed as it comes, then all by pieces of one token
 * and of several. */
START_TEST(tokens_read_from_the_cache_what_they_read_at_once)
{
    static const int pieces[] = {1, 1, 3, 1, 40, 1};
    const int        span = caches[_i].span, H = caches[_i].H, e = caches[_i].e;
    struct rng       r = rng_open(12, RNG_TEST, 0);
    struct attention a = {.kind = caches[_i].kind, .B = CROWD, .T = LENGTH, .H = H,
                          .Hk = caches[_i].Hk, .e = e, .window = caches[_i].window,
                          .scale = (real)0.3, .ld_q = (size_t)H * e + 3};
    size_t n = (size_t)CROWD * LENGTH * H * e, wide = (size_t)a.Hk * e;
    real  *q, *kv, *o = rig_reals(n), *want = rig_reals(n), *states, sink[8];
    void  *state[CROWD];
    long   seen[CROWD] = {0};

    a.ld_kv = 2 * wide + 5;
    q = rig_reals(CROWD * LENGTH * a.ld_q);
    kv = rig_reals(CROWD * LENGTH * a.ld_kv);
    rig_normal(&r, q, CROWD * LENGTH * a.ld_q);
    rig_normal(&r, kv, CROWD * LENGTH * a.ld_kv);
    rig_normal(&r, sink, 8);
    a.q = q, a.k = kv, a.v = kv + wide, a.sink = caches[_i].sink ? sink : NULL;
    states = calloc(CROWD * kv_cache_state(&a, span), sizeof *states);
    for (int b = 0; b < CROWD; b++)
        state[b] = states + b * kv_cache_state(&a, span);
    for (int b = 1; b < CROWD; b++)
        feed(&a, span, state, seen, b, b + 1, 6 * b, o);
    for (int i = 0; seen[CROWD - 1] < LENGTH; i++) {
        int left = (int)(LENGTH - seen[CROWD - 1]), piece = pieces[i % 6];

        feed(&a, span, state, seen, 0, CROWD, piece < left ? piece : left, o);
    }
    for (int b = 0; b < CROWD - 1; b++)
        feed(&a, span, state, seen, b, b + 1, (int)(LENGTH - seen[b]), o);
    a.window = a.window > 0 && a.window < span ? a.window : span;
    attention_forward(&a, want, NULL);
    ck_assert_double_lt(rig_error_real(o, want, n), rig_tolerance());
    free(q), free(kv), free(o), free(want), free(states);
}
END_TEST

/* ---- the instrument ---------------------------------------------------------------- */

/* What it says a query gives to each key is what the query read. */
START_TEST(weights_give_the_output)
{
    enum { B = 2, N = 37, H = 4, HK = 2, E = 8 };
    static const int windows[] = {0, 5};
    real   q[B * N * H * E], k[B * N * HK * E], v[B * N * HK * E], o[B * N * H * E];
    double p[H * N];
    struct rng       r = rng_open(11, RNG_TEST, 0);
    struct attention a = {.B = B, .T = N, .H = H, .Hk = HK, .e = E, .scale = (real)0.7,
                          .window = windows[_i], .q = q, .k = k, .v = v, .ld_q = H * E,
                          .ld_kv = HK * E};

    for (int i = 0; i < B * N * H * E; i++)
        q[i] = (real)rng_normal(&r);
    for (int i = 0; i < B * N * HK * E; i++)
        k[i] = (real)rng_normal(&r), v[i] = (real)rng_normal(&r);
    attention_forward(&a, o, NULL);
    for (int row = 0; row < B * N; row++) {
        int b = row / N, t = row % N;

        attention_weights(&a, b, t, p);
        for (int j = 0; j < H * E; j++) {
            int    h = j / E;
            double want = 0;

            for (int u = 0; u <= t; u++)
                want += p[h * (t + 1) + u] *
                        (double)v[(b * N + u) * HK * E + h / (H / HK) * E + j % E];
            ck_assert_double_eq_tol((double)o[row * H * E + j], want, 1e-5);
        }
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("softmax");
    TCase *tc = tcase_create("softmax");

    tcase_add_loop_test(tc, blocks_compute_the_formula, 0, N_PLAIN);
    tcase_add_test(tc, a_window_as_long_as_the_sequence_is_full_attention);
    tcase_add_test(tc, a_drawn_window_is_the_window);
    tcase_add_test(tc, a_draw_changes_neither_smaller_windows_nor_full_attention);
    tcase_add_test(tc, tokens_out_of_sight_get_exactly_zero_gradient);
    tcase_add_test(tc, a_sink_far_below_is_no_sink);
    tcase_add_test(tc, a_sink_far_above_takes_everything);
    tcase_add_test(tc, grouped_keys_are_duplicated_keys);
    tcase_add_test(tc, positions_matter_only_by_their_distance);
    tcase_add_test(tc, logits_of_ten_thousand_stay_finite);
    tcase_add_test(tc, gradients_of_scores_beyond_their_digits_stay_finite);
    tcase_add_test(tc, a_full_state_drops_its_oldest_tokens);
    tcase_add_loop_test(tc, tokens_read_from_the_cache_what_they_read_at_once, 0,
                        sizeof caches / sizeof *caches);
    tcase_add_loop_test(tc, weights_give_the_output, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
