#include "model/layers/dynconv.h"

#include "model/kernels/product.h"
#include "model/kernels/vmath.h"

#include <string.h>

/* ---- products by heads ------------------------------------------------------------- */

/* y = x wᵀ + b.   x (n, H, e), w (H, out, e), b (H, out), y (n, H, out). */
static void heads_forward(real *y, const real *x, const real *w, const real *b, long n,
                          int H, int e, int out)
{
    const int tile = product_tile(n);

    #pragma omp parallel for collapse(2) schedule(static)
    for (long i = 0; i < n; i += tile)
        for (int h = 0; h < H; h++) {
            int   rows = n - i < tile ? (int)(n - i) : tile;
            real *to = y + (i * H + h) * out;

            for (int r = 0; r < rows; r++)
                memcpy(to + (size_t)r * H * out, b + (size_t)h * out, out * sizeof *to);
            gemm_nt(to, (size_t)H * out, x + (i * H + h) * e, (size_t)H * e,
                    w + (size_t)h * out * e, e, rows, out, e, 1, 1);
        }
}

/* dx = dy w,  dw += dyᵀ x,  db += sum of dy. */
static void heads_backward(real *dx, real *dw, real *db, const real *dy, const real *x,
                           const real *w, long n, int H, int e, int out)
{
    const size_t ld = (size_t)H * e, ld_y = (size_t)H * out;

    #pragma omp parallel for schedule(dynamic)
    for (int h = 0; h < H; h++) {
        const real *d = dy + (size_t)h * out, *wh = w + (size_t)h * out * e;
        real       *sum = db + (size_t)h * out;

        gemm_nn(dx + (size_t)h * e, ld, d, ld_y, wh, e, (int)n, e, out, 1, 0);
        gemm_tn(dw + (size_t)h * out * e, e, d, ld_y, x + (size_t)h * e, ld, out, e,
                (int)n, 1, 1);
        for (long i = 0; i < n; i++)
            for (int j = 0; j < out; j++)
                sum[j] += d[i * ld_y + j];
    }
}

/* ---- forward ----------------------------------------------------------------------- */

void dynconv_taps(const struct dynconv *f, struct dynconv_kept *k, const real *z)
{
    const long n = (long)f->B * f->T;
    const int  e = f->C / f->H;

    heads_forward(k->pre, z, f->w1, f->b1, n, f->H, e, e);
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (long j = i * f->C; j < (i + 1) * f->C; j++)
            k->hid[j] = vgelu(k->pre[j]);
    heads_forward(k->r, k->hid, f->w2, f->b2, n, f->H, e, e * f->taps);
}

/* o += r[:, i] v for one token and tap; r is `taps` apart. */
static inline void add_tap(real *o, const real *r, const real *v, int C, int taps)
{
    for (int j = 0; j < C; j++)
        o[j] += r[(size_t)j * taps] * v[j];
}

/* The last taps - 1 of [last, v (T)]. */
static void remember(const struct dynconv *f, real *last, const real *v)
{
    const int    have = f->taps - 1, old = have > f->T ? have - f->T : 0;
    const size_t C = f->C;

    memmove(last, last + (have - old) * C, old * C * sizeof *last);
    for (int i = old; i < have; i++)
        memcpy(last + i * C, v + (size_t)(f->T - have + i) * f->ld, C * sizeof *last);
}

void dynconv_apply(const struct dynconv *f, const struct dynconv_kept *k, real *o,
                   const real *v, void *const *state, size_t at)
{
    const int C = f->C, T = f->T, taps = f->taps;

    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < f->B; b++)
        for (int t = 0; t < T; t++) {
            size_t      row = (size_t)b * T + t;
            const real *r = k->r + row * C * taps;
            const real *last = state ? (const real *)state[b] + at : NULL;

            for (int i = 0; i < taps && i <= t; i++)
                add_tap(o + row * C, r + i, v + (row - i) * f->ld, C, taps);
            for (int i = t + 1; i < taps && last; i++)
                add_tap(o + row * C, r + i, last + (size_t)(taps - 1 + t - i) * C, C,
                        taps);
        }
    for (int b = 0; state && b < f->B; b++)
        remember(f, (real *)state[b] + at, v + (size_t)b * T * f->ld);
}

/* ---- backward ---------------------------------------------------------------------- */

/* dv_s = sum_i r_{s+i}[:, i] d_o_{s+i} of token s of sequence b. */
static void back_value(const struct dynconv *f, const struct dynconv_kept *k, real *dv,
                       const real *d_o, int b, int s)
{
    const size_t row = (size_t)b * f->T + s, C = f->C;

    memset(dv + row * f->ld, 0, C * sizeof *dv);
    for (int i = 0; i < f->taps && s + i < f->T; i++)
        add_tap(dv + row * f->ld, k->r + (row + i) * C * f->taps + i, d_o + (row + i) * C,
                f->C, f->taps);
}

/* r_t <- dr_t[:, i] = d_o_t v_{t-i} of token t of sequence b. */
static void back_taps(const struct dynconv *f, const struct dynconv_kept *k,
                      const real *d_o, const real *v, int b, int t)
{
    const size_t row = (size_t)b * f->T + t, C = f->C;
    real        *r = k->r + row * C * f->taps;

    for (int i = 0; i < f->taps; i++)
        for (size_t j = 0; j < C; j++)
            r[j * f->taps + i] = i <= t ? d_o[row * C + j] * v[(row - i) * f->ld + j] : 0;
}

void dynconv_backward(const struct dynconv *f, const struct dynconv_grad *dw,
                      struct dynconv_kept *k, real *dv, real *dz, real *dhid,
                      const real *d_o, const real *z, const real *v)
{
    const long n = (long)f->B * f->T;
    const int  e = f->C / f->H;

    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < f->B; b++)
        for (int s = 0; s < f->T; s++)
            back_value(f, k, dv, d_o, b, s);
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < f->B; b++)
        for (int t = 0; t < f->T; t++)
            back_taps(f, k, d_o, v, b, t);
    heads_backward(dhid, dw->w2, dw->b2, k->r, k->hid, f->w2, n, f->H, e, e * f->taps);
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++)
        for (long j = i * f->C; j < (i + 1) * f->C; j++)
            dhid[j] *= vgelu_slope(k->pre[j]);
    heads_backward(dz, dw->w1, dw->b1, dhid, z, f->w1, n, f->H, e, e);
}
