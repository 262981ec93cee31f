/* float16, bfloat16 and q8_0: every half, ties, and ggml's rule for a block. */
#include "model/kernels/packed.h"
#include "tests/support/rig.h"

#include <math.h>
#include <string.h>

START_TEST(every_half_comes_back)
{
    for (uint32_t h = 0; h < 1 << 16; h++) {
        float x = f16_to_float((uint16_t)h), y = bf16_to_float((uint16_t)h);

        if (isnan(x))
            ck_assert(isnan(f16_to_float(f16_from_float(x))));
        else
            ck_assert_uint_eq(f16_from_float(x), h);
        if (isnan(y))
            ck_assert(isnan(bf16_to_float(bf16_from_float(y))));
        else
            ck_assert_uint_eq(bf16_from_float(y), h);
    }
}
END_TEST

/* Between two neighbours the middle goes to the even one, and what lies beside it to the
 * nearer. */
START_TEST(a_float_goes_to_the_nearest_half)
{
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float    a = f16_to_float((uint16_t)h), b = f16_to_float((uint16_t)(h + 1));
        float    middle = (float)(((double)a + (double)b) / 2);
        uint32_t even = h + (h & 1);

        ck_assert_uint_eq(f16_from_float(middle), even);
        ck_assert_uint_eq(f16_from_float(nextafterf(middle, a)), h);
        ck_assert_uint_eq(f16_from_float(nextafterf(-middle, -b)), 0x8000 | (h + 1));
    }
    ck_assert_uint_eq(f16_from_float(65519.99f), 0x7bff);
    ck_assert_uint_eq(f16_from_float(65520), 0x7c00);
    ck_assert_uint_eq(f16_from_float(-INFINITY), 0xfc00);
    ck_assert_uint_eq(bf16_from_float(1 + 0x1p-8f), 0x3f80);
    ck_assert_uint_eq(bf16_from_float(1 + 0x1.8p-7f), 0x3f82);
}
END_TEST

START_TEST(a_block_of_q8_0_is_a_scale_and_rounded_quotients)
{
    float         x[2 * Q8_BLOCK] = {0}, y[2 * Q8_BLOCK];
    unsigned char b[2 * Q8_BYTES];
    uint16_t      d;

    for (int i = 0; i < Q8_BLOCK; i++)
        x[i] = (float)(i - 10);
    ck_assert_uint_eq(packed_bytes(PACKED_Q8_0, 2 * Q8_BLOCK), sizeof b);
    packed_write(PACKED_Q8_0, b, x, 2 * Q8_BLOCK);
    memcpy(&d, b, 2);
    ck_assert_uint_eq(d, f16_from_float(21.0f / 127));
    ck_assert_int_eq((int8_t)b[2 + 31], 127);
    ck_assert_int_eq((int8_t)b[2], -60);            // -10 * 127 / 21 = -60.48
    packed_read(PACKED_Q8_0, y, b, 2 * Q8_BLOCK);
    for (int i = 0; i < 2 * Q8_BLOCK; i++)
        ck_assert_float_eq_tol(y[i], x[i], 21.0f / 254 + 0.01f);
    for (int i = Q8_BYTES; i < 2 * Q8_BYTES; i++)
        ck_assert_uint_eq(b[i], 0);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("packed");
    TCase *tc = tcase_create("packed");

    tcase_add_test(tc, every_half_comes_back);
    tcase_add_test(tc, a_float_goes_to_the_nearest_half);
    tcase_add_test(tc, a_block_of_q8_0_is_a_scale_and_rounded_quotients);
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
