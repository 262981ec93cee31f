#include "model/conv.h"

#include "model/vmath.h"

#include <string.h>

enum { TAPS = CONV_TAPS, PAST = TAPS - 1 };
enum { BLOCK = 64 };            // channels that go through time together

/* The channels [c, c + n) of the kernel, one row per tap, and the bias. */
struct taps {
    real w[TAPS][BLOCK], b[BLOCK];
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
    return o->C - c < BLOCK ? o->C - c : BLOCK;
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

/* Rows of the taps of token t of a sequence that starts at x. */
static inline void rows_of(const real **row, const real *x, size_t ld, int t)
{
    for (int j = 0; j < TAPS; j++)
        row[j] = t - PAST + j >= 0 ? x + (t - PAST + j) * ld : NULL;
}

void conv_forward(const struct conv *o, real *y, const real *x)
{
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < o->B; b++)
        for (int c = 0; c < o->C; c += BLOCK) {
            int         n = channels(o, c);
            struct taps k = taps_of(o, c, n);

            for (int t = 0; t < o->T; t++) {
                const real *row[TAPS];
                real        z[BLOCK];

                rows_of(row, x + (size_t)b * o->T * o->ld_x + c, o->ld_x, t);
                taps_apply(&k, z, row, n);
                activate(y + ((size_t)b * o->T + t) * o->ld_y + c, z, n, o->silu);
            }
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

        rows_of(row, x, o->ld_x, t);
        if (o->silu) {
            real z[BLOCK];

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
        for (int j = 0; j < TAPS && t + PAST - j >= 0; j++)
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
    for (int c = 0; c < o->C; c += BLOCK) {
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

/* The input of token t, of this call or, before it, remembered; from channel c on. */
static inline const real *past_row(const real *state, const real *x,
                                   const struct conv *o, int c, int t)
{
    return t >= 0 ? x + t * o->ld_x + c : state + (size_t)(PAST + t) * o->C + c;
}

/* Remember the last three inputs. */
static void remember(const struct conv *o, real *state, const real *x)
{
    for (int j = 0; j < PAST; j++) {
        int t = o->T - PAST + j;

        memmove(state + (size_t)j * o->C, past_row(state, x, o, 0, t),
                o->C * sizeof *state);
    }
}

/* One sequence. */
static void extend(const struct conv *o, real *state, real *y, const real *x)
{
    for (int c = 0; c < o->C; c += BLOCK) {
        int         n = channels(o, c);
        struct taps k = taps_of(o, c, n);

        for (int t = 0; t < o->T; t++) {
            const real *row[TAPS];
            real        z[BLOCK];

            for (int j = 0; j < TAPS; j++)
                row[j] = past_row(state, x, o, c, t - PAST + j);
            taps_apply(&k, z, row, n);
            activate(y + t * o->ld_y + c, z, n, o->silu);
        }
    }
    remember(o, state, x);
}

void conv_extend(const struct conv *o, void *const *state, size_t at, real *y,
                 const real *x)
{
    #pragma omp parallel for schedule(static) if (o->B > 1)
    for (int b = 0; b < o->B; b++) {
        size_t i = (size_t)b * o->T;

        extend(o, (real *)state[b] + at, y + i * o->ld_y, x + i * o->ld_x);
    }
}
