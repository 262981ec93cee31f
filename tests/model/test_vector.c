/* What must hold for linear attention with a decay per channel, and for gla
 * and metala on it. */
#include "tests/support/layer.h"
#include "tests/support/rig.h"
#include "tests/support/systems.h"

#include "model/cores/scalar.h"
#include "model/cores/vector.h"
#include "model/kernels/vmath.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the core beside its definition in double -------------------------------------- */

/* Inputs, results and gradients of the core, and the same by the recurrence. One row
 * a token, heads next to each other, no gaps. */
struct core {
    struct vector c;
    size_t  nk, nv;                     // elements of q, k, g and of v, o
    real   *q, *k, *g, *v, *o, *d_o, *dq, *dk, *dg, *dv, *kept, *scratch;
    double *want_o, *want_dq, *want_dk, *want_dg, *want_dv;
};

static void core_open(struct core *t, int T, int H, int dk, int dv)
{
    struct rng r = rng_open(8, RNG_TEST, 0);
    size_t     nk = (size_t)2 * T * H * dk, nv = (size_t)2 * T * H * dv;

    *t = (struct core){.nk = nk, .nv = nv};
    t->q = rig_reals(nk), t->k = rig_reals(nk), t->g = rig_reals(nk),
        t->v = rig_reals(nv);
    t->dq = rig_reals(nk), t->dk = rig_reals(nk), t->dg = rig_reals(nk),
        t->dv = rig_reals(nv);
    t->o = rig_reals(nv), t->d_o = rig_reals(nv);
    rig_normal(&r, t->q, nk);
    rig_normal(&r, t->k, nk);
    rig_normal(&r, t->v, nv);
    rig_normal(&r, t->d_o, nv);
    t->c = (struct vector){.B = 2, .T = T, .H = H, .dk = dk, .dv = dv, .q = t->q,
                           .k = t->k, .v = t->v, .g = t->g, .scale = 1 / (real)sqrt(dk)};
    t->c.ld_q = t->c.ld_k = t->c.ld_g = (size_t)H * dk;
    t->c.ld_v = t->c.ld_o = (size_t)H * dv;
    t->kept = rig_reals(vector_kept(&t->c));
    t->scratch = aligned_alloc(64, (vector_scratch(&t->c) * sizeof(real) + 63) / 64 * 64);
    t->want_o = calloc(nv, sizeof(double)), t->want_dv = calloc(nv, sizeof(double));
    t->want_dq = calloc(nk, sizeof(double)), t->want_dk = calloc(nk, sizeof(double));
    t->want_dg = calloc(nk, sizeof(double));
}

static void core_close(struct core *t)
{
    free(t->q), free(t->k), free(t->g), free(t->v), free(t->o), free(t->d_o);
    free(t->dq), free(t->dk), free(t->dg), free(t->dv), free(t->kept), free(t->scratch);
    free(t->want_o), free(t->want_dq), free(t->want_dk), free(t->want_dg),
        free(t->want_dv);
}

static void core_run(struct core *t)
{
    size_t             ld = t->c.ld_q;
    struct vector_grad d = {t->dq, t->dk, t->dv, t->dg, ld, ld, t->c.ld_v, ld};

    vector_forward(&t->c, t->o, t->kept);
    vector_backward(&t->c, &d, t->d_o, t->kept, t->scratch);
}

/* One head, from row `at`: states S (T + 1, dk, dv) forward, G backward. */
static void define_head(struct core *t, size_t row, int h, double *S, double *G)
{
    int    T = t->c.T, dk = t->c.dk, dv = t->c.dv, n = dk * dv;
    double scale = t->c.scale;

    memset(S, 0, n * sizeof *S);
    memset(G, 0, n * sizeof *G);
    for (int x = 0; x < T; x++, S += n) {
        size_t K = ((row + x) * t->c.H + h) * dk, V = ((row + x) * t->c.H + h) * dv;

        for (int i = 0; i < n; i++) {
            S[n + i] = exp(t->g[K + i / dv]) * S[i] +
                       (double)t->k[K + i / dv] * t->v[V + i % dv];
            t->want_o[V + i % dv] += scale * t->q[K + i / dv] * S[n + i];
        }
    }
    for (int x = T - 1; x >= 0; x--, S -= n) {
        size_t K = ((row + x) * t->c.H + h) * dk, V = ((row + x) * t->c.H + h) * dv;

        for (int i = 0; i < n; i++) {
            double a = exp(t->g[K + i / dv]), u = t->d_o[V + i % dv];

            G[i] += scale * t->q[K + i / dv] * u;
            t->want_dq[K + i / dv] += scale * S[i] * u;
            t->want_dk[K + i / dv] += G[i] * t->v[V + i % dv];
            t->want_dv[V + i % dv] += G[i] * t->k[K + i / dv];
            t->want_dg[K + i / dv] += a * S[i - n] * G[i];
            G[i] *= a;
        }
    }
}

static void core_define(struct core *t)
{
    size_t  n = (size_t)t->c.dk * t->c.dv;
    double *S = malloc((t->c.T + 1) * n * sizeof *S), *G = malloc(n * sizeof *G);

    for (int b = 0; b < t->c.B; b++)
        for (int h = 0; h < t->c.H; h++)
            define_head(t, (size_t)b * t->c.T, h, S, G);
    free(S);
    free(G);
}

/* Closer than golden vectors must be: digits that a form loses show here. */
static void assert_digits(const char *what, const char *of, const real *a,
                          const double *b, size_t n)
{
    double limit = sizeof(real) == sizeof(double) ? 1e-12 : 5e-6,
           error = rig_error(a, b, n);

    ck_assert_msg(error <= limit, "%s: %s: error %.3g, limit %.1g", what, of,
                  error, limit);
}

static void core_assert(struct core *t, const char *what)
{
    core_run(t);
    core_define(t);
    assert_digits(what, "o", t->o, t->want_o, t->nv);
    assert_digits(what, "dq", t->dq, t->want_dq, t->nk);
    assert_digits(what, "dk", t->dk, t->want_dk, t->nk);
    assert_digits(what, "dv", t->dv, t->want_dv, t->nv);
    assert_digits(what, "dg", t->dg, t->want_dg, t->nk);
}

/* Decays as they can occur. Each draws from `level`, for a token and channel, or, with
 * `run`, for that many tokens of a channel. */
static const struct {
    const char *what;
    double      level[8];
    int         n, run;
} kinds[] = {
    {"no decay",            {0},                                    1, 0},
    {"slow decay",          {-1e-7, -1e-5, -1e-3},                  3, 0},
    {"ordinary decay",      {-0.01, -0.05, -0.3},                   3, 0},
    {"strong decay",        {-5, -10, -15},                         3, 0},
    {"all at once",         {0, -1e-6, -0.04, -1, -10, -50, -1e4},  7, 0},
    {"long runs of each",   {0, -1e-6, -0.04, -1, -10, -50, -1e4},  7, 90},
    {"nothing or a wipe",   {0, 0, 0, -INFINITY},                   4, 0},
};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

static void draw_decays(struct core *t, int kind)
{
    struct rng r = rng_open(9, RNG_TEST, (uint64_t)kind);
    size_t     ld = t->c.ld_g;

    for (size_t i = 0; i < t->nk; i++) {
        bool again = kinds[kind].run && i / ld % kinds[kind].run;

        t->g[i] = again ? t->g[i - ld]
                        : (real)kinds[kind].level[rng_below(&r, kinds[kind].n)];
    }
}

START_TEST(chunks_compute_the_recurrence)
{
    static const int shape[][4] = {{2, 2, 6, 5}, {16, 1, 4, 4}, {17, 2, 3, 7},
                                   {150, 3, 8, 12},
                                   {200, 1, 70, 9}, {129, 1, 130, 3}};

    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        struct core t;

        core_open(&t, shape[i][0], shape[i][1], shape[i][2], shape[i][3]);
        draw_decays(&t, _i);
        core_assert(&t, kinds[_i].what);
        core_close(&t);
    }
}
END_TEST

START_TEST(thousands_of_tokens_lose_no_digits)
{
    struct core t;

    core_open(&t, 8192, 1, 4, 4);
    draw_decays(&t, _i);
    core_assert(&t, kinds[_i].what);
    core_close(&t);
}
END_TEST

START_TEST(one_channel_may_forget_at_once)
{
    struct core t;

    core_open(&t, 150, 2, 6, 5);
    for (size_t i = 0; i < t.nk; i++)
        t.g[i] = (real)(i % 6 == 2 ? -50 : -0.04);
    core_assert(&t, "a channel at -50");
    core_close(&t);
}
END_TEST

/* ---- special cases of the core ----------------------------------------------------- */

START_TEST(without_decay_it_is_plain_linear_attention)
{
    struct core t;

    core_open(&t, 150, 1, 6, 5);
    memset(t.g, 0, t.nk * sizeof *t.g);
    core_run(&t);
    for (int x = 0; x < 300; x++)
        for (int y = x / 150 * 150; y <= x; y++) {
            double s = 0;

            for (int j = 0; j < 6; j++)
                s += (double)t.q[x * 6 + j] * t.k[y * 6 + j];
            for (int j = 0; j < 5; j++)
                t.want_o[x * 5 + j] += s * t.v[y * 5 + j] / sqrt(6);
        }
    rig_assert_error("o", t.o, t.want_o, t.nv);
    core_close(&t);
}
END_TEST

/* dlog_f of the scalar core sums dg over channels. */
static void sum_channels(const struct core *t, double *sum)
{
    for (size_t i = 0; i < t->nk; i++)
        sum[i / t->c.dk] += t->dg[i];
}

START_TEST(a_decay_shared_by_all_channels_is_a_scalar_decay)
{
    struct core t;

    core_open(&t, 150, 2, 6, 5);
    size_t  n = t.nk / 6;
    real   *f = rig_reals(n), *df = rig_reals(n);
    double *sum = calloc(n, sizeof *sum);

    for (size_t i = 0; i < n; i++)
        f[i] = (real)(-0.1 * (double)(1 + i % 7));
    for (size_t i = 0; i < t.nk; i++)
        t.g[i] = f[i / 6];
    core_run(&t);
    sum_channels(&t, sum);

    struct scalar s = {.B = 2, .T = 150, .H = 2, .dk = 6, .dv = 5, .q = t.q, .k = t.k,
                       .v = t.v, .ld_q = 12, .ld_k = 12, .ld_v = 10, .ld_o = 10,
                       .log_f = f, .ld_f = 2, .scale = t.c.scale};
    real *o = rig_reals(t.nv), *dq = rig_reals(t.nk), *dk = rig_reals(t.nk),
         *dv = rig_reals(t.nv);
    real *kept = rig_reals(scalar_kept(&s)), *scratch = rig_reals(scalar_scratch(&s));
    struct scalar_grad d = {.dq = dq, .dk = dk, .dv = dv, .ld_dq = 12, .ld_dk = 12,
                            .ld_dv = 10, .dlog_f = df, .ld_df = 2};

    scalar_forward(&s, o, kept);
    scalar_backward(&s, &d, NULL, t.d_o, kept, scratch);
    ck_assert_double_le(rig_error_real(t.o, o, t.nv), rig_tolerance());
    ck_assert_double_le(rig_error_real(t.dq, dq, t.nk), rig_tolerance());
    ck_assert_double_le(rig_error_real(t.dk, dk, t.nk), rig_tolerance());
    ck_assert_double_le(rig_error_real(t.dv, dv, t.nv), rig_tolerance());
    rig_assert_error("sum of dg", df, sum, n);
    free(f), free(df), free(sum), free(o), free(dq), free(dk), free(dv), free(kept),
        free(scratch);
    core_close(&t);
}
END_TEST

START_TEST(e_to_the_x_minus_one_keeps_its_digits)
{
    double limit = sizeof(real) == sizeof(double) ? 1e-15 : 3e-7;

    for (double x = 1e-12; x < 100; x *= 1.003) {
        double error = fabs((double)vexpm1((real)-x) / expm1((real)-x) - 1);

        ck_assert_msg(error <= limit, "expm1(-%g): error %.3g", x, error);
    }
    ck_assert(vexpm1(0) == 0);
    ck_assert(vexpm1(-INFINITY) == -1);
}
END_TEST

/* ---- gla --------------------------------------------------------------------------- */

static double silu(double x) { return x / (1 + exp(-x)); }

static void set(struct layer *l, const char *name, double to)
{
    int p = layer_param(l, name);

    for (size_t i = 0; i < param_size(&l->param[p]); i++)
        l->wp[p][i] = (real)to;
}

static void open_layer(struct layer *l, const char *entry, int B, int T)
{
    struct mixer_cfg c = layer_cfg(entry, 24, 2, T);

    layer_open(l, entry, &c, B, T, 13);
}

/* g = log sigmoid(z) / 16 must be retention's log(1 - 2^-(5+h)). */
static double retention_logit(int h)
{
    double p = pow(1 - exp2(-5 - h), 16);

    return log(p / (1 - p));
}

START_TEST(a_constant_decay_makes_gla_retention)
{
    struct layer a, b;

    open_layer(&a, "gla(dk=12)+rope", 2, 150);
    open_layer(&b, "retention+rope", 2, 150);
    memcpy(b.x, a.x, a.n_x * sizeof(real));
    memcpy(b.dy, a.dy, a.n_x * sizeof(real));
    for (int i = 0; i < b.n_param; i++)
        memcpy(b.wp[i], a.wp[layer_param(&a, b.param[i].name)],
               param_size(&b.param[i]) * sizeof(real));
    set(&a, "wa2", 0);
    for (int i = 0; i < 12; i++)
        a.wp[layer_param(&a, "ba")][i] = (real)retention_logit(i / 6);
    layer_forward(&a), layer_backward(&a);
    layer_forward(&b), layer_backward(&b);
    layer_assert_near(&a, "y", a.y, b.y, a.n_x);
    layer_assert_near(&a, "dx", a.dx, b.dx, a.n_x);
    for (int i = 0; i < b.n_param; i++)
        layer_assert_near(&a, b.param[i].name, a.dwp[layer_param(&a, b.param[i].name)],
                          b.dwp[i], param_size(&b.param[i]));
    layer_close(&a);
    layer_close(&b);
}
END_TEST

/* The same tokens from an empty state, started at position 0 and at position 140:
 * rotations cancel only if they commute with the decay. */
START_TEST(rotated_gla_does_not_see_where_it_starts)
{
    enum { N = 100, FROM = 140 };
    struct layer l;

    open_layer(&l, "gla+rope", 1, FROM + N);
    memcpy(l.x + FROM * 24, l.x, N * 24 * sizeof(real));
    set(&l, "ba", 0);
    layer_extend(&l, (int[]){0}, 1, N);
    memset(l.state[0], 0, l.sizes.state);
    l.pos[0] = FROM;
    layer_extend(&l, (int[]){0}, 1, N);
    layer_assert_near(&l, "y further on", l.y + FROM * 24, l.y, N * 24);
    layer_close(&l);
}
END_TEST

/* o of head h, before its norm, by S <- e^(g - i turn) S + k v for every pair (j, j + 3)
 * as a complex number: o_t = Re(sum of conj(q) S) / sqrt(dk). */
static void turn_head(const struct layer *l, int h, const double *q, const double *k,
                      const double *v, double *o)
{
    double complex S[3][12] = {{0}};

    for (int t = 0; t < l->T; t++)
        for (int j = 0; j < 3; j++) {
            int            at = t * 12 + h * 6 + j, out = t * 24 + h * 12;
            double         g = -log1p(exp(-l->wp[layer_param(l, "ba")][h * 3 + j])) / 16;
            double complex a = cexp(g - I * pow(1e4, -2.0 * j / 6));

            for (int c = 0; c < 12; c++) {
                S[j][c] = a * S[j][c] + (k[at] + I * k[at + 3]) * v[out + c];
                o[out + c] += creal((q[at] - I * q[at + 3]) * S[j][c]) / sqrt(6);
            }
        }
}

START_TEST(rotated_gla_is_a_complex_recurrence)
{
    struct layer l;

    open_layer(&l, "gla+rope", 1, 150);
    set(&l, "wa2", 0);
    double *q = layer_project(&l, "wq", 0), *k = layer_project(&l, "wk", 0);
    double *v = layer_project(&l, "wv", 0), *gate = layer_project(&l, "wg", 0);
    double *o = calloc(l.n_x, sizeof *o), *y;

    turn_head(&l, 0, q, k, v, o);
    turn_head(&l, 1, q, k, v, o);
    for (size_t i = 0; i < l.n_x; i += 12) {
        double mean = 0;

        for (int j = 0; j < 12; j++)
            mean += o[i + j] * o[i + j] / 12;
        for (int j = 0; j < 12; j++)
            o[i + j] *= (double)weights_of(&l, "norm")[j] / sqrt(mean + 1e-5) *
                        silu(gate[i + j]);
    }
    y = system_product(&l, "wo", 0, 24, 24, o, NULL);
    layer_forward(&l);
    rig_assert_error("y", l.y, y, l.n_x);
    free(q), free(k), free(v), free(gate), free(o), free(y);
    layer_close(&l);
}
END_TEST

/* Channels from no decay at all to forgetting at once. */
START_TEST(extreme_logits_of_gla_stay_finite)
{
    struct layer l;
    int          p;

    open_layer(&l, "gla", 2, 300);
    p = layer_param(&l, "ba");
    for (int i = 0; i < 12; i++)
        l.wp[p][i] = (real)(-1e4 * cos(i) * cos(i) * cos(i));
    layer_forward(&l);
    layer_backward(&l);
    layer_assert_results(&l);
    layer_close(&l);
}
END_TEST

/* ---- metala ------------------------------------------------------------------------ */

enum { C = 24, HEADS = 2, NK = 12, DK = 6, DV = 12 };

/* A metala whose convolution passes the current token on, so that u = silu(x). */
static void open_metala(struct layer *l, int T)
{
    open_layer(l, "metala", 1, T);
    set(l, "conv", 0);
    for (int i = 0; i < C; i++)
        l->wp[layer_param(l, "conv")][4 * i + 3] = 1;
}

static const real *state_of(const struct layer *l)
{
    return (const real *)l->state[0] + 3 * C;
}

/* Row i of a matrix times u of token t. */
static double row_of(const struct layer *l, const char *name, int i, int t)
{
    const real *w = l->wp[layer_param(l, name)] + i * C;
    double      sum = 0;

    for (int j = 0; j < C; j++)
        sum += (double)w[j] * silu(l->x[t * C + j]);
    return sum;
}

/* With v = 1 the state holds the sum of the weights of all tokens. The second time z is
 * about 8: a is so near 1 that k = 1 - a must not be computed as it stands. */
START_TEST(the_weights_of_metala_sum_to_what_was_forgotten)
{
    enum { T = 100 };
    double       want[NK * DV];
    struct layer l;

    open_metala(&l, T);
    set(&l, "wv", 0);
    for (int t = 0; t < T; t++)
        l.x[t * C + 1] = 1;
    for (int i = 0; i < HEADS * DV; i++)
        l.wp[layer_param(&l, "wv")][i * C + 1] = (real)(1 / silu(1));
    for (int i = 0; i < NK; i++)
        l.wp[layer_param(&l, "wa")][i * C + 1] += (real)(8 * _i / silu(1));
    layer_extend(&l, (int[]){0}, 1, T);
    for (int i = 0; i < NK; i++) {
        double log_a = 0;

        for (int t = 0; t < T; t++)
            log_a -= log1p(exp(-row_of(&l, "wa", i, t))) / 16;
        for (int j = 0; j < DV; j++)
            want[i * DV + j] = -expm1(log_a);
    }
    rig_assert_error("S", state_of(&l), want, NK * DV);
    layer_close(&l);
}
END_TEST

/* Channel 0 of x steers every decay: 0 leaves z = 0, above it z is huge, below
 * it far negative. */
static void steer(struct layer *l, int from, int to, double x)
{
    int p = layer_param(l, "wa");

    set(l, "wa", 0);
    for (int i = 0; i < NK; i++)
        l->wp[p][i * C] = (real)1e6;
    for (int t = from; t < to; t++)
        l->x[t * C] = (real)x;
}

START_TEST(metala_with_z_far_up_freezes_its_state)
{
    struct layer l;

    open_metala(&l, 150);
    steer(&l, 0, 40, 0);
    steer(&l, 40, 150, 2);
    layer_extend(&l, (int[]){0}, 1, 40);
    real *S = layer_copy(state_of(&l), NK * DV);

    layer_extend(&l, (int[]){0}, 1, 100);
    layer_assert_bits(&l, "S after 100 tokens", state_of(&l), S, NK * DV);
    layer_extend(&l, (int[]){0}, 1, 1);
    layer_assert_bits(&l, "S after one more", state_of(&l), S, NK * DV);
    free(S);
    layer_close(&l);
}
END_TEST

/* a = 0 and k = 1: every row of S is the last token's v. */
START_TEST(metala_with_z_far_down_wipes_its_state)
{
    enum { T = 150 };
    double       want[NK * DV];
    struct layer l;

    open_metala(&l, T);
    steer(&l, 0, T - 20, 0);
    steer(&l, T - 20, T, -1);
    layer_extend(&l, (int[]){0}, 1, T);
    for (int i = 0; i < NK; i++)
        for (int j = 0; j < DV; j++)
            want[i * DV + j] = row_of(&l, "wv", i / DK * DV + j, T - 1);
    rig_assert_error("S", state_of(&l), want, NK * DV);
    layer_close(&l);
}
END_TEST

START_TEST(the_augmentation_shows_in_y_and_not_in_the_state)
{
    struct layer l;

    open_metala(&l, 100);
    layer_extend(&l, (int[]){0}, 1, 100);
    real *S = layer_copy(state_of(&l), NK * DV), *y = layer_copy(l.y, l.n_x);

    set(&l, "aug", 3);
    layer_restart(&l);
    layer_extend(&l, (int[]){0}, 1, 100);
    layer_assert_bits(&l, "S", state_of(&l), S, NK * DV);
    ck_assert_double_gt(rig_error_real(l.y, y, l.n_x), 1e-3);
    free(S);
    free(y);
    layer_close(&l);
}
END_TEST

static void scale(struct layer *l, const char *name, double by)
{
    int p = layer_param(l, name);

    for (size_t i = 0; i < param_size(&l->param[p]); i++)
        l->wp[p][i] *= (real)by;
}

/* aug = 0 adds the constant 1/2, which the norm removes. */
START_TEST(without_augmentation_the_output_is_odd_in_q)
{
    struct layer l;

    open_metala(&l, 70);
    set(&l, "aug", 0);
    scale(&l, "wq", 100);
    layer_forward(&l);
    real *y = layer_copy(l.y, l.n_x);

    scale(&l, "wq", -1);
    layer_forward(&l);
    for (size_t i = 0; i < l.n_x; i++)
        y[i] = -y[i];
    layer_assert_near(&l, "y of -q", l.y, y, l.n_x);
    free(y);
    layer_close(&l);
}
END_TEST

/* Without its augmentation metala is what is left of one whose aug is 0, but for the
 * constant 1/2, which the norm takes away. */
START_TEST(metala_goes_without_augmentation_and_convolution)
{
    static const char *const entries[][2] = {
        {"metala(aug=0)", "metala"}, {"metala(aug=0,conv=0)", "metala(conv=0)"},
    };
    struct layer a, b;

    open_layer(&a, entries[_i][0], 1, 70);
    open_layer(&b, entries[_i][1], 1, 70);
    ck_assert_int_lt(layer_param(&a, "aug"), 0);
    ck_assert_int_eq(layer_param(&a, "conv") < 0, _i);
    memcpy(b.x, a.x, a.n_x * sizeof(real));
    memcpy(b.dy, a.dy, a.n_x * sizeof(real));
    set(&b, "aug", 0);
    for (int i = 0; i < a.n_param; i++)
        memcpy(b.wp[layer_param(&b, a.param[i].name)], a.wp[i],
               param_size(&a.param[i]) * sizeof(real));
    layer_forward(&a), layer_backward(&a);
    layer_forward(&b), layer_backward(&b);
    layer_assert_near(&a, "y", a.y, b.y, a.n_x);
    layer_assert_near(&a, "dx", a.dx, b.dx, a.n_x);
    for (int i = 0; i < a.n_param; i++)
        layer_assert_near(&a, a.param[i].name, a.dwp[i],
                          b.dwp[layer_param(&b, a.param[i].name)],
                          param_size(&a.param[i]));
    layer_close(&a);
    layer_close(&b);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("vector");
    TCase *tc = tcase_create("vector");

    tcase_add_loop_test(tc, chunks_compute_the_recurrence, 0, N_KINDS);
    tcase_add_loop_test(tc, thousands_of_tokens_lose_no_digits, 0, N_KINDS);
    tcase_add_test(tc, one_channel_may_forget_at_once);
    tcase_add_test(tc, without_decay_it_is_plain_linear_attention);
    tcase_add_test(tc, a_decay_shared_by_all_channels_is_a_scalar_decay);
    tcase_add_test(tc, e_to_the_x_minus_one_keeps_its_digits);
    tcase_add_test(tc, a_constant_decay_makes_gla_retention);
    tcase_add_test(tc, rotated_gla_does_not_see_where_it_starts);
    tcase_add_test(tc, rotated_gla_is_a_complex_recurrence);
    tcase_add_test(tc, extreme_logits_of_gla_stay_finite);
    tcase_add_loop_test(tc, the_weights_of_metala_sum_to_what_was_forgotten, 0, 2);
    tcase_add_loop_test(tc, metala_goes_without_augmentation_and_convolution, 0, 2);
    tcase_add_test(tc, metala_with_z_far_up_freezes_its_state);
    tcase_add_test(tc, metala_with_z_far_down_wipes_its_state);
    tcase_add_test(tc, the_augmentation_shows_in_y_and_not_in_the_state);
    tcase_add_test(tc, without_augmentation_the_output_is_odd_in_q);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
