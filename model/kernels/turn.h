/* A square of LANES x LANES reals transposed in registers. */
#ifndef WEFT_TURN_H
#define WEFT_TURN_H

#include "model/kernels/vec.h"

#if defined __GNUC__ && !defined __clang__
#ifdef WEFT_DOUBLE
typedef long lane;
#else
typedef int lane;
#endif
typedef lane order __attribute__((vector_size(VEC_BYTES)));

/* to[p * width + j] = b[j * ld + p], a square of LANES x LANES. In round s = 1, 2, 4 ...
 * rows i and i + s exchange the blocks of s lanes that are on the wrong side of the
 * diagonal. */
static inline void turn_square(real *to, int width, const real *b, size_t ld)
{
    vec row[LANES];

    #pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        row[i] = *(const loose *)(b + i * ld);
    #pragma GCC unroll 4
    for (int s = 1; s < LANES; s *= 2) {
        order up, down;

        #pragma GCC unroll 16
        for (int j = 0; j < LANES; j++) {
            up[j] = j & s ? LANES + j - s : j;
            down[j] = j & s ? LANES + j : j + s;
        }
        #pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            if (!(i & s)) {
                vec x = row[i], y = row[i + s];

                row[i] = __builtin_shuffle(x, y, up);
                row[i + s] = __builtin_shuffle(x, y, down);
            }
    }
    #pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        *(vec *)(to + i * width) = row[i];
}
#else
static inline void turn_square(real *to, int width, const real *b, size_t ld)
{
    for (int j = 0; j < LANES; j++)
        for (int p = 0; p < LANES; p++)
            to[p * width + j] = b[j * ld + p];
}
#endif

#endif
