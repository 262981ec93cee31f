#include "model/kernels/packed.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are written as they lie in memory");

static uint32_t bits_of(float x)
{
    uint32_t b;

    memcpy(&b, &x, sizeof b);
    return b;
}

static float float_of(uint32_t b)
{
    float x;

    memcpy(&x, &b, sizeof x);
    return x;
}

/* ---- one number -------------------------------------------------------------------- */

/* b without its last `drop` bits, rounded to the nearest, ties to even. */
static uint32_t round_off(uint32_t b, int drop)
{
    uint32_t half = 1u << (drop - 1), odd = b >> drop & 1;

    return (b + half - 1 + odd) >> drop;
}

uint16_t f16_from_float(float x)
{
    uint32_t b = bits_of(x), sign = b >> 16 & 0x8000, mag = b & 0x7fffffff;

    if (mag > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);                           // NaN
    if (mag >= 0x477ff000)
        return (uint16_t)(sign | 0x7c00);                           // rounds beyond 65504
    if (mag >= 0x38800000)
        return (uint16_t)(sign | round_off(mag - 0x38000000, 13));
    if (mag < 0x33000000)
        return (uint16_t)sign;                                      // below 2^-25
    return (uint16_t)(sign | round_off((mag & 0x7fffff) | 0x800000,
                                       126 - (int)(mag >> 23)));    // a subnormal
}

float f16_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 0x1f, f = h & 0x3ff;

    if (e == 0x1f)
        return float_of(sign | 0x7f800000 | f << 13);
    if (e)
        return float_of(sign | (e + 112) << 23 | f << 13);
    return float_of(sign | bits_of((float)f * 0x1p-24f));
}

uint16_t bf16_from_float(float x)
{
    uint32_t b = bits_of(x);

    if ((b & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(b >> 16 | 0x40);                          // NaN stays one
    return (uint16_t)round_off(b, 16);
}

float bf16_to_float(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

/* ---- a block of q8_0 --------------------------------------------------------------- */

static void q8_write(unsigned char *to, const float *x)
{
    float    most = 0, d, by;
    uint16_t h;

    for (int i = 0; i < Q8_BLOCK; i++)
        most = fmaxf(most, fabsf(x[i]));
    d = most / 127;
    by = d > 0 ? 1 / d : 0;
    h = f16_from_float(d);
    memcpy(to, &h, 2);
    for (int i = 0; i < Q8_BLOCK; i++)
        to[2 + i] = (unsigned char)(int8_t)roundf(x[i] * by);
}

static void q8_read(float *x, const unsigned char *from)
{
    uint16_t h;
    float    d;

    memcpy(&h, from, 2);
    d = f16_to_float(h);
    for (int i = 0; i < Q8_BLOCK; i++)
        x[i] = d * (float)(int8_t)from[2 + i];
}

/* ---- many -------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t      block, bytes;           // numbers in a block and what it takes
} types[] = {
    [PACKED_F32]  = {"f32", 1, 4},
    [PACKED_F16]  = {"f16", 1, 2},
    [PACKED_BF16] = {"bf16", 1, 2},
    [PACKED_Q8_0] = {"q8_0", Q8_BLOCK, Q8_BYTES},
};

const char *packed_name(enum packed type) { return types[type].name; }

size_t packed_bytes(enum packed type, size_t n)
{
    return n / types[type].block * types[type].bytes;
}

static void halves_write(unsigned char *to, const float *x, size_t n,
                         uint16_t (*half)(float))
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h = half(x[i]);

        memcpy(to + 2 * i, &h, 2);
    }
}

static void halves_read(float *x, const unsigned char *from, size_t n,
                        float (*whole)(uint16_t))
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;

        memcpy(&h, from + 2 * i, 2);
        x[i] = whole(h);
    }
}

void packed_write(enum packed type, void *to, const float *x, size_t n)
{
    unsigned char *b = to;

    if (type == PACKED_F32)
        memcpy(b, x, n * sizeof *x);
    else if (type == PACKED_F16)
        halves_write(b, x, n, f16_from_float);
    else if (type == PACKED_BF16)
        halves_write(b, x, n, bf16_from_float);
    else
        for (size_t i = 0; i < n / Q8_BLOCK; i++)
            q8_write(b + i * Q8_BYTES, x + i * Q8_BLOCK);
}

void packed_read(enum packed type, float *x, const void *from, size_t n)
{
    const unsigned char *b = from;

    if (type == PACKED_F32)
        memcpy(x, b, n * sizeof *x);
    else if (type == PACKED_F16)
        halves_read(x, b, n, f16_to_float);
    else if (type == PACKED_BF16)
        halves_read(x, b, n, bf16_to_float);
    else
        for (size_t i = 0; i < n / Q8_BLOCK; i++)
            q8_read(x + i * Q8_BLOCK, b + i * Q8_BYTES);
}
