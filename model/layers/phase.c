#include "model/layers/phase.h"

#include "model/kernels/vmath.h"

#include <math.h>
#include <string.h>

static const double TURN = 6.283185307179586;

/* One token of one head. */
static inline void step(double *theta, real *cos_row, real *sin_row, const real *z,
                        const double *more, const double *freq, double gate, int n)
{
    #pragma omp simd
    for (int j = 0; j < n; j++) {
        double a = theta[j] + freq[j] * gate * (z[j] + more[j]);

        a -= TURN * rint(a * (1 / TURN));
        theta[j] = a;
        vsincos(a, sin_row + j, cos_row + j);
    }
}

static real gate_of(const struct phase *o, size_t row)
{
    return o->gate ? o->gate[row] : 1;
}

void phase_forward(const struct phase *o, double *const *theta, real *cos, real *sin)
{
    const int half = o->half;

    #pragma omp parallel for collapse(2) schedule(static) \
        if ((long)o->B * o->T > FEW_ROWS)
    for (int b = 0; b < o->B; b++)
        for (int h = 0; h < o->heads; h++)
            for (int t = 0; t < o->T; t++) {
                size_t row = ((size_t)b * o->T + t) * o->heads + h, at = row * half;

                step(theta[b] + h * half, cos + at, sin + at, o->z + at,
                     o->more + h * half, o->freq, (double)gate_of(o, row), half);
            }
}

/* One token of one head: sum_t = sum_{t+1} + freq dtheta_t is the gradient of the gated
 * step. Returns the gradient of the gate. */
static inline double step_back(double *sum, real *dz, double *dmore, const real *dtheta,
                               const real *z, const double *more, const double *freq,
                               double gate, int n)
{
    double dgate = 0;

    #pragma omp simd reduction(+ : dgate)
    for (int j = 0; j < n; j++) {
        double d = sum[j] + freq[j] * dtheta[j];

        sum[j] = d;
        dgate += d * (z[j] + more[j]);
        dz[j] = (real)(gate * d);
        dmore[j] += gate * d;
    }
    return dgate;
}

static void head_back(const struct phase *o, const struct phase_grad *g,
                      const real *dtheta, int b, int h)
{
    const int half = o->half;
    size_t    head = (size_t)b * o->heads + h;

    memset(g->sum + head * half, 0, half * sizeof *g->sum);
    memset(g->dmore + head * half, 0, half * sizeof *g->dmore);
    g->dlogits[head] = 0;
    for (int t = o->T - 1; t >= 0; t--) {
        size_t row = ((size_t)b * o->T + t) * o->heads + h, at = row * half;
        double gate = (double)gate_of(o, row);
        double d = step_back(g->sum + head * half, g->dz + at, g->dmore + head * half,
                             dtheta + at, o->z + at, o->more + h * half, o->freq, gate,
                             half);

        g->dlogit[row] = (real)(d * gate * (1 - gate));
        g->dlogits[head] += d * gate * (1 - gate);
    }
}

void phase_backward(const struct phase *o, const struct phase_grad *g,
                    const real *dtheta)
{
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < o->B; b++)
        for (int h = 0; h < o->heads; h++)
            head_back(o, g, dtheta, b, h);
}
