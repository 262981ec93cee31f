#include "tools/lab/learn.h"

#include "model/kernels/vmath.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { PAIRS = 256 };

/* ---- samples ----------------------------------------------------------------------- */

/* -log((a + 1/2) / 2^31), a < 2^31. */
#ifdef WEFT_DOUBLE
static inline real minus_log(int32_t a)
{
    return 31 * 0.69314718055994531 - log(a + 0.5);
}
#else
static inline real minus_log(int32_t a)
{
    float    f = (float)a + 0.5f, m;
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    float power = (float)((int32_t)(bits >> 23) - 127 - 31);

    bits = (bits & 0x7fffff) | 0x3f800000;
    memcpy(&m, &bits, sizeof m);
    m = -(power * 0.69314718f + vlog1p(m - 1));
    return m > 0 ? m : 0;
}
#endif

/* Box and Muller: n <= PAIRS pairs, one draw of 64 bits each. */
static void box_muller(struct rng *r, real *x, real *y, int n)
{
    int32_t  radius[PAIRS], angle[PAIRS];
    uint64_t u[PAIRS];

    rng_fill(r, u, n);
    for (int i = 0; i < n; i++) {
        radius[i] = (int32_t)(u[i] >> 33);
        angle[i] = (int32_t)(u[i] & 0x7fffffff);
    }
    #pragma omp simd
    for (int i = 0; i < n; i++) {
        real s, c, far = vsqrt(2 * minus_log(radius[i]));

        vsincos(angle[i] * (6.283185307179586 / 2147483648.0), &s, &c);
        x[i] = far * c;
        y[i] = far * s;
    }
}

void normals(struct rng *r, real *x, long n)
{
    real last[2 * PAIRS];

    for (; n >= 2 * PAIRS; n -= 2 * PAIRS, x += 2 * PAIRS)
        box_muller(r, x, x + PAIRS, PAIRS);
    box_muller(r, last, last + (n + 1) / 2, (int)(n + 1) / 2);
    memcpy(x, last, n * sizeof *x);
}

/* ---- updates ----------------------------------------------------------------------- */

void adam(real *w, const real *g, real *moments, int n, double lr, long t)
{
    real *m = moments, *v = moments + n;
    real  m_scale = (real)(1 / (1 - pow(0.9, (double)t)));
    real  v_scale = (real)(1 / (1 - pow(0.999, (double)t)));

    for (int i = 0; i < n; i++) {
        m[i] += (real)0.1 * (g[i] - m[i]);
        v[i] += (real)0.001 * (g[i] * g[i] - v[i]);
        w[i] -= (real)lr * m[i] * m_scale / (vsqrt(v[i] * v_scale) + (real)1e-8);
    }
}

double cooled(double lr, long t, long n)
{
    double late = 2.0 * t / n - 1;

    return late <= 0 ? lr : lr * (1 + cos(3.141592653589793 * late)) / 2;
}

/* ---- summaries --------------------------------------------------------------------- */

struct estimate estimate_of(double sum, double squares, double n)
{
    double mean = sum / n, spread = squares / n - mean * mean;

    return (struct estimate){mean, sqrt((spread > 0 ? spread : 0) / (n > 1 ? n - 1 : 1))};
}

double log_slope(const double *x, const double *y, int n)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0;

    for (int i = 0; i < n; i++) {
        double a = log(x[i]), b = log(y[i]);

        sx += a, sy += b, sxx += a * a, sxy += a * b;
    }
    return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}
