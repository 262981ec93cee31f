/* Numbers in fewer bits than float32, as files of others hold them.
 *
 *     f16     IEEE 754 half: 1 sign, 5 exponent, 10 fraction bits
 *     bf16    the upper half of a float32
 *     q8_0    ggml's: blocks of 32, each a float16 d = max |x| / 127 and 32 int8 x / d
 *
 * Rounding is to the nearest, for f16 and bf16 to the even one of two. The bytes are
 * little-endian and need no alignment.
 */
#ifndef WEFT_PACKED_H
#define WEFT_PACKED_H

#include <stddef.h>
#include <stdint.h>

enum packed { PACKED_F32, PACKED_F16, PACKED_BF16, PACKED_Q8_0 };
enum { Q8_BLOCK = 32, Q8_BYTES = 2 + Q8_BLOCK };

uint16_t f16_from_float(float x);           // beyond 65504 it is infinite
float    f16_to_float(uint16_t h);
uint16_t bf16_from_float(float x);
float    bf16_to_float(uint16_t h);

const char *packed_name(enum packed type);  // "f32", "f16", "bf16", "q8_0"

/* Bytes of n numbers; of q8_0 n is a multiple of Q8_BLOCK. */
size_t packed_bytes(enum packed type, size_t n);

void packed_write(enum packed type, void *to, const float *x, size_t n);
void packed_read(enum packed type, float *x, const void *from, size_t n);

#endif
