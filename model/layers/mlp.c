#include "model/layers/mlp.h"

#include "model/kernels/ahead.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"

enum {
    COLS  = TINY(256, 4),           // hidden channels of a tile that are made together
    AHEAD = 4,                      // rows ahead that are sent for
};

/* act = silu(g) u of n channels of a row. */
static inline void gate(real *act, const real *g, const real *u, int n)
{
    #pragma omp simd
    for (int j = 0; j < n; j++)
        act[j] = g[j] * vsigmoid(g[j]) * u[j];
}

/* From act = da: act as it was, and the gradients of g and u in their places,
 * da u silu'(g) and da silu(g). */
static inline void gate_back(real *act, real *g, real *u, int n)
{
    #pragma omp simd
    for (int j = 0; j < n; j++) {
        real x = g[j], y = u[j], s = vsigmoid(x), d = act[j];

        act[j] = x * s * y;
        g[j] = d * y * s * (1 + x * (1 - s));
        u[j] = d * x * s;
    }
}

static int columns(const struct mlp *m, int j)
{
    return m->h - j < COLS ? m->h - j : COLS;
}

void mlp_open_forward(struct mlp *m, long n)
{
    const real *wu = m->wgu + (size_t)m->h * m->C;
    size_t      taken = 0;

    m->w[0] = product_right(m->wgu, m->h, m->C, true, n, &taken);
    m->w[1] = product_right(wu, m->h, m->C, true, n, &taken);
    m->w[2] = product_right(m->wd, m->C, m->h, true, n, &taken);
}

void mlp_open_backward(struct mlp *m, long n)
{
    size_t taken = 0;

    m->w[0] = product_right(m->wd, m->h, m->C, false, n, &taken);
    m->w[1] = product_right(m->wgu, m->C, 2 * m->h, false, n, &taken);
    m->w[2] = (struct product_right){0};
}

void mlp_lay(const struct mlp *m)
{
    product_lay(m->w, 3);
}

void mlp_forward_rows(const struct mlp *m, real *y, const real *x, real *act, long t,
                      int rows)
{
    const int    C = m->C, h = m->h;
    const size_t ld = 2 * (size_t)h;
    real        *gu = m->gu + t * ld;

    for (int j = 0; j < h; j += COLS) {
        int n = columns(m, j);

        product_by(&m->w[0], gu + j, ld, x, C, rows, j, n, 0);
        product_by(&m->w[1], gu + h + j, ld, x, C, rows, j, n, 0);
        for (int i = 0; i < rows; i++)
            gate(act + (size_t)i * h + j, gu + i * ld + j, gu + i * ld + h + j, n);
    }
    product_by(&m->w[2], y + t * C, C, act, h, rows, 0, C, 0);
}

/* A row of act first holds da, until gate_back replaces it. */
void mlp_backward_rows(const struct mlp *m, real *dx, const real *dy, long t, int rows)
{
    const int    C = m->C, h = m->h;
    const size_t ld = 2 * (size_t)h;
    real        *gu = m->gu + t * ld, *act = m->act + t * h;

    for (int j = 0; j < h; j += COLS) {
        int n = columns(m, j);

        product_by(&m->w[0], act + j, h, dy + t * C, C, rows, j, n, 0);
        for (int i = 0; i < rows; i++) {
            real *g = gu + i * ld + j;

            send_for_own(g + AHEAD * ld, n);        // it has left the cache
            send_for_own(g + AHEAD * ld + h, n);
            gate_back(act + (size_t)i * h + j, g, g + h, n);
        }
    }
    product_by(&m->w[1], dx + t * C, C, gu, ld, rows, 0, C, 0);
}

void mlp_backward_weights(const struct mlp *m, real *dwgu, real *dwd, const real *dy,
                          const real *x, long n)
{
    product_weights(dwgu, m->gu, x, n, m->C, 2 * m->h);
    product_weights(dwd, dy, m->act, n, m->h, m->C);
}

bool mlp_by_rows(long n)
{
    return n >= 4 * product_tile(n) && !product_reads_packed();
}

void mlp_forward(const struct mlp *m, real *y, const real *x, long n)
{
    const int h = m->h;

    product_forward(m->gu, x, m->wgu, n, m->C, 2 * h);
    #pragma omp parallel for schedule(static) if (n > 8)
    for (long i = 0; i < n; i++)
        gate(m->act + i * h, m->gu + i * 2 * h, m->gu + i * 2 * h + h, h);
    product_forward(y, m->act, m->wd, n, h, m->C);
}
