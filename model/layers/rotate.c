#include "model/layers/rotate.h"

#include "model/kernels/ahead.h"
#include "model/kernels/vec.h"

#include <stdbool.h>

enum { AHEAD = 4 };     // rows that are sent for: gradients are in others' caches

/* Forth, or back. Heads are few vectors wide: what is not whole vectors stands apart. */
static inline __attribute__((always_inline)) void
turn(bool back, real *z, const real *c, const real *s, int half)
{
    int j = 0;

    for (; j + LANES <= half; j += LANES) {
        loose *za = (loose *)(z + j), *zb = (loose *)(z + j + half);
        vec    a = *za, b = *zb, cos = *(const loose *)(c + j),
               sin = *(const loose *)(s + j);

        *za = back ? a * cos + b * sin : a * cos - b * sin;
        *zb = back ? b * cos - a * sin : a * sin + b * cos;
    }
    for (; j < half; j++) {
        real a = z[j], b = z[j + half];

        z[j] = back ? a * c[j] + b * s[j] : a * c[j] - b * s[j];
        z[j + half] = back ? b * c[j] - a * s[j] : a * s[j] + b * c[j];
    }
}

static inline void gather(real *dtheta, const real *z, const real *dz, int half)
{
    #pragma omp simd
    for (int j = 0; j < half; j++)
        dtheta[j] += dz[j + half] * z[j] - dz[j] * z[j + half];
}

static int group_of(const struct angles *a, int heads_z)
{
    return heads_z / (a->heads ? a->heads : 1);
}

void rotate_rows(const struct angles *a, real *z, int T, long from, long n, int heads_z,
                 size_t ld)
{
    const int group = group_of(a, heads_z);

    for (long i = from; i < from + n; i++) {
        const size_t row = i / T * a->b + i % T * a->t;

        for (int h = 0; h < heads_z; h++) {
            size_t at = row + h / group * a->h;

            turn(false, z + i * ld + (size_t)h * a->dk, a->cos + at, a->sin + at,
                 a->dk / 2);
        }
    }
}

void rotate(const struct angles *a, real *z, int B, int T, int heads_z, size_t ld)
{
    const long n = (long)B * T;

    if (!a->cos)
        return;
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i += FEW_ROWS)
        rotate_rows(a, z, T, i, n - i < FEW_ROWS ? n - i : FEW_ROWS, heads_z, ld);
}

void rotate_back_rows(const struct angles *a, const real *z, real *dz, int T, long from,
                      long n, int heads_z, size_t ld_z, size_t ld_dz)
{
    const int group = group_of(a, heads_z), half = a->dk / 2;

    for (long i = from; i < from + n; i++) {
        const size_t row = i / T * a->b + i % T * a->t;

        send_for_own(dz + (i + AHEAD) * ld_dz, heads_z * a->dk);
        for (int h = 0; h < heads_z; h++) {
            size_t at = row + h / group * a->h;
            real  *d = dz + i * ld_dz + (size_t)h * a->dk;

            if (a->dtheta)
                gather(a->dtheta + (i * a->heads + h / group) * half,
                       z + i * ld_z + (size_t)h * a->dk, d, half);
            turn(true, d, a->cos + at, a->sin + at, half);
        }
    }
}

void rotate_back(const struct angles *a, const real *z, real *dz, int B, int T,
                 int heads_z, size_t ld_z, size_t ld_dz)
{
    const long n = (long)B * T;

    if (!a->cos)
        return;
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i += FEW_ROWS)
        rotate_back_rows(a, z, dz, T, i, n - i < FEW_ROWS ? n - i : FEW_ROWS, heads_z,
                         ld_z, ld_dz);
}
