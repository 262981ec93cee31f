/* Angles that tokens wind up, step by step.
 *
 *     theta_{t,h,j} = theta_{t-1,h,j} + freq_j gate_{t,h} (z_{t,h,j} + more_{h,j})
 *
 * Every step brings theta back to [-pi, pi] in double: its error is that of the steps,
 * at any length. z, cos, sin (B, T, heads, half); gate (B, T, heads), or NULL for 1.
 */
#ifndef WEFT_WINDING_H
#define WEFT_WINDING_H

#include "model/kernels/real.h"

#include <stddef.h>

struct winding {
    int           B, T, heads, half;
    const double *freq;         // (half)
    const double *more;         // (heads, half)
    const real   *z, *gate;
};

/* theta[b] (heads, half) of sequence b goes on from where it is. */
void winding_forward(const struct winding *o, double *const *theta, real *cos, real *sin);

struct winding_grads {
    double *sum;                // (B, heads, half) scratch
    real   *dz;                 // as z
    real   *dlogit;             // as gate: through its sigmoid
    double *dmore, *dlogits;    // (B, heads, half), (B, heads): sums over t of dz, dlogit
};

/* All overwritten, from dtheta (as z). */
void winding_backward(const struct winding *o, const struct winding_grads *g,
                      const real *dtheta);

#endif
