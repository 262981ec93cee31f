/* Norms, SwiGLU, rotations, short convolutions, biases, steps, elementary functions, each
 * against its formula in double. */
#include "tests/support/rig.h"

#include "data/base/rng.h"
#include "model/kernels/arena.h"
#include "model/kernels/vec.h"
#include "model/kernels/vmath.h"
#include "model/layers/bias.h"
#include "model/layers/conv.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"
#include "model/layers/rotate.h"
#include "model/layers/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void reset(void) { rig_seed(5); }

/* ---- norm -------------------------------------------------------------------------- */

static const struct {
    struct norm o;
    int         rows, gap;          // gap: reals between rows
} norms[] = {
    {{1, 24, true, (real)1e-5}, 1, 0},
    {{1, 7, false, (real)1e-6}, 3, 2},
    {{4, 6, true, (real)1e-5}, 100, 11},
    {{3, 5, false, (real)1e-5}, 40, 4},
};

enum { N_NORMS = sizeof norms / sizeof *norms };

/* One group by the formula: y, dx and what it adds to dw. */
static void norm_group(const struct norm *o, const real *x, const real *w, const real *dy,
                       double *y, double *dx, double *dw)
{
    double r = 0, mean = 0;

    for (int j = 0; j < o->e; j++)
        r += (double)x[j] * (double)x[j] / o->e;
    r = 1 / sqrt(r + (double)o->eps);
    for (int j = 0; j < o->e; j++)
        mean += (double)w[j] * (double)dy[j] * r * (double)x[j] / o->e;
    for (int j = 0; j < o->e; j++) {
        y[j] = r * (double)x[j] * (double)w[j];
        dx[j] = r * ((double)w[j] * (double)dy[j] - r * (double)x[j] * mean);
        dw[j] += (double)dy[j] * r * (double)x[j];
    }
}

START_TEST(a_norm_is_its_formula_in_place_or_not)
{
    const struct norm *o = &norms[_i].o;
    int     width = o->groups * o->e, ld = width + norms[_i].gap, rows = norms[_i].rows;
    size_t  n = (size_t)rows * ld, n_w = (size_t)(o->shared ? o->e : width);
    real   *x = rig_normals(n), *dy = rig_normals(n), *w = rig_normals(n_w);
    real   *y = rig_normals(n), *dx = rig_normals(n);
    real   *dw = calloc(n_w, sizeof *dw), *partial = rig_reals(norm_partial(o));
    double *want = rig_zeros(n), *want_dx = rig_zeros(n), *sum_dx = rig_zeros(n);
    double *want_dw = rig_zeros(n_w);

    for (size_t i = 0; i < n; i++)          // the gaps must stay as they are
        want[i] = y[i], want_dx[i] = dy[i], sum_dx[i] = dx[i];
    for (int i = 0; i < rows; i++)
        for (int g = 0; g < o->groups; g++) {
            int at_x = i * ld + g * o->e, at_w = o->shared ? 0 : g * o->e;

            norm_group(o, x + at_x, w + at_w, dy + at_x, want + at_x, want_dx + at_x,
                       want_dw + at_w);
            for (int j = at_x; j < at_x + o->e; j++)
                sum_dx[j] += want_dx[j];
        }
    rms_forward(o, y, ld, x, ld, w, rows);
    rig_assert_error("y", y, want, n);
    rms_backward(o, dx, ld, 1, dw, dy, ld, x, ld, w, rows, partial);
    rig_assert_error("dx added", dx, sum_dx, n);
    rig_assert_error("dw", dw, want_dw, n_w);
    rms_backward(o, dy, ld, 0, dw, dy, ld, x, ld, w, rows, partial);
    rig_assert_error("dx in place of dy", dy, want_dx, n);
    for (size_t j = 0; j < n_w; j++)
        want_dw[j] *= 2;
    rig_assert_error("dw added", dw, want_dw, n_w);
    memcpy(y, x, n * sizeof *y);
    rms_forward(o, y, ld, y, ld, w, rows);
    for (int i = 0; i < rows; i++)
        rig_assert_error("y in place of x", y + i * ld, want + i * ld, width);
    free(x), free(dy), free(w), free(y), free(dx), free(dw), free(partial);
    free(want), free(want_dx), free(sum_dx), free(want_dw);
}
END_TEST

START_TEST(the_norm_of_zeros_is_zero_and_finite)
{
    struct norm o = {1, 8, true, (real)1e-5};
    real        x[8] = {0}, w[8], y[8], dy[8], dx[8], dw[8] = {0}, partial[64 * 8];

    ck_assert_uint_le(norm_partial(&o), sizeof partial / sizeof *partial);
    for (int i = 0; i < 8; i++)
        w[i] = dy[i] = 1;
    rms_forward(&o, y, 8, x, 8, w, 1);
    rms_backward(&o, dx, 8, 0, dw, dy, 8, x, 8, w, 1, partial);
    for (int i = 0; i < 8; i++)
        ck_assert_msg(y[i] == 0 && dw[i] == 0 && isfinite(dx[i]), "%g %g %g",
                      (double)y[i], (double)dw[i], (double)dx[i]);
}
END_TEST

/* ---- SwiGLU ------------------------------------------------------------------------ */

static double silu(double z)
{
    return z / (1 + exp(-z));
}

static double silu_slope(double z)
{
    double s = 1 / (1 + exp(-z));

    return s * (1 + z * (1 - s));
}

/* Row x (C) to z (2h) = wgu x and y (C). */
static void mlp_row(const real *x, const real *wgu, const real *wd, int C, int h,
                    double *z, double *y)
{
    memset(z, 0, 2 * h * sizeof *z);
    memset(y, 0, C * sizeof *y);
    for (int i = 0; i < 2 * h; i++)
        for (int j = 0; j < C; j++)
            z[i] += (double)wgu[i * C + j] * (double)x[j];
    for (int j = 0; j < C; j++)
        for (int i = 0; i < h; i++)
            y[j] += (double)wd[j * h + i] * silu(z[i]) * z[h + i];
}

/* Gradients of one row: dx =, dwgu += and dwd +=. */
static void mlp_row_back(const real *x, const real *wgu, const real *wd, const real *dy,
                         int C, int h, const double *z, double *dx, double *dwgu,
                         double *dwd)
{
    for (int i = 0; i < h; i++) {
        double da = 0, dg, du;

        for (int j = 0; j < C; j++) {
            da += (double)dy[j] * (double)wd[j * h + i];
            dwd[j * h + i] += (double)dy[j] * silu(z[i]) * z[h + i];
        }
        dg = da * z[h + i] * silu_slope(z[i]);
        du = da * silu(z[i]);
        for (int j = 0; j < C; j++) {
            dx[j] += dg * (double)wgu[i * C + j] + du * (double)wgu[(h + i) * C + j];
            dwgu[i * C + j] += dg * (double)x[j];
            dwgu[(h + i) * C + j] += du * (double)x[j];
        }
    }
}

START_TEST(swiglu_is_its_formula)
{
    static const int sizes[][3] = {{1, 8, 12}, {7, 5, 3}, {300, 12, 20}};    // rows, C, h
    int     n = sizes[_i][0], C = sizes[_i][1], h = sizes[_i][2];
    size_t  n_x = (size_t)n * C, hC = (size_t)h * C;
    real   *x = rig_normals(n_x), *dy = rig_normals(n_x), *wgu = rig_normals(2 * hC);
    real   *wd = rig_normals(hC);
    real   *y = rig_reals(n_x), *dx = rig_reals(n_x), *gu = rig_reals((size_t)n * 2 * h);
    real   *scratch = rig_reals((size_t)n * h);
    real   *dwgu = calloc(2 * hC, sizeof *dwgu), *dwd = calloc(hC, sizeof *dwd);
    double *z = rig_zeros(2 * h), *want = rig_zeros(n_x), *want_dx = rig_zeros(n_x);
    double *want_dwgu = rig_zeros(2 * hC), *want_dwd = rig_zeros(hC);
    struct mlp m = {C, h, wgu, wd, gu, scratch};

    for (int i = 0; i < n; i++) {
        mlp_row(x + i * C, wgu, wd, C, h, z, want + i * C);
        mlp_row_back(x + i * C, wgu, wd, dy + i * C, C, h, z, want_dx + i * C, want_dwgu,
                     want_dwd);
    }
    mlp_forward(&m, y, x, n);
    rig_assert_error("y", y, want, n_x);
    mlp_open_backward(&m, n);
    mlp_backward_rows(&m, dx, dy, 0, (int)n);
    #pragma omp parallel
    mlp_backward_weights(&m, dwgu, dwd, dy, x, n);
    rig_assert_error("dx", dx, want_dx, n_x);
    rig_assert_error("dwgu", dwgu, want_dwgu, 2 * hC);
    rig_assert_error("dwd", dwd, want_dwd, hC);
    free(x), free(dy), free(wgu), free(wd), free(y), free(dx), free(gu), free(scratch);
    free(dwgu), free(dwd), free(z), free(want), free(want_dx);
    free(want_dwgu), free(want_dwd);
}
END_TEST

/* ---- rotations --------------------------------------------------------------------- */

enum { RB = 2, RT = 40, RA = 2, RZ = 6, RDK = 8, RLD = 60, HALF = RDK / 2 };

/* Angles (RB, RT, RA, HALF) at random; dtheta zero. */
static struct angles some_angles(double **theta)
{
    size_t        n = (size_t)RB * RT * RA * HALF;
    struct angles a = {RA, RDK, RT * RA * HALF, RA * HALF, HALF,
                       rig_reals(n), rig_reals(n), calloc(n, sizeof(real))};

    *theta = rig_zeros(n);
    for (size_t i = 0; i < n; i++) {
        (*theta)[i] = 10 * rng_normal(&rig_stream);
        a.cos[i] = (real)cos((*theta)[i]);
        a.sin[i] = (real)sin((*theta)[i]);
    }
    return a;
}

/* z as complex pairs times e^(sign i theta); head h takes the angles of h RA / RZ. */
static void turn(double *out, const real *z, const double *theta, int sign)
{
    for (int i = 0; i < RB * RT * RZ * HALF; i++) {
        int    j = i % HALF, h = i / HALF % RZ, bt = i / HALF / RZ;
        int    lo = bt * RLD + h * RDK + j;
        double t = sign * theta[(bt * RA + h * RA / RZ) * HALF + j];

        out[lo] = cos(t) * (double)z[lo] - sin(t) * (double)z[lo + HALF];
        out[lo + HALF] = sin(t) * (double)z[lo] + cos(t) * (double)z[lo + HALF];
    }
}

START_TEST(rotation_turns_pairs_and_its_gradient_turns_them_back)
{
    enum { ROWS = RB * RT, N = ROWS * RLD };
    double       *theta, *want = rig_zeros(N), *back = rig_zeros(N);
    double       *want_dtheta = rig_zeros(ROWS * RA * HALF);
    struct angles a = some_angles(&theta);
    real         *z = rig_normals(N), *dz = rig_normals(N);

    for (int i = 0; i < N; i++)
        want[i] = z[i], back[i] = dz[i];
    turn(want, z, theta, 1);
    turn(back, dz, theta, -1);
    for (int i = 0; i < ROWS * RZ * HALF; i++) {
        int j = i % HALF, h = i / HALF % RZ, bt = i / HALF / RZ;
        int lo = bt * RLD + h * RDK + j;

        want_dtheta[(bt * RA + h * RA / RZ) * HALF + j] +=
            (double)dz[lo + HALF] * want[lo] - (double)dz[lo] * want[lo + HALF];
    }
    rotate(&a, z, RB, RT, RZ, RLD);
    rig_assert_error("z", z, want, N);
    rotate_back(&a, z, dz, RB, RT, RZ, RLD, RLD);
    rig_assert_error("dz", dz, back, N);
    rig_assert_error("dtheta", a.dtheta, want_dtheta, ROWS * RA * HALF);
    free(theta), free(want), free(back), free(want_dtheta), free(z), free(dz);
    free(a.cos), free(a.sin), free(a.dtheta);
}
END_TEST

START_TEST(without_angles_nothing_rotates)
{
    struct angles none = {0};
    real          z[8] = {1, 2, 3, 4, 5, 6, 7, 8}, same[8];

    memcpy(same, z, sizeof z);
    rotate(&none, z, 1, 1, 1, 8);
    rotate_back(&none, z, z, 1, 1, 1, 8, 8);
    ck_assert(!memcmp(z, same, sizeof z));
}
END_TEST

/* ---- more channels than are worked on at once -------------------------------------- */

enum { WB = 2, WT = 7, WIDE = 150, LDX = WIDE + 3, LDY = WIDE + 5 };

static void naive_conv(const struct conv *o, const real *x, double *z)
{
    for (int i = 0; i < WB * WT * WIDE; i++) {
        int c = i % WIDE, t = i / WIDE % WT, row = i / WIDE;

        z[i] = o->b ? (double)o->b[c] : 0;
        for (int j = 0; j < CONV_TAPS; j++)
            if (t - 3 + j >= 0)
                z[i] += (double)o->w[c * CONV_TAPS + j] *
                        (double)x[(row - 3 + j) * LDX + c];
    }
}

static void naive_conv_back(const struct conv *o, const real *x, const double *dz,
                            double *dx, double *dw, double *db)
{
    for (int i = 0; i < WB * WT * WIDE; i++) {
        int c = i % WIDE, t = i / WIDE % WT, row = i / WIDE;

        db[c] += dz[i];
        for (int j = 0; j < CONV_TAPS; j++)
            if (t - 3 + j >= 0) {
                dw[c * CONV_TAPS + j] += dz[i] * (double)x[(row - 3 + j) * LDX + c];
                dx[(row - 3 + j) * LDX + c] += dz[i] * (double)o->w[c * CONV_TAPS + j];
            }
    }
}

/* y of pieces of `step` tokens, to the rows of whole sequences. */
static void stream_conv(const struct conv *o, int step, real *y, const real *x)
{
    real *state = calloc(WB * (conv_state(o) + 1), sizeof *state);
    void *states[WB] = {state, state + conv_state(o) + 1};
    real *in = rig_reals(WB * WT * LDX), *out = rig_reals(WB * WT * LDY);

    for (int t = 0; t < WT; t += step) {
        struct conv part = *o;

        part.T = WT - t < step ? WT - t : step;
        for (int b = 0; b < WB; b++)
            memcpy(in + b * part.T * LDX, x + (b * WT + t) * LDX,
                   part.T * LDX * sizeof *in);
        conv_extend(&part, states, 1, out, in);
        for (int b = 0; b < WB; b++)
            for (int i = 0; i < part.T; i++)
                memcpy(y + (b * WT + t + i) * LDY, out + (b * part.T + i) * LDY,
                       WIDE * sizeof *y);
    }
    free(state), free(in), free(out);
}

START_TEST(a_short_convolution_is_its_formula)
{
    enum { N = WB * WT * WIDE, N_X = WB * WT * LDX, N_Y = WB * WT * LDY };
    const bool  silued = _i, bias = _i;
    real       *x = rig_normals(N_X), *w = rig_normals(WIDE * CONV_TAPS);
    real       *b = rig_normals(WIDE), *y = rig_normals(N_Y), *dy = rig_normals(N_Y);
    real       *dx = rig_normals(N_X), *dw = calloc(WIDE * CONV_TAPS, sizeof *dw);
    real       *db = calloc(WIDE, sizeof *db), *streamed = rig_reals(N_Y);
    double     *z = rig_zeros(N), *dz = rig_zeros(N), *want = rig_zeros(N_Y);
    double     *want_dx = rig_zeros(N_X), *want_dw = rig_zeros(WIDE * CONV_TAPS);
    double     *want_db = rig_zeros(WIDE);
    struct conv o = {WB, WT, WIDE, LDX, LDY, w, bias ? b : NULL, silued};

    naive_conv(&o, x, z);
    for (int i = 0; i < N_Y; i++)           // the gaps must stay as they are
        want[i] = y[i];
    for (int i = 0; i < N_X; i++)
        want_dx[i] = i % LDX < WIDE ? 0 : dx[i];
    for (int i = 0; i < N; i++) {
        int at = i / WIDE * LDY + i % WIDE;

        want[at] = silued ? silu(z[i]) : z[i];
        dz[i] = (double)dy[at] * (silued ? silu_slope(z[i]) : 1);
    }
    naive_conv_back(&o, x, dz, want_dx, want_dw, want_db);
    conv_forward(&o, y, x);
    rig_assert_error("y", y, want, N_Y);
    for (int step = 1; step <= WT; step++) {
        for (int i = 0; i < N_Y; i++)
            streamed[i] = i % LDY < WIDE ? (real)NAN : y[i];
        stream_conv(&o, step, streamed, x);
        rig_assert_error("y streamed", streamed, want, N_Y);
    }
    conv_backward(&o, dx, dw, bias ? db : NULL, dy, x);
    rig_assert_error("dx", dx, want_dx, N_X);
    rig_assert_error("dw", dw, want_dw, WIDE * CONV_TAPS);
    if (bias)
        rig_assert_error("db", db, want_db, WIDE);
    free(x), free(w), free(b), free(y), free(dy), free(dx), free(dw), free(db);
    free(streamed), free(z), free(dz), free(want), free(want_dx), free(want_dw);
    free(want_db);
}
END_TEST

START_TEST(a_bias_is_added_to_rows_and_gathers_them)
{
    enum { N = WT * WIDE };
    real   *y = rig_normals(N), *b = rig_normals(WIDE), *db = rig_normals(WIDE);
    double *want = rig_zeros(N), *want_db = rig_zeros(WIDE);

    for (int j = 0; j < WIDE; j++)
        want_db[j] = db[j];
    for (int i = 0; i < N; i++) {
        want_db[i % WIDE] += y[i];
        want[i] = (double)y[i] + (double)b[i % WIDE];
    }
    bias_backward(db, y, WT, WIDE);
    rig_assert_error("db", db, want_db, WIDE);
    bias_forward(y, b, WT, WIDE);
    rig_assert_error("y", y, want, N);
    free(y), free(b), free(db), free(want), free(want_db);
}
END_TEST

/* Without a decay; with one, and only its gradient; with both. */
START_TEST(a_step_in_time_is_its_formula)
{
    enum { N = WT * WIDE };
    const bool  decays = _i > 0, also = _i != 1;
    real       *z = rig_normals(WT * LDX), *b = rig_normals(WIDE);
    real       *alog = rig_normals(WIDE), *s = rig_reals(N), *log_a = rig_reals(N);
    real       *ds = rig_normals(N), *dlog_a = rig_normals(N);
    real       *dz = rig_normals(WT * LDX);
    real       *db = calloc(WIDE, sizeof *db), *dalog = calloc(WIDE, sizeof *dalog);
    double     *want_s = rig_zeros(N), *want_a = rig_zeros(N), *want_db = rig_zeros(WIDE);
    double     *want_dz = rig_zeros(WT * LDX), *want_dalog = rig_zeros(WIDE);
    struct step o = {WT, WIDE, LDX, b, decays ? alog : NULL};

    for (int i = 0; i < WT * LDX; i++)
        want_dz[i] = dz[i];
    for (int i = 0; i < N; i++) {
        int    j = i % WIDE, at = i / WIDE * LDX + j;
        double in = (double)z[at] + (double)b[j];
        double rate = decays ? exp((double)alog[j]) : 0;

        want_s[i] = log1p(exp(in));
        want_a[i] = -rate * want_s[i];
        want_dz[at] = ((also ? (double)ds[i] : 0) - rate * (double)dlog_a[i]) /
                      (1 + exp(-in));
        want_db[j] += want_dz[at];
        want_dalog[j] += want_a[i] * (double)dlog_a[i];
    }
    step_forward(&o, s, log_a, z);
    rig_assert_error("s", s, want_s, N);
    step_backward(&o, dz, db, dalog, also ? ds : NULL, dlog_a, s, log_a);
    rig_assert_error("dz", dz, want_dz, WT * LDX);
    rig_assert_error("db", db, want_db, WIDE);
    if (decays) {
        rig_assert_error("log a", log_a, want_a, N);
        rig_assert_error("dalog", dalog, want_dalog, WIDE);
    }
    free(z), free(b), free(alog), free(s), free(log_a), free(ds), free(dlog_a), free(dz);
    free(db), free(dalog), free(want_s), free(want_a), free(want_db), free(want_dz);
    free(want_dalog);
}
END_TEST

/* ---- elementary functions ---------------------------------------------------------- */

static double true_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static const struct {
    const char *name;
    real      (*got)(real);
    double    (*want)(double);
    double      from, to;
} functions[] = {
    {"exp", vexp, exp, -87, 88},
    {"exp near 0", vexp, exp, -1e-3, 1e-3},
    {"tanh", vtanh, tanh, -20, 20},
    {"tanh near 0", vtanh, tanh, -1e-3, 1e-3},
    {"sigmoid", vsigmoid, true_sigmoid, -80, 80},
};

START_TEST(an_elementary_function_is_libms)
{
    enum { STEPS = 200000 };
    double limit = sizeof(real) == sizeof(double) ? 1e-15 : 3e-7;

    for (int i = 0; i <= STEPS; i++) {
        real   x = (real)(functions[_i].from
                          + (functions[_i].to - functions[_i].from) * i / STEPS);
        double want = functions[_i].want((double)x), got = (double)functions[_i].got(x);

        if (!(fabs(got - want) <= limit * fabs(want)))
            ck_abort_msg("%s(%.9g) is %.9g, not %.9g", functions[_i].name, (double)x, got,
                         want);
    }
}
END_TEST

START_TEST(elementary_functions_keep_their_limits)
{
    ck_assert(vexp(-INFINITY) == 0 && vexp(INFINITY) == INFINITY);
    ck_assert(vexp(-1e30) == 0 && vexp(1e30) == INFINITY);
    ck_assert(vexp(0) == 1 && vtanh(0) == 0 && vsigmoid(0) == (real)0.5);
    ck_assert(vtanh(INFINITY) == 1 && vtanh(-INFINITY) == -1);
    ck_assert(vsigmoid(INFINITY) == 1 && vsigmoid(-INFINITY) == 0);
    ck_assert(isnan(vexp(NAN)) && isnan(vtanh(NAN)) && isnan(vsigmoid(NAN)));
}
END_TEST

START_TEST(pages_come_aligned_and_zero)
{
    size_t bytes = 3 * 1000 * 1000 + 17;
    char  *p = pages_alloc(bytes);

    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq((uintptr_t)p % 64, 0);
    for (size_t i = 0; i < bytes; i++)
        if (p[i])
            ck_abort_msg("byte %zu is %d", i, p[i]);
    memset(p, 1, bytes);
    pages_free(p, bytes);
}
END_TEST

/* Of some pages and of so many that they are given back, from the middle of a page on. */
START_TEST(pages_are_copied_and_cleared_whole)
{
    size_t bytes = (_i ? (size_t)65 << 20 : 300 << 10) + 77, all = 2 * bytes + 100;
    char  *p = pages_reserve(all), *from = p + 100, *to = from + bytes, left = 0;

    ck_assert_ptr_nonnull(p);
    memset(p, 1, 100);
    from[0] = from[70000] = from[bytes - 1] = 2;
    to[0] = to[140000] = to[bytes - 1] = 3;
    pages_copy(to, from, bytes);
    ck_assert_int_eq(memcmp(to, from, bytes), 0);
    pages_clear(from, bytes);
    for (size_t i = 0; i < bytes; i++)
        left |= from[i];
    ck_assert_int_eq(left, 0);
    ck_assert_int_eq(p[99], 1);
    ck_assert_int_eq(to[0] + to[70000] + to[bytes - 1], 6);
    pages_free(p, all);
}
END_TEST

START_TEST(sums_of_many_vectors_have_the_bits_of_each_alone)
{
    struct rng draw = rng_open((uint64_t)_i, RNG_TEST, 0);
    vec        x[LANES], copy[LANES], sums;

    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < LANES; j++)
            x[i][j] = i == 1 ? -(real)0 : (real)rng_normal(&draw);
    memcpy(copy, x, sizeof x);
    sums = vec_sums(copy);
    for (int i = 0; i < LANES; i++) {
        real one = vec_sum(x[i]), among = sums[i];

        ck_assert_mem_eq(&one, &among, sizeof one);
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("numeric");
    TCase *tc = tcase_create("numeric");

    tcase_add_checked_fixture(tc, reset, NULL);
    tcase_add_loop_test(tc, a_norm_is_its_formula_in_place_or_not, 0, N_NORMS);
    tcase_add_test(tc, the_norm_of_zeros_is_zero_and_finite);
    tcase_add_loop_test(tc, swiglu_is_its_formula, 0, 3);
    tcase_add_test(tc, rotation_turns_pairs_and_its_gradient_turns_them_back);
    tcase_add_test(tc, without_angles_nothing_rotates);
    tcase_add_loop_test(tc, a_short_convolution_is_its_formula, 0, 2);
    tcase_add_test(tc, a_bias_is_added_to_rows_and_gathers_them);
    tcase_add_loop_test(tc, a_step_in_time_is_its_formula, 0, 3);
    tcase_add_loop_test(tc, an_elementary_function_is_libms, 0,
                        sizeof functions / sizeof *functions);
    tcase_add_test(tc, elementary_functions_keep_their_limits);
    tcase_add_loop_test(tc, sums_of_many_vectors_have_the_bits_of_each_alone, 0, 20);
    tcase_add_test(tc, pages_come_aligned_and_zero);
    tcase_add_loop_test(tc, pages_are_copied_and_cleared_whole, 0, 2);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
