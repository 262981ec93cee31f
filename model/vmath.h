/* Elementary functions that a compiler can vectorise: no branches, no tables, no calls. In the
 * double build they are libm's, so that the tests compare with the truth.
 *
 * Relative error of the float forms is below 3e-7; NaN stays NaN; exp(-INFINITY) is exactly 0.
 */
#ifndef WEFT_VMATH_H
#define WEFT_VMATH_H

#include "model/real.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef WEFT_DOUBLE

static inline real vexp(real x) { return exp(x); }
static inline real vtanh(real x) { return tanh(x); }

#else

/* e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln(2)/2, e^r by its Taylor polynomial of degree 7. */
static inline float vexp(float x)
{
    float   t = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    float   n = rintf(t * 1.44269504f);
    float   r = t - n * 0.693359375f + n * 2.12194440e-4f;
    float   p = 1.98412698e-4f;
    int32_t bits = ((int32_t)n + 127) << 23;
    float   scale;

    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    memcpy(&scale, &bits, sizeof scale);
    p *= scale;
    p = x < -87.0f ? 0.0f : p;
    return x > 88.0f ? INFINITY : p;
}

/* An odd polynomial near zero, where 1 - 2 / (e^2x + 1) would lose digits. */
static inline float vtanh(float x)
{
    float z = x * x, p = -5.70498873e-3f;
    float far = 1.0f - 2.0f / (vexp(2 * fabsf(x)) + 1.0f);

    p = p * z + 2.06390888e-2f;
    p = p * z - 5.37397156e-2f;
    p = p * z + 1.33314422e-1f;
    p = p * z - 3.33332819e-1f;
    return fabsf(x) < 0.625f ? p * z * x + x : copysignf(far, x);
}

#endif

static inline real vsigmoid(real x) { return 1 / (1 + vexp(-x)); }

#endif
