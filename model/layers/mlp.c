#include "model/layers/mlp.h"

#include "model/kernels/product.h"
#include "model/kernels/vmath.h"

/* act = silu(g) u of one row; gu = [g, u]. */
static inline void gate(real *act, const real *gu, int h)
{
    #pragma omp simd
    for (int j = 0; j < h; j++)
        act[j] = gu[j] * vsigmoid(gu[j]) * gu[h + j];
}

/* One row, from act = da and gu = [g, u]: act as it was, and the gradient of gu in its
 * place, [da u silu'(g), da silu(g)]. */
static inline void gate_back(real *act, real *gu, int h)
{
    #pragma omp simd
    for (int j = 0; j < h; j++) {
        real g = gu[j], u = gu[h + j], s = vsigmoid(g), d = act[j];

        act[j] = g * s * u;
        gu[j] = d * u * s * (1 + g * (1 - s));
        gu[h + j] = d * g * s;
    }
}

static void forward_apart(real *y, const real *x, const real *wgu, const real *wd,
                          real *gu, real *act, long n, int C, int h)
{
    product_forward(gu, x, wgu, n, C, 2 * h);
    #pragma omp parallel for schedule(static) if (n > 8)
    for (long i = 0; i < n; i++)
        gate(act + i * h, gu + i * 2 * h, h);
    product_forward(y, act, wd, n, h, C);
}

void mlp_forward(real *y, const real *x, const real *wgu, const real *wd, real *gu,
                 real *act, long n, int C, int h)
{
    int tile = product_tile(n);

    if (n < 4 * tile || product_reads_packed()) {
        forward_apart(y, x, wgu, wd, gu, act, n, C, h);
        return;
    }
    #pragma omp parallel for schedule(dynamic)
    for (long t = 0; t < n; t += tile) {
        int rows = (int)(n - t < tile ? n - t : tile);

        gemm_nt(gu + t * 2 * h, 2 * h, x + t * C, C, wgu, C, rows, 2 * h, C, 1, 0);
        for (long i = t; i < t + rows; i++)
            gate(act + i * h, gu + i * 2 * h, h);
        gemm_nt(y + t * C, C, act + t * h, h, wd, h, rows, C, h, 1, 0);
    }
}

/* dx, act and the gradient of gu by rows, inside a parallel region. A row of act first
 * holds da, until gate_back replaces it. */
static void backward_rows(real *dx, const real *dy, const real *wgu, const real *wd,
                          real *gu, real *act, long n, int C, int h)
{
    int tile = product_tile(n);

    #pragma omp for schedule(dynamic)
    for (long t = 0; t < n; t += tile) {
        int rows = (int)(n - t < tile ? n - t : tile);

        gemm_nn(act + t * h, h, dy + t * C, C, wd, h, rows, h, C, 1, 0);
        for (long i = t; i < t + rows; i++)
            gate_back(act + i * h, gu + i * 2 * h, h);
        gemm_nn(dx + t * C, C, gu + t * 2 * h, 2 * h, wgu, C, rows, C, 2 * h, 1, 0);
    }
}

void mlp_backward(real *dx, real *dwgu, real *dwd, const real *dy, const real *x,
                  const real *wgu, const real *wd, real *gu, real *act, long n, int C,
                  int h)
{
    #pragma omp parallel
    {
        backward_rows(dx, dy, wgu, wd, gu, act, n, C, h);
        product_weights(dwgu, gu, x, n, C, 2 * h);
        product_weights(dwd, dy, act, n, h, C);
    }
}
