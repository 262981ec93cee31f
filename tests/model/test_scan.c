/* What must hold for the elementwise recurrences alone: scan, qlstm, rglru,
 * mingru, s6. */
#include "tests/support/layer.h"
#include "tests/support/rig.h"
#include "tests/support/systems.h"

#include "model/cores/scan.h"
#include "model/kernels/vmath.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void open_layer(struct layer *l, const char *entry, int C, int T)
{
    struct mixer_cfg c = layer_cfg(entry, C, 2, T);

    layer_open(l, entry, &c, 1, T, 13);
}

/* Elements [from, to) of a parameter, all with to = 0, set to v or multiplied by v. */
static void set(struct layer *l, const char *name, size_t from, size_t to, double v)
{
    for (size_t i = from; i < (to ? to : weights_count(l, name)); i++)
        weights_of(l, name)[i] = (real)v;
}

static void scale(struct layer *l, const char *name, size_t from, size_t to, double v)
{
    for (size_t i = from; i < (to ? to : weights_count(l, name)); i++)
        weights_of(l, name)[i] *= (real)v;
}

static void set_identity(struct layer *l, const char *name)
{
    int n = l->param[layer_param(l, name)].rows;

    set(l, name, 0, 0, 0);
    for (int i = 0; i < n; i++)
        weights_of(l, name)[(size_t)i * n + i] = 1;
}

/* The convolution hands its input on. */
static void set_no_conv(struct layer *l)
{
    set(l, "conv", 0, 0, 0);
    set(l, "convb", 0, 0, 0);
    for (size_t i = 3; i < weights_count(l, "conv"); i += 4)
        weights_of(l, "conv")[i] = 1;
}

/* y of the layer against Wo v, v (T, e). */
static void assert_output(const struct layer *l, const double *v, int e)
{
    double *y = system_product(l, "wo", 0, l->cfg.C, e, v, NULL);
    double  error = rig_error(l->y, y, l->n_x);

    ck_assert_msg(error <= rig_tolerance(), "%s, T = %d: error %.3g, limit %.1g",
                  l->entry, l->T, error, rig_tolerance());
    free(y);
}

static void assert_system(const struct layer *l)
{
    struct system s;

    system_open(&s, l);
    double *v = system_run(&s);

    assert_output(l, v, s.e);
    free(v);
    system_close(&s);
}

static const char *const entries[] = {
    "qlstm", "qlstm(reversed=1,expand=1)", "rglru", "rglru(inner=36,heads=6)",
    "mingru", "mingru(act=none,expand=2)", "s6", "s6(expand=7,state=3,rank=2)",
};

enum { N_ENTRIES = sizeof entries / sizeof *entries };

START_TEST(a_layer_is_the_dynamical_system_it_says)
{
    static const int lengths[] = {1, 31, 32, 33, 150};

    for (int i = 0; i < 5; i++) {
        struct layer l;

        open_layer(&l, entries[_i], 12, lengths[i]);
        layer_forward(&l);
        assert_system(&l);
        layer_close(&l);
    }
}
END_TEST

/* Gates of every kind, from shut to open, most of them at an end. */
static void make_extreme(struct layer *l)
{
    static const char *const gates[] = {"wg", "wa", "wi", "wz", "wdt", "alog"};
    struct rng r = rng_open(8, RNG_TEST, 0);
    int        lam = layer_param(l, "lam");

    for (int i = 0; i < 6; i++)
        if (layer_param(l, gates[i]) >= 0)
            scale(l, gates[i], 0, 0, i == 5 ? 2 : 40);
    for (size_t i = 0; lam >= 0 && i < weights_count(l, "lam"); i++)
        l->wp[lam][i] = (real)(20 * rng_normal(&r) - 10);
}

START_TEST(extreme_gates_stay_finite_and_right_over_8192_tokens)
{
    struct layer l;

    open_layer(&l, entries[_i], 6, 8192);
    make_extreme(&l);
    layer_forward(&l);
    layer_backward(&l);
    layer_assert_results(&l);
    assert_system(&l);
    layer_close(&l);
}
END_TEST

/* ---- the core ---------------------------------------------------------------------- */

/* D_t = dh_t + a_{t+1} D_{t+1} and D_t h_{t-1} of n tokens and C channels. */
static void naive_back(double *D, double *da, const real *a, const double *h,
                       const real *dh, int n, int C)
{
    for (int i = n * C - 1; i >= 0; i--) {
        D[i] = dh[i] + (i + C < n * C ? a[i + C] * D[i + C] : 0);
        da[i] = i >= C ? D[i] * h[i - C] : 0;
    }
}

START_TEST(a_scan_equals_the_recurrence_in_double)
{
    enum { T = 8192, C = 70, N = T * C };
    struct rng  r = rng_open(1, RNG_TEST, 0);
    real       *a = rig_reals(N), *h = rig_reals(N), *dh = rig_reals(N);
    real       *da = rig_reals(2 * N), *packed = rig_reals(N);
    double     *H = malloc(N * sizeof *H), *D = malloc(N * sizeof *D);
    double     *dA = malloc(N * sizeof *dA);
    struct scan s = {1, T, C, a};

    rig_normal(&r, h, N);
    rig_normal(&r, dh, N);
    for (int i = 0; i < N; i++) {
        double u = rng_uniform(&r);

        a[i] = (real)(u < 0.1 ? 0 : u < 0.5 ? 1 : u < 0.6 ? 1e-30 : rng_uniform(&r));
        H[i] = a[i] * (i >= C ? H[i - C] : 0) + h[i];
    }
    naive_back(D, dA, a, H, dh, T, C);
    scan_forward(&s, h);
    scan_backward(&s, dh, da, 2 * C, h);
    for (int t = 0; t < T; t++)
        memcpy(packed + (size_t)t * C, da + 2 * (size_t)t * C, C * sizeof *da);
    rig_assert_error("h", h, H, N);
    rig_assert_error("db", dh, D, N);
    rig_assert_error("da", packed, dA, N);
    free(a), free(h), free(dh), free(da), free(packed), free(H), free(D), free(dA);
}
END_TEST

/* The selective recurrence and what backward leaves, in double; arrays as in scan.h. */
struct selective_truth {
    double *y, *du, *dstep, *din, *dout, *drate, *dskip;
};

/* State j of channel c of sequence b. */
static void naive_selective(const struct selective *s, const real *dy, int b, int c,
                            int j, struct selective_truth *w)
{
    const size_t row = (size_t)b * s->T, at = (size_t)j * s->C + c;
    const double A = s->rate[at];
    double      *h = rig_zeros(s->T + 1), later = 0;

    for (int t = 0; t < s->T; t++) {
        const size_t i = (row + t) * s->C + c, n = (row + t) * s->ld + j;

        h[t + 1] = exp(A * s->step[i]) * h[t] + (double)s->step[i] * s->in[n] * s->u[i];
        w->y[i] += s->out[n] * h[t + 1];
    }
    for (int t = s->T - 1; t >= 0; t--) {
        const size_t i = (row + t) * s->C + c, n = (row + t) * s->ld + j;
        const double a = exp(A * s->step[i]), D = (double)s->out[n] * dy[i] + later;

        w->dout[n] += dy[i] * h[t + 1];
        w->din[n] += (double)s->step[i] * s->u[i] * D;
        w->drate[b * s->N * s->C + at] += s->step[i] * D * a * h[t];
        w->dstep[i] += A * D * a * h[t] + (double)s->in[n] * s->u[i] * D;
        w->du[i] += (double)s->in[n] * s->step[i] * D;
        later = a * D;
    }
    free(h);
}

/* What the skip adds. */
static void naive_skip(const struct selective *s, const real *dy,
                       struct selective_truth *w)
{
    for (size_t i = 0; i < (size_t)s->B * s->T * s->C; i++) {
        size_t c = i % s->C;

        w->y[i] += (double)s->skip[c] * s->u[i];
        w->du[i] += (double)s->skip[c] * dy[i];
        w->dskip[i / s->C / s->T * s->C + c] += (double)dy[i] * s->u[i];
    }
}

/* The tokens of sequence b through extend, 1, 2, 3, ... at a time. */
static void stream_selective(const struct selective *s, int b, real *y)
{
    real *state = calloc(selective_state(s) + 1, sizeof *state);
    void *states[] = {state};

    for (int t = 0, n = 1; t < s->T; t += n++) {
        struct selective part = *s;
        const size_t     row = (size_t)b * s->T + t;

        part.B = 1;
        part.T = s->T - t < n ? s->T - t : n;
        part.u += row * s->C, part.step += row * s->C;
        part.in += row * s->ld, part.out += row * s->ld;
        selective_extend(&part, states, 1, y + row * s->C);
    }
    free(state);
}

/* More channels than go through time together. */
START_TEST(a_selective_scan_equals_the_recurrence_in_double)
{
    enum { B = 2, T = 70, C = 150, N = 3, LD = 2 * N + 1, ROWS = B * T };
    struct rng r = rng_open(2, RNG_TEST, 0);
    real      *u = rig_reals(ROWS * C), *step = rig_reals(ROWS * C);
    real      *of = rig_reals(ROWS * LD), *rate = rig_reals(N * C), *skip = rig_reals(C);
    real      *dy = rig_reals(ROWS * C), *y = rig_reals(ROWS * C);
    real      *du = rig_reals(ROWS * C), *dstep = rig_reals(ROWS * C);
    real      *dof = rig_reals(ROWS * LD), *drate = rig_reals(B * N * C);
    real      *dskip = rig_reals(B * C);
    double    *d_of = rig_zeros(ROWS * LD);
    struct selective       s = {B, T, C, N, u, step, of, of + N, LD, rate, skip};
    struct selective_grad  g = {du, dstep, dof, dof + N, LD, drate, dskip};
    struct selective_truth w = {rig_zeros(ROWS * C), rig_zeros(ROWS * C),
                                rig_zeros(ROWS * C), d_of, d_of + N,
                                rig_zeros(B * N * C), rig_zeros(B * C)};
    real *kept = rig_reals(selective_kept(&s));
    real *scratch = rig_reals(selective_scratch(&s));

    rig_normal(&r, u, ROWS * C);
    rig_normal(&r, of, ROWS * LD);
    rig_normal(&r, skip, C);
    rig_normal(&r, dy, ROWS * C);
    for (int i = 0; i < ROWS * C; i++)
        step[i] = (real)rng_uniform(&r);
    for (int i = 0; i < N * C; i++)
        rate[i] = -(real)rng_uniform(&r);
    for (int i = 0; i < ROWS; i++)          // between rows nothing is written
        dof[i * LD + 2 * N] = 0;
    for (int i = 0; i < B * C * N; i++)
        naive_selective(&s, dy, i / N / C, i / N % C, i % N, &w);
    naive_skip(&s, dy, &w);
    selective_forward(&s, y, kept);
    rig_assert_error("y", y, w.y, ROWS * C);
    selective_backward(&s, &g, dy, kept, scratch);
    rig_assert_error("du", du, w.du, ROWS * C);
    rig_assert_error("dstep", dstep, w.dstep, ROWS * C);
    rig_assert_error("din and dout", dof, d_of, ROWS * LD);
    rig_assert_error("drate", drate, w.drate, B * N * C);
    rig_assert_error("dskip", dskip, w.dskip, B * C);
    rig_poison(y, ROWS * C * sizeof *y);
    for (int b = 0; b < B; b++)
        stream_selective(&s, b, y);
    rig_assert_error("y streamed", y, w.y, ROWS * C);
    free(u), free(step), free(of), free(rate), free(skip), free(dy), free(y), free(du);
    free(dstep), free(dof), free(drate), free(dskip), free(kept), free(scratch);
    free(w.y), free(w.du), free(w.dstep), free(d_of), free(w.drate), free(w.dskip);
}
END_TEST

START_TEST(powers_of_two_are_good_to_the_last_digits)
{
    double worst = 0;

    for (int i = 0; i < 1260000; i++) {
        real x = (real)(-1e-4 * i);

        worst = fmax(worst, fabs(vexp2(x) / exp2(x) - 1));
    }
    ck_assert_msg(worst < 3e-7, "relative error %.3g", worst);
    ck_assert(vexp2(0) == 1);
    ck_assert(vexp2(-2000) == 0 && vexp2(-(real)INFINITY) == 0);
    ck_assert(isnan(vexp2((real)NAN)));
}
END_TEST

/* ---- qlstm ------------------------------------------------------------------------- */

/* Rows of the forget gate change sign. */
static void negate_forget(struct layer *l, real *wg, real *bg)
{
    size_t e = weights_count(l, "convb");

    for (size_t i = 0; i < e * e; i++)
        wg[i] = -wg[i];
    for (size_t i = 0; i < e; i++)
        bg[i] = -bg[i];
}

START_TEST(a_reversed_qlstm_with_negated_rows_is_the_plain_one)
{
    struct layer plain, back;
    int          wg, bg;

    open_layer(&plain, "qlstm", 12, 70);
    open_layer(&back, "qlstm(reversed=1)", 12, 70);
    wg = layer_param(&back, "wg"), bg = layer_param(&back, "bg");
    memcpy(back.w, plain.w, plain.n_w * sizeof(real));
    memcpy(back.x, plain.x, plain.n_x * sizeof(real));
    memcpy(back.dy, plain.dy, plain.n_x * sizeof(real));
    set(&back, "a", 0, 0, 1);
    negate_forget(&back, back.wp[wg], back.wp[bg]);
    layer_forward(&plain);
    layer_backward(&plain);
    layer_forward(&back);
    layer_backward(&back);
    negate_forget(&back, back.dwp[wg], back.dwp[bg]);
    layer_assert_near(&back, "y", back.y, plain.y, plain.n_x);
    layer_assert_near(&back, "dx", back.dx, plain.dx, plain.n_x);
    layer_assert_near(&back, "dw", back.dw, plain.dw, plain.n_w);
    layer_close(&plain);
    layer_close(&back);
}
END_TEST

START_TEST(a_negative_power_forgets_nothing_and_has_no_gradient)
{
    struct layer  l;
    struct system s;

    open_layer(&l, "qlstm(reversed=1)", 12, 40);
    set(&l, "a", 0, 0, -0.5);
    layer_forward(&l);
    layer_backward(&l);
    system_open(&s, &l);
    ck_assert(s.L[0] == 1);
    assert_system(&l);
    ck_assert(*l.dwp[layer_param(&l, "a")] == 0);
    system_close(&s);
    layer_close(&l);
}
END_TEST

/* Ten tokens fill the state. Then f = 1 and i = 0, and one token repeated: once the
 * convolution holds nothing else, outputs are constant, and not those of
 * an empty state. */
START_TEST(a_qlstm_that_neither_forgets_nor_writes_is_frozen)
{
    static const int seq[] = {0};
    struct layer     l;

    open_layer(&l, "qlstm", 12, 60);
    size_t e = weights_count(&l, "convb"), C = 12, last = l.n_x - C;

    for (size_t i = 11 * C; i < l.n_x; i++)
        l.x[i] = l.x[i - C];
    layer_extend(&l, seq, 1, 10);
    set(&l, "wg", 0, 2 * e * e, 0);
    set(&l, "bg", 0, e, 2000);
    set(&l, "bg", e, 2 * e, -2000);
    for (int t = 10; t < 60; t++)
        layer_extend(&l, seq, 1, 1);
    layer_assert_bits(&l, "frozen output", l.y + 14 * C, l.y + last, C);
    for (size_t i = 0; i < C; i++)
        ck_assert(fabs(l.y[last + i]) > 1e-6);
    layer_close(&l);
}
END_TEST

/* ---- rglru ------------------------------------------------------------------------- */

/* y = h, u = x, i = 1 and one constant a per channel: the recurrence alone. */
static void open_bare_rglru(struct layer *l, int T)
{
    open_layer(l, "rglru", 12, T);
    set(l, "wy", 0, 0, 0);
    set(l, "by", 0, 0, 100);                   // gelu(100) = 100
    set_identity(l, "wx");
    set(l, "bx", 0, 0, 0);
    set_no_conv(l);
    set(l, "wa", 0, 0, 0);
    set(l, "wi", 0, 0, 0);
    set(l, "bi", 0, 0, 100);
    set_identity(l, "wo");
    scale(l, "wo", 0, 0, 0.01);
    memset(l->x, 0, l->n_x * sizeof(real));
    for (int i = 0; i < 12; i++)
        weights_of(l, "lam")[i] = (real)(0.5 * i - 5);
}

/* White noise of variance 1 comes out with variance 1: the squares of the response to a
 * unit impulse sum to (1 - a²) (1 + a² + a⁴ + ...) = 1. */
START_TEST(rglru_preserves_variance_with_decays_between_0_and_1)
{
    struct layer l;

    open_bare_rglru(&l, 4000);
    for (int i = 0; i < 12; i++)
        l.x[5 * 12 + i] = 1;
    layer_forward(&l);
    for (int i = 0; i < 12; i++) {
        double first = l.y[5 * 12 + i], a = l.y[6 * 12 + i] / first, energy = 0;

        for (int t = 0; t < 4000; t++)
            energy += (double)l.y[t * 12 + i] * l.y[t * 12 + i];
        ck_assert_msg(a > 0 && a < 1, "channel %d: a = %g", i, a);
        ck_assert_msg(fabs(first * first + a * a - 1) < 1e-5,
                      "channel %d: a² + b² = %.7g", i, first * first + a * a);
        ck_assert_msg(fabs(energy - 1) < 1e-4, "channel %d: energy %.7g", i, energy);
    }
    layer_close(&l);
}
END_TEST

START_TEST(the_first_token_of_rglru_enters_unscaled)
{
    struct layer l;

    open_bare_rglru(&l, 3);
    for (int i = 0; i < 12; i++)
        l.x[i] = (real)(i - 4);
    layer_forward(&l);
    layer_assert_near(&l, "y of the first token", l.y, l.x, 12);
    layer_close(&l);
}
END_TEST

/* ---- mingru ------------------------------------------------------------------------ */

START_TEST(mingru_never_leaves_the_range_of_its_candidates)
{
    struct layer  l;
    struct system s;

    open_layer(&l, "mingru", 12, 500);
    scale(&l, "wz", 0, 0, 20);
    scale(&l, "wh", 0, 0, 5);
    set_identity(&l, "wo");
    layer_forward(&l);
    system_open(&s, &l);
    for (int c = 0; c < 12; c++) {
        double most = 0;

        for (int t = 0; t < 500; t++) {
            most = fmax(most, fabs(s.u[t * 12 + c]));
            ck_assert_msg(fabs(l.y[t * 12 + c]) <= most * (1 + 1e-6),
                          "channel %d, token %d: %.9g after candidates up to %.9g", c, t,
                          (double)l.y[t * 12 + c], most);
        }
    }
    system_close(&s);
    layer_close(&l);
}
END_TEST

/* ---- s6 ---------------------------------------------------------------------------- */

/* All channels of a head get the step and the rate of its first. */
static void share_in_heads(struct layer *l, int e, int heads)
{
    int   N = (int)weights_count(l, "alog") / e, R = (int)weights_count(l, "wdt") / e;
    real *alog = weights_of(l, "alog"), *wdt = weights_of(l, "wdt");
    real *bdt = weights_of(l, "bdt");

    for (int c = 0; c < e; c++) {
        int first = c / (e / heads) * (e / heads);

        memmove(wdt + (size_t)c * R, wdt + (size_t)first * R, R * sizeof *wdt);
        bdt[c] = bdt[first];
        for (int n = 0; n < N; n++)
            alog[(size_t)c * N + n] = alog[(size_t)first * N];
    }
}

/* ssd in its closed form, times the gate: o_t is the sum over j <= t of
 * e^{A (s_{j+1} + ... + s_t)} (C_t . B_j) s_j u_j. */
static double ssd_output(const struct system *s, int t, int c)
{
    const int N = s->N;
    size_t    at = (size_t)t * s->e + c;
    double    o = s->D[c] * s->u[at], decay = 1;

    for (int j = t; j >= 0; j--) {
        size_t k = (size_t)j * s->e + c;
        double dot = 0;

        for (int n = 0; n < N; n++)
            dot += s->C[at * N + n] * s->B[k * N + n];
        o += decay * dot * s->u[k];
        decay *= s->L[k * N];
    }
    return s->gate[at] * o;
}

START_TEST(s6_with_one_step_and_rate_per_head_is_ssd)
{
    struct layer  l;
    struct system s;

    open_layer(&l, "s6(state=8)", 12, 150);
    share_in_heads(&l, 24, 3);
    layer_forward(&l);
    system_open(&s, &l);
    double *v = malloc((size_t)s.T * s.e * sizeof *v);

    for (int i = 0; i < s.T * s.e; i++)
        v[i] = ssd_output(&s, i / s.e, i % s.e);
    assert_output(&l, v, s.e);
    free(v);
    system_close(&s);
    layer_close(&l);
}
END_TEST

START_TEST(s6_without_a_step_is_its_skip_path)
{
    struct layer  l;
    struct system s;

    open_layer(&l, "s6", 12, 50);
    set(&l, "wdt", 0, 0, 0);
    set(&l, "bdt", 0, 0, -2000);
    layer_forward(&l);
    system_open(&s, &l);
    double *v = malloc((size_t)s.T * s.e * sizeof *v);

    for (int i = 0; i < s.T * s.e; i++)
        v[i] = s.gate[i] * s.D[i % s.e] * s.u[i];
    assert_output(&l, v, s.e);
    free(v);
    system_close(&s);
    layer_close(&l);
}
END_TEST

/* Only the convolution remembers, three tokens. */
START_TEST(s6_with_a_large_step_forgets_everything)
{
    struct layer l;

    open_layer(&l, "s6", 12, 50);
    set(&l, "bdt", 0, 0, 1e4);
    layer_forward(&l);
    real *y = layer_copy(l.y, l.n_x);

    for (int i = 0; i < 10 * 12; i++)
        l.x[i] += 1;
    layer_forward(&l);
    layer_assert_bits(&l, "outputs after a reset", l.y + 13 * 12, y + 13 * 12, 37 * 12);
    ck_assert(memcmp(l.y + 12 * 12, y + 12 * 12, 12 * sizeof *y));
    free(y);
    layer_close(&l);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("scan");
    TCase *tc = tcase_create("elementwise recurrences");

    tcase_add_loop_test(tc, a_layer_is_the_dynamical_system_it_says, 0, N_ENTRIES);
    tcase_add_loop_test(tc, extreme_gates_stay_finite_and_right_over_8192_tokens, 0,
                        N_ENTRIES);
    tcase_add_test(tc, a_scan_equals_the_recurrence_in_double);
    tcase_add_test(tc, a_selective_scan_equals_the_recurrence_in_double);
    tcase_add_test(tc, powers_of_two_are_good_to_the_last_digits);
    tcase_add_test(tc, a_reversed_qlstm_with_negated_rows_is_the_plain_one);
    tcase_add_test(tc, a_negative_power_forgets_nothing_and_has_no_gradient);
    tcase_add_test(tc, a_qlstm_that_neither_forgets_nor_writes_is_frozen);
    tcase_add_test(tc, rglru_preserves_variance_with_decays_between_0_and_1);
    tcase_add_test(tc, the_first_token_of_rglru_enters_unscaled);
    tcase_add_test(tc, mingru_never_leaves_the_range_of_its_candidates);
    tcase_add_test(tc, s6_with_one_step_and_rate_per_head_is_ssd);
    tcase_add_test(tc, s6_without_a_step_is_its_skip_path);
    tcase_add_test(tc, s6_with_a_large_step_forgets_everything);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
