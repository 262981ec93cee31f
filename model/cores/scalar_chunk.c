#include "model/cores/scalar_chunk.h"

#include "model/kernels/product.h"

#include <string.h>

enum { COLUMNS = 128 };         // of b that scalar_outer weighs at once, on the stack

void scalar_weigh(struct weights *w, const struct scalar *u, real m)
{
    double b = 0, top = m;

    for (int x = 0; x < u->T; x++) {
        b += u->log_f ? u->log_f[x * u->ld_f] : 0;
        w->key[x] = (u->log_i ? u->log_i[x * u->ld_i] : 0) - b;
        top = u->log_i && top > w->key[x] ? top : w->key[x];
        w->m[x] = u->log_i ? (real)(top + b) : 0;
        w->top[x] = top = w->m[x] - b;
        w->past[x] = vexp((real)(m - top));
    }
}

void scalar_apply(const struct scalar *u, const struct weights *w, real *a, real *p,
                  const real *shift)
{
    real e[L];

    for (int y = 0; y < L; y++)
        e[y] = 1;
    for (int x = 0; x < u->T; x++, a += L) {
        if (!flat(u))
            row_of(e, w, x, x + 1);
        for (int y = 0; y <= x; y++)
            a[y] *= e[y];
        memset(a + x + 1, 0, (u->T - x - 1) * sizeof *a);
        if (p) {
            for (int y = 0; y <= x; y++)
                p[y] = (p[y] + shift[x]) * e[y];
            memset(p + x + 1, 0, (u->T - x - 1) * sizeof *p);
            p += L;
        }
    }
}

void scalar_rows(real *y, size_t ld, const real *by, int rows, int n)
{
    for (int x = 0; x < rows; x++, y += ld)
        vscale(y, by[x], y, n);
}

void scalar_outer(const struct scalar *u, real *S, real keep, real alpha, const real *w,
                  const real *a, size_t ld_a, const real *b, size_t ld_b)
{
    for (int j = 0; j < u->dv; j += COLUMNS) {
        int  n = u->dv - j < COLUMNS ? u->dv - j : COLUMNS;
        real part[L * COLUMNS];

        for (int x = 0; x < u->T; x++)
            for (int i = 0; i < n; i++)
                part[x * COLUMNS + i] = w[x] * b[x * ld_b + j + i];
        gemm_tn(S + j, u->dv, a, ld_a, part, COLUMNS, u->dk, n, u->T, alpha, keep);
    }
}

void scalar_sum(real *sum, real keep, const real *w, const real *a, size_t ld,
                int rows, int n)
{
    for (int j = 0; j < n; j++)
        sum[j] = keep == 0 ? 0 : keep * sum[j];
    for (int x = 0; x < rows; x++)
        vaxpy(sum, w[x], a + x * ld, n);
}
