#include "model/layers/gate.h"

void gate_forward(enum gate act, real *y, size_t ldy, const real *z, size_t ldz,
                  const real *g, size_t ldg, long n, int e)
{
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        gate_row(act, y + i * ldy, z + i * ldz, g + i * ldg, e);
}

void gate_backward(enum gate act, real *dz, real *dg, size_t lddg, const real *dy,
                   size_t ldy, const real *z, size_t ldz, const real *g,
                   size_t ldg, long n, int e)
{
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        gate_row_back(act, dz + i * ldy, dg + i * lddg, dy + i * ldy, z + i * ldz,
                      g + i * ldg, e);
}
