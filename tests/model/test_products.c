/* Products and the loss, each against its formula in double. */
#include "tests/support/rig.h"

#include "model/kernels/arena.h"
#include "model/kernels/product.h"
#include "model/layers/loss.h"
#include "model/layers/mlp.h"

#include <math.h>
#include <omp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void reset(void) { rig_seed(5); }

/* ---- products ---------------------------------------------------------------------- */

/* Rows, in and out: decoding, ragged tiles, several tiles both ways. */
static const int shapes[][3] = {
    {1, 1, 1},   {1, 24, 40},  {3, 5, 7},     {8, 33, 70},    {9, 33, 70},
    {31, 16, 1}, {33, 7, 400}, {300, 24, 40}, {1100, 10, 20}, {70, 20, 900},
    {5, 33, 70}, {17, 500, 9}, {1030, 390, 70},
};

enum { N_SHAPES = sizeof shapes / sizeof *shapes };

START_TEST(a_linear_layer_is_its_sum)
{
    int     n = shapes[_i][0], in = shapes[_i][1], out = shapes[_i][2];
    real   *x = rig_normals((size_t)n * in), *w = rig_normals((size_t)out * in);
    real   *y = rig_reals((size_t)n * out);
    double *want = rig_zeros((size_t)n * out);

    for (int i = 0; i < n; i++)
        for (int o = 0; o < out; o++)
            for (int j = 0; j < in; j++)
                want[i * out + o] += (double)x[i * in + j] * (double)w[o * in + j];
    product_forward(y, x, w, n, in, out);
    rig_assert_error("y", y, want, (size_t)n * out);
    free(x), free(w), free(y), free(want);
}
END_TEST

START_TEST(gradients_of_a_linear_layer_are_their_sums)
{
    int     n = shapes[_i][0], in = shapes[_i][1], out = shapes[_i][2];
    size_t  n_x = (size_t)n * in, n_w = (size_t)out * in;
    real   *x = rig_normals(n_x), *w = rig_normals(n_w);
    real   *dy = rig_normals((size_t)n * out);
    real   *dx = rig_normals(n_x), *fresh = rig_reals(n_x), *dw = rig_normals(n_w);
    double *want_dx = rig_zeros(n_x), *sum_dx = rig_zeros(n_x), *want_dw = rig_zeros(n_w);

    for (size_t i = 0; i < n_w; i++)
        want_dw[i] = dw[i];
    for (int i = 0; i < n; i++)
        for (int o = 0; o < out; o++)
            for (int j = 0; j < in; j++) {
                want_dx[i * in + j] += (double)dy[i * out + o] * (double)w[o * in + j];
                want_dw[o * in + j] += (double)dy[i * out + o] * (double)x[i * in + j];
            }
    for (size_t i = 0; i < n_x; i++)
        sum_dx[i] = (double)dx[i] + want_dx[i];
    product_backward(dx, 1, dw, dy, x, w, n, in, out);
    rig_assert_error("dx added", dx, sum_dx, n_x);
    rig_assert_error("dw added", dw, want_dw, n_w);
    product_backward(fresh, 0, NULL, dy, x, w, n, in, out);
    rig_assert_error("dx alone", fresh, want_dx, n_x);
    free(x), free(w), free(dy), free(dx), free(fresh), free(dw);
    free(want_dx), free(sum_dx), free(want_dw);
}
END_TEST

/* y, dx and dw of one shape on this many threads, in one array. */
static real *on_threads(int threads, int n, int in, int out)
{
    size_t n_y = (size_t)n * out, n_x = (size_t)n * in, n_w = (size_t)out * in;
    real  *all = calloc(n_y + n_x + n_w, sizeof *all);

    reset();
    real *x = rig_normals(n_x), *w = rig_normals(n_w), *dy = rig_normals(n_y);

    omp_set_num_threads(threads);
    product_forward(all, x, w, n, in, out);
    product_backward(all + n_y, 0, all + n_y + n_x, dy, x, w, n, in, out);
    free(x), free(w), free(dy);
    return all;
}

START_TEST(threads_change_no_bit_of_a_product)
{
    int    n = shapes[_i][0], in = shapes[_i][1], out = shapes[_i][2];
    int    threads = omp_get_max_threads();
    size_t all = (size_t)n * out + (size_t)n * in + (size_t)out * in;
    real  *one = on_threads(1, n, in, out), *three = on_threads(3, n, in, out);
    real  *many = on_threads(16, n, in, out);

    omp_set_num_threads(threads);
    ck_assert_msg(!memcmp(one, three, all * sizeof *one) &&
                  !memcmp(one, many, all * sizeof *one), "%d x %d x %d", n, in, out);
    free(one), free(three), free(many);
}
END_TEST

/* Rows, C and h. */
static const int laid_shapes[][3] = {{100, 70, 130}, {400, 33, 420}, {1030, 390, 70}};
enum { N_LAID = sizeof laid_shapes / sizeof *laid_shapes };

/* An MLP over rows x (n, C) whose tiles are taken one after the other: y and dx (n, C),
 * then what a product and its gradients with wgu give, (n, 2h) and (n, C), all in one
 * array; and how many of the five matrices of its tiles were laid out. */
static real *by_tiles(int n, int C, int h, int *laid)
{
    size_t n_x = (size_t)n * C, n_w = (size_t)h * C, n_gu = (size_t)n * 2 * h;
    real  *all = rig_reals(3 * n_x + n_gu), *gu = rig_reals(n_gu), *act = rig_reals(n_gu);

    reset();
    real *x = rig_normals(n_x), *dy = rig_normals(n_x), *wgu = rig_normals(3 * n_w);
    struct mlp m = {C, h, wgu, wgu + 2 * n_w, gu, act};
    const int  tile = product_tile(n);

    mlp_open_forward(&m, n);
    #pragma omp parallel
    mlp_lay(&m);
    *laid = (m.w[0].laid != NULL) + (m.w[1].laid != NULL) + (m.w[2].laid != NULL);
    for (int t = 0; t < n; t += tile)
        mlp_forward_rows(&m, all, x + (size_t)t * C, act, t, n - t < tile ? n - t : tile);
    product_forward(all + 2 * n_x, x, wgu, n, C, 2 * h);
    product_backward(all + 2 * n_x + n_gu, 0, NULL, all + 2 * n_x, x, wgu, n, C, 2 * h);
    mlp_open_backward(&m, n);
    #pragma omp parallel
    mlp_lay(&m);
    *laid += (m.w[0].laid != NULL) + (m.w[1].laid != NULL);
    for (int t = 0; t < n; t += tile)
        mlp_backward_rows(&m, all + n_x, dy, t, n - t < tile ? n - t : tile);
    free(gu), free(act), free(x), free(dy), free(wgu);
    return all;
}

static bool poisoned(const real *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isnan(x[i]))
            return false;
    return true;
}

START_TEST(a_matrix_laid_out_for_all_tiles_changes_no_bit)
{
    const struct gemm  none = {"", gemm_own.nt, gemm_own.nn, gemm_own.tn};  // as AMX is
    const struct gemm *by[] = {&gemm_own, &gemm_bf16, gemm_in_bf16(), &none};
    const int   *s = laid_shapes[_i % N_LAID], n = s[0], C = s[1], h = s[2];
    const size_t all = (size_t)n * (3 * C + 2 * h),
                 size = 3 * gemm_whole_panels(h) * gemm_whole_panels(C),
                 some = gemm_whole_panels(h) * (size_t)C;
    real *room = pages_alloc(size * sizeof *room), *alone, *whole, *partly;
    int   before, five, few;

    gemm_use(by[_i / N_LAID]);
    alone = by_tiles(n, C, h, &before);
    product_take_room(room, size);
    whole = by_tiles(n, C, h, &five);
    rig_poison(room, size * sizeof *room);
    product_take_room(room, some);          // for some of the matrices
    partly = by_tiles(n, C, h, &few);
    product_take_room(NULL, 0);
    ck_assert(poisoned(room + some, size - some));
    ck_assert_int_eq(before, 0);
    ck_assert_int_eq(five, gemm_used()->panel ? 5 : 0);
    ck_assert(gemm_used()->panel ? few > 0 && few < 5 : few == 0);
    gemm_use(&gemm_own);
    ck_assert_msg(!memcmp(alone, whole, all * sizeof *alone), "laid out");
    ck_assert_msg(!memcmp(alone, partly, all * sizeof *alone), "partly laid out");
    pages_free(room, size * sizeof *room);
    free(alone), free(whole), free(partly);
}
END_TEST

/* Element (i, j) of a (rows, cols) matrix with ld, or of its transpose. */
static double at(const real *a, size_t ld, bool transposed, int i, int j)
{
    return transposed ? a[j * ld + i] : a[i * ld + j];
}

static void (*const gemm[])(real *, size_t, const real *, size_t, const real *, size_t,
                            int, int, int, real, real) = {gemm_nt, gemm_nn, gemm_tn};
static const bool ta[] = {false, false, true}, tb[] = {true, false, false};

START_TEST(strided_products_leave_the_gaps_alone)
{
    enum { M = 13, N = 9, K = 21, LD = 30 };
    real   *a = rig_normals(LD * LD), *b = rig_normals(LD * LD);
    real   *c = rig_normals(LD * LD);
    double *want = rig_zeros(LD * LD);

    for (int i = 0; i < LD * LD; i++)
        want[i] = c[i];
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;

            for (int k = 0; k < K; k++)
                sum += at(a, LD, ta[_i], i, k) * at(b, LD, tb[_i], k, j);
            want[i * LD + j] = 0.5 * sum + 2 * want[i * LD + j];
        }
    gemm[_i](c, LD, a, LD, b, LD, M, N, K, 0.5, 2);
    rig_assert_error("c", c, want, LD * LD);
    free(a), free(b), free(c), free(want);
}
END_TEST

/* ---- weights in fewer bits --------------------------------------------------------- */

static const enum packed types[] = {PACKED_F32, PACKED_BF16, PACKED_Q8_0};
enum { N_TYPES = sizeof types / sizeof *types };

/* w (rows, cols) as products are to read it, and rounded so itself. */
static struct packed_matrix pack(enum packed type, real *w, int rows, int cols)
{
    size_t n = (size_t)rows * cols;
    float *f = malloc(n * sizeof *f);
    unsigned char *data = malloc(packed_bytes(type, n));

    for (size_t i = 0; i < n; i++)
        f[i] = (float)w[i];
    packed_write(type, data, f, n);
    packed_read(type, f, data, n);
    for (size_t i = 0; i < n; i++)
        w[i] = f[i];
    free(f);
    return (struct packed_matrix){w, data, rows, cols};
}

/* What bf16 keeps of x, by way of the packed form. */
static real *kept_by_bf16(const real *x, size_t n)
{
    real *y = rig_reals(n);

    for (size_t i = 0; i < n; i++)
        y[i] = bf16_to_float(bf16_from_float((float)x[i]));
    return y;
}

/* Rows, in and out; the second half of the outputs is asked for alone, too. */
static const int packed_shapes[][3] = {
    {1, 32, 6}, {5, 96, 70}, {16, 32, 40}, {17, 64, 70}, {600, 416, 90}, {40, 800, 130},
};
enum { N_PACKED = sizeof packed_shapes / sizeof *packed_shapes };

START_TEST(packed_weights_are_multiplied_as_rounded)
{
    enum packed type = types[1 + _i / N_PACKED];
    const int  *s = packed_shapes[_i % N_PACKED], n = s[0], in = s[1], out = s[2];
    real *x = rig_normals((size_t)n * in), *w = rig_normals((size_t)out * in);
    real *y = rig_reals((size_t)n * out), *half = rig_reals((size_t)n * out / 2);
    struct packed_matrix  m = pack(type, w, out, in);
    struct packed_weights all = {type, 1, &m, gemm_rounds(type)};
    double *want = rig_zeros((size_t)n * out);

    if (gemm_rounds(type)) {            // what is rounded to itself
        real *kept = kept_by_bf16(x, (size_t)n * in);

        memcpy(x, kept, (size_t)n * in * sizeof *x);
        free(kept);
    }
    for (int i = 0; i < n; i++)
        for (int o = 0; o < out; o++)
            for (int j = 0; j < in; j++)
                want[i * out + o] += (double)x[i * in + j] * (double)w[o * in + j];
    product_take_packed(&all);
    product_forward(y, x, w, n, in, out);
    product_forward(half, x, w + (size_t)(out / 2) * in, n, in, out / 2);
    product_take_packed(NULL);
    rig_assert_error("y", y, want, (size_t)n * out);
    for (int i = 0; i < n; i++)
        ck_assert(!memcmp(half + i * (out / 2), y + i * out + out / 2,
                          out / 2 * sizeof *y));
    free(x), free(w), free(y), free(half), free((void *)m.data), free(want);
}
END_TEST

/* Also by a layer that cuts its rows itself: the weights that they stand for are gone. */
START_TEST(an_mlp_reads_packed_weights_over_many_rows)
{
    enum { N = 300, C = 32, H = 64 };
    enum packed type = types[1 + _i];
    real *x = rig_normals(N * C), *wgu = rig_normals(3 * H * C), *wd = wgu + 2 * H * C;
    real *y = rig_reals(N * C), *gu = rig_reals(N * 2 * H), *act = rig_reals(N * H);
    struct packed_matrix  m[] = {pack(type, wgu, 2 * H, C), pack(type, wd, C, H)};
    struct packed_weights all = {type, 2, m, gemm_rounds(type)};
    struct mlp mlp = {C, H, wgu, wd, gu, act};
    double *want = rig_zeros(N * C);

    if (gemm_rounds(type))
        gemm_use(gemm_in_bf16());
    mlp_forward(&mlp, y, x, N);
    gemm_use(&gemm_own);
    for (int i = 0; i < N * C; i++)
        want[i] = (double)y[i];
    memset(wgu, 0, 3 * H * C * sizeof *wgu);
    product_take_packed(&all);
    mlp_forward(&mlp, y, x, N);
    product_take_packed(NULL);
    rig_assert_error("y", y, want, N * C);
    free(x), free(wgu), free(y), free(gu), free(act), free(want);
    free((void *)m[0].data), free((void *)m[1].data);
}
END_TEST

/* A sequence's bits do not depend on how many are decoded beside it. */
START_TEST(a_row_has_the_same_bits_alone_and_in_company)
{
    enum { MOST = TINY(16, 2), IN = 160, OUT = 45 };
    enum packed type = types[_i];
    real *x = rig_normals(MOST * IN), *w = rig_normals(OUT * IN);
    real *y = rig_reals(MOST * OUT), *one = rig_reals(OUT);
    struct packed_matrix  m = pack(type, w, OUT, IN);
    struct packed_weights all = {type, type != PACKED_F32, &m};

    product_take_packed(&all);
    for (int n = 1; n <= MOST; n++) {
        product_forward(y, x, w, n, IN, OUT);
        for (int i = 0; i < n; i++) {
            product_forward(one, x + i * IN, w, 1, IN, OUT);
            ck_assert_msg(!memcmp(one, y + i * OUT, OUT * sizeof *y),
                          "%s: row %d of %d differs", packed_name(type), i, n);
        }
    }
    product_take_packed(NULL);
    free(x), free(w), free(y), free(one), free((void *)m.data);
}
END_TEST

/* ---- loss -------------------------------------------------------------------------- */

START_TEST(equal_logits_cost_the_logarithm_of_the_vocabulary)
{
    real    logits[7], nats;
    int32_t target = 3;
    double  want = log(7);

    for (int i = 0; i < 7; i++)
        logits[i] = -3;
    cross_entropy(logits, &target, &nats, 1, 7, 2);
    rig_assert_error("nats", &nats, &want, 1);
    for (int i = 0; i < 7; i++)
        ck_assert_double_lt(fabs((double)logits[i] - 2 * (1 / 7.0 - (i == 3))), 1e-6);
}
END_TEST

START_TEST(huge_logits_cost_what_they_should)
{
    real          logits[] = {1e4, -1e4, 0, 1e4, -1e4, 0}, nats[2];
    const int32_t targets[] = {0, 1};
    const double  want[] = {0, 2e4};

    cross_entropy(logits, targets, nats, 2, 3, 1);
    for (int i = 0; i < 2; i++)
        ck_assert_double_lt(fabs((double)nats[i] - want[i]), 1e-2);
    for (int i = 0; i < 6; i++)
        ck_assert(isfinite(logits[i]));
}
END_TEST

START_TEST(ignored_tokens_cost_nothing_and_pull_nothing)
{
    real         *logits = rig_normals(2 * 5), nats[2];
    const int32_t targets[] = {-1, 4};

    rig_poison(nats, sizeof nats);
    cross_entropy(logits, targets, nats, 2, 5, 1);
    ck_assert(nats[0] == 0 && nats[1] > 0);
    for (int i = 0; i < 5; i++)
        ck_assert(logits[i] == 0 && logits[5 + i] != 0);
    free(logits);
}
END_TEST

START_TEST(the_likeliest_come_in_order_and_cost_what_they_should)
{
    enum { V = 8 };
    static const double  logit[V] = {1, 3, 2, 3, 0, 5, 3, -1};
    static const int32_t order[V] = {5, 1, 3, 6, 2, 0, 4, 7};   // of equals the lower id
    double               sum = 0;

    for (int i = 0; i < V; i++)
        sum += exp(logit[i]);
    for (int k = 0; k <= V; k++) {
        real          row[V], nats;
        struct likely top[V + 1];

        for (int i = 0; i < V; i++)
            row[i] = (real)logit[i];
        top[k].id = -7;
        nats = cross_entropy_top(row, k < V ? k : -1, V, top, k);
        ck_assert_double_eq_tol((double)nats, k < V ? log(sum) - logit[k] : 0, 1e-5);
        for (int i = 0; i < k; i++) {
            ck_assert_int_eq(top[i].id, order[i]);
            ck_assert_double_eq_tol((double)top[i].nats, log(sum) - logit[order[i]],
                                    1e-5);
        }
        ck_assert_int_eq(top[k].id, -7);
    }
}
END_TEST

/* A vocabulary so large that the tokens are cut into slices, the last one short. */
START_TEST(slices_of_tokens_add_up)
{
    enum { ROWS = 600, C = 4, V = 17000 };
    real    *x = rig_normals(ROWS * C), *w = rig_normals(V * C), *nats = rig_reals(ROWS);
    real    *dx = rig_reals(ROWS * C), *dw = calloc(V * C, sizeof *dw);
    real    *scratch = rig_reals(loss_scratch(ROWS, V)), *scored = rig_reals(ROWS);
    int32_t *targets = malloc(ROWS * sizeof *targets);
    double  *want = rig_zeros(ROWS), *want_dx = rig_zeros(ROWS * C);
    double  *want_dw = rig_zeros(V * C);
    double  *p = rig_zeros(V);

    ck_assert_uint_lt(loss_scratch(ROWS, V), (size_t)ROWS * V);
    for (int i = 0; i < ROWS; i++) {
        double sum = 0;

        targets[i] = i % 7 == 3 ? -1 : (int32_t)rng_below(&rig_stream, V);
        for (int v = 0; v < V && targets[i] >= 0; v++) {
            p[v] = 0;
            for (int j = 0; j < C; j++)
                p[v] += (double)x[i * C + j] * (double)w[v * C + j];
            p[v] = exp(p[v]);
            sum += p[v];
        }
        if (targets[i] < 0)
            continue;
        want[i] = log(sum) - log(p[targets[i]]);
        for (int v = 0; v < V; v++)
            for (int j = 0; j < C; j++) {
                double d = 0.25 * (p[v] / sum - (v == targets[i]));

                want_dx[i * C + j] += d * (double)w[v * C + j];
                want_dw[v * C + j] += d * (double)x[i * C + j];
            }
    }
    loss_run(x, w, targets, nats, dx, dw, 0.25, scratch, ROWS, C, V);
    rig_assert_error("nats", nats, want, ROWS);
    rig_assert_error("dx", dx, want_dx, ROWS * C);
    rig_assert_error("dw", dw, want_dw, V * C);
    loss_run(x, w, targets, scored, NULL, NULL, 0, scratch, ROWS, C, V);
    rig_assert_error("nats without gradients", scored, want, ROWS);
    free(x), free(w), free(nats), free(dx), free(dw), free(scratch), free(scored);
    free(targets), free(want), free(want_dx), free(want_dw), free(p);
}
END_TEST

/* Sizes on both sides of every block: strips of 6 rows, 128, 384 or 512 rows copied at
 * once, panels of up to 64 columns and 384 rows, squares of 32. */
static const int sizes[][3] = {
    {1, 1, 1},     {5, 15, 16},   {6, 16, 17},    {7, 17, 1},
    {12, 64, 191}, {13, 65, 192}, {96, 63, 193},  {97, 128, 9},
    {100, 3, 383}, {11, 130, 384}, {200, 66, 385}, {50, 31, 900},
    {400, 9, 130}, {513, 33, 65},
};

enum { N_SIZES = sizeof sizes / sizeof *sizes };

static const struct gemm *openblas(void)
{
    const struct gemm *by;
    struct why         why;

    ck_assert_msg(!gemm_openblas(&by, &why), "%s", why.line);
    return by;
}

static gemm_form *form_of(const struct gemm *by, int form)
{
    return form == 0 ? by->nt : form == 1 ? by->nn : by->tn;
}

START_TEST(products_of_weft_and_of_openblas_are_their_sums)
{
    int form = _i % 3, m = sizes[_i / 3][0], n = sizes[_i / 3][1], k = sizes[_i / 3][2];
    size_t  lda = ta[form] ? m : k, ldb = tb[form] ? k : n, all = (size_t)m * n;
    real   *a = rig_normals((size_t)m * k), *b = rig_normals((size_t)k * n);
    real   *c = rig_reals(all);
    double *want = rig_zeros(all);

    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++)
            for (int p = 0; p < k; p++)
                want[(size_t)i * n + j] +=
                    at(a, lda, ta[form], i, p) * at(b, ldb, tb[form], p, j);
    form_of(&gemm_own, form)(c, n, a, lda, b, ldb, m, n, k, 1, 0);
    rig_assert_error("weft's", c, want, all);
    form_of(openblas(), form)(c, n, a, lda, b, ldb, m, n, k, 1, 0);
    rig_assert_error("OpenBLAS's", c, want, all);
    free(a), free(b), free(c), free(want);
}
END_TEST

#ifndef WEFT_DOUBLE
#ifdef __AVX512BF16__
/* Sums of pairs are rounded otherwise. */
static void assert_sums(const real *c, const real *want, size_t n, int k)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg((isnan(c[i]) && isnan(want[i])) || c[i] == want[i] ||
                      fabs(c[i] - want[i]) < 1e-5 * (k + fabs(want[i])),
                      "%d: %g instead of %g", (int)i, (double)c[i], (double)want[i]);
}
#else
static void assert_sums(const real *c, const real *want, size_t n, int k)
{
    (void)k;
    ck_assert_mem_eq(c, want, n * sizeof *c);
}
#endif
#endif

/* What AMX's instruction adds to c for a and b rounded to bf16, as its manual says: of
 * 32 of k, those at even and at odd places apart, their sum to c. */
static float tile_sum(float c, const real *a, size_t a_step, const real *b, size_t b_step,
                      int k)
{
    for (int p = 0; p < k; p += 32) {
        float sum[2] = {0};

        for (int q = p; q < p + 32 && q < k; q++)
            sum[q % 2] = fmaf((float)a[q * a_step], (float)b[q * b_step], sum[q % 2]);
        c += sum[0] + sum[1];
    }
    return c;
}

/* alpha a b + beta c for a, b rounded, in parts of 384 of k. */
static void by_plain_tiles(real *c, int form, const real *a, size_t lda, const real *b,
                           size_t ldb, int m, int n, int k, real alpha, real beta)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            real *to = &c[(size_t)i * n + j], keep = beta;

            for (int p = 0; p < k; p += 384, keep = 1) {
                const real *ap = ta[form] ? a + p * lda + i : a + i * lda + p;
                const real *bp = tb[form] ? b + j * ldb + p : b + p * ldb + j;
                float       sum = tile_sum(alpha == 1 ? (float)(keep * *to) : 0, ap,
                                           ta[form] ? lda : 1, bp, tb[form] ? 1 : ldb,
                                           k - p < 384 ? k - p : 384);

                *to = alpha == 1 ? sum : alpha * sum + keep * *to;
            }
        }
}

static const real factors[][2] = {{1, 0}, {1, 1}, {0.5, 2}};

START_TEST(products_by_amx_are_its_sums)
{
    int form = _i % 3, m = sizes[_i / 9][0], n = sizes[_i / 9][1], k = sizes[_i / 9][2];
    real   alpha = factors[_i / 3 % 3][0], beta = factors[_i / 3 % 3][1];
    size_t lda = (ta[form] ? m : k) + 3, ldb = (tb[form] ? k : n) + 5;
    size_t na = lda * (ta[form] ? k : m), nb = ldb * (tb[form] ? n : k);
    real  *a = rig_normals(na), *b = rig_normals(nb), *ra = kept_by_bf16(a, na);
    real  *rb = kept_by_bf16(b, nb), *c = rig_normals((size_t)m * n);
    real  *want = rig_reals((size_t)m * n);

    memcpy(want, c, (size_t)m * n * sizeof *c);
    if (gemm_amx()) {
        form_of(gemm_amx(), form)(c, n, a, lda, b, ldb, m, n, k, alpha, beta);
        by_plain_tiles(want, form, ra, lda, rb, ldb, m, n, k, alpha, beta);
    }
    ck_assert_mem_eq(c, want, (size_t)m * n * sizeof *c);
    free(a), free(b), free(ra), free(rb), free(c), free(want);
}
END_TEST

/* Among them ties to even, and one that rounds to infinity. */
START_TEST(products_in_bf16_are_those_of_rounded_factors)
{
    int form = _i % 3, m = sizes[_i / 3][0], n = sizes[_i / 3][1], k = sizes[_i / 3][2];
    size_t lda = ta[form] ? m : k, ldb = tb[form] ? k : n, all = (size_t)m * n;
    real  *a = rig_normals((size_t)m * k), *b = rig_normals((size_t)k * n), *ra, *rb;
    real  *c = rig_normals(all), *want = rig_reals(all), *pairs = rig_reals(all);
    real  *old = rig_reals(all);

    a[0] = (real)(1 + 0x1p-8);
    b[0] = (real)(1 + 0x3p-8);
    a[m * k / 2] = (real)0x1.ffp127;
    ra = kept_by_bf16(a, (size_t)m * k);
    rb = kept_by_bf16(b, (size_t)k * n);
    ck_assert(m * k < 4 || memcmp(a, ra, (size_t)m * k * sizeof *a));
    memcpy(want, c, all * sizeof *c);
    memcpy(pairs, c, all * sizeof *c);
    memcpy(old, c, all * sizeof *c);
    form_of(&gemm_own, form)(want, n, ra, lda, rb, ldb, m, n, k, 0.5, 2);
    form_of(&gemm_bf16, form)(c, n, a, lda, b, ldb, m, n, k, 0.5, 2);
    ck_assert_mem_eq(c, want, all * sizeof *c);
#ifndef WEFT_DOUBLE
    form_of(&gemm_pairs, form)(pairs, n, a, lda, b, ldb, m, n, k, 0.5, 2);
    assert_sums(pairs, want, all, k);
    if (gemm_amx()) {
        memcpy(pairs, old, all * sizeof *c);
        form_of(gemm_amx(), form)(pairs, n, a, lda, b, ldb, m, n, k, 0.5, 2);
        assert_sums(pairs, want, all, k);
    }
#endif
    free(a), free(b), free(ra), free(rb), free(c), free(want), free(pairs);
    free(old);
}
END_TEST

START_TEST(cutting_rows_and_columns_changes_no_bit)
{
    int form = _i % 3, at = _i / 3 % N_SIZES, m = sizes[at][0], n = sizes[at][1],
        k = sizes[at][2];
    gemm_form *by = form_of(_i < 3 * N_SIZES ? &gemm_own : gemm_in_bf16(), form);
    size_t lda = ta[form] ? m : k, ldb = tb[form] ? k : n, all = (size_t)m * n;
    real  *a = rig_normals((size_t)m * k), *b = rig_normals((size_t)k * n);
    real  *c = rig_reals(all), *cut = rig_reals(all);

    by(c, n, a, lda, b, ldb, m, n, k, 0.5, 0);
    for (int i = 0; i < m; i += 10)
        for (int j = 0; j < n; j += 20)
            by(cut + (size_t)i * n + j, n, a + i * (ta[form] ? 1 : lda), lda,
               b + j * (tb[form] ? ldb : 1), ldb, m - i < 10 ? m - i : 10,
               n - j < 20 ? n - j : 20, k, 0.5, 0);
    ck_assert_msg(!memcmp(c, cut, all * sizeof *c), "form %d, %d x %d x %d", form, m, n,
                  k);
    free(a), free(b), free(c), free(cut);
}
END_TEST

/* ---- what lies behind them --------------------------------------------------------- */

/* Bytes that end where a page begins that nobody may touch. */
struct fenced {
    char  *pages, *bytes;
    size_t all;
};

static struct fenced fence(const void *from, size_t bytes)
{
    size_t        page = (size_t)sysconf(_SC_PAGESIZE);
    size_t        whole = bytes / page * page + page;
    struct fenced f = {.all = whole + page};

    f.pages = mmap(NULL, f.all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                   0);
    ck_assert(f.pages != MAP_FAILED && !mprotect(f.pages + whole, page, PROT_NONE));
    f.bytes = f.pages + whole - bytes;
    memcpy(f.bytes, from, bytes);
    return f;
}

static struct fenced fenced_normals(size_t n)
{
    real         *x = rig_normals(n);
    struct fenced f = fence(x, n * sizeof *x);

    free(x);
    return f;
}

static real *reals_of(const struct fenced *f) { return (real *)f->bytes; }

static void unfence(struct fenced *f) { munmap(f->pages, f->all); }

START_TEST(products_touch_nothing_behind_their_matrices)
{
    int form = _i % 3, m = sizes[_i / 3][0], n = sizes[_i / 3][1], k = sizes[_i / 3][2];
    size_t        lda = ta[form] ? m : k, ldb = tb[form] ? k : n;
    struct fenced a = fenced_normals((size_t)m * k), b = fenced_normals((size_t)k * n);
    struct fenced c = fenced_normals((size_t)m * n);

    form_of(&gemm_own, form)(reals_of(&c), n, reals_of(&a), lda, reals_of(&b), ldb, m, n,
                             k, 1, 2);
    form_of(&gemm_bf16, form)(reals_of(&c), n, reals_of(&a), lda, reals_of(&b), ldb, m, n,
                              k, 1, 2);
    form_of(gemm_in_bf16(), form)(reals_of(&c), n, reals_of(&a), lda, reals_of(&b), ldb,
                                  m, n, k, 1, 2);
    unfence(&a), unfence(&b), unfence(&c);
}
END_TEST

START_TEST(layers_over_few_rows_touch_nothing_behind_them)
{
    enum { MOST = 20, OUT = 45 };
    enum packed type = types[_i];
    int         in = type == PACKED_F32 ? 37 : 64;

    for (int n = 1; n <= MOST; n++) {
        real         *w = rig_normals((size_t)OUT * in);
        struct fenced x = fenced_normals((size_t)n * in);
        struct fenced y = fenced_normals((size_t)n * OUT), fw, data;
        struct packed_matrix  m = pack(type, w, OUT, in);
        struct packed_weights all = {type, type != PACKED_F32, &m};

        fw = fence(w, (size_t)OUT * in * sizeof *w);
        data = fence(m.data, packed_bytes(type, (size_t)OUT * in));
        free(w), free((void *)m.data);
        m.w = reals_of(&fw), m.data = (unsigned char *)data.bytes;
        product_take_packed(&all);
        product_forward(reals_of(&y), reals_of(&x), m.w, n, in, OUT);
        product_take_packed(NULL);
        unfence(&x), unfence(&y), unfence(&fw), unfence(&data);
    }
}
END_TEST

/* Between a machine of the last century and any that is to be had. */
START_TEST(the_rate_of_products_is_in_gflops)
{
    double rate = product_gflops(&gemm_own, 1);

    ck_assert_msg(rate > 0.02 && rate < 1e5, "%g GFLOP/s", rate);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("linear");
    TCase *tc = tcase_create("linear"), *fences = tcase_create("fences");

    tcase_add_checked_fixture(tc, reset, NULL);
    tcase_add_loop_test(tc, a_linear_layer_is_its_sum, 0, N_SHAPES);
    tcase_add_loop_test(tc, gradients_of_a_linear_layer_are_their_sums, 0, N_SHAPES);
    tcase_add_loop_test(tc, threads_change_no_bit_of_a_product, 0, N_SHAPES);
    tcase_add_loop_test(tc, a_matrix_laid_out_for_all_tiles_changes_no_bit, 0,
                        4 * N_LAID);
    tcase_add_loop_test(tc, strided_products_leave_the_gaps_alone, 0, 3);
    tcase_add_loop_test(tc, packed_weights_are_multiplied_as_rounded, 0, 2 * N_PACKED);
    tcase_add_loop_test(tc, an_mlp_reads_packed_weights_over_many_rows, 0, N_TYPES - 1);
    tcase_add_loop_test(tc, a_row_has_the_same_bits_alone_and_in_company, 0, N_TYPES);
    tcase_add_loop_test(tc, products_in_bf16_are_those_of_rounded_factors, 0,
                        3 * N_SIZES);
    tcase_add_loop_test(tc, products_by_amx_are_its_sums, 0, 9 * N_SIZES);
    tcase_add_loop_test(tc, products_of_weft_and_of_openblas_are_their_sums, 0,
                        3 * N_SIZES);
    tcase_add_loop_test(tc, cutting_rows_and_columns_changes_no_bit, 0, 6 * N_SIZES);
    tcase_add_test(tc, the_rate_of_products_is_in_gflops);
    tcase_add_test(tc, equal_logits_cost_the_logarithm_of_the_vocabulary);
    tcase_add_test(tc, huge_logits_cost_what_they_should);
    tcase_add_test(tc, ignored_tokens_cost_nothing_and_pull_nothing);
    tcase_add_test(tc, the_likeliest_come_in_order_and_cost_what_they_should);
    tcase_add_test(tc, slices_of_tokens_add_up);
    tcase_add_checked_fixture(fences, reset, NULL);
    tcase_add_loop_test(fences, products_touch_nothing_behind_their_matrices, 0,
                        3 * N_SIZES);
    tcase_add_loop_test(fences, layers_over_few_rows_touch_nothing_behind_them, 0,
                        N_TYPES);
    suite_add_tcase(s, tc);
    suite_add_tcase(s, fences);
    return s;
}

int main(void)
{
    return rig_run(suite(), 0);
}
