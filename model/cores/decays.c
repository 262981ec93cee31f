#include "model/cores/decays.h"

#include "model/kernels/vmath.h"

#include <string.h>

static inline void times(real *y, const real *by, int n)
{
    #pragma omp simd
    for (int j = 0; j < n; j++)
        y[j] *= by[j];
}

static inline void exp_row(real *y, const real *x, int n)
{
    #pragma omp simd
    for (int j = 0; j < n; j++)
        y[j] = vexp(x[j]);
}

/* a and q', downwards; sum (n) is that of g over the part. */
static void fill_queries(struct decays *s, const real *g, size_t ld_g, int x0, real *sum)
{
    const int n = s->n;
    real      run[CHANNELS];

    for (int j = 0; j < n; j++)
        sum[j] = 0, run[j] = 1;
    for (int x = x0; x < decays_end(s, x0); x++) {
        const real *gx = g + x * ld_g, *q = s->q + x * s->ld_q;
        real       *a = s->a + x * n, *aged = s->aged_q + x * n;

        #pragma omp simd
        for (int j = 0; j < n; j++) {
            sum[j] += gx[j];
            a[j] = vexp(gx[j]);
            run[j] *= a[j];
            aged[j] = q[j] * run[j];
        }
    }
}

/* k', upwards. */
static void fill_keys(struct decays *s, int x0)
{
    const int n = s->n;
    real      run[CHANNELS];

    for (int j = 0; j < n; j++)
        run[j] = 1;
    for (int y = decays_end(s, x0) - 1; y >= x0; y--) {
        const real *a = s->a + y * n, *k = s->k + y * s->ld_k;
        real       *aged = s->aged_k + y * n;

        #pragma omp simd
        for (int j = 0; j < n; j++) {
            aged[j] = k[j] * run[j];
            run[j] *= a[j];
        }
    }
}

/* Decays over parts come from sums of g, not from products of the a: they multiply up
 * over the whole sequence, and where g is near zero an a has few of its digits. */
void decays_fill(struct decays *s, const real *g, size_t ld_g)
{
    const int n = s->n;
    real      sum[CHANNELS], all[CHANNELS] = {0};

    exp_row(s->past, all, n);
    for (int x0 = 0, i = 0; x0 < s->T; x0 += PART, i++) {
        fill_queries(s, g, ld_g, x0, sum);
        fill_keys(s, x0);
        for (int j = 0; j < n; j++)
            all[j] += sum[j];
        exp_row(s->part + i * n, sum, n);
        exp_row(s->past + (i + 1) * n, all, n);
    }
}

void decays_age(const struct decays *s, real *y, int x0)
{
    for (int x = 0; x < x0; x++)
        times(y + x * s->n, s->part + x0 / PART * s->n, s->n);
}

void decays_reach_back(const struct decays *s, real *y, int x0, int x1)
{
    for (int x = x0; x < x1; x++)
        times(y + x * s->n, s->past + x / PART * s->n, s->n);
}

/* w * k summed, and w * a for the next row, in one pass. */
static inline real dot_and_decay(real *w, const real *k, const real *a, int n)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < n; j++) {
        sum += w[j] * k[j];
        w[j] *= a[j];
    }
    return sum;
}

void decays_scores(const struct decays *s, real *A, int x0, real scale)
{
    const int n = s->n;

    for (int x = x0; x < decays_end(s, x0); x++) {
        real w[CHANNELS];

        for (int j = 0; j < n; j++)
            w[j] = scale * s->q[x * s->ld_q + j];
        for (int y = x; y >= x0; y--)
            A[x * CHUNK + y] += dot_and_decay(w, s->k + y * s->ld_k, s->a + y * n, n);
    }
}

/* Horner's rule, from the first key on. */
void decays_back_q(const struct decays *s, real *dq, size_t ld, const real *P,
                   const real *d, int x0)
{
    const int n = s->n;

    for (int x = x0; x < decays_end(s, x0); x++) {
        real *to = dq + x * ld;

        memcpy(to, d + x * n, n * sizeof *to);
        for (int y = x0; y < x; y++) {
            const real *a = s->a + y * n, *k = s->k + y * s->ld_k, by = P[x * CHUNK + y];

            #pragma omp simd
            for (int j = 0; j < n; j++)
                to[j] = a[j] * to[j] + by * k[j];
        }
        times(to, s->a + x * n, n);
    }
}

/* Horner's rule, from the last query back. */
void decays_back_k(const struct decays *s, real *dk, size_t ld, const real *P,
                   const real *d, int x0)
{
    const int n = s->n, x1 = decays_end(s, x0);

    for (int y = x0; y < x1; y++) {
        real *to = dk + y * ld;

        memcpy(to, d + y * n, n * sizeof *to);
        for (int x = x1 - 1; x > y; x--) {
            const real *a = s->a + x * n, *q = s->q + x * s->ld_q, by = P[x * CHUNK + y];

            #pragma omp simd
            for (int j = 0; j < n; j++)
                to[j] = a[j] * (to[j] + by * q[j]);
        }
    }
}
