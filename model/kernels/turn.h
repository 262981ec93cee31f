/* A square of LANES x LANES reals transposed in registers. */
#ifndef WEFT_TURN_H
#define WEFT_TURN_H

#include "model/kernels/vec.h"

#if defined __GNUC__ && !defined __clang__
/* Rows i and i + s exchange the blocks of s lanes that are on the wrong side of the
 * diagonal. s is a constant wherever this is inlined. */
static inline __attribute__((always_inline)) void exchange_blocks(vec row[LANES], int s)
{
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

/* to[p * width + j] = b[j * ld + p], a square of LANES x LANES. */
static inline void turn_square(real *to, int width, const real *b, size_t ld)
{
    vec row[LANES];

    #pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        row[i] = *(const loose *)(b + i * ld);
    exchange_blocks(row, 1);
    if (LANES >= 4)
        exchange_blocks(row, 2);
    if (LANES >= 8)
        exchange_blocks(row, 4);
    if (LANES >= 16)
        exchange_blocks(row, 8);
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
