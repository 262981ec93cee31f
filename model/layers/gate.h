/* An output gate: y = z silu(g) or y = z sigmoid(g), elementwise over rows.
 *
 * Each of y, z, g has n rows of e channels, ld reals from row to row.
 */
#ifndef WEFT_GATE_H
#define WEFT_GATE_H

#include "model/kernels/real.h"

#include <stddef.h>

enum gate { GATE_SILU, GATE_SIGMOID };

/* y may be z. */
void gate_forward(enum gate act, real *y, size_t ldy, const real *z, size_t ldz,
                  const real *g, size_t ldg, long n, int e);

/* dz = dy act(g),  dg = dy z act'(g); both overwritten, dz may be dy. dz and dy are ldy
 * apart, dg is lddg, z and g as in forward. */
void gate_backward(enum gate act, real *dz, real *dg, size_t lddg, const real *dy,
                   size_t ldy, const real *z, size_t ldz, const real *g,
                   size_t ldg, long n, int e);

#endif
