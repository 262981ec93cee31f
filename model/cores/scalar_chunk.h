/* One chunk of scalar: its layout in memory, the weights of its tokens, and the sums
 * that forward and backward are made of. */
#ifndef WEFT_SCALAR_CHUNK_H
#define WEFT_SCALAR_CHUNK_H

#include "model/cores/scalar.h"
#include "model/kernels/vmath.h"

enum { L = SCALAR_CHUNK };

/* ---- layout ------------------------------------------------------------------------ */

/* The state of a head: S (dk, dv), then, with a denominator, n (dk), m, and 1 once
 * a token was seen: before it, m is -INFINITY. */
static inline size_t n_at(const struct scalar *c) { return (size_t)c->dk * c->dv; }
static inline size_t m_at(const struct scalar *c) { return n_at(c) + c->dk; }

static inline size_t sums(const struct scalar *c)
{
    return n_at(c) + (c->den ? c->dk : 0);
}

static inline size_t head_state(const struct scalar *c)
{
    return sums(c) + (c->den ? 2 : 0);
}

static inline real m_of(const struct scalar *c, const real *S)
{
    if (!c->den)
        return 0;
    return S && S[m_at(c) + 1] > 0 ? S[m_at(c)] : -INFINITY;
}

static inline void set_m(const struct scalar *c, real *S, real m)
{
    S[m_at(c)] = m;
    S[m_at(c) + 1] = 1;
}

static inline int chunks(const struct scalar *c) { return (c->T + L - 1) / L; }

/* Of a head: the states that enter chunks 1, 2, ..., then l (T) with a denominator. */
static inline size_t head_kept(const struct scalar *c)
{
    return (chunks(c) - 1) * head_state(c) + (c->den ? c->T : 0);
}

/* No weights at all: every e^(...) below is 1. */
static inline bool flat(const struct scalar *c) { return !c->log_f && !c->log_i; }

/* The rows of head h from token t of sequence b on. */
static inline struct scalar rows_of(const struct scalar *c, int b, int h, int t)
{
    size_t        row = (size_t)b * c->T + t, hk = c->shared ? 0 : (size_t)h * c->dk;
    struct scalar u = *c;

    u.q += row * c->ld_q + hk;
    u.k += row * c->ld_k + hk;
    u.v += row * c->ld_v + (size_t)h * c->dv;
    if (c->log_f)
        u.log_f += row * c->ld_f + h;
    if (c->log_i)
        u.log_i += row * c->ld_i + h;
    u.T = c->T - t < L ? c->T - t : L;
    return u;
}

static inline real *rows_of_o(const struct scalar *c, real *o, int b, int h, int t)
{
    return o + ((size_t)b * c->T + t) * c->ld_o + (size_t)h * c->dv;
}

/* ---- weights ----------------------------------------------------------------------- */

/* The exponents of a chunk. With b_x the sum of f up to x, m the scale of the entering
 * state and m_x = max(b_x + m, max_{y <= x} (b_x - b_y + i_y)), 0 without log_i:
 *
 *     key_y = i_y - b_y,  top_x = m_x - b_x
 *     E_xy = e^{key_y - top_x}       weight of token y in row x
 *     past_x = e^{m - top_x}         weight of the entering state
 *
 * The leaving state is what the last row sees. Sums are in double: differences of long
 * sums of strong decay keep their digits. */
struct weights {
    double key[L], top[L];
    real   past[L], m[L];
};

void scalar_weigh(struct weights *w, const struct scalar *u, real m);

/* e (n): row x of E up to and including y = n - 1. */
static inline void row_of(real *e, const struct weights *w, int x, int n)
{
    double top = w->top[x];

    #pragma omp simd
    for (int y = 0; y < n; y++)
        e[y] = vexp((real)(w->key[y] - top));
}

/* a <- a E, and p <- (p + shift_x) E where p is given; zero above the diagonal.
 * Rows are L apart. */
void scalar_apply(const struct scalar *u, const struct weights *w, real *a, real *p,
                  const real *shift);

/* The denominator of a row, in the scale of its m. */
static inline real denominator(const struct scalar *u, real l, real m)
{
    real one = u->log_i ? vexp(-m) : 1;

    if (u->den == SCALAR_SUM)
        return u->den_eps > 0 ? l + u->den_eps * one : l;
    return (real)fabs(l) > one ? (real)fabs(l) : one;
}

/* ---- sums -------------------------------------------------------------------------- */

/* Row x of y (rows, n) times by[x]. */
void scalar_rows(real *y, size_t ld, const real *by, int rows, int n);

/* S (dk, dv) = keep S + alpha sum_x w_x a_x b_xᵀ. */
void scalar_outer(const struct scalar *u, real *S, real keep, real alpha, const real *w,
                  const real *a, size_t ld_a, const real *b, size_t ld_b);

/* sum (n) = keep sum + sum_x w_x a_x. */
void scalar_sum(real *sum, real keep, const real *w, const real *a, size_t ld,
                int rows, int n);

#endif
