/* What linear, luna, normattn and inline must satisfy beyond what every mixer does:
 * identities of their weights, and the same numbers as a recurrence in double over
 * long and extreme sequences. */
#include "model/mixer_instruments.h"
#include "tests/support/layer.h"
#include "tests/support/rig.h"

#include "model/layers/feature.h"
#include "model/layers/piecewise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { C = 16, HEADS = 2, E = C / HEADS };

/* A layer whose output is o itself: wo is the identity. Channel 0 of every token is
 * `level`. */
static void open_plain(struct layer *l, const char *entry, int T, double level)
{
    struct mixer_cfg c = layer_cfg(entry, C, HEADS, T);

    layer_open(l, entry, &c, 1, T, 3);
    real *wo = l->wp[layer_param(l, "wo")];

    for (int i = 0; i < C * C; i++)
        wo[i] = i / C == i % C;
    for (int t = 0; t < T; t++)
        l->x[t * C] = (real)level;
}

static real *weights(const struct layer *l, const char *name)
{
    return l->wp[layer_param(l, name)];
}

static void scale(const struct layer *l, const char *name, double by)
{
    int i = layer_param(l, name);

    for (size_t j = 0; j < param_size(&l->param[i]); j++)
        l->wp[i][j] *= (real)by;
}

/* The largest difference between y and what it was, by its largest value. */
static double change(const struct layer *l, const real *was)
{
    return rig_error_real(l->y, was, l->n_x);
}

/* ---- weights that sum to one ------------------------------------------------------- */

/* The first N_KERNELS have a kernel for weight, the next subtract, the last does not
 * divide by a sum. */
static const char *const entries[] = {
    "linear",
    "linear(heads=1,feature=relu)",
    "linear(feature=taylor)",
    "linear(feature=hedgehog)",
    "linear(feature=favor)",
    "linear(heads=1,feature=cosformer)",
    "linear(heads=4,decay=fixed)",
    "linear(decay=learned)",
    "luna",
    "inline(local=0)",
    "inline(local=0,feature=elu1)",
    "normattn",
};

enum { N_ENTRIES = sizeof entries / sizeof *entries, N_AVERAGING = N_ENTRIES - 1,
       N_KERNELS = N_AVERAGING - 2 };

START_TEST(equal_values_come_out_as_they_went_in)
{
    struct layer l;

    open_plain(&l, entries[_i], 150, 1);
    real *wv = weights(&l, "wv"), *want = rig_reals(l.n_x);

    for (int i = 0; i < C * C; i++)
        wv[i] = i % C ? 0 : (real)(1 + i / C);
    for (size_t i = 0; i < l.n_x; i++)
        want[i] = (real)(1 + i % C);
    layer_forward(&l);
    ck_assert_msg(change(&l, want) < 2e-5, "%s: off by %g", l.entry, change(&l, want));
    free(want);
    layer_close(&l);
}
END_TEST

START_TEST(the_first_token_returns_its_value)
{
    struct layer l;
    real         v[C] = {0};

    open_plain(&l, entries[_i], 1, 1);
    for (int i = 0; i < C * C; i++)
        v[i / C] += weights(&l, "wv")[i] * l.x[i % C];
    layer_forward(&l);
    ck_assert_msg(change(&l, v) < 2e-5, "%s: off by %g", l.entry, change(&l, v));
    layer_close(&l);
}
END_TEST

/* Channels 0 and 1 of x are the first two of every head's values and of nothing else. */
static void show_values(struct layer *l)
{
    memset(weights(l, "wv"), 0, C * C * sizeof(real));
    for (int i = 0; i < C; i++) {
        weights(l, "wq")[i * C] = weights(l, "wq")[i * C + 1] = 0;
        weights(l, "wk")[i * C] = weights(l, "wk")[i * C + 1] = 0;
        weights(l, "wv")[i * C + i % E] = i % E < 2;
    }
}

/* Only token 20 has a value: outputs are its weights. */
START_TEST(only_subtraction_gives_negative_weights)
{
    struct layer l;
    real         least = 0;

    open_plain(&l, entries[_i], 150, 0);
    show_values(&l);
    l.x[20 * C] = 1;
    layer_forward(&l);
    for (size_t i = 0; i < l.n_x; i += C) {
        least = l.y[i] < least ? l.y[i] : least;
        if (i < 20 * C && l.y[i] != 0)
            ck_abort_msg("%s: seen by token %zu", l.entry, i / C);
    }
    ck_assert_msg(_i < N_KERNELS ? least == 0 : least < (real)-1e-3, "%s: weight %g",
                  l.entry, (double)least);
    layer_close(&l);
}
END_TEST

/* ---- kernels are inner products ---------------------------------------------------- */

/* Whether M (n, n) has a Cholesky factor, to rounding; it takes M's place. */
static bool positive(double *M, int n)
{
    for (int j = 0; j < n; j++)
        for (int i = j; i < n; i++) {
            for (int k = 0; k < j; k++)
                M[i * n + j] -= M[i * n + k] * M[j * n + k];
            if (i == j && M[j * n + j] < -1e-5)
                return false;
            if (i == j)
                M[j * n + j] = sqrt(fmax(M[j * n + j], 1e-5));
            else
                M[i * n + j] /= M[j * n + j];
        }
    return true;
}

/* k(b, a) / k(b, b) of every pair of N tokens, each pair a sequence: the weights of its
 * second token are in this ratio. Keys and queries are alike. */
static void ratios(const char *entry, double *R, int N)
{
    struct mixer_cfg c = layer_cfg(entry, C, HEADS, 2);
    struct layer     l;

    layer_open(&l, entry, &c, N * N, 2, 3);
    real *token = layer_copy(l.x, (size_t)N * C);

    show_values(&l);
    memcpy(weights(&l, "wk"), weights(&l, "wq"), C * C * sizeof(real));
    memset(weights(&l, "wo"), 0, C * C * sizeof(real));
    weights(&l, "wo")[0] = weights(&l, "wo")[C + 1] = 1;
    for (int i = 0; i < N * N; i++) {
        real *pair = l.x + (size_t)i * 2 * C;

        memcpy(pair, token + i % N * C, C * sizeof *pair);
        memcpy(pair + C, token + i / N * C, C * sizeof *pair);
        pair[0] = pair[C + 1] = 1, pair[1] = pair[C] = 0;
    }
    layer_forward(&l);
    for (int i = 0; i < N * N; i++)
        R[i] = (double)l.y[(2 * i + 1) * C] / (double)l.y[(2 * i + 1) * C + 1];
    free(token);
    layer_close(&l);
}

static const char *const symmetric[] = {
    "linear", "linear(feature=taylor)", "linear(feature=favor)", "luna",
};

START_TEST(a_gram_matrix_is_symmetric_and_positive)
{
    enum { N = 8 };
    double R[N * N], M[N * N];

    ratios(symmetric[_i], R, N);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double there = R[i * N + j] * R[j * N] * R[i],
                   back = R[j * N + i] * R[i * N] * R[j];

            ck_assert_msg(fabs(there / back - 1) < 1e-4, "%s: %d, %d and 0: %g and %g",
                          symmetric[_i], i, j, there, back);
            M[i * N + j] = sqrt(R[i * N + j] * R[j * N + i]);
        }
    ck_assert_msg(positive(M, N), "%s: not positive", symmetric[_i]);
}
END_TEST

/* ---- what scaling and shifting do -------------------------------------------------- */

START_TEST(outputs_are_linear_in_the_values)
{
    struct layer l;

    open_plain(&l, entries[_i], 100, 1);
    real *wv = weights(&l, "wv"), *a = layer_copy(wv, C * C);

    layer_forward(&l);
    real *sum = layer_copy(l.y, l.n_x);

    for (int i = 0; i < C * C; i++)
        wv[i] = a[C * C - 1 - i];
    layer_forward(&l);
    for (size_t i = 0; i < l.n_x; i++)
        sum[i] += l.y[i];
    for (int i = 0; i < C * C; i++)
        wv[i] += a[i];
    layer_forward(&l);
    layer_assert_near(&l, "y of a sum of values", l.y, sum, l.n_x);
    free(a), free(sum);
    layer_close(&l);
}
END_TEST

START_TEST(only_subtraction_notices_the_length_of_a_query)
{
    static const char *const pair[] = {"linear(heads=1,feature=relu)",
                                       "inline(local=0)"};

    for (int i = 0; i < 2; i++) {
        struct layer l;

        open_plain(&l, pair[i], 100, 1);
        layer_forward(&l);
        real *y = layer_copy(l.y, l.n_x);

        scale(&l, "wq", 3);
        layer_forward(&l);
        ck_assert_msg(i ? change(&l, y) > 1e-2 : change(&l, y) < 1e-4,
                      "%s: changed by %g", l.entry, change(&l, y));
        free(y);
        layer_close(&l);
    }
}
END_TEST

START_TEST(the_scale_of_learned_features_cancels)
{
    struct layer l;

    open_plain(&l, "luna", 100, 1);
    layer_forward(&l);
    real *y = layer_copy(l.y, l.n_x);

    scale(&l, "f2", 1000);
    scale(&l, "f2b", 1000);
    layer_forward(&l);
    ck_assert_msg(change(&l, y) < 1e-4, "changed by %g", change(&l, y));
    free(y);
    layer_close(&l);
}
END_TEST

/* The same outputs, gradients and |L|: without subtraction and local term nothing is
 * left. */
START_TEST(inline_without_its_two_properties_is_linear_attention)
{
    struct range its[HEADS] = {{INFINITY, 0}, {INFINITY, 0}};
    struct range own[HEADS] = {{INFINITY, 0}, {INFINITY, 0}};
    struct layer a, b;

    open_plain(&a, "linear", 100, 1);
    open_plain(&b, "inline(feature=elu1,subtract=0,local=0)", 100, 1);
    ck_assert_int_eq(a.n_param, b.n_param);
    for (int i = 0; i < a.n_param; i++)
        memcpy(b.wp[i], a.wp[i], param_size(&a.param[i]) * sizeof(real));
    layer_forward(&a), layer_backward(&a);
    layer_forward(&b), layer_backward(&b);
    layer_assert_near(&b, "y", b.y, a.y, a.n_x);
    layer_assert_near(&b, "dx", b.dx, a.dx, a.n_x);
    for (int i = 0; i < a.n_param; i++)
        layer_assert_near(&b, a.param[i].name, b.dwp[i], a.dwp[i],
                          param_size(&a.param[i]));
    layer_forward(&a), layer_forward(&b);
    ck_assert_int_eq(mixer_decay(&a.mixer, its), mixer_decay(&b.mixer, own));
    for (int h = 0; h < a.cfg.H; h++) {
        ck_assert_double_eq_tol(own[h].lo, its[h].lo, rig_tolerance() * its[h].hi);
        ck_assert_double_eq_tol(own[h].hi, its[h].hi, rig_tolerance() * its[h].hi);
    }
    layer_close(&a);
    layer_close(&b);
}
END_TEST

/* normattn gives 0 without a query, inline the mean of the values. */
START_TEST(queries_move_outputs_in_proportion)
{
    static const char *const moved[] = {"normattn", "inline(local=0)"};
    struct layer l;

    open_plain(&l, moved[_i], 100, 1);
    layer_forward(&l);
    real *y = layer_copy(l.y, l.n_x);

    scale(&l, "wq", 3);
    layer_forward(&l);
    real *far = layer_copy(l.y, l.n_x);

    scale(&l, "wq", 0);
    layer_forward(&l);
    for (size_t i = 0; i < l.n_x; i++) {
        if (_i == 0 && l.y[i] != 0)
            ck_abort_msg("%g without a query", (double)l.y[i]);
        y[i] = l.y[i] + 3 * (y[i] - l.y[i]);
    }
    layer_assert_near(&l, "y of 3 q", far, y, l.n_x);
    free(y), free(far);
    layer_close(&l);
}
END_TEST

START_TEST(inline_ignores_a_shift_of_keys_and_passes_on_one_of_values)
{
    struct layer l;

    open_plain(&l, "inline(local=0)", 150, 1);
    layer_forward(&l);
    real *y = layer_copy(l.y, l.n_x);

    for (int i = 0; i < C; i++)
        weights(&l, "wk")[i * C] += (real)(30 + i);
    layer_forward(&l);
    ck_assert_msg(change(&l, y) < 1e-4, "a shift of keys: changed by %g", change(&l, y));
    for (int i = 0; i < C; i++)
        weights(&l, "wv")[i * C] += (real)(1 + i);
    for (size_t i = 0; i < l.n_x; i++)
        y[i] += (real)(1 + i % C);
    layer_forward(&l);
    ck_assert_msg(change(&l, y) < 1e-4, "a shift of values: off by %g", change(&l, y));
    free(y);
    layer_close(&l);
}
END_TEST

/* With fw = 1 and psi = relu, only the factor 1/m of the sum meets its epsilon. */
START_TEST(luna_can_be_linear_attention)
{
    struct layer a, b;

    open_plain(&a, "linear(heads=1,feature=relu)", 100, 1);
    open_plain(&b, "luna(heads=1,m=16,channels=1,hidden=2)", 100, 1);
    for (int i = 0; i < C * C; i++)
        weights(&b, "fw")[i] = i / C == i % C;
    memset(weights(&b, "fb"), 0, C * sizeof(real));
    memcpy(weights(&b, "f1"), (real[]){2, -1}, 2 * sizeof(real));
    memcpy(weights(&b, "f1b"), (real[]){0, -1e9}, 2 * sizeof(real));
    memcpy(weights(&b, "f2"), (real[]){0.5, 1}, 2 * sizeof(real));
    weights(&b, "f2b")[0] = 0;
    memcpy(b.w, a.w, 3 * C * C * sizeof(real));
    memcpy(b.x, a.x, a.n_x * sizeof(real));
    layer_forward(&a);
    layer_forward(&b);
    ck_assert_msg(change(&b, a.y) < 1e-4, "differs by %g", change(&b, a.y));
    layer_close(&a);
    layer_close(&b);
}
END_TEST

/* ---- decays and starts ------------------------------------------------------------- */

static const struct {
    int    heads;
    double left[4];
} fixed[] = {
    {1, {1}},
    {2, {0.875, 1}},
    {4, {0.5, 0.875, 0.96875, 1}},
};

/* The parameters of an entry as they begin; the caller frees *w[0]. */
static int begin(const char *entry, struct param *p, real **w)
{
    struct mixer_cfg c = layer_cfg(entry, C, 2, 64);
    int              n = mixer_params(&c, p);
    size_t           sum = 0;

    for (int i = 0; i < n; i++)
        sum += param_size(&p[i]);
    w[0] = rig_reals(sum);
    for (int i = 1; i < n; i++)
        w[i] = w[i - 1] + param_size(&p[i - 1]);
    mixer_init(&c, w, 3, 0);
    return n;
}

static real *begun(const char *name, const struct param *p, real *const *w, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(p[i].name, name))
            return w[i];
    ck_abort_msg("no parameter is called %s", name);
    return NULL;
}

START_TEST(fixed_decays_run_from_half_a_token_to_all_of_the_past)
{
    struct layer     l;
    char             entry[80];
    struct mixer_cfg c;
    struct range     r[4] = {{INFINITY, 0}, {INFINITY, 0}, {INFINITY, 0}, {INFINITY, 0}};

    snprintf(entry, sizeof entry, "linear(heads=%d,feature=id,normalise=0,decay=fixed)",
             fixed[_i].heads);
    c = layer_cfg(entry, C, 2, 40);
    layer_open(&l, entry, &c, 1, 40, 5);
    layer_forward(&l);
    ck_assert_int_eq(mixer_decay(&l.mixer, r), fixed[_i].heads);
    for (int h = 0; h < fixed[_i].heads; h++) {
        ck_assert_double_eq_tol(r[h].lo, fixed[_i].left[h], 1e-6);
        ck_assert_double_eq_tol(r[h].hi, fixed[_i].left[h], 1e-6);
    }
    layer_close(&l);
}
END_TEST

/* What never fades begins at 1 - 2^-10, where a gate still has a slope. */
START_TEST(learned_decays_begin_as_the_fixed_ones)
{
    static const char *const mixer[] = {"linear", "luna"};
    struct param             p[MIXER_PARAMS];
    real                    *w[MIXER_PARAMS], *wf, *bf;
    char                     entry[80];
    int                      n, H = fixed[_i / 2].heads;

    snprintf(entry, sizeof entry, "%s(heads=%d,decay=learned)", mixer[_i % 2], H);
    n = begin(entry, p, w);
    wf = begun("wf", p, w, n), bf = begun("bf", p, w, n);
    for (int i = 0; i < H * C; i++)
        ck_assert(wf[i] == 0);
    for (int h = 0; h < H; h++)
        ck_assert_double_eq_tol(1 / (1 + exp(-(double)bf[h])),
                                fmin(fixed[_i / 2].left[h], 1 - 1 / 1024.0), 1e-6);
    free(w[0]);
}
END_TEST

/* Channel l of psi as it begins. */
static double psi_at(const struct param *p, real *const *w, int n, int l, double u)
{
    const real *f1 = begun("f1", p, w, n), *f1b = begun("f1b", p, w, n),
               *f2 = begun("f2", p, w, n);
    double sum = begun("f2b", p, w, n)[l];

    for (int j = 0; j < 64; j++)
        sum += (double)f2[l * 64 + j] * fmax((double)f1[j] * u + (double)f1b[j], 0);
    return sum;
}

START_TEST(psi_can_begin_as_exponentials_and_none_of_its_features_is_dead)
{
    static const double rate[] = {1, -1, 0.5, -0.5};
    struct param        p[MIXER_PARAMS];
    real               *w[MIXER_PARAMS], *fw;
    int                 n = begin("luna(heads=1,psi=exp)", p, w);

    fw = begun("fw", p, w, n);
    for (int i = 0; i < C * C; i++)
        ck_assert(fw[i] == (i / C == i % C));
    for (int l = 0; l < 4; l++)
        for (double u = -10; u <= 10; u += 0.03125) {
            double got = psi_at(p, w, n, l, u), want = exp(rate[l] * u);

            ck_assert_msg(got > 0.04, "psi_%d(%g) is %g", l, u, got);
            if (fabs(u) < 3)
                ck_assert_msg(fabs(got / want - 1) < 0.006, "psi_%d(%g) is %g, not %g", l,
                              u, got, want);
        }
    free(w[0]);
}
END_TEST

/* ---- feature maps ------------------------------------------------------------------ */

static double inner(const real *a, const real *b, int n)
{
    double sum = 0;

    for (int j = 0; j < n; j++)
        sum += (double)a[j] * (double)b[j];
    return sum;
}

START_TEST(taylor_features_make_the_second_order_kernel)
{
    enum { N = 9, DK = 5, WIDE = 1 + DK + DK * (DK + 1) / 2 };
    struct rng     r = rng_open(1, RNG_TEST, 0);
    struct feature f = {FEATURE_TAYLOR, 1, N, 1, DK, WIDE, NULL, NULL, NULL, 0};
    real           z[N * DK], phi[N * WIDE];

    ck_assert_int_eq(feature_width(FEATURE_TAYLOR, DK, 0), WIDE);
    rig_normal(&r, z, N * DK);
    feature_forward(&f, phi, NULL, z, DK);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double s = inner(z + i * DK, z + j * DK, DK) / sqrt(DK);
            double got = inner(phi + i * WIDE, phi + j * WIDE, WIDE);

            ck_assert_double_lt(fabs(got - (1 + s + s * s / 2)), 1e-4);
        }
}
END_TEST

START_TEST(random_features_approach_the_exponential_kernel)
{
    enum { N = 6, DK = 8, WIDE = 8000 };
    struct rng     r = rng_open(2, RNG_TEST, 0);
    real          *w = rig_reals(WIDE * DK), *phi = rig_reals(2 * N * WIDE),
                  *other = phi + N * WIDE;
    real           z[N * DK], top[N];
    struct feature f = {FEATURE_FAVOR, 1, N, 1, DK, WIDE, w, NULL, NULL, 0};

    feature_draw(w, WIDE, DK, &r);
    rig_normal(&r, z, N * DK);
    for (int i = 0; i < N * DK; i++)
        z[i] *= (real)0.4;
    feature_forward(&f, phi, NULL, z, DK);
    feature_forward(&f, other, top, z, DK);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double want = exp(inner(z + i * DK, z + j * DK, DK) / sqrt(DK));
            double got = inner(phi + i * WIDE, phi + j * WIDE, WIDE);
            double same = inner(other + i * WIDE, other + j * WIDE, WIDE);

            ck_assert_double_lt(fabs(got / want - 1), 0.1);
            ck_assert_double_lt(
                fabs(same * exp((double)top[i] + (double)top[j]) / got - 1), 1e-4);
        }
    free(w), free(phi);
}
END_TEST

START_TEST(rows_of_a_projection_are_orthogonal_in_blocks_of_the_head_width)
{
    enum { DK = 8, WIDE = 20 };
    struct rng r = rng_open(3, RNG_TEST, 0);
    real       w[WIDE * DK];

    feature_draw(w, WIDE, DK, &r);
    for (int i = 0; i < WIDE; i++)
        for (int j = i - i % DK; j < i; j++)
            ck_assert_double_lt(fabs(inner(w + i * DK, w + j * DK, DK)), 1e-4);
}
END_TEST

/* psi and its gradients by the formula of the network, against the table of its pieces.
 * Two units do not depend on u, two share a knot. */
START_TEST(a_piecewise_psi_is_the_network)
{
    enum { L = 3, HID = 11, M = 20, N = 25 * M };
    struct rng        r = rng_open(4, RNG_TEST, 0);
    real              w[4][L * HID], d[4][L * HID] = {{0}}, u[N], psi[N * L], du[N],
                      dpsi[N * L];
    struct piecewise_net net = {w[0], w[1], w[2], w[3]}, dnet = {d[0], d[1], d[2], d[3]};

    for (int groups = 1; groups <= L; groups += L - 1) {
        struct piecewise p = {.groups = groups, .channels = L, .hidden = HID};
        real         *memory = rig_reals(piecewise_layout(&p, NULL));
        double       *sums, want[N * L], want_du[N] = {0}, want_d[4][L * HID] = {{0}};

        for (int i = 0; i < 4; i++)
            rig_normal(&r, w[i], L * HID);
        memset(d, 0, sizeof d);
        rig_normal(&r, u, N);
        rig_normal(&r, dpsi, N * L);
        w[0][2] = w[0][3] = 0, w[1][2] = 1, w[1][3] = -1;
        w[0][5] = -w[0][4], w[1][5] = -w[1][4];
        piecewise_layout(&p, memory);
        piecewise_build(&p, &net);
        sums = calloc(piecewise_sums(&p), sizeof *sums);
        piecewise_read(&p, psi, u, N / M, M);
        piecewise_back(&p, du, sums, dpsi, u, N / M, M);
        piecewise_weights(&p, &dnet, &net, sums);
        for (int i = 0; i < N * L; i++) {
            int    l = i / M % L, g = groups > 1 ? l : 0, n = i / M / L * M + i % M;
            double at = u[n], by = dpsi[i];

            want[i] = w[3][l];
            want_d[3][l] += by;
            for (int j = 0; j < HID; j++) {
                double f1 = w[0][g * HID + j], f2 = w[2][l * HID + j];
                double pre = f1 * at + (double)w[1][g * HID + j];

                if (pre <= 0)
                    continue;
                want[i] += f2 * pre;
                want_du[n] += by * f2 * f1;
                want_d[0][g * HID + j] += by * f2 * at;
                want_d[1][g * HID + j] += by * f2;
                want_d[2][l * HID + j] += by * pre;
            }
        }
        rig_assert_error("psi", psi, want, N * L);
        rig_assert_error("du", du, want_du, N);
        rig_assert_error("df1", d[0], want_d[0], (size_t)groups * HID);
        rig_assert_error("df1b", d[1], want_d[1], (size_t)groups * HID);
        rig_assert_error("df2", d[2], want_d[2], L * HID);
        rig_assert_error("df2b", d[3], want_d[3], L);
        free(sums), free(memory);
    }
}
END_TEST

/* ---- against a recurrence in double ------------------------------------------------ */

enum kind { ELU1, FAVOR, ID, NORMATTN, INLINE };

static const struct {
    const char *entry;
    enum kind   kind;
    double      size, level;        // of x, and of its channel 0
} long_runs[] = {
    {"linear", ELU1, 1, 1},
    {"linear", ELU1, 30, 100},
    {"linear(feature=favor,m=24)", FAVOR, 1, 1},
    {"linear(feature=favor,m=24)", FAVOR, 4, 3},
    {"linear(feature=id,normalise=0)", ID, 1, 1},
    {"linear(feature=id,normalise=0)", ID, 1e3, -1e3},
    {"normattn(eta=exp)+none", NORMATTN, 3, 1},
    {"inline(local=0)", INLINE, 1, 1},
    {"inline(local=0)", INLINE, 1, 1e3},
};

enum { N_LONG = sizeof long_runs / sizeof *long_runs, MOST = 24 };

/* phi of one head's q or k, (m). Returns m. favor is scaled by 2^100 against
 * underflow. */
static int map_one(enum kind kind, double *phi, const double *z, const real *proj)
{
    double half = 0;

    for (int j = 0; j < E; j++)
        half += z[j] * z[j] / sqrt(E) / 2;
    for (int j = 0; j < E && kind != FAVOR; j++)
        phi[j] = kind != ELU1 ? z[j] : z[j] < 0 ? exp(z[j]) : z[j] + 1;
    for (int i = 0; i < MOST && kind == FAVOR; i++) {
        phi[i] = -half;
        for (int j = 0; j < E; j++)
            phi[i] += (double)proj[i * E + j] * z[j] * pow(E, -0.25);
        phi[i] = exp(phi[i]) * 0x1p100;
    }
    return kind == FAVOR ? MOST : E;
}

/* One head's o (T, E) by the recurrence; for inline by that of means and covariance. */
static void recur(enum kind kind, const struct layer *l, double *o, const double *q,
                  const double *k, const double *v, int h)
{
    const real *proj = kind == FAVOR ? weights(l, "proj") : NULL;
    double      S[MOST][E] = {{0}}, n[MOST] = {0}, km[E] = {0}, vm[E] = {0};

    for (int t = 0; t < l->T; t++) {
        const double *qt = q + (size_t)t * C + h * E, *kt = k + (size_t)t * C + h * E;
        const double *vt = v + (size_t)t * C + h * E;
        double        fq[MOST], fk[MOST], den = 1e-6, *to = o + (size_t)t * C + h * E;
        int           m = map_one(kind, fq, qt, proj);

        map_one(kind, fk, kt, proj);
        memset(to, 0, E * sizeof *to);
        for (int i = 0; i < m; i++) {
            n[i] += fk[i];
            den += fq[i] * n[i];
            for (int j = 0; j < E; j++) {
                if (kind == INLINE)
                    S[i][j] = t / (t + 1.0) *
                              (S[i][j] + (fk[i] - km[i]) * (vt[j] - vm[j]) / (t + 1));
                else
                    S[i][j] += fk[i] * vt[j];
                to[j] += fq[i] * S[i][j];
            }
        }
        for (int j = 0; j < E; j++) {
            km[j] += (kt[j] - km[j]) / (t + 1);
            vm[j] += (vt[j] - vm[j]) / (t + 1);
            to[j] = kind == ELU1 || kind == FAVOR ? to[j] / den
                  : to[j] / sqrt(E) + (kind == INLINE ? vm[j] : 0);
        }
    }
}

/* What follows the sum in linear with normalise = 0, and in normattn. */
static void finish(enum kind kind, const struct layer *l, double *o)
{
    double *z = kind == NORMATTN ? layer_project(l, "wn", 0) : NULL;

    for (size_t i = 0; i < l->n_x; i += E) {
        double mean = 0;

        for (int j = 0; j < E; j++)
            mean += o[i + j] * o[i + j] / E;
        for (int j = 0; j < E && kind == ID; j++)
            o[i + j] *= (double)weights(l, "norm")[j] / sqrt(mean + 1e-5);
        for (int j = 0; j < E && kind == NORMATTN; j++)
            o[i + j] *= exp(-z[i / E] - (double)weights(l, "bn")[i / E % HEADS]);
    }
    free(z);
}

START_TEST(long_and_extreme_sequences_follow_the_recurrence)
{
    enum kind    kind = long_runs[_i].kind;
    const int    all[] = {0};
    struct layer l;

    open_plain(&l, long_runs[_i].entry, 8192, long_runs[_i].level);
    for (size_t i = 0; i < l.n_x; i++)
        l.x[i] *= i % C ? (real)long_runs[_i].size : 1;
    double *q = layer_project(&l, "wq", 0), *k = layer_project(&l, "wk", 0);
    double *v = layer_project(&l, "wv", 0), *want = calloc(l.n_x, sizeof *want);

    for (int h = 0; h < HEADS; h++)
        recur(kind, &l, want, q, k, v, h);
    finish(kind, &l, want);
    layer_forward(&l);
    rig_assert_error("o over 8192 tokens", l.y, want, l.n_x);
    layer_backward(&l);
    layer_assert_results(&l);
    layer_restart(&l);
    while (l.pos[0] < l.T)
        layer_extend(&l, all, 1, l.pos[0] < 4000 ? 1000 : l.pos[0] < 4010 ? 1 : 4182);
    rig_assert_error("o streamed", l.y, want, l.n_x);
    free(q), free(k), free(v), free(want);
    layer_close(&l);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("linear attention");
    TCase *tc = tcase_create("linear attention");

    tcase_add_loop_test(tc, equal_values_come_out_as_they_went_in, 0, N_AVERAGING);
    tcase_add_loop_test(tc, the_first_token_returns_its_value, 0, N_AVERAGING);
    tcase_add_loop_test(tc, only_subtraction_gives_negative_weights, 0, N_KERNELS + 1);
    tcase_add_loop_test(tc, a_gram_matrix_is_symmetric_and_positive, 0,
                        sizeof symmetric / sizeof *symmetric);
    tcase_add_loop_test(tc, outputs_are_linear_in_the_values, 0, N_ENTRIES);
    tcase_add_test(tc, only_subtraction_notices_the_length_of_a_query);
    tcase_add_test(tc, the_scale_of_learned_features_cancels);
    tcase_add_test(tc, inline_without_its_two_properties_is_linear_attention);
    tcase_add_loop_test(tc, queries_move_outputs_in_proportion, 0, 2);
    tcase_add_test(tc, inline_ignores_a_shift_of_keys_and_passes_on_one_of_values);
    tcase_add_test(tc, luna_can_be_linear_attention);
    tcase_add_loop_test(tc, fixed_decays_run_from_half_a_token_to_all_of_the_past, 0,
                        sizeof fixed / sizeof *fixed);
    tcase_add_loop_test(tc, learned_decays_begin_as_the_fixed_ones, 0,
                        2 * sizeof fixed / sizeof *fixed);
    tcase_add_test(tc, psi_can_begin_as_exponentials_and_none_of_its_features_is_dead);
    tcase_add_test(tc, taylor_features_make_the_second_order_kernel);
    tcase_add_test(tc, random_features_approach_the_exponential_kernel);
    tcase_add_test(tc, rows_of_a_projection_are_orthogonal_in_blocks_of_the_head_width);
    tcase_add_test(tc, a_piecewise_psi_is_the_network);
    tcase_add_loop_test(tc, long_and_extreme_sequences_follow_the_recurrence, 0, N_LONG);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
