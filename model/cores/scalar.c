/* Three parts: the recurrence, as decoding runs it; the same over a chunk of tokens, as
 * matrix products; and the gradient. Each part begins with its derivation. The formulas
 * of the core itself are in scalar.h.
 */
#include "model/cores/scalar.h"

#include "model/kernels/product.h"
#include "model/kernels/vmath.h"

#include <string.h>

enum { CHUNK = SCALAR_CHUNK };
enum { COLUMNS = TINY(128, 4) };     // of b that add_outer weighs at once, on the stack

/* ---- layout ------------------------------------------------------------------------ */

/* The state of a head: S (dk, dv), then, with a denominator, n (dk), m, and 1 once
 * a token was seen: before it, m is -INFINITY. */
static inline size_t n_at(const struct scalar *c) { return (size_t)c->dk * c->dv; }
static inline size_t m_at(const struct scalar *c) { return n_at(c) + c->dk; }

/* Reals of S and n. */
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

static inline int chunks(const struct scalar *c) { return (c->T + CHUNK - 1) / CHUNK; }

/* Of a head: the states that enter chunks 1, 2, ..., then l (T) with a denominator. */
static inline size_t head_kept(const struct scalar *c)
{
    return (chunks(c) - 1) * head_state(c) + (c->den ? c->T : 0);
}

size_t scalar_kept(const struct scalar *c) { return head_kept(c) * c->B * c->H; }
size_t scalar_scratch(const struct scalar *c) { return head_state(c) * c->B * c->H; }
size_t scalar_state(const struct scalar *c) { return head_state(c) * c->H; }

/* The chunk of head h that begins at token t of sequence b: at most CHUNK tokens of
 * one head, from the first. */
static inline struct scalar chunk_of(const struct scalar *c, int b, int h, int t)
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
    u.T = c->T - t < CHUNK ? c->T - t : CHUNK;
    return u;
}

static inline real *chunk_of_o(const struct scalar *c, real *o, int b, int h, int t)
{
    return o + ((size_t)b * c->T + t) * c->ld_o + (size_t)h * c->dv;
}

/* ---- 1. the recurrence ----------------------------------------------------------------
 *
 * With log_i the state is held in a scale of its own, as e^{-m} S and e^{-m} n. A token
 * sets the scale to the largest exponent so far, and both of its weights are at most 1:
 *
 *     m' = max(m + f, i)
 *     S' = e^{m + f - m'} S + e^{i - m'} k vᵀ            n' likewise, with 1 for v
 *     o  = scale S'ᵀ q / D,   l = scale n' . q
 *     D  = 1, l + den_eps e^{-m'}, or max(|l|, e^{-m'})  the scale of u and l cancels
 *
 * Without log_i, i = m = 0.
 */

/* D of a row, l in the scale of m. */
static inline real denominator(const struct scalar *u, real l, real m)
{
    real one = u->log_i ? vexp(-m) : 1;

    if (u->den == SCALAR_SUM)
        return u->den_eps > 0 ? l + u->den_eps * one : l;
    return (real)fabs(l) > one ? (real)fabs(l) : one;
}

/* One token; o (dv). S is read and written once. */
static void step(const struct scalar *u, real *S, real *o)
{
    double f = u->log_f ? *u->log_f : 0, i = u->log_i ? *u->log_i : 0;
    double past = m_of(u, S) + f;
    real   m = u->log_i ? (real)(past > i ? past : i) : 0;
    real   keep = vexp((real)(past - m)), add = vexp((real)(i - m));
    real  *n = S + n_at(u), l;

    memset(o, 0, u->dv * sizeof *o);
    for (int a = 0; a < u->dk; a++) {
        real *row = S + (size_t)a * u->dv, in = add * u->k[a], out = u->scale * u->q[a];

        #pragma omp simd
        for (int j = 0; j < u->dv; j++) {
            row[j] = keep * row[j] + in * u->v[j];
            o[j] += out * row[j];
        }
    }
    if (!u->den)
        return;
    set_m(u, S, m);
    for (int a = 0; a < u->dk; a++)
        n[a] = keep * n[a] + add * u->k[a];
    l = denominator(u, u->scale * vdot(u->q, n, u->dk), m);
    for (int j = 0; j < u->dv; j++)
        o[j] /= l;
}

/* ---- 2. chunks ------------------------------------------------------------------------
 *
 * A chunk of tokens 0 .. T - 1, entered by S in the scale m. With b_x = f_0 + ... + f_x,
 * unrolling the recurrence from its start gives the state after token x,
 *
 *     S_x = e^{b_x} S + sum_{y <= x} e^{b_x - b_y + i_y} k_y v_yᵀ
 *
 * and, in the scale m_x = max(b_x + m, max_{y <= x} (b_x - b_y + i_y)) that the steps
 * would have arrived at,
 *
 *     past_x = e^{b_x + m - m_x}                 weight of the entering state in row x
 *     E_xy   = e^{b_x - b_y + i_y - m_x}         of token y <= x in row x; 0 for y > x
 *
 * of which none exceeds 1. Everything is then matrix products over the rows of the chunk
 * (. of elements; 1 a column of ones; past and e before a matrix multiply its rows):
 *
 *     A  = scale q kᵀ . E
 *     u  = A v + scale past q S,   l = A 1 + scale past q n,   o = u / D(l)
 *     S' = past_last S + kᵀ (e v), n' = past_last n + kᵀ e,    e_y = E_last,y
 *
 * The leaving state is what the last row sees, in the scale m_last.
 */

/* The exponents of a chunk: with key_y = i_y - b_y and top_x = m_x - b_x,
 *
 *     E_xy = e^{key_y - top_x},  past_x = e^{m - top_x}
 *
 * The sums are in double: differences of long sums of strong decay keep their digits. */
struct weights {
    double key[CHUNK], top[CHUNK];
    real   past[CHUNK], m[CHUNK];
    _Alignas(64) real E[CHUNK * CHUNK];
};

/* Without gates every weight is 1. */
static inline bool flat(const struct scalar *c) { return !c->log_f && !c->log_i; }

/* Gates that all tokens share make the same weights in every chunk. */
static inline bool steady(const struct scalar *c)
{
    return !c->log_i && (!c->log_f || !c->ld_f);
}

static void weigh(struct weights *w, const struct scalar *u, real m)
{
    double b = 0, top = m;

    for (int x = 0; x < u->T; x++) {
        b += u->log_f ? u->log_f[x * u->ld_f] : 0;
        w->key[x] = (u->log_i ? u->log_i[x * u->ld_i] : 0) - b;
        top = u->log_i && top > w->key[x] ? top : w->key[x];
        w->m[x] = u->log_i ? (real)(top + b) : 0;
        w->top[x] = top = w->m[x] - b;
    }
    #pragma omp simd
    for (int x = 0; x < u->T; x++)
        w->past[x] = vexp((real)(m - w->top[x]));
    for (int x = 0; x < u->T; x++) {
        const double above = w->top[x];

        #pragma omp simd
        for (int y = 0; y <= x; y++)
            w->E[x * CHUNK + y] = vexp((real)(w->key[y] - above));
    }
}

/* The weights of the chunk u that S enters; those of a whole chunk, where they are
 * steady, serve all that follow. */
static inline void weigh_chunk(struct weights *w, const struct scalar *u, const real *S,
                               bool first)
{
    if (!steady(u) || first)
        weigh(w, u, u->log_i ? m_of(u, S) : 0);
}

/* a <- a . E, and p <- (p + shift 1ᵀ) . E where p is given. a, p (T, CHUNK); n, which is
 * T, may be a constant. */
static inline __attribute__((always_inline)) void
apply_rows(const struct weights *w, real *a, real *p, const real *shift, int n)
{
    for (int x = 0; x < n; x++) {
        const real *e = w->E + x * CHUNK, by = p ? shift[x] : 0;
        real       *ax = a + x * CHUNK, *px = p ? p + x * CHUNK : NULL;

        #pragma omp simd
        for (int y = 0; y < n; y++)
            ax[y] = y <= x ? ax[y] * e[y] : 0;
        if (px) {
            #pragma omp simd
            for (int y = 0; y < n; y++)
                px[y] = y <= x ? (px[y] + by) * e[y] : 0;
        }
    }
}

static void apply_weights(const struct scalar *u, const struct weights *w, real *a,
                          real *p, const real *shift)
{
    if (u->T == CHUNK)
        apply_rows(w, a, p, shift, CHUNK);
    else
        apply_rows(w, a, p, shift, u->T);
}

/* S (dk, dv) = keep S + alpha sum_x w_x a_x b_xᵀ. */
static void add_outer(const struct scalar *u, real *S, real keep, real alpha,
                      const real *w, const real *a, size_t ld_a, const real *b,
                      size_t ld_b)
{
    for (int j = 0; j < u->dv; j += COLUMNS) {
        int  n = u->dv - j < COLUMNS ? u->dv - j : COLUMNS;
        real wb[CHUNK * COLUMNS];

        for (int x = 0; x < u->T; x++)
            for (int i = 0; i < n; i++)
                wb[x * COLUMNS + i] = w[x] * b[x * ld_b + j + i];
        gemm_tn(S + j, u->dv, a, ld_a, wb, COLUMNS, u->dk, n, u->T, alpha, keep);
    }
}

/* n (dk) = keep n + sum_x w_x a_x. */
static void add_rows(const struct scalar *u, real *n, real keep, const real *w,
                     const real *a, size_t ld)
{
    for (int j = 0; j < u->dk; j++)
        n[j] = keep == 0 ? 0 : keep * n[j];
    for (int x = 0; x < u->T; x++)
        vaxpy(n, w[x], a + x * ld, u->dk);
}

/* Divide the rows of o by D; a holds A. l (T) is written where wanted. */
static void divide(const struct scalar *u, const struct weights *w, const real *S,
                   const real *a, real *o, real *l)
{
    for (int x = 0; x < u->T; x++, a += CHUNK, o += u->ld_o) {
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

/* o of a chunk that S enters (NULL: empty). */
static void chunk_read(const struct scalar *u, const struct weights *w, const real *S,
                       real *o, real *l)
{
    real A[CHUNK * CHUNK];

    gemm_nt(A, CHUNK, u->q, u->ld_q, u->k, u->ld_k, u->T, u->T, u->dk, u->scale, 0);
    apply_weights(u, w, A, NULL, NULL);
    if (S) {
        gemm_nn(o, u->ld_o, u->q, u->ld_q, S, u->dv, u->T, u->dv, u->dk, u->scale, 0);
        if (!flat(u))
            vscale_rows(o, o, u->ld_o, w->past, u->T, u->dv);
    }
    gemm_nn(o, u->ld_o, A, CHUNK, u->v, u->ld_v, u->T, u->dv, u->T, 1, S != NULL);
    if (u->den)
        divide(u, w, S, A, o, l);
}

/* The state that leaves the chunk; from (NULL: empty) may be to. */
static void chunk_write(const struct scalar *u, const struct weights *w, const real *from,
                        real *to)
{
    const int   last = u->T - 1;
    const real *e = w->E + last * CHUNK, keep = from ? w->past[last] : 0;

    if (from && from != to)
        memcpy(to, from, head_state(u) * sizeof *to);
    if (flat(u))
        gemm_tn(to, u->dv, u->k, u->ld_k, u->v, u->ld_v, u->dk, u->dv, u->T, 1, keep);
    else
        add_outer(u, to, keep, 1, e, u->k, u->ld_k, u->v, u->ld_v);
    if (u->den) {
        add_rows(u, to + n_at(u), keep, e, u->k, u->ld_k);
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
            struct weights w;

            for (int t = 0; t < c->T; t += CHUNK) {
                struct scalar u = chunk_of(c, b, h, t);

                weigh_chunk(&w, &u, S, t == 0);
                chunk_read(&u, &w, S, chunk_of_o(c, o, b, h, t), c->den ? l + t : NULL);
                if (t + CHUNK < c->T) {
                    chunk_write(&u, &w, S, next);
                    S = next;
                    next += head_state(c);
                }
            }
        }
}

void scalar_extend(const struct scalar *c, void *const *state, size_t at, real *o)
{
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H; h++) {
            real          *S = (real *)state[b] + at + h * head_state(c);
            struct weights w;

            for (int t = 0; t < c->T; t += CHUNK) {
                struct scalar u = chunk_of(c, b, h, t);

                if (u.T == 1) {
                    step(&u, S, chunk_of_o(c, o, b, h, t));
                    continue;
                }
                weigh_chunk(&w, &u, S, t == 0);
                chunk_read(&u, &w, S, chunk_of_o(c, o, b, h, t), NULL);
                chunk_write(&u, &w, S, S);
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

double scalar_flops(int T, int dk, int dv)
{
    double n = T < CHUNK ? T : CHUNK;

    return 2 * n * (dk + dv) + 4.0 * dk * dv;
}

/* ---- 3. backward ----------------------------------------------------------------------
 *
 * o is the same in any scale, so its derivative by every m is 0, and the weights may be
 * differentiated with all m held constant.
 *
 * The denominator first. From o = u / D(l):
 *
 *     du = d_o / D,  dl = -D'(l) (d_o . o) / D
 *     D' = 1 of SCALAR_SUM;  of SCALAR_MAX sign(l) where |l| is the larger, otherwise 0
 *
 * Then the chunk, last to first. G (dk, dv) and Gn (dk) are the gradients of the leaving
 * S' and n', in their scale; n is the column of S that belongs to a value of always 1,
 * and dl that of du:
 *
 *     P  = scale (du vᵀ + dl 1ᵀ) . E                        gradient of the products q k
 *     dq = P k + scale past (du Sᵀ + dl nᵀ)
 *     dk = Pᵀ q + e (v Gᵀ + 1 Gnᵀ)
 *     dv = Aᵀ du + e k G
 *     G <- past_last G + scale qᵀ (past du),  Gn <- past_last Gn + scale qᵀ (past dl)
 *
 * The gradients of the log weights have a closed form. i_t is nowhere but in e^{i_t} k_t,
 * and scaling k_t moves the loss as k_t . dk_t does:
 *
 *     di_t = k_t . dk_t
 *
 * For f, let R_t be the gradient of the state after token t, which token t reads and the
 * next one decays; n, 1 and dl are columns of S, v and du here. With
 * dk_t = e^{i_t} R_t v_t and dq_t = scale S_t du_t,
 *
 *     R_t = scale q_t du_tᵀ + e^{f_{t+1}} R_{t+1},   df_t = <R_t, e^{f_t} S_{t-1}>
 *     <R_t, S_t> = df_t + k_t . dk_t                 by the recurrence of S_t
 *                = q_t . dq_t + df_{t+1}             by that of R_t
 *
 * and so df_t = df_{t+1} + q_t . dq_t - k_t . dk_t. At the end of a chunk G is
 * e^{f_{t+1}} R_{t+1}, so that the sum starts there with df_{t+1} = <G, S'> + Gn . n':
 * rounding does not gather over the sequence.
 */

/* What backward needs of a chunk beside u. */
struct back {
    const struct weights *w;
    const real    *S;               // entering, NULL: empty
    real          *G;               // G, Gn of the leaving, then of the entering state
    bool           last;            // nothing leaves: G is not set yet
    real          *dq, *dk, *dv;    // rows of this chunk
    real          *du;              // d_o, divided by D where there is one
    real           dl[CHUNK];
};

static inline double inner(const real *a, const real *b, size_t n)
{
    double sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < n; j++)
        sum += (double)a[j] * (double)b[j];
    return sum;
}

/* d_o -> du, and dl. */
static void back_divide(const struct scalar *u, struct back *p, const real *o,
                        const real *l)
{
    for (int x = 0; x < u->T; x++) {
        real *du = p->du + x * u->ld_o;
        real  D = denominator(u, l[x], p->w->m[x]), slope = 1;

        if (u->den == SCALAR_MAX)
            slope = (real)fabs(l[x]) < D ? 0 : l[x] < 0 ? -1 : 1;
        p->dl[x] = -slope * vdot(du, o + x * u->ld_o, u->dv) / D;
        vscale(du, 1 / D, du, u->dv);
    }
}

/* y <- by (y + a x); x NULL: by y. */
static inline void add_and_scale(real *y, const real *x, real a, real by, int n)
{
    if (!x) {
        vscale(y, by, y, n);
        return;
    }
    #pragma omp simd
    for (int j = 0; j < n; j++)
        y[j] = by * (y[j] + a * x[j]);
}

static void back_q(const struct scalar *u, const struct scalar_grad *g,
                   const struct back *p, const real *P)
{
    if (p->S) {
        gemm_nt(p->dq, g->ld_dq, p->du, u->ld_o, p->S, u->dv, u->T, u->dk, u->dv,
                u->scale, 0);
        for (int x = 0; (u->den || !flat(u)) && x < u->T; x++)
            add_and_scale(p->dq + x * g->ld_dq, u->den ? p->S + n_at(u) : NULL,
                          u->den ? u->scale * p->dl[x] : 0, p->w->past[x], u->dk);
    }
    gemm_nn(p->dq, g->ld_dq, P, CHUNK, u->k, u->ld_k, u->T, u->dk, u->T, 1,
            p->S != NULL);
}

static void back_kv(const struct scalar *u, const struct scalar_grad *g,
                    const struct back *p, const real *A, const real *P)
{
    const real *e = p->w->E + (size_t)(u->T - 1) * CHUNK, keep = !p->last;

    if (!p->last) {
        gemm_nt(p->dk, g->ld_dk, u->v, u->ld_v, p->G, u->dv, u->T, u->dk, u->dv, 1, 0);
        for (int y = 0; (u->den || !flat(u)) && y < u->T; y++)
            add_and_scale(p->dk + y * g->ld_dk, u->den ? p->G + n_at(u) : NULL, 1, e[y],
                          u->dk);
        gemm_nn(p->dv, g->ld_dv, u->k, u->ld_k, p->G, u->dv, u->T, u->dv, u->dk, 1, 0);
        if (!flat(u))
            vscale_rows(p->dv, p->dv, g->ld_dv, e, u->T, u->dv);
    }
    gemm_tn(p->dk, g->ld_dk, P, CHUNK, u->q, u->ld_q, u->T, u->dk, u->T, 1, keep);
    gemm_tn(p->dv, g->ld_dv, A, CHUNK, p->du, u->ld_o, u->T, u->dv, u->T, 1, keep);
}

/* G and Gn, from the leaving to the entering state. */
static void back_state(const struct scalar *u, struct back *p)
{
    real keep = p->last ? 0 : p->w->past[u->T - 1], by[CHUNK];

    if (flat(u))
        gemm_tn(p->G, u->dv, u->q, u->ld_q, p->du, u->ld_o, u->dk, u->dv, u->T, u->scale,
                keep);
    else
        add_outer(u, p->G, keep, u->scale, p->w->past, u->q, u->ld_q, p->du, u->ld_o);
    if (!u->den)
        return;
    for (int x = 0; x < u->T; x++)
        by[x] = u->scale * p->w->past[x] * p->dl[x];
    add_rows(u, p->G + n_at(u), keep, by, u->q, u->ld_q);
}

static void chunk_back(const struct scalar *u, const struct scalar_grad *g,
                       struct back *p)
{
    real A[CHUNK * CHUNK], P[CHUNK * CHUNK], shift[CHUNK];

    for (int x = 0; x < u->T; x++)
        shift[x] = u->den ? u->scale * p->dl[x] : 0;
    gemm_nt(A, CHUNK, u->q, u->ld_q, u->k, u->ld_k, u->T, u->T, u->dk, u->scale, 0);
    gemm_nt(P, CHUNK, p->du, u->ld_o, u->v, u->ld_v, u->T, u->T, u->dv, u->scale, 0);
    apply_weights(u, p->w, A, P, shift);
    back_q(u, g, p, P);
    back_kv(u, g, p, A, P);
    if (p->S)
        back_state(u, p);
}

/* df and di (NULL: not wanted), last token first; sum: df of the token after the
 * chunk. */
static void back_gates(const struct scalar *u, const struct scalar_grad *g,
                       const struct back *p, real *df, real *di, double sum)
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
    const real    *l = kept + (chunks(c) - 1) * head_state(c);
    struct weights w;

    if (steady(c)) {
        struct scalar u = chunk_of(c, b, h, 0);

        weigh(&w, &u, 0);
    }
    for (int i = chunks(c) - 1; i >= 0; i--) {
        struct scalar u = chunk_of(c, b, h, i * CHUNK);
        size_t        row = (size_t)b * c->T + (size_t)i * CHUNK;
        struct back   p = {
            .w = &w, .S = i ? kept + (i - 1) * head_state(c) : NULL,
            .G = G, .last = i == chunks(c) - 1,
            .dq = g->dq + row * g->ld_dq + (size_t)h * c->dk,
            .dk = g->dk + row * g->ld_dk + (size_t)h * c->dk,
            .dv = g->dv + row * g->ld_dv + (size_t)h * c->dv,
            .du = chunk_of_o(c, d_o, b, h, i * CHUNK),
        };
        double later = 0;

        if (!p.last && g->dlog_f)
            later = inner(G, kept + i * head_state(c), sums(c));
        weigh_chunk(&w, &u, p.S, false);
        if (c->den)
            back_divide(&u, &p, o + (p.du - d_o), l + i * CHUNK);
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

            head_back(c, g, o, d_o, kept + i * head_kept(c),
                      scratch + i * head_state(c), b, h);
        }
}
