#include "model/layers/rotate.h"

static inline void turn(real *z, const real *c, const real *s, int half)
{
    #pragma omp simd
    for (int j = 0; j < half; j++) {
        real a = z[j], b = z[j + half];

        z[j] = a * c[j] - b * s[j];
        z[j + half] = a * s[j] + b * c[j];
    }
}

static inline void turn_back(real *dz, const real *c, const real *s, int half)
{
    #pragma omp simd
    for (int j = 0; j < half; j++) {
        real a = dz[j], b = dz[j + half];

        dz[j] = a * c[j] + b * s[j];
        dz[j + half] = b * c[j] - a * s[j];
    }
}

static inline void gather(real *dtheta, const real *z, const real *dz, int half)
{
    #pragma omp simd
    for (int j = 0; j < half; j++)
        dtheta[j] += dz[j + half] * z[j] - dz[j] * z[j + half];
}

void rotate(const struct angles *a, real *z, int B, int T, int heads_z, size_t ld)
{
    int group = heads_z / (a->heads ? a->heads : 1);

    if (!a->cos)
        return;
    #pragma omp parallel for collapse(2) schedule(static) if ((long)B * T > FEW_ROWS)
    for (int b = 0; b < B; b++)
        for (int t = 0; t < T; t++)
            for (int h = 0; h < heads_z; h++) {
                size_t at = b * a->b + t * a->t + h / group * a->h;

                turn(z + ((size_t)b * T + t) * ld + (size_t)h * a->dk, a->cos + at,
                     a->sin + at, a->dk / 2);
            }
}

void rotate_back(const struct angles *a, const real *z, real *dz, int B, int T,
                 int heads_z, size_t ld_z, size_t ld_dz)
{
    int group = heads_z / (a->heads ? a->heads : 1), half = a->dk / 2;

    if (!a->cos)
        return;
    #pragma omp parallel for collapse(2) schedule(static) if ((long)B * T > FEW_ROWS)
    for (int b = 0; b < B; b++)
        for (int t = 0; t < T; t++)
            for (int h = 0; h < heads_z; h++) {
                size_t bt = (size_t)b * T + t,
                       at = b * a->b + t * a->t + h / group * a->h;
                real  *d = dz + bt * ld_dz + (size_t)h * a->dk;

                if (a->dtheta)
                    gather(a->dtheta + (bt * a->heads + h / group) * half,
                           z + bt * ld_z + (size_t)h * a->dk, d, half);
                turn_back(d, a->cos + at, a->sin + at, half);
            }
}
