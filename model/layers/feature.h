/* Feature maps of kernel attention: phi(q) . phi(k) stands for the weight of a key.
 *
 *     elu1        m = dk      z + 1 (z >= 0), e^z (z < 0)
 *     relu        dk          max(z, 0)
 *     taylor      1 + dk + dk (dk + 1)/2
 *                             1, z_i / dk^(1/4), z_i² / sqrt(2 dk), z_i z_j / sqrt(dk)
 *                             (i < j): phi(q) . phi(k) = 1 + s + s²/2, s = q.k / sqrt(dk)
 *     hedgehog    2 dk        softmax(y), softmax(-y), y = W z + b per head
 *     favor       chosen      m^(-1/2) exp(w_i.z' - |z'|²/2), z' = z / dk^(1/4)
 *     cosformer   2 dk        relu(z) sin a_t, relu(z) cos a_t,
 *                             a_t = pi (t + 1) / (2 horizon)
 *     id          dk          z; callers use z itself
 *
 * z (B, T, H, dk) has ld reals from token to token, phi (B, T, H, m) has none between.
 */
#ifndef WEFT_FEATURE_H
#define WEFT_FEATURE_H

#include "data/base/rng.h"
#include "model/kernels/real.h"

#include <stddef.h>

enum feature_map {
    FEATURE_ELU1, FEATURE_RELU, FEATURE_TAYLOR, FEATURE_HEDGEHOG, FEATURE_FAVOR,
    FEATURE_COSFORMER, FEATURE_ID,
};

#define FEATURE_MAPS "elu1|relu|taylor|hedgehog|favor|cosformer|id"

struct feature {
    enum feature_map map;
    int         B, T, H, dk, m;
    const real *w;              // hedgehog: (H, dk, dk); favor: (m, dk), shared by heads
    const real *b;              // hedgehog: (H, dk)
    const long *pos;            // cosformer: (B) tokens before the first; NULL: none
    int         horizon;        // cosformer
};

/* m of a map; favor takes the one that is chosen. */
int feature_width(enum feature_map map, int dk, int chosen);

/* The rows w (m, dk) of favor: blocks of dk orthonormal rows of uniform direction, each
 * row times the length of a normal vector. */
void feature_draw(real *w, int m, int dk, struct rng *r);

/* Where top is given (favor only), phi is divided by e^top, top (B, T, H), so that its
 * largest entry is m^(-1/2). */
void feature_forward(const struct feature *f, real *phi, real *top, const real *z,
                     size_t ld);

/* dz from dphi, overwritten; dw and db of hedgehog are added to. phi is what forward
 * left, divided or not: the gradient by phi / e^top gives the same dz. dphi changes. */
void feature_backward(const struct feature *f, real *dz, size_t ld_dz, real *dw, real *db,
                      real *dphi, const real *phi, const real *z, size_t ld);

#endif
