/* A vector register of reals, as the compiler's own type: arithmetic on it is element by
 * element, with a scalar it is with each element. */
#ifndef WEFT_VEC_H
#define WEFT_VEC_H

#include "model/real.h"

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

static inline real vec_sum(vec x)
{
    real sum = 0;

    for (int i = 0; i < LANES; i++)
        sum += x[i];
    return sum;
}

#endif
