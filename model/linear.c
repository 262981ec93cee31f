#include "model/linear.h"

#include "model/arena.h"

#include <cblas.h>
#include <omp.h>
#include <string.h>

#ifdef WEFT_DOUBLE
#define GEMM cblas_dgemm
#else
#define GEMM cblas_sgemm
#endif

enum {
    FEW      = 8,           // rows up to which a product is read from w by dot products
    TILE     = 256,         // rows of a tile
    DW_TILE  = 192,         // rows of a tile of dw
    DOT_ROWS = 32,          // rows of w that a thread takes at once when decoding
};

_Thread_local uint64_t linear_madds;

static void count(int m, int n, int k)
{
    linear_madds += (uint64_t)m * (uint64_t)n * (uint64_t)k;
}

void gemm_nt(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta)
{
    count(m, n, k);
    GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, alpha, a, (int)lda, b, (int)ldb,
         beta, c, (int)ldc);
}

void gemm_nn(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta)
{
    count(m, n, k);
    GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, alpha, a, (int)lda, b, (int)ldb,
         beta, c, (int)ldc);
}

void gemm_tn(real *c, size_t ldc, const real *a, size_t lda, const real *b, size_t ldb,
             int m, int n, int k, real alpha, real beta)
{
    count(m, n, k);
    GEMM(CblasRowMajor, CblasTrans, CblasNoTrans, m, n, k, alpha, a, (int)lda, b, (int)ldb,
         beta, c, (int)ldc);
}

int linear_tile(long n)
{
    return n >= 4 * TILE ? TILE : n >= 256 ? TILE / 4 : 32;
}

static int min_int(long a, int b)
{
    return a < b ? (int)a : b;
}

/* Four rows of w against x at once: four sums in flight hide the latency of an addition. */
static inline void dot4(real *y, const real *x, const real *w, int in)
{
    const real *w1 = w + in, *w2 = w1 + in, *w3 = w2 + in;
    real        s0 = 0, s1 = 0, s2 = 0, s3 = 0;

    #pragma omp simd reduction(+ : s0, s1, s2, s3)
    for (int j = 0; j < in; j++) {
        s0 += x[j] * w[j];
        s1 += x[j] * w1[j];
        s2 += x[j] * w2[j];
        s3 += x[j] * w3[j];
    }
    y[0] = s0, y[1] = s1, y[2] = s2, y[3] = s3;
}

static inline real dot1(const real *x, const real *w, int in)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < in; j++)
        sum += x[j] * w[j];
    return sum;
}

/* A few rows of x: w is read once, and its rows stay in cache for all of them. */
static void forward_few(real *y, const real *x, const real *w, int n, int in, int out)
{
    #pragma omp parallel for schedule(static)
    for (int o = 0; o < out; o += DOT_ROWS) {
        int end = min_int(out, o + DOT_ROWS), r = o;

        for (; r + 4 <= end; r += 4)
            for (int i = 0; i < n; i++)
                dot4(y + (size_t)i * out + r, x + (size_t)i * in, w + (size_t)r * in, in);
        for (; r < end; r++)
            for (int i = 0; i < n; i++)
                y[(size_t)i * out + r] = dot1(x + (size_t)i * in, w + (size_t)r * in, in);
    }
}

void linear_forward(real *y, const real *x, const real *w, long n, int in, int out)
{
    int tile = linear_tile(n);

    if (n <= FEW) {
        forward_few(y, x, w, (int)n, in, out);
        return;
    }
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i += tile)
        gemm_nt(y + i * out, out, x + i * in, in, w, in, min_int(n - i, tile), out, in, 1, 0);
}

void linear_backward(real *dx, real keep, real *dw, const real *dy, const real *x, const real *w,
                     long n, int in, int out)
{
    int tile = linear_tile(n), rows = out >= 2 * DW_TILE ? DW_TILE : (out + 1) / 2;

    #pragma omp parallel
    {
        if (dx) {
            #pragma omp for schedule(static) nowait
            for (long i = 0; i < n; i += tile)
                gemm_nn(dx + i * in, in, dy + i * out, out, w, in, min_int(n - i, tile), in, out,
                        1, keep);
        }
        if (dw) {
            #pragma omp for schedule(dynamic)
            for (int o = 0; o < out; o += rows)
                gemm_tn(dw + (size_t)o * in, in, dy + o, out, x, in, min_int(out - o, rows), in,
                        (int)n, 1, 1);
        }
    }
}

const char *linear_blas_problem(void)
{
    if (openblas_get_parallel() != OPENBLAS_OPENMP)
        return "the OpenBLAS that was loaded is not its openmp flavour; install "
               "libopenblas0-openmp and unset LD_LIBRARY_PATH";
    return NULL;
}

double linear_peak_gflops(int tries)
{
    enum { N = 4096, D = 768 };
    size_t bytes = (2 * (size_t)N * D + (size_t)D * D) * sizeof(real);
    real  *x = pages_alloc(bytes), *y = x + (size_t)N * D, *w = y + (size_t)N * D;
    double best = 0;

    if (!x)
        return 0;
    for (size_t i = 0; i < bytes / sizeof(real); i++)
        x[i] = 1;
    for (int i = 0; i < tries; i++) {
        double start = omp_get_wtime(), rate;

        linear_forward(y, x, w, N, D, D);
        rate = 2.0 * N * D * D / (omp_get_wtime() - start) / 1e9;
        best = rate > best ? rate : best;
    }
    pages_free(x, bytes);
    return best;
}
