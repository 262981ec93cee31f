/* An output gate: y = z silu(g) or y = z sigmoid(g), elementwise over rows.
 *
 * Each of y, z, g has n rows of e channels, ld reals from row to row.
 */
#ifndef WEFT_GATE_H
#define WEFT_GATE_H

#include "model/kernels/vmath.h"

#include <stddef.h>

enum gate { GATE_SILU, GATE_SIGMOID };

/* A row of each; in place as below. */
static inline void gate_row(enum gate act, real *y, const real *z, const real *g, int e)
{
    #pragma omp simd
    for (int j = 0; j < e; j++)
        y[j] = z[j] * (act == GATE_SILU ? g[j] : 1) * vsigmoid(g[j]);
}

/* silu' = s (1 + g (1 - s)),  sigmoid' = s (1 - s) */
static inline void gate_row_back(enum gate act, real *dz, real *dg, const real *dy,
                                 const real *z, const real *g, int e)
{
    #pragma omp simd
    for (int j = 0; j < e; j++) {
        real s = vsigmoid(g[j]), d = dy[j];
        real slope = act == GATE_SILU ? s * (1 + g[j] * (1 - s)) : s * (1 - s);

        dg[j] = d * z[j] * slope;
        dz[j] = d * s * (act == GATE_SILU ? g[j] : 1);
    }
}

/* y may be z. */
void gate_forward(enum gate act, real *y, size_t ldy, const real *z, size_t ldz,
                  const real *g, size_t ldg, long n, int e);

/* dz = dy act(g),  dg = dy z act'(g); both overwritten, dz may be dy. dz and dy are ldy
 * apart, dg is lddg, z and g as in forward. */
void gate_backward(enum gate act, real *dz, real *dg, size_t lddg, const real *dy,
                   size_t ldy, const real *z, size_t ldz, const real *g,
                   size_t ldg, long n, int e);

#endif
