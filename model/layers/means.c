#include "model/layers/means.h"

#include <string.h>

enum { STRIPE = TINY(16, 4) };           // channels whose sums are carried at once

static void forward_stripe(enum means_what what, real *y, size_t ld_y, const real *x,
                          size_t ld_x, int T, int n, long seen, double *sum)
{
    double acc[STRIPE] = {0};

    if (sum)
        memcpy(acc, sum, n * sizeof *sum);
    for (int t = 0; t < T; t++, x += ld_x, y += ld_y, seen++) {
        long   count = what == MEANS_BEFORE ? seen : seen + 1;
        double by = count ? 1.0 / (double)count : 0;

        for (int j = 0; j < n; j++) {
            double before = acc[j];

            acc[j] += x[j];
            y[j] = (real)(what == MEANS_OF   ? by * acc[j]
                        : what == MEANS_LESS ? x[j] - by * acc[j] : x[j] - by * before);
        }
    }
    if (sum)
        memcpy(sum, acc, n * sizeof *sum);
}

void means_forward(const struct means *m, enum means_what what, real *y, const real *x,
                   size_t ld, void *const *state, size_t at)
{
    const int C = m->C, T = m->T;

    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < m->B; b++)
        for (int j = 0; j < C; j += STRIPE) {
            double *sum = state ? (double *)((real *)state[b] + at) + j : NULL;

            forward_stripe(what, y + (size_t)b * T * C + j, C, x + b * T * ld + j, ld, T,
                          C - j < STRIPE ? C - j : STRIPE, m->pos ? m->pos[b] : 0, sum);
        }
}

/* x_t is in the means of all tokens from t on (MEANS_BEFORE: after t). */
static void backward_stripe(enum means_what what, real *dx, size_t ld, bool keep,
                           const real *dy, const real *dmean, size_t ld_y, int T, int n)
{
    double acc[STRIPE] = {0};

    for (int t = T - 1; t >= 0; t--) {
        int    count = what == MEANS_BEFORE ? t : t + 1;
        double by = count ? 1.0 / count : 0;
        real  *to = dx + t * ld;

        for (int j = 0; j < n; j++) {
            double d = dy[t * ld_y + j], own = what == MEANS_OF ? 0 : d, later = acc[j];

            acc[j] += by * ((what == MEANS_OF ? d : -d) +
                            (dmean ? dmean[t * ld_y + j] : 0));
            to[j] = (real)((keep ? to[j] : 0) + own +
                           (what == MEANS_BEFORE ? later : acc[j]));
        }
    }
}

void means_backward(const struct means *m, enum means_what what, real *dx, size_t ld,
                    bool keep, const real *dy, const real *dmean)
{
    const int C = m->C, T = m->T;

    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < m->B; b++)
        for (int j = 0; j < C; j += STRIPE) {
            size_t at = (size_t)b * T * C + j;

            backward_stripe(what, dx + b * T * ld + j, ld, keep, dy + at,
                           dmean ? dmean + at : NULL, C, T,
                           C - j < STRIPE ? C - j : STRIPE);
        }
}
