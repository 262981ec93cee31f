#include "model/layers/conv.h"

#include "model/kernels/ahead.h"
#include "model/kernels/vmath.h"

#include <string.h>

enum { TAPS = CONV_TAPS, PAST = TAPS - 1 };
enum { STRIPE = TINY(64, 4) };       // channels that go through time together

/* The channels [c, c + n) of the kernel, one row per tap, and the bias. */
struct taps {
    real w[TAPS][STRIPE], b[STRIPE];
};

static const real zeros[STRIPE];

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

/* z of channel i of one token; x[j] is the row of tap j. */
static inline __attribute__((always_inline)) real
taps_sum(const struct taps *k, const real *const *x, int i)
{
    return k->b[i] + k->w[0][i] * x[0][i] + k->w[1][i] * x[1][i] + k->w[2][i] * x[2][i] +
           k->w[3][i] * x[3][i];
}

/* y of one token. silu is a constant wherever this is inlined. */
static inline __attribute__((always_inline)) void
convolve_token(const struct taps *k, real *y, const real *const *x, int n, bool silu)
{
    #pragma omp simd
    for (int i = 0; i < n; i++) {
        real z = taps_sum(k, x, i);

        y[i] = silu ? z * vsigmoid(z) : z;
    }
}

/* The input of token t of a sequence: one of x, or, before them, of the last PAST that
 * past remembers (NULL: zeros). Both from some channel on. */
static inline const real *row_of(const struct conv *o, const real *x, const real *past,
                                 int t)
{
    if (t >= 0)
        return x + t * o->ld_x;
    return past ? past + (size_t)(PAST + t) * o->C : zeros;
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
        real       *yt = y + t * o->ld_y + c;

        rows_of(o, row, x + c, past ? past + c : NULL, t);
        send_for(row[PAST] + AHEAD_ROWS * o->ld_x, n);
        send_for_own(yt + AHEAD_ROWS * o->ld_y, n);
        if (o->silu)
            convolve_token(&k, yt, row, n, true);
        else
            convolve_token(&k, yt, row, n, false);
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

/* dz of one token, and what it adds to the sums dk. silu is a constant wherever this is
 * inlined. */
static inline __attribute__((always_inline)) void
gather(const struct taps *k, struct taps *dk, real *dz, const real *dy,
       const real *const *x, int n, bool silu)
{
    #pragma omp simd
    for (int i = 0; i < n; i++) {
        real d = dy[i];

        if (silu) {
            real z = taps_sum(k, x, i), s = vsigmoid(z);

            d *= s * (1 + z * (1 - s));
        }
        for (int j = 0; j < TAPS; j++)
            dk->w[j][i] += d * x[j][i];
        dk->b[i] += d;
        dz[i] = d;
    }
}

/* dx_t = sum_j w[:, j] dz_{t+3-j}; dz holds token t of a sequence at t mod TAPS. */
static inline void scatter(const struct taps *k, real *dx, real dz[TAPS][STRIPE], int t,
                           int n)
{
    const real *d0 = dz[(t + 3) % TAPS], *d1 = dz[(t + 2) % TAPS],
               *d2 = dz[(t + 1) % TAPS], *d3 = dz[t % TAPS];

    #pragma omp simd
    for (int i = 0; i < n; i++)
        dx[i] = k->w[0][i] * d0[i] + k->w[1][i] * d1[i] + k->w[2][i] * d2[i] +
                k->w[3][i] * d3[i];
}

/* One sequence: dx of a token as soon as dz of the last that read it is there. */
static void convolve_back(const struct conv *o, const struct taps *k, struct taps *dk,
                          real *dx, const real *dy, const real *x, int n)
{
    real dz[TAPS][STRIPE];

    for (int t = 0; t < o->T + PAST; t++) {
        const real *row[TAPS];

        if (t >= o->T)
            memset(dz[t % TAPS], 0, n * sizeof **dz);
        else {
            rows_of(o, row, x, NULL, t);
            send_for(row[PAST] + AHEAD_ROWS * o->ld_x, n);
            send_for(dy + (t + AHEAD_ROWS) * o->ld_y, n);
            send_for_own(dx + (t + AHEAD_ROWS) * o->ld_x, n);
            if (o->silu)
                gather(k, dk, dz[t % TAPS], dy + t * o->ld_y, row, n, true);
            else
                gather(k, dk, dz[t % TAPS], dy + t * o->ld_y, row, n, false);
        }
        if (t >= PAST)
            scatter(k, dx + (t - PAST) * o->ld_x, dz, t - PAST, n);
    }
}

void conv_backward(const struct conv *o, real *dx, real *dw, real *db, const real *dy,
                   const real *x)
{
    #pragma omp parallel for schedule(static)
    for (int c = 0; c < o->C; c += STRIPE) {
        int         n = channels(o, c);
        struct taps k = taps_of(o, c, n), dk = {0};

        for (int b = 0; b < o->B; b++) {
            size_t at = (size_t)b * o->T * o->ld_x + c;

            convolve_back(o, &k, &dk, dx + at, dy + (size_t)b * o->T * o->ld_y + c,
                          x + at, n);
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
