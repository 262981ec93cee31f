#include "model/norm.h"

#include <math.h>
#include <string.h>

/* Rows are reduced in this many fixed blocks, whatever the number of threads. */
enum { BLOCKS = 16, ROWS = 32 };

static inline real inverse_rms(const real *x, int e, real eps)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < e; j++)
        sum += x[j] * x[j];
    return 1 / (real)sqrt(sum / e + eps);
}

static inline void forward_group(real *y, const real *x, const real *w, int e, real eps)
{
    real r = inverse_rms(x, e, eps);

    #pragma omp simd
    for (int j = 0; j < e; j++)
        y[j] = r * x[j] * w[j];
}

void rms_forward(const struct norm *o, real *y, size_t ldy, const real *x, size_t ldx,
                 const real *w, long n)
{
    #pragma omp parallel for schedule(static) if (n > ROWS)
    for (long i = 0; i < n; i++)
        for (int g = 0; g < o->groups; g++)
            forward_group(y + i * ldy + g * o->e, x + i * ldx + g * o->e,
                          o->shared ? w : w + g * o->e, o->e, o->eps);
}

static inline void backward_group(real *dx, real keep, real *dw, const real *dy, const real *x,
                                  const real *w, int e, real eps)
{
    real r = inverse_rms(x, e, eps), mean = 0;

    #pragma omp simd reduction(+ : mean)
    for (int j = 0; j < e; j++)
        mean += w[j] * dy[j] * x[j];
    mean *= r / e;
    #pragma omp simd
    for (int j = 0; j < e; j++)
        dw[j] += dy[j] * r * x[j];
    if (keep == 0) {
        #pragma omp simd
        for (int j = 0; j < e; j++)
            dx[j] = r * (w[j] * dy[j] - r * x[j] * mean);
    } else {
        #pragma omp simd
        for (int j = 0; j < e; j++)
            dx[j] += r * (w[j] * dy[j] - r * x[j] * mean);
    }
}

static size_t weights(const struct norm *o)
{
    return (size_t)o->e * (o->shared ? 1 : o->groups);
}

size_t norm_partial(const struct norm *o)
{
    return BLOCKS * weights(o);
}

void rms_backward(const struct norm *o, real *dx, size_t lddx, real keep, real *dw,
                  const real *dy, size_t lddy, const real *x, size_t ldx, const real *w, long n,
                  real *partial)
{
    size_t m = weights(o);

    #pragma omp parallel for schedule(static)
    for (int block = 0; block < BLOCKS; block++) {
        real *sum = partial + block * m;

        memset(sum, 0, m * sizeof *sum);
        for (long i = n * block / BLOCKS; i < n * (block + 1) / BLOCKS; i++)
            for (int g = 0; g < o->groups; g++) {
                int at = g * o->e, wat = o->shared ? 0 : at;

                backward_group(dx + i * lddx + at, keep, sum + wat, dy + i * lddy + at,
                               x + i * ldx + at, w + wat, o->e, o->eps);
            }
    }
    for (int block = 0; block < BLOCKS; block++)
        for (size_t j = 0; j < m; j++)
            dw[j] += partial[block * m + j];
}
