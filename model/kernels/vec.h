/* A vector register of reals, as the compiler's own type: arithmetic on it is element by
 * element, with a scalar it is with each element. */
#ifndef WEFT_VEC_H
#define WEFT_VEC_H

#include "model/kernels/real.h"

#include <string.h>

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

#ifdef WEFT_DOUBLE
typedef long lane_index;
#else
typedef int lane_index;
#endif
typedef lane_index order __attribute__((vector_size(VEC_BYTES)));   // of lanes, shuffled

/* The first n elements, n of them where they are fewer than LANES; then zeros. */
static inline vec vec_load(const real *x, int n)
{
    vec v = {0};

    if (n >= LANES)
        return *(const loose *)x;
    memcpy(&v, x, n * sizeof *x);
    return v;
}

static inline void vec_store(real *x, vec v, int n)
{
    if (n >= LANES)
        *(loose *)x = v;
    else
        memcpy(x, &v, n * sizeof *x);
}

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

#if defined __GNUC__ && !defined __clang__
/* n vectors that hold groups of m lanes become n / 2 with groups of m / 2, in their
 * order. Lanes that vec_sum adds are added: halves, and of sixteen bytes neighbours.
 * n and m are constants wherever this is inlined. */
static inline __attribute__((always_inline)) void halve_groups(vec *x, int n, int m)
{
    const int near = m <= 16 / (int)sizeof(real), half = m / 2;
    order     one, other;

    #pragma GCC unroll 16
    for (int j = 0; j < LANES; j++) {
        one[j] = j / half * m + j % half * (near ? 2 : 1);
        other[j] = j / half * m + (near ? j % half * 2 + 1 : j % half + half);
    }
    #pragma GCC unroll 8
    for (int i = 0; i < n / 2; i++)
        x[i] = __builtin_shuffle(x[2 * i], x[2 * i + 1], one) +
               __builtin_shuffle(x[2 * i], x[2 * i + 1], other);
}

/* vec_sum of LANES vectors, the same bits; x is spoilt. */
static inline __attribute__((always_inline)) vec vec_sums(vec x[LANES])
{
    const vec zero = {0};

    halve_groups(x, LANES, LANES);
    if (LANES >= 4)
        halve_groups(x, LANES / 2, LANES / 2);
    if (LANES >= 8)
        halve_groups(x, LANES / 4, LANES / 4);
    if (LANES >= 16)
        halve_groups(x, LANES / 8, LANES / 8);
    return zero + x[0];
}
#else
static inline vec vec_sums(vec x[LANES])
{
    vec sums;

    for (int i = 0; i < LANES; i++)
        sums[i] = vec_sum(x[i]);
    return sums;
}
#endif

#endif
