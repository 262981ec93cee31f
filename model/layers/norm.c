#include "model/layers/norm.h"

#include "model/kernels/ahead.h"
#include "model/kernels/vmath.h"

#include <string.h>

enum { BLOCKS = NORM_BLOCKS };

static inline real mean(const real *x, int e)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < e; j++)
        sum += x[j];
    return sum / e;
}

/* Of x - mu. */
static inline real inverse_rms(const real *x, real mu, int e, real eps)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < e; j++)
        sum += (x[j] - mu) * (x[j] - mu);
    return 1 / (real)sqrt(sum / e + eps);
}

static inline void forward_group(real *y, const real *x, const real *w, int e, real eps,
                                 bool centre)
{
    real mu = centre ? mean(x, e) : 0, r = inverse_rms(x, mu, e, eps);

    #pragma omp simd
    for (int j = 0; j < e; j++)
        y[j] = r * (x[j] - mu) * (w ? w[j] : 1);
}

/* One row. */
static inline void row_forward(const struct norm *o, real *y, const real *x,
                               const real *w, bool centre)
{
    for (int g = 0; g < o->groups; g++)
        forward_group(y + g * o->e, x + g * o->e, o->shared || !w ? w : w + g * o->e,
                      o->e, o->eps, centre);
}

void rms_forward_rows(const struct norm *o, real *y, size_t ldy, const real *x,
                      size_t ldx, const real *w, long n)
{
    for (long i = 0; i < n; i++)
        row_forward(o, y + i * ldy, x + i * ldx, w, false);
}

void rms_forward(const struct norm *o, real *y, size_t ldy, const real *x, size_t ldx,
                 const real *w, long n)
{
    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++)
        row_forward(o, y + i * ldy, x + i * ldx, w, false);
}

/* With g = w dy and xr = r (x - mu):  dx = r (g - mean(g) - xr mean(g xr)) + plus, if
 * that is not NULL; mean(g) only where x was centred. */
static inline void backward_group(real *dx, const real *plus, real *dw, const real *dy,
                                  const real *x, const real *w, int e, real eps,
                                  bool centre)
{
    real mu = centre ? mean(x, e) : 0, r = inverse_rms(x, mu, e, eps);
    real along = 0, level = 0;

    #pragma omp simd reduction(+ : along, level)
    for (int j = 0; j < e; j++) {
        real g = (w ? w[j] : 1) * dy[j];

        along += g * (x[j] - mu);
        level += g;
    }
    along *= r / e;
    level = centre ? level / e : 0;
    if (dw) {
        #pragma omp simd
        for (int j = 0; j < e; j++)
            dw[j] += dy[j] * r * (x[j] - mu);
    }
    if (!plus) {
        #pragma omp simd
        for (int j = 0; j < e; j++)
            dx[j] = r * ((w ? w[j] : 1) * dy[j] - level - r * (x[j] - mu) * along);
    } else {
        #pragma omp simd
        for (int j = 0; j < e; j++)
            dx[j] = plus[j] +
                    r * ((w ? w[j] : 1) * dy[j] - level - r * (x[j] - mu) * along);
    }
}

static size_t weights(const struct norm *o)
{
    return (size_t)o->e * (o->shared ? 1 : o->groups);
}

size_t norm_partial(const struct norm *o)
{
    return BLOCKS * weights(o);
}

/* One row; sum and w NULL: ones. */
static inline void row_back(const struct norm *o, real *dx, const real *plus, real *sum,
                            const real *dy, const real *x, const real *w, bool centre)
{
    for (int g = 0; g < o->groups; g++) {
        int at = g * o->e, wat = o->shared ? 0 : at;

        backward_group(dx + at, plus ? plus + at : NULL, w ? sum + wat : NULL, dy + at,
                       x + at, w ? w + wat : NULL, o->e, o->eps, centre);
    }
}

/* dw (m) += the sums of all blocks, in their order. */
static void add_blocks(real *dw, const real *partial, size_t m)
{
    for (int block = 0; block < BLOCKS; block++)
        for (size_t j = 0; j < m; j++)
            dw[j] += partial[block * m + j];
}

void rms_backward(const struct norm *o, real *dx, size_t lddx, real keep, real *dw,
                  const real *dy, size_t lddy, const real *x, size_t ldx,
                  const real *w, long n, real *partial)
{
    const size_t m = weights(o);

    #pragma omp parallel for schedule(static)
    for (int block = 0; block < BLOCKS; block++) {
        real *sum = partial + block * m;

        memset(sum, 0, m * sizeof *sum);
        for (long i = norm_block(n, block); i < norm_block(n, block + 1); i++)
            row_back(o, dx + i * lddx, keep == 0 ? NULL : dx + i * lddx, sum,
                     dy + i * lddy, x + i * ldx, w, false);
    }
    add_blocks(dw, partial, m);
}

void rms_backward_block(const struct norm *o, real *dx, const real *plus, const real *dy,
                        const real *x, const real *w, long n, int block, real *partial)
{
    const size_t m = weights(o), row = (size_t)o->groups * o->e;
    real        *sum = partial + block * m;

    memset(sum, 0, m * sizeof *sum);
    for (size_t i = norm_block(n, block) * row; i < norm_block(n, block + 1) * row;
         i += row)
        row_back(o, dx + i, plus + i, sum, dy + i, x + i, w, false);
}

void rms_backward_sum(const struct norm *o, real *dw, const real *partial)
{
    add_blocks(dw, partial, weights(o));
}

/* ---- of a gated x ------------------------------------------------------------------ */

void rms_gated_forward(const struct norm *o, real *y, size_t ldy, const real *x,
                       size_t ldx, const real *g, size_t ldg, const real *w, long n)
{
    const int all = o->groups * o->e;

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++) {
        const real *xi = x + i * ldx, *gi = g + i * ldg;
        real       *yi = y + i * ldy;

        #pragma omp simd
        for (int j = 0; j < all; j++)
            yi[j] = xi[j] * gi[j] * vsigmoid(gi[j]);
        row_forward(o, yi, yi, w, false);
    }
}

/* The sums of the blocks, then two rows of each. */
size_t rms_gated_partial(const struct norm *o)
{
    return norm_partial(o) + BLOCKS * 2 * (size_t)o->groups * o->e;
}

/* One row, z = x silu(g): silu' = s (1 + g (1 - s)). z and s are room for a row each. */
static void gated_row_back(const struct norm *o, real *dx, real *dg, real *sum,
                           const real *dy, const real *x, const real *g, const real *w,
                           real *z, real *s)
{
    const int all = o->groups * o->e;

    #pragma omp simd
    for (int j = 0; j < all; j++) {
        s[j] = vsigmoid(g[j]);
        z[j] = x[j] * g[j] * s[j];
    }
    row_back(o, dx, NULL, sum, dy, z, w, false);
    #pragma omp simd
    for (int j = 0; j < all; j++) {
        real d = dx[j];

        dg[j] = d * x[j] * s[j] * (1 + g[j] * (1 - s[j]));
        dx[j] = d * g[j] * s[j];
    }
}

void rms_gated_backward(const struct norm *o, real *dx, real *dg, size_t lddg, real *dw,
                        const real *dy, size_t lddy, const real *x, size_t ldx,
                        const real *g, size_t ldg, const real *w, long n, real *partial)
{
    const size_t m = weights(o), row = (size_t)o->groups * o->e;

    #pragma omp parallel for schedule(static)
    for (int block = 0; block < BLOCKS; block++) {
        real *sum = partial + block * m, *z = partial + BLOCKS * m + block * 2 * row;

        memset(sum, 0, m * sizeof *sum);
        for (long i = norm_block(n, block); i < norm_block(n, block + 1); i++)
            gated_row_back(o, dx + i * lddy, dg + i * lddg, sum, dy + i * lddy,
                           x + i * ldx, g + i * ldg, w, z, z + row);
    }
    add_blocks(dw, partial, m);
}

/* ---- a gate after it --------------------------------------------------------------- */

static inline void normalise(const struct norm *o, real *y, const real *x, const real *w)
{
    if (o->centre)
        row_forward(o, y, x, w, true);
    else
        row_forward(o, y, x, w, false);
}

void norm_gate_forward(const struct norm *o, enum gate act, real *y, size_t ldy,
                       const real *x, size_t ldx, const real *g, size_t ldg,
                       const real *w, long n)
{
    const int all = o->groups * o->e;

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++) {
        send_for(x + (i + AHEAD_ROWS) * ldx, all);
        send_for(g + (i + AHEAD_ROWS) * ldg, all);
        send_for_own(y + (i + AHEAD_ROWS) * ldy, all);
        normalise(o, y + i * ldy, x + i * ldx, w);
        gate_row(act, y + i * ldy, y + i * ldy, g + i * ldg, all);
    }
}

/* One row; z is room for one. */
static void gate_norm_row_back(const struct norm *o, enum gate act, real *dx, real *dg,
                               real *sum, const real *x, const real *g, const real *w,
                               real *z)
{
    normalise(o, z, x, w);
    gate_row_back(act, dx, dg, dx, z, g, o->groups * o->e);
    if (o->centre)
        row_back(o, dx, NULL, sum, dx, x, w, true);
    else
        row_back(o, dx, NULL, sum, dx, x, w, false);
}

void norm_gate_backward(const struct norm *o, enum gate act, real *dx, real *dg,
                        size_t lddg, real *dw, const real *x, size_t ldx, const real *g,
                        size_t ldg, const real *w, long n, real *partial)
{
    const size_t m = weights(o), row = 2 * (size_t)o->groups * o->e;

    #pragma omp parallel for schedule(static)
    for (int block = 0; block < BLOCKS; block++) {
        real *sum = partial + block * m, *z = partial + BLOCKS * m + block * row;

        memset(sum, 0, m * sizeof *sum);
        for (long i = norm_block(n, block); i < norm_block(n, block + 1); i++) {
            send_for(x + (i + AHEAD_ROWS) * ldx, (int)row / 2);
            send_for(g + (i + AHEAD_ROWS) * ldg, (int)row / 2);
            send_for_own(dx + (i + AHEAD_ROWS) * ldx, (int)row / 2);
            send_for_own(dg + (i + AHEAD_ROWS) * lddg, (int)row / 2);
            gate_norm_row_back(o, act, dx + i * ldx, dg + i * lddg, sum, x + i * ldx,
                               g + i * ldg, w, z);
        }
    }
    if (w)
        add_blocks(dw, partial, m);
}
