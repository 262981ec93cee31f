/* Phases: the angles of a head's pairs, to which every token adds its own step (selective
 * RoPE).
 *
 *     theta_{t,h,j} = theta_{t-1,h,j} + freq_j gate_{t,h} (z_{t,h,j} + more_{h,j})
 *
 * Every step brings theta back to [-pi, pi] in double: its error is that of the steps,
 * at any length. z, cos, sin (B, T, heads, half); gate (B, T, heads), or NULL for 1.
 */
#ifndef WEFT_PHASE_H
#define WEFT_PHASE_H

#include "model/kernels/real.h"

#include <stddef.h>

struct phase {
    int           B, T, heads, half;
    const double *freq;         // (half)
    const double *more;         // (heads, half) what every token adds to its z
    const real   *z, *gate;
};

/* theta[b] (heads, half) of sequence b goes on from where it is. */
void phase_forward(const struct phase *o, double *const *theta, real *cos, real *sin);

struct phase_grad {
    double *sum;                // (B, heads, half) scratch
    real   *dz;                 // as z
    real   *dlogit;             // as gate: through its sigmoid
    double *dmore, *dlogits;    // (B, heads, half), (B, heads): sums over t of dz, dlogit
};

/* All overwritten, from dtheta (as z). */
void phase_backward(const struct phase *o, const struct phase_grad *g,
                    const real *dtheta);

#endif
