#include "model/layers/step.h"

#include "model/kernels/ahead.h"
#include "model/kernels/vmath.h"

enum { COLUMNS = 64 };          // that a thread sums at once

void step_forward(const struct step *o, real *s, real *log_a, const real *z)
{
    const int   e = o->e;
    const real *b = o->b, *alog = o->alog;

    #pragma omp parallel for schedule(static) if (o->n > FEW_ROWS)
    for (long i = 0; i < o->n; i++) {
        const real *zi = z + i * o->ld;
        real       *si = s + i * e;

        send_for(zi + AHEAD_ROWS * o->ld, e);
        send_for_own(si + AHEAD_ROWS * e, e);
        #pragma omp simd
        for (int j = 0; j < e; j++)
            si[j] = vsoftplus(zi[j] + b[j]);
        if (alog)
            for (int j = 0; j < e; j++)
                log_a[i * e + j] = -vexp(alog[j]) * si[j];
    }
}

/* Columns j0 .. j0 + m - 1 of the sums, in double. */
static void sum_columns(const struct step *o, real *db, real *dalog, const real *dz,
                        const real *dlog_a, const real *log_a, int j0, int m)
{
    double b[COLUMNS] = {0}, alog[COLUMNS] = {0};

    for (long i = 0; i < o->n; i++) {
        const real *d = dz + i * o->ld + j0;

        for (int j = 0; j < m; j++)
            b[j] += d[j];
        if (o->alog)
            for (int j = 0; j < m; j++)
                alog[j] += log_a[i * o->e + j0 + j] * dlog_a[i * o->e + j0 + j];
    }
    for (int j = 0; j < m; j++) {
        db[j0 + j] += (real)b[j];
        if (o->alog)
            dalog[j0 + j] += (real)alog[j];
    }
}

void step_backward(const struct step *o, real *dz, real *db, real *dalog, const real *ds,
                   const real *dlog_a, const real *s, const real *log_a)
{
    const int   e = o->e;
    const real *alog = o->alog;

    #pragma omp parallel for schedule(static) if (o->n > FEW_ROWS)
    for (long i = 0; i < o->n; i++) {
        const real *si = s + i * e, *more = ds ? ds + i * e : NULL;
        real       *d = dz + i * o->ld;

        send_for(si + AHEAD_ROWS * e, e);
        send_for_own(d + AHEAD_ROWS * o->ld, e);
        #pragma omp simd
        for (int j = 0; j < e; j++)
            d[j] = more ? more[j] : 0;
        if (alog)
            for (int j = 0; j < e; j++)
                d[j] -= vexp(alog[j]) * dlog_a[i * e + j];
        #pragma omp simd
        for (int j = 0; j < e; j++)
            d[j] *= -vexpm1(-si[j]);
    }
    #pragma omp parallel for schedule(static)
    for (int j = 0; j < e; j += COLUMNS)
        sum_columns(o, db, dalog, dz, dlog_a, log_a, j,
                    e - j < COLUMNS ? e - j : COLUMNS);
}
