/* A vector register of reals, as the compiler's own type: arithmetic on it is element by
 * element, with a scalar it is with each element. */
#ifndef WEFT_VEC_H
#define WEFT_VEC_H

#include "model/kernels/real.h"

#if defined __AVX512F__
#define VEC_BYTES 64
#elif defined __AVX__
#define VEC_BYTES 32
#else
#define VEC_BYTES 16
#endif

enum { LANES = VEC_BYTES / sizeof(real) };

typedef real vec __attribute__((vector_size(VEC_BYTES), may_alias));
typedef real loose __attribute__((vector_size(VEC_BYTES), may_alias,
                                  aligned(sizeof(real))));

/* The sum of all elements: halves are added until sixteen bytes are left. */
static inline real vec_sum(vec x)
{
    typedef real sixteen __attribute__((vector_size(16)));
    union {
        vec     whole;
        sixteen part[VEC_BYTES / 16];
    } u = {x};
    real sum = 0;

    #pragma GCC unroll 2
    for (int half = VEC_BYTES / 32; half; half /= 2)
        #pragma GCC unroll 2
        for (int i = 0; i < half; i++)
            u.part[i] += u.part[half + i];
    #pragma GCC unroll 4
    for (int i = 0; i < 16 / (int)sizeof(real); i += 2)
        sum += u.part[0][i] + u.part[0][i + 1];
    return sum;
}

#endif
