#include "model/layers/norm.h"

#include <math.h>

/* dw is summed in this many blocks of rows, whatever the number of threads, and then over
 * the blocks. */
enum { BLOCKS = TINY(16, 3) };

static inline real mean(const real *x, int e)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < e; j++)
        sum += x[j];
    return sum / e;
}

/* Of x - mu. */
static inline real inverse_rms(const real *x, real mu, int e, real eps)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < e; j++)
        sum += (x[j] - mu) * (x[j] - mu);
    return 1 / (real)sqrt(sum / e + eps);
}

static inline void forward_group(real *y, const real *x, const real *w, int e, real eps,
                                 bool centre)
{
    real mu = centre ? mean(x, e) : 0, r = inverse_rms(x, mu, e, eps);

    #pragma omp simd
    for (int j = 0; j < e; j++)
        y[j] = r * (x[j] - mu) * (w ? w[j] : 1);
}

static void forward(const struct norm *o, real *y, size_t ldy, const real *x, size_t ldx,
                    const real *w, long n, bool centre)
{
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        for (int g = 0; g < o->groups; g++)
            forward_group(y + i * ldy + g * o->e, x + i * ldx + g * o->e,
                          o->shared || !w ? w : w + g * o->e, o->e, o->eps, centre);
}

void rms_forward(const struct norm *o, real *y, size_t ldy, const real *x, size_t ldx,
                 const real *w, long n)
{
    forward(o, y, ldy, x, ldx, w, n, false);
}

void ln_forward(const struct norm *o, real *y, size_t ldy, const real *x, size_t ldx,
                const real *w, long n)
{
    forward(o, y, ldy, x, ldx, w, n, true);
}

/* With g = w dy and xr = r (x - mu):  dx = r (g - mean(g) - xr mean(g xr)) + keep dx;
 * mean(g) only where x was centred. */
static inline void backward_group(real *dx, real keep, real *dw, const real *dy,
                                  const real *x, const real *w, int e, real eps,
                                  bool centre)
{
    real mu = centre ? mean(x, e) : 0, r = inverse_rms(x, mu, e, eps);
    real along = 0, level = 0;

    #pragma omp simd reduction(+ : along, level)
    for (int j = 0; j < e; j++) {
        real g = (w ? w[j] : 1) * dy[j];

        along += g * (x[j] - mu);
        level += g;
    }
    along *= r / e;
    level = centre ? level / e : 0;
    if (dw) {
        #pragma omp simd
        for (int j = 0; j < e; j++)
            dw[j] += dy[j] * r * (x[j] - mu);
    }
    if (keep == 0) {
        #pragma omp simd
        for (int j = 0; j < e; j++)
            dx[j] = r * ((w ? w[j] : 1) * dy[j] - level - r * (x[j] - mu) * along);
    } else {
        #pragma omp simd
        for (int j = 0; j < e; j++)
            dx[j] += r * ((w ? w[j] : 1) * dy[j] - level - r * (x[j] - mu) * along);
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

static void backward(const struct norm *o, real *dx, size_t lddx, real keep, real *dw,
                     const real *dy, size_t lddy, const real *x, size_t ldx,
                     const real *w, long n, real *partial, bool centre)
{
    size_t m = w ? weights(o) : 0;

    #pragma omp parallel for schedule(static)
    for (int block = 0; block < BLOCKS; block++) {
        real *sum = w ? partial + block * m : NULL;

        for (size_t j = 0; j < m; j++)
            sum[j] = 0;
        for (long i = n * block / BLOCKS; i < n * (block + 1) / BLOCKS; i++)
            for (int g = 0; g < o->groups; g++) {
                int at = g * o->e, wat = o->shared ? 0 : at;

                backward_group(dx + i * lddx + at, keep, w ? sum + wat : NULL,
                               dy + i * lddy + at, x + i * ldx + at, w ? w + wat : NULL,
                               o->e, o->eps, centre);
            }
    }
    for (int block = 0; block < BLOCKS; block++)
        for (size_t j = 0; j < m; j++)
            dw[j] += partial[block * m + j];
}

void rms_backward(const struct norm *o, real *dx, size_t lddx, real keep, real *dw,
                  const real *dy, size_t lddy, const real *x, size_t ldx,
                  const real *w, long n, real *partial)
{
    backward(o, dx, lddx, keep, dw, dy, lddy, x, ldx, w, n, partial, false);
}

void ln_backward(const struct norm *o, real *dx, size_t lddx, real keep, real *dw,
                 const real *dy, size_t lddy, const real *x, size_t ldx,
                 const real *w, long n, real *partial)
{
    backward(o, dx, lddx, keep, dw, dy, lddy, x, ldx, w, n, partial, true);
}
