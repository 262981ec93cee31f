#include "model/layers/gate.h"

#include "model/kernels/ahead.h"

void gate_forward(enum gate act, real *y, size_t ldy, const real *z, size_t ldz,
                  const real *g, size_t ldg, long n, int e)
{
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++) {
        send_for(z + (i + AHEAD_ROWS) * ldz, e);
        send_for(g + (i + AHEAD_ROWS) * ldg, e);
        send_for_own(y + (i + AHEAD_ROWS) * ldy, e);
        gate_row(act, y + i * ldy, z + i * ldz, g + i * ldg, e);
    }
}

void gate_backward(enum gate act, real *dz, real *dg, size_t lddg, const real *dy,
                   size_t ldy, const real *z, size_t ldz, const real *g,
                   size_t ldg, long n, int e)
{
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++) {
        const long next = i + AHEAD_ROWS;

        send_for(z + next * ldz, e);
        send_for(g + next * ldg, e);
        send_for_own(dy + next * ldy, e);
        send_for_own(dg + next * lddg, e);
        gate_row_back(act, dz + i * ldy, dg + i * lddg, dy + i * ldy, z + i * ldz,
                      g + i * ldg, e);
    }
}
