#include "model/cores/scalar.h"

#include "model/cores/scalar_chunk.h"
#include "model/kernels/product.h"

#include <string.h>

size_t scalar_kept(const struct scalar *c) { return head_kept(c) * c->B * c->H; }
size_t scalar_scratch(const struct scalar *c) { return head_state(c) * c->B * c->H; }
size_t scalar_state(const struct scalar *c) { return head_state(c) * c->H; }

/* ---- forward ----------------------------------------------------------------------- */

/* Divide the rows of o; a holds the weighted scores. l (n) is written where wanted. */
static void divide(const struct scalar *u, const struct weights *w, const real *S,
                   const real *a, real *o, real *l)
{
    for (int x = 0; x < u->T; x++, a += L, o += u->ld_o) {
        real sum = 0;

        #pragma omp simd reduction(+ : sum)
        for (int y = 0; y <= x; y++)
            sum += a[y];
        if (S)
            sum += u->scale * w->past[x] * vdot(u->q + x * u->ld_q, S + n_at(u), u->dk);
        vscale(o, 1 / denominator(u, sum, w->m[x]), o, u->dv);
        if (l)
            l[x] = sum;
    }
}

/* The output of a chunk that S enters (NULL: empty). */
static void chunk_read(const struct scalar *u, const struct weights *w, const real *S,
                       real *o, real *l)
{
    real a[L * L];

    gemm_nt(a, L, u->q, u->ld_q, u->k, u->ld_k, u->T, u->T, u->dk, u->scale, 0);
    scalar_apply(u, w, a, NULL, NULL);
    if (S) {
        gemm_nn(o, u->ld_o, u->q, u->ld_q, S, u->dv, u->T, u->dv, u->dk, u->scale, 0);
        if (!flat(u))
            scalar_rows(o, u->ld_o, w->past, u->T, u->dv);
    }
    gemm_nn(o, u->ld_o, a, L, u->v, u->ld_v, u->T, u->dv, u->T, 1, S != NULL);
    if (u->den)
        divide(u, w, S, a, o, l);
}

/* The state that leaves the chunk; from (NULL: empty) may be to. */
static void chunk_write(const struct scalar *u, const struct weights *w, const real *from,
                        real *to)
{
    int  last = u->T - 1;
    real e[L], keep = from ? w->past[last] : 0;

    if (from && from != to)
        memcpy(to, from, head_state(u) * sizeof *to);
    row_of(e, w, last, u->T);
    if (flat(u))
        gemm_tn(to, u->dv, u->k, u->ld_k, u->v, u->ld_v, u->dk, u->dv, u->T, 1, keep);
    else
        scalar_outer(u, to, keep, 1, e, u->k, u->ld_k, u->v, u->ld_v);
    if (u->den) {
        scalar_sum(to + n_at(u), keep, e, u->k, u->ld_k, u->T, u->dk);
        set_m(u, to, w->m[last]);
    }
}

void scalar_forward(const struct scalar *c, real *o, real *kept)
{
    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H; h++) {
            real       *next = kept + ((size_t)b * c->H + h) * head_kept(c);
            real       *l = next + (chunks(c) - 1) * head_state(c);
            const real *S = NULL;

            for (int t = 0; t < c->T; t += L) {
                struct scalar  u = rows_of(c, b, h, t);
                struct weights w;

                scalar_weigh(&w, &u, m_of(c, S));
                chunk_read(&u, &w, S, rows_of_o(c, o, b, h, t), c->den ? l + t : NULL);
                if (t + L < c->T) {
                    chunk_write(&u, &w, S, next);
                    S = next;
                    next += head_state(c);
                }
            }
        }
}

/* l is held as e^{-m} l, m_t = max(log_f_t + m_{t-1}, log_i_t). */
static void head_ratios(const struct scalar *c, const real *l, const real *log_q,
                        int b, int h, struct range *r)
{
    double m = -INFINITY, before = 0;

    for (int t = 0; t < c->T; t++) {
        size_t row = (size_t)b * c->T + t;
        double now = log((double)l[t] + (double)c->den_eps);
        double f = c->log_f ? (double)c->log_f[row * c->ld_f + h] : 0;

        if (c->log_i) {
            m = fmax(f + m, (double)c->log_i[row * c->ld_i + h]);
            now += m + (double)log_q[row * c->H + h];
        }
        if (t)
            range_add(r, exp(f + before - now));
        before = now;
    }
}

void scalar_ratios(const struct scalar *c, const real *kept, const real *log_q,
                   struct range *r)
{
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H; h++, kept += head_kept(c))
            head_ratios(c, kept + (chunks(c) - 1) * head_state(c), log_q, b, h, &r[h]);
}

/* ---- extend ------------------------------------------------------------------------ */

/* One token: the state is read and written once. */
static void step(const struct scalar *u, real *S, real *o)
{
    struct weights w;
    real           e, *n = S + n_at(u), l;

    scalar_weigh(&w, u, m_of(u, S));
    row_of(&e, &w, 0, 1);
    memset(o, 0, u->dv * sizeof *o);
    for (int i = 0; i < u->dk; i++) {
        real *row = S + (size_t)i * u->dv, in = e * u->k[i], out = u->scale * u->q[i];

        #pragma omp simd
        for (int j = 0; j < u->dv; j++) {
            row[j] = w.past[0] * row[j] + in * u->v[j];
            o[j] += out * row[j];
        }
    }
    if (!u->den)
        return;
    set_m(u, S, w.m[0]);
    for (int i = 0; i < u->dk; i++)
        n[i] = w.past[0] * n[i] + e * u->k[i];
    l = denominator(u, u->scale * vdot(u->q, n, u->dk), w.m[0]);
    for (int j = 0; j < u->dv; j++)
        o[j] /= l;
}

void scalar_extend(const struct scalar *c, void *const *state, size_t at, real *o)
{
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H; h++) {
            real *S = (real *)state[b] + at + h * head_state(c);

            for (int t = 0; t < c->T; t += L) {
                struct scalar  u = rows_of(c, b, h, t);
                struct weights w;

                if (u.T == 1) {
                    step(&u, S, rows_of_o(c, o, b, h, t));
                    continue;
                }
                scalar_weigh(&w, &u, m_of(c, S));
                chunk_read(&u, &w, S, rows_of_o(c, o, b, h, t), NULL);
                chunk_write(&u, &w, S, S);
            }
        }
}

double scalar_flops(int T, int dk, int dv)
{
    double n = T < L ? T : L;

    return 2 * n * (dk + dv) + 4.0 * dk * dv;
}
