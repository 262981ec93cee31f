/* Rotations of pairs (j, j + dk/2) of a head by angles theta:
 *
 *     (a, b) -> (a cos - b sin, a sin + b cos)
 */
#ifndef WEFT_ROTATE_H
#define WEFT_ROTATE_H

#include "model/kernels/real.h"

#include <stddef.h>

/* cos and sin of theta (B, T, heads, dk/2), addressed by strides so that an encoding
 * which is the same for all sequences and heads keeps one row per position. */
struct angles {
    int     heads, dk;
    size_t  b, t, h;    // strides in reals
    real   *cos, *sin;  // NULL: nothing rotates
    real   *dtheta;     // (B, T, heads, dk/2) gathered by rotate_back; NULL: not wanted
};

/* Rotate z (B, T, heads_z, dk) in place; token t of sequence b starts at z + (b T + t)
 * ld. Head i takes the angles of head i * heads / heads_z. */
void rotate(const struct angles *a, real *z, int B, int T, int heads_z, size_t ld);

/* Of tokens from .. from + n - 1 of all B T, by the calling thread. */
void rotate_rows(const struct angles *a, real *z, int T, long from, long n, int heads_z,
                 size_t ld);

/* The gradient of rotate: dz <- rotate(dz, -theta), and, where wanted,
 * dtheta += dz[j + dk/2] z[j] - dz[j] z[j + dk/2] with z as rotated. */
void rotate_back(const struct angles *a, const real *z, real *dz, int B, int T,
                 int heads_z, size_t ld_z, size_t ld_dz);
void rotate_back_rows(const struct angles *a, const real *z, real *dz, int T, long from,
                      long n, int heads_z, size_t ld_z, size_t ld_dz);

#endif
