/* A block of 32 packed numbers (packed.h) as vectors of reals. */
#ifndef WEFT_UNPACK_H
#define WEFT_UNPACK_H

#include "model/kernels/packed.h"
#include "model/kernels/vec.h"

#include <string.h>

#if defined __F16C__ || defined __AVX2__
#include <immintrin.h>
#endif

enum { BLOCK_VECS = Q8_BLOCK / LANES };     // vectors of a block

typedef float    lane_floats __attribute__((vector_size(LANES * sizeof(float))));
typedef uint32_t lane_words __attribute__((vector_size(LANES * sizeof(uint32_t))));
typedef int32_t  lane_ints __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef uint16_t lane_halves __attribute__((vector_size(LANES * sizeof(uint16_t))));
typedef int8_t   lane_bytes __attribute__((vector_size(LANES)));

/* The scale of a block of q8_0. */
static inline float q8_scale(const unsigned char *block)
{
    uint16_t h;

    memcpy(&h, block, sizeof h);
#ifdef __F16C__
    return _cvtsh_ss(h);
#else
    return f16_to_float(h);
#endif
}

static inline vec unpack_bf16(const unsigned char *from)
{
    lane_halves h;

    memcpy(&h, from, sizeof h);
    return __builtin_convertvector(
        (lane_floats)(__builtin_convertvector(h, lane_words) << 16), vec);
}

/* LANES bytes with their signs; gcc takes them one by one where it is not told how. */
static inline lane_ints widened(const unsigned char *from)
{
#if defined __AVX512F__ && !defined WEFT_DOUBLE
    return (lane_ints)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from));
#elif defined __AVX2__ && !defined __AVX512F__ && !defined WEFT_DOUBLE
    return (lane_ints)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from));
#else
    lane_bytes q;

    memcpy(&q, from, sizeof q);
    return __builtin_convertvector(q, lane_ints);
#endif
}

static inline vec unpack_q8(const unsigned char *from, float scale)
{
    return __builtin_convertvector(widened(from), vec) * scale;
}

/* The block at from, of bf16 or q8_0, a constant wherever this is inlined. */
static inline __attribute__((always_inline)) void
unpack_block(enum packed type, vec to[BLOCK_VECS], const unsigned char *from)
{
    float scale = type == PACKED_Q8_0 ? q8_scale(from) : 1;

    #pragma GCC unroll 8
    for (int j = 0; j < BLOCK_VECS; j++)
        to[j] = type == PACKED_Q8_0 ? unpack_q8(from + 2 + j * LANES, scale)
                                    : unpack_bf16(from + j * LANES * 2);
}

#endif
