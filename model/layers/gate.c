#include "model/layers/gate.h"

#include "model/kernels/vmath.h"

void gate_forward(enum gate act, real *y, size_t ldy, const real *z, size_t ldz,
                  const real *g, size_t ldg, long n, int e)
{
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++) {
        const real *zi = z + i * ldz, *gi = g + i * ldg;
        real       *yi = y + i * ldy;

        #pragma omp simd
        for (int j = 0; j < e; j++)
            yi[j] = zi[j] * (act == GATE_SILU ? gi[j] : 1) * vsigmoid(gi[j]);
    }
}

/* silu' = s (1 + g (1 - s)),  sigmoid' = s (1 - s) */
void gate_backward(enum gate act, real *dz, real *dg, size_t lddg, const real *dy,
                   size_t ldy, const real *z, size_t ldz, const real *g,
                   size_t ldg, long n, int e)
{
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++) {
        const real *zi = z + i * ldz, *gi = g + i * ldg, *dyi = dy + i * ldy;
        real       *dzi = dz + i * ldy, *dgi = dg + i * lddg;

        #pragma omp simd
        for (int j = 0; j < e; j++) {
            real s = vsigmoid(gi[j]), d = dyi[j];
            real slope = act == GATE_SILU ? s * (1 + gi[j] * (1 - s)) : s * (1 - s);

            dgi[j] = d * zi[j] * slope;
            dzi[j] = d * s * (act == GATE_SILU ? gi[j] : 1);
        }
    }
}
