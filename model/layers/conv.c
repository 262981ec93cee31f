#include "model/layers/conv.h"

#include "model/kernels/vmath.h"

#include <string.h>

enum { TAPS = CONV_TAPS, PAST = TAPS - 1 };
enum { STRIPE = TINY(64, 4) };       // channels that go through time together

/* The channels [c, c + n) of the kernel, one row per tap, and the bias. */
struct taps {
    real w[TAPS][STRIPE], b[STRIPE];
};

static struct taps taps_of(const struct conv *o, int c, int n)
{
    struct taps k = {0};

    for (int i = 0; i < n; i++) {
        for (int j = 0; j < TAPS; j++)
            k.w[j][i] = o->w[(size_t)(c + i) * TAPS + j];
        k.b[i] = o->b ? o->b[c + i] : 0;
    }
    return k;
}

static int channels(const struct conv *o, int c)
{
    return o->C - c < STRIPE ? o->C - c : STRIPE;
}

/* z of one token; x[j] is the row of tap j, NULL before the start. */
static inline void taps_apply(const struct taps *k, real *z, const real *const *x, int n)
{
    memcpy(z, k->b, n * sizeof *z);
    for (int j = 0; j < TAPS; j++)
        if (x[j]) {
            #pragma omp simd
            for (int i = 0; i < n; i++)
                z[i] += k->w[j][i] * x[j][i];
        }
}

static inline void activate(real *y, const real *z, int n, bool silu)
{
    #pragma omp simd
    for (int i = 0; i < n; i++)
        y[i] = silu ? z[i] * vsigmoid(z[i]) : z[i];
}

/* The input of token t of a sequence: one of x, or, before them, of the last PAST that
 * past remembers (NULL: none). Both from some channel on. */
static inline const real *row_of(const struct conv *o, const real *x, const real *past,
                                 int t)
{
    if (t >= 0)
        return x + t * o->ld_x;
    return past ? past + (size_t)(PAST + t) * o->C : NULL;
}

/* The rows of the taps of token t. */
static inline void rows_of(const struct conv *o, const real **row, const real *x,
                           const real *past, int t)
{
    for (int j = 0; j < TAPS; j++)
        row[j] = row_of(o, x, past, t - PAST + j);
}

/* The stripe of channels at c of one sequence; x, y and past are its own from 0 on. */
static void convolve(const struct conv *o, real *y, const real *x, const real *past,
                     int c)
{
    int         n = channels(o, c);
    struct taps k = taps_of(o, c, n);

    for (int t = 0; t < o->T; t++) {
        const real *row[TAPS];
        real        z[STRIPE];

        rows_of(o, row, x + c, past ? past + c : NULL, t);
        taps_apply(&k, z, row, n);
        activate(y + t * o->ld_y + c, z, n, o->silu);
    }
}

void conv_forward(const struct conv *o, real *y, const real *x)
{
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < o->B; b++)
        for (int c = 0; c < o->C; c += STRIPE) {
            size_t i = (size_t)b * o->T;

            convolve(o, y + i * o->ld_y, x + i * o->ld_x, NULL, c);
        }
}

/* dy <- dz = dy silu'(z) */
static inline void activate_back(real *dy, const real *z, int n)
{
    #pragma omp simd
    for (int i = 0; i < n; i++) {
        real s = vsigmoid(z[i]);

        dy[i] *= s * (1 + z[i] * (1 - s));
    }
}

/* dz, and the sums of one sequence into dk. */
static void gather(const struct conv *o, const struct taps *k, struct taps *dk, real *dy,
                   const real *x, int n)
{
    for (int t = 0; t < o->T; t++) {
        const real *row[TAPS];
        real       *d = dy + t * o->ld_y;

        rows_of(o, row, x, NULL, t);
        if (o->silu) {
            real z[STRIPE];

            taps_apply(k, z, row, n);
            activate_back(d, z, n);
        }
        for (int j = 0; j < TAPS; j++)
            for (int i = 0; row[j] && i < n; i++)
                dk->w[j][i] += d[i] * row[j][i];
        for (int i = 0; i < n; i++)
            dk->b[i] += d[i];
    }
}

/* dx_t = sum_j w[:, j] dz_{t+3-j} */
static void scatter(const struct conv *o, const struct taps *k, real *dx,
                    const real *dz, int n)
{
    for (int t = 0; t < o->T; t++) {
        real *d = dx + t * o->ld_x;

        memset(d, 0, n * sizeof *d);
        for (int j = 0; j < TAPS; j++)
            if (t + PAST - j < o->T) {
                const real *from = dz + (t + PAST - j) * o->ld_y;

                #pragma omp simd
                for (int i = 0; i < n; i++)
                    d[i] += k->w[j][i] * from[i];
            }
    }
}

void conv_backward(const struct conv *o, real *dx, real *dw, real *db, real *dy,
                   const real *x)
{
    #pragma omp parallel for schedule(static)
    for (int c = 0; c < o->C; c += STRIPE) {
        int         n = channels(o, c);
        struct taps k = taps_of(o, c, n), dk = {0};

        for (int b = 0; b < o->B; b++) {
            real *d = dy + (size_t)b * o->T * o->ld_y + c;
            size_t at = (size_t)b * o->T * o->ld_x + c;

            gather(o, &k, &dk, d, x + at, n);
            scatter(o, &k, dx + at, d, n);
        }
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < TAPS; j++)
                dw[(size_t)(c + i) * TAPS + j] += dk.w[j][i];
            if (db)
                db[c + i] += dk.b[i];
        }
    }
}

/* Remember the last inputs. */
static void remember(const struct conv *o, real *past, const real *x)
{
    for (int j = 0; j < PAST; j++)
        memmove(past + (size_t)j * o->C, row_of(o, x, past, o->T - PAST + j),
                o->C * sizeof *past);
}

void conv_extend(const struct conv *o, void *const *state, size_t at, real *y,
                 const real *x)
{
    #pragma omp parallel for schedule(static) if (o->B > 1)
    for (int b = 0; b < o->B; b++) {
        const real *from = x + (size_t)b * o->T * o->ld_x;
        real       *past = (real *)state[b] + at;

        for (int c = 0; c < o->C; c += STRIPE)
            convolve(o, y + (size_t)b * o->T * o->ld_y, from, past, c);
        remember(o, past, from);
    }
}
