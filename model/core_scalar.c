#include "model/core_scalar.h"

#include "model/linear.h"
#include "model/vmath.h"

#include <math.h>
#include <string.h>

enum { L = SCALAR_CHUNK, COLUMNS = 128 };

/* ---- layout ------------------------------------------------------------------------ */

/* The state of a head: S (dk, dv), then, with a denominator, n (dk), m, and 1 once a token
 * was seen: before it, m is -INFINITY. */
static size_t n_at(const struct scalar *c) { return (size_t)c->dk * c->dv; }
static size_t m_at(const struct scalar *c) { return n_at(c) + c->dk; }
static size_t sums(const struct scalar *c) { return n_at(c) + (c->den ? c->dk : 0); }
static size_t head_state(const struct scalar *c) { return sums(c) + (c->den ? 2 : 0); }

static real m_of(const struct scalar *c, const real *S)
{
    if (!c->den)
        return 0;
    return S && S[m_at(c) + 1] > 0 ? S[m_at(c)] : -INFINITY;
}

static void set_m(const struct scalar *c, real *S, real m)
{
    S[m_at(c)] = m;
    S[m_at(c) + 1] = 1;
}

static int chunks(const struct scalar *c) { return (c->T + L - 1) / L; }

/* Of a head: the states that enter chunks 1, 2, ..., then l (T) with a denominator. */
static size_t head_kept(const struct scalar *c)
{
    return (chunks(c) - 1) * head_state(c) + (c->den ? c->T : 0);
}

size_t scalar_kept(const struct scalar *c) { return head_kept(c) * c->B * c->H; }
size_t scalar_scratch(const struct scalar *c) { return head_state(c) * c->B * c->H; }
size_t scalar_state(const struct scalar *c) { return head_state(c) * c->H; }

/* No weights at all: every e^(...) below is 1. */
static bool flat(const struct scalar *c) { return !c->log_f && !c->log_i; }

/* The rows of head h from token t of sequence b on. */
static struct scalar rows_of(const struct scalar *c, int b, int h, int t)
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

/* ---- weights ----------------------------------------------------------------------- */

/* The exponents of a chunk. With b_x the sum of f up to x, m the scale of the entering state
 * and m_x = max(b_x + m, max_{y <= x} (b_x - b_y + i_y)), 0 without log_i:
 *
 *     key_y = i_y - b_y,  top_x = m_x - b_x
 *     E_xy = e^{key_y - top_x}       weight of token y in row x
 *     past_x = e^{m - top_x}         weight of the entering state
 *
 * The leaving state is what the last row sees. Sums are in double: differences of long sums
 * of strong decay keep their digits. */
struct weights {
    double key[L], top[L];
    real   past[L], m[L];
};

static void weigh(struct weights *w, const struct scalar *u, real m)
{
    double b = 0, top = m;

    for (int x = 0; x < u->T; x++) {
        b += u->log_f ? u->log_f[x * u->ld_f] : 0;
        w->key[x] = (u->log_i ? u->log_i[x * u->ld_i] : 0) - b;
        top = u->log_i && top > w->key[x] ? top : w->key[x];
        w->m[x] = u->log_i ? (real)(top + b) : 0;
        w->top[x] = top = w->m[x] - b;
        w->past[x] = vexp((real)(m - top));
    }
}

/* e (n): row x of E up to and including y = n - 1. */
static inline void row_of(real *e, const struct weights *w, int x, int n)
{
    double top = w->top[x];

    #pragma omp simd
    for (int y = 0; y < n; y++)
        e[y] = vexp((real)(w->key[y] - top));
}

/* a <- a E, and p <- (p + shift_x) E where p is given; zero above the diagonal. */
static void apply(const struct scalar *u, const struct weights *w, real *a, real *p,
                  const real *shift)
{
    real e[L];

    for (int y = 0; y < L; y++)
        e[y] = 1;
    for (int x = 0; x < u->T; x++, a += L) {
        if (!flat(u))
            row_of(e, w, x, x + 1);
        for (int y = 0; y <= x; y++)
            a[y] *= e[y];
        memset(a + x + 1, 0, (u->T - x - 1) * sizeof *a);
        if (p) {
            for (int y = 0; y <= x; y++)
                p[y] = (p[y] + shift[x]) * e[y];
            memset(p + x + 1, 0, (u->T - x - 1) * sizeof *p);
            p += L;
        }
    }
}

/* ---- small pieces ------------------------------------------------------------------ */

static inline real dot(const real *a, const real *b, int n)
{
    real sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int j = 0; j < n; j++)
        sum += a[j] * b[j];
    return sum;
}

static inline double inner(const real *a, const real *b, size_t n)
{
    double sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < n; j++)
        sum += (double)a[j] * (double)b[j];
    return sum;
}

static inline void add_scaled(real *y, real by, const real *x, int n)
{
    #pragma omp simd
    for (int j = 0; j < n; j++)
        y[j] += by * x[j];
}

/* Row x of y (rows, n) times by[x]. */
static void scale_rows(real *y, size_t ld, const real *by, int rows, int n)
{
    for (int x = 0; x < rows; x++, y += ld) {
        #pragma omp simd
        for (int j = 0; j < n; j++)
            y[j] *= by[x];
    }
}

/* S (dk, dv) = keep S + alpha sum_x w_x a_x b_xᵀ. */
static void add_outer(const struct scalar *u, real *S, real keep, real alpha,
                      const real *w, const real *a, size_t ld_a, const real *b, size_t ld_b)
{
    for (int j = 0; j < u->dv; j += COLUMNS) {
        int  n = u->dv - j < COLUMNS ? u->dv - j : COLUMNS;
        real part[L * COLUMNS];

        for (int x = 0; x < u->T; x++)
            for (int i = 0; i < n; i++)
                part[x * COLUMNS + i] = w[x] * b[x * ld_b + j + i];
        gemm_tn(S + j, u->dv, a, ld_a, part, COLUMNS, u->dk, n, u->T, alpha, keep);
    }
}

/* sum (n) = keep sum + sum_x w_x a_x. */
static void add_rows(real *sum, real keep, const real *w, const real *a, size_t ld, int rows,
                     int n)
{
    for (int j = 0; j < n; j++)
        sum[j] = keep == 0 ? 0 : keep * sum[j];
    for (int x = 0; x < rows; x++)
        add_scaled(sum, w[x], a + x * ld, n);
}

/* The denominator of a row, in the scale of its m. */
static inline real denominator(const struct scalar *u, real l, real m)
{
    real one = u->log_i ? vexp(-m) : 1;

    if (u->den == SCALAR_SUM)
        return u->den_eps > 0 ? l + u->den_eps * one : l;
    return (real)fabs(l) > one ? (real)fabs(l) : one;
}

/* ---- forward ----------------------------------------------------------------------- */

/* Divide the rows of o; a holds the weighted scores. l (n) is written where wanted. */
static void divide(const struct scalar *u, const struct weights *w, const real *S,
                   const real *a, real *o, real *l)
{
    for (int x = 0; x < u->T; x++, a += L, o += u->ld_o) {
        real sum = 0, by;

        #pragma omp simd reduction(+ : sum)
        for (int y = 0; y <= x; y++)
            sum += a[y];
        if (S)
            sum += u->scale * w->past[x] * dot(u->q + x * u->ld_q, S + n_at(u), u->dk);
        by = 1 / denominator(u, sum, w->m[x]);
        #pragma omp simd
        for (int j = 0; j < u->dv; j++)
            o[j] *= by;
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
    apply(u, w, a, NULL, NULL);
    if (S) {
        gemm_nn(o, u->ld_o, u->q, u->ld_q, S, u->dv, u->T, u->dv, u->dk, u->scale, 0);
        if (!flat(u))
            scale_rows(o, u->ld_o, w->past, u->T, u->dv);
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
        add_outer(u, to, keep, 1, e, u->k, u->ld_k, u->v, u->ld_v);
    if (u->den) {
        add_rows(to + n_at(u), keep, e, u->k, u->ld_k, u->T, u->dk);
        set_m(u, to, w->m[last]);
    }
}

static real *rows_of_o(const struct scalar *c, real *o, int b, int h, int t)
{
    return o + ((size_t)b * c->T + t) * c->ld_o + (size_t)h * c->dv;
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

                weigh(&w, &u, m_of(c, S));
                chunk_read(&u, &w, S, rows_of_o(c, o, b, h, t), c->den ? l + t : NULL);
                if (t + L < c->T) {
                    chunk_write(&u, &w, S, next);
                    S = next;
                    next += head_state(c);
                }
            }
        }
}

/* ---- extend ------------------------------------------------------------------------ */

/* One token: the state is read and written once. */
static void step(const struct scalar *u, real *S, real *o)
{
    struct weights w;
    real           e, *n = S + n_at(u), l;

    weigh(&w, u, m_of(u, S));
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
    l = denominator(u, u->scale * dot(u->q, n, u->dk), w.m[0]);
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
                weigh(&w, &u, m_of(c, S));
                chunk_read(&u, &w, S, rows_of_o(c, o, b, h, t), NULL);
                chunk_write(&u, &w, S, S);
            }
        }
}

/* ---- backward ---------------------------------------------------------------------- */

/* What backward needs of a chunk beside u. */
struct part {
    struct weights w;
    const real    *S;               // entering, NULL: empty
    real          *G;               // gradient of the leaving, then of the entering state
    bool           last;            // nothing leaves: G is not set yet
    real          *dq, *dk, *dv;    // rows of this chunk
    real          *du;              // d_o divided by the denominator
    real           dl[L];           // gradient of l
};

/* d_o -> du, and dl.  With D the denominator: du = d_o / D, dl = -D'(l) (d_o . o) / D. */
static void divide_back(const struct scalar *u, struct part *p, const real *o,
                        const real *l)
{
    for (int x = 0; x < u->T; x++) {
        real *du = p->du + x * u->ld_o;
        real  D = denominator(u, l[x], p->w.m[x]), slope = 1;

        if (u->den == SCALAR_MAX)
            slope = (real)fabs(l[x]) < D ? 0 : l[x] < 0 ? -1 : 1;
        p->dl[x] = -slope * dot(du, o + x * u->ld_o, u->dv) / D;
        for (int j = 0; j < u->dv; j++)
            du[j] /= D;
    }
}

/* dq = scale past_x (S du_x + dl_x n) + P k */
static void back_q(const struct scalar *u, const struct scalar_grad *g,
                   const struct part *p, const real *P)
{
    if (p->S) {
        gemm_nt(p->dq, g->ld_dq, p->du, u->ld_o, p->S, u->dv, u->T, u->dk, u->dv, u->scale,
                0);
        for (int x = 0; u->den && x < u->T; x++)
            add_scaled(p->dq + x * g->ld_dq, u->scale * p->dl[x], p->S + n_at(u), u->dk);
        if (!flat(u))
            scale_rows(p->dq, g->ld_dq, p->w.past, u->T, u->dk);
    }
    gemm_nn(p->dq, g->ld_dq, P, L, u->k, u->ld_k, u->T, u->dk, u->T, 1, p->S != NULL);
}

/* dk = e_y (G v_y + Gn) + Pᵀ q,  dv = e_y Gᵀ k_y + Aᵀ du,  e: weights in the leaving state. */
static void back_kv(const struct scalar *u, const struct scalar_grad *g,
                    const struct part *p, const real *A, const real *P)
{
    real e[L], keep = !p->last;

    if (!p->last) {
        row_of(e, &p->w, u->T - 1, u->T);
        gemm_nt(p->dk, g->ld_dk, u->v, u->ld_v, p->G, u->dv, u->T, u->dk, u->dv, 1, 0);
        for (int y = 0; u->den && y < u->T; y++)
            add_scaled(p->dk + y * g->ld_dk, 1, p->G + n_at(u), u->dk);
        gemm_nn(p->dv, g->ld_dv, u->k, u->ld_k, p->G, u->dv, u->T, u->dv, u->dk, 1, 0);
        if (!flat(u)) {
            scale_rows(p->dk, g->ld_dk, e, u->T, u->dk);
            scale_rows(p->dv, g->ld_dv, e, u->T, u->dv);
        }
    }
    gemm_tn(p->dk, g->ld_dk, P, L, u->q, u->ld_q, u->T, u->dk, u->T, 1, keep);
    gemm_tn(p->dv, g->ld_dv, A, L, p->du, u->ld_o, u->T, u->dv, u->T, 1, keep);
}

/* G <- past_last G + scale sum_x past_x q_x [du_x, dl_x]ᵀ */
static void back_state(const struct scalar *u, struct part *p)
{
    real keep = p->last ? 0 : p->w.past[u->T - 1], by[L];

    if (flat(u))
        gemm_tn(p->G, u->dv, u->q, u->ld_q, p->du, u->ld_o, u->dk, u->dv, u->T, u->scale,
                keep);
    else
        add_outer(u, p->G, keep, u->scale, p->w.past, u->q, u->ld_q, p->du, u->ld_o);
    if (!u->den)
        return;
    for (int x = 0; x < u->T; x++)
        by[x] = u->scale * p->w.past[x] * p->dl[x];
    add_rows(p->G + n_at(u), keep, by, u->q, u->ld_q, u->T, u->dk);
}

/* A = scale (q kᵀ) E,  P = scale (du vᵀ + dl) E, and the gradients that follow. */
static void chunk_back(const struct scalar *u, const struct scalar_grad *g,
                       struct part *p)
{
    real A[L * L], P[L * L], shift[L];

    for (int x = 0; x < u->T; x++)
        shift[x] = u->den ? u->scale * p->dl[x] : 0;
    gemm_nt(A, L, u->q, u->ld_q, u->k, u->ld_k, u->T, u->T, u->dk, u->scale, 0);
    gemm_nt(P, L, p->du, u->ld_o, u->v, u->ld_v, u->T, u->T, u->dv, u->scale, 0);
    apply(u, &p->w, A, P, shift);
    back_q(u, g, p, P);
    back_kv(u, g, p, A, P);
    if (p->S)
        back_state(u, p);
}

/* di_t = k_t . dk_t,  df_t = sum_{s >= t} (q_s . dq_s - k_s . dk_s). Over the tokens after
 * the chunk the sum is <G, S> of the leaving state, handed in, so that rounding does not
 * gather over the sequence. */
static void back_gates(const struct scalar *u, const struct scalar_grad *g,
                       const struct part *p, real *df, real *di, double sum)
{
    for (int x = u->T - 1; x >= 0 && (df || di); x--) {
        double of_k = inner(u->k + x * u->ld_k, p->dk + x * g->ld_dk, u->dk);

        sum += inner(u->q + x * u->ld_q, p->dq + x * g->ld_dq, u->dk) - of_k;
        if (df)
            df[x * g->ld_df] = (real)sum;
        if (di)
            di[x * g->ld_di] = (real)of_k;
    }
}

static void head_back(const struct scalar *c, const struct scalar_grad *g, const real *o,
                      real *d_o, const real *kept, real *G, int b, int h)
{
    const real *l = kept + (chunks(c) - 1) * head_state(c);

    for (int i = chunks(c) - 1; i >= 0; i--) {
        struct scalar u = rows_of(c, b, h, i * L);
        size_t        row = (size_t)b * c->T + (size_t)i * L;
        struct part   p = {
            .S = i ? kept + (i - 1) * head_state(c) : NULL,
            .G = G, .last = i == chunks(c) - 1,
            .dq = g->dq + row * g->ld_dq + (size_t)h * c->dk,
            .dk = g->dk + row * g->ld_dk + (size_t)h * c->dk,
            .dv = g->dv + row * g->ld_dv + (size_t)h * c->dv,
            .du = rows_of_o(c, d_o, b, h, i * L),
        };
        double later = 0;

        if (!p.last && g->dlog_f)
            later = inner(G, kept + i * head_state(c), sums(c));
        weigh(&p.w, &u, m_of(c, p.S));
        if (c->den)
            divide_back(&u, &p, o + (p.du - d_o), l + i * L);
        chunk_back(&u, g, &p);
        back_gates(&u, g, &p, g->dlog_f ? g->dlog_f + row * g->ld_df + h : NULL,
                   g->dlog_i ? g->dlog_i + row * g->ld_di + h : NULL, later);
    }
}

void scalar_backward(const struct scalar *c, const struct scalar_grad *g, const real *o,
                     real *d_o, const real *kept, real *scratch)
{
    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H; h++) {
            size_t i = (size_t)b * c->H + h;

            head_back(c, g, o, d_o, kept + i * head_kept(c), scratch + i * head_state(c), b,
                      h);
        }
}

double scalar_flops(int T, int dk, int dv)
{
    double n = T < L ? T : L;

    return 2 * n * (dk + dv) + 4.0 * dk * dv;
}
