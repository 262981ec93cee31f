#include "model/layers/bias.h"

enum { STRIPE = TINY(64, 4) };       // columns that a thread sums at once

void bias_forward(real *y, const real *b, long n, int cols)
{
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++) {
        real *yi = y + i * cols;

        #pragma omp simd
        for (int j = 0; j < cols; j++)
            yi[j] += b[j];
    }
}

void bias_backward(real *db, const real *dy, long n, int cols)
{
    #pragma omp parallel for schedule(static)
    for (int c = 0; c < cols; c += STRIPE) {
        int  m = cols - c < STRIPE ? cols - c : STRIPE;
        real sum[STRIPE] = {0};

        for (long i = 0; i < n; i++) {
            const real *d = dy + i * cols + c;

            #pragma omp simd
            for (int j = 0; j < m; j++)
                sum[j] += d[j];
        }
        for (int j = 0; j < m; j++)
            db[c + j] += sum[j];
    }
}
