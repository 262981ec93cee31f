/* Elementary functions that a compiler can vectorise: no branches, no tables, no calls.
 * In the double build they are libm's, so that the tests compare with the truth.
 *
 *     vexp(x)        e^x; exactly 0 below -88, INFINITY above 88.4
 *     vexp2(x)       2^x for x < 127; exactly 0 below -127
 *     vexpm1(x)      e^x - 1
 *     vlog1p(x)      log(1 + x) for 0 <= x <= 1
 *     vtanh(x), verf(x), vsqrt(x)
 *     vsincos(x)     sine and cosine of a double, |x| <= 1e8
 *     vsigmoid(x)    1 / (1 + e^-x)
 *     vsoftplus(x)   log(1 + e^x);   vlsig(x)  log sigmoid(x)
 *     vgelu(x)       x N(x), N the normal distribution function;   vgelu_slope(x)
 *
 *     vmax, vdot, vscale, vaxpy, vscale_rows     on arrays
 *
 * The relative error of the float forms is below 3e-7. NaN stays NaN.
 */
#ifndef WEFT_VMATH_H
#define WEFT_VMATH_H

#include "model/kernels/real.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef WEFT_DOUBLE

static inline real vexp(real x) { return exp(x); }
static inline real vexp2(real x) { return exp2(x); }
static inline real vsqrt(real x) { return sqrt(x); }
static inline real vtanh(real x) { return tanh(x); }
static inline real vlog1p(real x) { return log1p(x); }
static inline real vexpm1(real x) { return expm1(x); }
static inline real verf(real x) { return erf(x); }
static inline void vsincos(double x, real *s, real *c) { *s = sin(x), *c = cos(x); }

#else

static inline float vsqrt(float x) { return sqrtf(x); }

/* x + ROUND leaves round(x) + 127, the exponent of 2^round(x), in the low bits: 0 of
 * -127, which is that of the number 0, and of 128 that of INFINITY. */
#define ROUND (12582912.0f + 127.0f)

/* 2^round(x), from x + ROUND. */
static inline float power_of_two(float sum)
{
    uint32_t bits;
    float    power;

    memcpy(&bits, &sum, sizeof bits);
    bits <<= 23;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln(2)/2, e^r by its minimax polynomial of
 * degree 6. */
static inline float vexp(float x)
{
    float least = x < -88.0f ? -88.0f : x, t = least > 89.0f ? 89.0f : least;
    float sum = t * 1.44269504f + ROUND, n = sum - ROUND;
    float r = t - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.381422043e-3f;

    p = p * r + 8.368898876e-3f;
    p = p * r + 4.166840575e-2f;
    p = p * r + 1.666651913e-1f;
    p = p * r + 4.999999335e-1f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * power_of_two(sum);
}

/* 2^x for x < 127; 2^r, |r| <= 1/2, by its minimax polynomial of degree 6. */
static inline float vexp2(float x)
{
    float t = x < -127.0f ? -127.0f : x, sum = t + ROUND, r = t - (sum - ROUND);
    float p = 1.534581201e-4f;

    p = p * r + 1.339993122e-3f;
    p = p * r + 9.618488957e-3f;
    p = p * r + 5.550328777e-2f;
    p = p * r + 2.402264689e-1f;
    p = p * r + 6.931472057e-1f;
    p = p * r + 1.0f;
    return p * power_of_two(sum);
}

#undef ROUND

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

/* e^x - 1: by Taylor's polynomial of degree 10 for |x| < 1, where subtracting
 * would lose digits. */
static inline float vexpm1(float x)
{
    float p = 2.75573192e-7f;

    p = p * x + 2.75573192e-6f;
    p = p * x + 2.48015873e-5f;
    p = p * x + 1.98412698e-4f;
    p = p * x + 1.38888889e-3f;
    p = p * x + 8.33333333e-3f;
    p = p * x + 4.16666667e-2f;
    p = p * x + 1.66666667e-1f;
    p = p * x + 0.5f;
    return fabsf(x) < 1.0f ? p * x * x + x : vexp(x) - 1.0f;
}

/* log(1 + x) for 0 <= x <= 1: 2 artanh(s) by its series, s = x / (2 + x) <= 1/3. */
static inline float vlog1p(float x)
{
    float s = x / (2.0f + x), z = s * s, p = 6.66666667e-2f;

    p = p * z + 7.69230769e-2f;
    p = p * z + 9.09090909e-2f;
    p = p * z + 1.11111111e-1f;
    p = p * z + 1.42857143e-1f;
    p = p * z + 2.00000000e-1f;
    p = p * z + 3.33333333e-1f;
    return 2 * (p * z * s + s);
}

/* x times a polynomial in x² near zero, 1 - e^p(|x|) beyond, where p = log erfc;
 * 1 from 4 on. */
static inline float verf(float x)
{
    float z = x * x, t = fabsf(x) > 4.0f ? 4.0f : fabsf(x);
    float p = 8.52940135e-5f, q = -1.40634592e-5f;

    p = p * z - 8.17963219e-4f;
    p = p * z + 5.20422669e-3f;
    p = p * z - 2.68606648e-2f;
    p = p * z + 1.12837181e-1f;
    p = p * z - 3.76126352e-1f;
    p = p * z + 1.12837917f;
    q = q * t + 3.31223106e-4f;
    q = q * t - 3.53993505e-3f;
    q = q * t + 2.30415230e-2f;
    q = q * t - 1.04310381e-1f;
    q = q * t - 6.37737368e-1f;
    q = q * t - 1.12691697f;
    q = q * t - 4.59106873e-4f;
    return fabsf(x) < 0.9f ? p * x : copysignf(1.0f - vexp(q), x);
}

/* Sine and cosine of an angle in double, |x| <= 1e8, to 2e-7: x = n pi/2 + r,
 * |r| <= pi/4, by their Taylor polynomials of degree 9 and 8 in r; the quadrant n mod 4
 * exchanges them and sets signs. */
static inline void vsincos(double x, float *s, float *c)
{
    double  n = rint(x * 0.63661977236758134), turns = n - 4 * rint(n * 0.25);
    int32_t quadrant = turns == turns ? (int32_t)turns : 0;
    float   r = (float)(x - n * 1.5707963267948966), z = r * r;
    float   p = 2.75573192e-6f, q = 2.48015873e-5f, a, b;

    p = p * z - 1.98412698e-4f;
    p = p * z + 8.33333333e-3f;
    p = p * z - 1.66666667e-1f;
    p = p * z * r + r;
    q = q * z - 1.38888889e-3f;
    q = q * z + 4.16666667e-2f;
    q = q * z - 0.5f;
    q = q * z + 1.0f;
    a = quadrant & 1 ? q : p;
    b = quadrant & 1 ? p : q;
    *s = quadrant & 2 ? -a : a;
    *c = (quadrant + 1) & 2 ? -b : b;
}

#endif

/* The largest of m and x[0 .. n). Sixteen maxima in step: compilers will
 * not reorder one. */
static inline real vmax(const real *x, int n, real m)
{
    real lane[16];
    int  j = 0;

    for (int l = 0; l < 16; l++)
        lane[l] = m;
    for (; j + 16 <= n; j += 16) {
        #pragma omp simd
        for (int l = 0; l < 16; l++)
            lane[l] = x[j + l] > lane[l] ? x[j + l] : lane[l];
    }
    for (; j < n; j++)
        lane[0] = x[j] > lane[0] ? x[j] : lane[0];
    for (int l = 0; l < 16; l++)
        m = lane[l] > m ? lane[l] : m;
    return m;
}

static inline real vdot(const real *x, const real *y, int n)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < n; j++)
        sum += x[j] * y[j];
    return sum;
}

/* y = by x; y may be x. */
static inline void vscale(real *y, real by, const real *x, int n)
{
    #pragma omp simd
    for (int j = 0; j < n; j++)
        y[j] = by * x[j];
}

/* y += by x. */
static inline void vaxpy(real *y, real by, const real *x, int n)
{
    #pragma omp simd
    for (int j = 0; j < n; j++)
        y[j] += by * x[j];
}

/* Row x of to = by[x] times row x of from, (rows, n) ld apart; to may be from. */
static inline void vscale_rows(real *to, const real *from, size_t ld, const real *by,
                               int rows, int n)
{
    for (int x = 0; x < rows; x++)
        vscale(to + x * ld, by[x], from + x * ld, n);
}

static inline real vsigmoid(real x) { return 1 / (1 + vexp(-x)); }

/* log(1 + e^x), and log sigmoid(x). */
static inline real vsoftplus(real x)
{
    return (x > 0 ? x : 0) + vlog1p(vexp(x > 0 ? -x : x));
}

static inline real vlsig(real x) { return -vsoftplus(-x); }

/* GELU(x) = x N(x), N the normal distribution function; and its derivative N + x N'. */
static inline real vgelu(real x)
{
    return (real)0.5 * x * (1 + verf(x * (real)0.70710678118654752));
}

static inline real vgelu_slope(real x)
{
    return (real)0.5 * (1 + verf(x * (real)0.70710678118654752)) +
           x * vexp(x * x * (real)-0.5) * (real)0.39894228040143268;
}

#endif
