#include "model/cores/vector.h"

#include "model/cores/decays.h"
#include "model/kernels/arena.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"

#include <stdbool.h>
#include <string.h>

/* ---- layout ------------------------------------------------------------------------ */

static int    chunks(const struct vector *c) { return (c->T + CHUNK - 1) / CHUNK; }
static size_t head_state(const struct vector *c) { return (size_t)c->dk * c->dv; }

/* Of a head: the states that enter chunks 1, 2, ... */
static size_t head_kept(const struct vector *c)
{
    return (chunks(c) - 1) * head_state(c);
}

size_t vector_kept(const struct vector *c) { return (size_t)c->B * c->H * head_kept(c); }
size_t vector_state(const struct vector *c) { return c->H * head_state(c); }

struct scratch {
    double *sum;            // (B, H, dk) running sum of dg
    real   *G;              // (B, H, dk, dv) gradient of the state
};

static size_t lay_out(struct scratch *s, void *base, const struct vector *c)
{
    struct arena a = arena_over(base, SIZE_MAX);
    size_t       n = (size_t)c->B * c->H;

    s->sum = arena_bytes(&a, "sum", n * c->dk * sizeof *s->sum);
    s->G = arena_reals(&a, "G", n * head_state(c));
    return a.used;
}

size_t vector_scratch(const struct vector *c)
{
    struct scratch s;

    return lay_out(&s, NULL, c) / sizeof(real);
}

/* The rows of head h in the chunk that begins at token t of sequence b. */
static struct vector rows_of(const struct vector *c, int b, int h, int t)
{
    size_t        row = (size_t)b * c->T + t, hk = (size_t)h * c->dk;
    struct vector u = *c;

    u.q += row * c->ld_q + hk;
    u.k += row * c->ld_k + hk;
    u.g += row * c->ld_g + hk;
    u.v += row * c->ld_v + (size_t)h * c->dv;
    u.T = c->T - t < CHUNK ? c->T - t : CHUNK;
    return u;
}

static size_t o_at(const struct vector *c, int b, int h, int t)
{
    return ((size_t)b * c->T + t) * c->ld_o + (size_t)h * c->dv;
}

/* Channels c, c + 1, ... of a chunk. */
static void fill(struct decays *s, const struct vector *u, int c)
{
    s->T = u->T;
    s->n = u->dk - c < CHANNELS ? u->dk - c : CHANNELS;
    s->q = u->q + c, s->ld_q = u->ld_q;
    s->k = u->k + c, s->ld_k = u->ld_k;
    decays_fill(s, u->g + c, u->ld_g);
}

/* ---- forward ----------------------------------------------------------------------- */

/* The part's rows of A (T, CHUNK); k' has been aged to x0. */
static void scores(const struct decays *s, real *A, int x0, real scale)
{
    const int n = s->n;

    if (x0)
        gemm_nt(A + x0 * CHUNK, CHUNK, s->aged_q + x0 * n, n, s->aged_k, n,
                decays_end(s, x0) - x0, x0, n, scale, 1);
    decays_scores(s, A, x0, scale);
}

/* to = diag(by) from, (n, dv); from may be to. */
static void scale_rows(real *to, const real *from, const real *by, int n, int dv)
{
    for (int i = 0; i < n; i++, to += dv, from += dv)
        vscale(to, by[i], from, dv);
}

/* The output of a chunk that `from` enters (NULL: empty) and `to` leaves (NULL:
 * not wanted; may be from):
 *
 *     o = A v + scale q'' from,   to = diag(through) from + k''ᵀ v
 *
 * with q'' = q' from the start of the chunk, k'' = k' aged to its end. */
static void chunk_forward(const struct vector *u, const real *from, real *to, real *o)
{
    struct decays s;
    real          A[CHUNK * CHUNK] = {0};

    for (int c = 0; c < u->dk; c += CHANNELS) {
        size_t at = (size_t)c * u->dv;

        fill(&s, u, c);
        for (int x0 = 0; x0 < u->T; x0 += PART) {
            scores(&s, A, x0, u->scale);
            decays_age(&s, s.aged_k, x0);
        }
        if (from) {
            decays_reach_back(&s, s.aged_q, 0, u->T);
            gemm_nn(o, u->ld_o, s.aged_q, s.n, from + at, u->dv, u->T, u->dv, s.n,
                    u->scale, c > 0);
        }
        if (from && to)
            scale_rows(to + at, from + at, decays_through(&s), s.n, u->dv);
        if (to)
            gemm_tn(to + at, u->dv, s.aged_k, s.n, u->v, u->ld_v, s.n, u->dv, u->T,
                    1, !!from);
    }
    gemm_nn(o, u->ld_o, A, CHUNK, u->v, u->ld_v, u->T, u->dv, u->T, 1, from != NULL);
}

void vector_forward(const struct vector *c, real *o, real *kept)
{
    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H; h++) {
            real       *next = kept + ((size_t)b * c->H + h) * head_kept(c);
            const real *S = NULL;

            for (int t = 0; t < c->T; t += CHUNK) {
                struct vector u = rows_of(c, b, h, t);
                real         *to = t + CHUNK < c->T ? next : NULL;

                chunk_forward(&u, S, to, o + o_at(c, b, h, t));
                S = to;
                next += head_state(c);
            }
        }
}

/* ---- extend ------------------------------------------------------------------------ */

static void step(const struct vector *u, real *S, real *o)
{
    memset(o, 0, u->dv * sizeof *o);
    for (int i = 0; i < u->dk; i++, S += u->dv) {
        real a = vexp(u->g[i]), in = u->k[i], out = u->scale * u->q[i];

        #pragma omp simd
        for (int j = 0; j < u->dv; j++) {
            S[j] = a * S[j] + in * u->v[j];
            o[j] += out * S[j];
        }
    }
}

void vector_extend(const struct vector *c, void *const *state, size_t at, real *o)
{
    #pragma omp parallel for collapse(2) schedule(static)
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H; h++) {
            real *S = (real *)state[b] + at + h * head_state(c);

            for (int t = 0; t < c->T; t += CHUNK) {
                struct vector u = rows_of(c, b, h, t);

                if (u.T == 1)
                    step(&u, S, o + o_at(c, b, h, t));
                else
                    chunk_forward(&u, S, S, o + o_at(c, b, h, t));
            }
        }
}

/* ---- backward ---------------------------------------------------------------------- */

/* What backward needs of a chunk, or of some channels of it, beside u. */
struct back {
    const real *S;      // entering, NULL: empty
    real       *G;      // gradient of the leaving state, then of the entering one
    bool        last;   // nothing leaves: G is not set yet
    const real *d_o;
    real       *dq, *dk, *dv, *dg;
    double     *sum;    // (dk) dg of the token after this chunk
    const real *P;      // (T, CHUNK) scale d_o vᵀ; above the diagonal unused
};

/* dq but for the token itself, and the scores A, which need k' at the same age.
 * Leaves k' aged to the end of the chunk. */
static void back_q(struct decays *s, const struct vector *u, const struct vector_grad *g,
                   const struct back *p, real *A)
{
    const int n = s->n;
    real      d[CHUNK * CHANNELS] = {0};

    if (p->S)
        gemm_nt(d, n, p->d_o, u->ld_o, p->S, u->dv, u->T, n, u->dv, u->scale, 0);
    for (int x0 = 0; x0 < u->T; x0 += PART) {
        int x1 = decays_end(s, x0);

        scores(s, A, x0, u->scale);
        decays_reach_back(s, d, x0, x1);
        if (x0)
            gemm_nn(d + x0 * n, n, p->P + x0 * CHUNK, CHUNK, s->aged_k, n, x1 - x0, n,
                    x0, 1, 1);
        decays_back_q(s, p->dq, g->ld_dq, p->P, d, x0);
        decays_age(s, s->aged_k, x0);
    }
}

/* dk but for the token itself. */
static void back_k(const struct decays *s, const struct vector *u,
                   const struct vector_grad *g, const struct back *p)
{
    const int n = s->n;
    real      d[CHUNK * CHANNELS] = {0};

    if (!p->last)
        gemm_nt(d, n, u->v, u->ld_v, p->G, u->dv, u->T, n, u->dv, 1, 0);
    for (int x0 = (u->T - 1) / PART * PART; x0 >= 0; x0 -= PART) {
        decays_back_k(s, p->dk, g->ld_dk, p->P, d, x0);
        decays_age(s, d, x0);
        if (x0)
            gemm_tn(d, n, p->P + x0 * CHUNK, CHUNK, s->aged_q + x0 * n, n, x0, n,
                    decays_end(s, x0) - x0, 1, 1);
    }
}

/* G <- diag(through) G + scale q''ᵀ d_o */
static void back_state(struct decays *s, const struct vector *u, const struct back *p)
{
    if (!p->last)
        scale_rows(p->G, p->G, decays_through(s), s->n, u->dv);
    decays_reach_back(s, s->aged_q, 0, u->T);
    gemm_tn(p->G, u->dv, s->aged_q, s->n, p->d_o, u->ld_o, s->n, u->dv, u->T, u->scale,
            !p->last);
}

/* dg_t = sum_{s >= t} (q_s dq_s - k_s dk_s), and only then what a token gives to itself,
 * P_tt k_t in dq_t and P_tt q_t in dk_t: that would cancel in the sum, but leave its
 * rounding, which under strong decay is larger than dg. */
static void back_g(const struct decays *s, const struct vector_grad *g,
                   const struct back *p)
{
    for (int x = s->T - 1; x >= 0; x--) {
        const real *q = s->q + x * s->ld_q, *k = s->k + x * s->ld_k,
                   own = p->P[x * CHUNK + x];
        real       *dq = p->dq + x * g->ld_dq, *dk = p->dk + x * g->ld_dk;
        real       *dg = p->dg + x * g->ld_dg;
        double     *sum = p->sum;

        #pragma omp simd
        for (int j = 0; j < s->n; j++) {
            sum[j] += (double)q[j] * dq[j] - (double)k[j] * dk[j];
            dg[j] = (real)sum[j];
            dq[j] += own * k[j];
            dk[j] += own * q[j];
        }
    }
}

static struct back from_channel(const struct back *p, int c, int dv)
{
    struct back b = *p;

    b.S = p->S ? p->S + (size_t)c * dv : NULL;
    b.G += (size_t)c * dv;
    b.dq += c, b.dk += c, b.dg += c, b.sum += c;
    return b;
}

static void chunk_back(const struct vector *u, const struct vector_grad *g,
                       struct back *p)
{
    struct decays s;
    real          A[CHUNK * CHUNK] = {0}, P[CHUNK * CHUNK];

    gemm_nt(P, CHUNK, p->d_o, u->ld_o, u->v, u->ld_v, u->T, u->T, u->dv, u->scale, 0);
    p->P = P;
    for (int c = 0; c < u->dk; c += CHANNELS) {
        struct back b = from_channel(p, c, u->dv);

        fill(&s, u, c);
        back_q(&s, u, g, &b, A);
        if (!b.last)
            gemm_nn(b.dv, g->ld_dv, s.aged_k, s.n, b.G, u->dv, u->T, u->dv, s.n,
                    1, c > 0);
        back_k(&s, u, g, &b);
        back_g(&s, g, &b);
        if (b.S)
            back_state(&s, u, &b);
    }
    gemm_tn(p->dv, g->ld_dv, A, CHUNK, p->d_o, u->ld_o, u->T, u->dv, u->T, 1, !p->last);
}

static void head_back(const struct vector *c, const struct vector_grad *g,
                      const real *d_o, const real *kept, struct scratch *s, int b, int h)
{
    size_t i = (size_t)b * c->H + h, hk = (size_t)h * c->dk;

    kept += i * head_kept(c);
    memset(s->sum + i * c->dk, 0, c->dk * sizeof *s->sum);
    for (int t = (chunks(c) - 1) * CHUNK; t >= 0; t -= CHUNK) {
        struct vector u = rows_of(c, b, h, t);
        size_t        row = (size_t)b * c->T + t;
        struct back   p = {
            .S = t ? kept + (t / CHUNK - 1) * head_state(c) : NULL,
            .G = s->G + i * head_state(c), .last = t + CHUNK >= c->T,
            .d_o = d_o + o_at(c, b, h, t), .sum = s->sum + i * c->dk,
            .dq = g->dq + row * g->ld_dq + hk, .dk = g->dk + row * g->ld_dk + hk,
            .dg = g->dg + row * g->ld_dg + hk,
            .dv = g->dv + row * g->ld_dv + (size_t)h * c->dv,
        };

        chunk_back(&u, g, &p);
    }
}

void vector_backward(const struct vector *c, const struct vector_grad *g, const real *d_o,
                     const real *kept, real *scratch)
{
    struct scratch s;

    lay_out(&s, scratch, c);
    #pragma omp parallel for collapse(2) schedule(dynamic)
    for (int b = 0; b < c->B; b++)
        for (int h = 0; h < c->H; h++)
            head_back(c, g, d_o, kept, &s, b, h);
}

/* Of the weights within a chunk only those below the diagonal are formed. */
double vector_flops(int T, int dk, int dv)
{
    double n = T < CHUNK ? T : CHUNK;

    return (n + 1) * dk + 2 * n * dv + 4.0 * dk * dv;
}
