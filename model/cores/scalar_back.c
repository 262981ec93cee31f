/* The backward half of scalar. */
#include "model/cores/scalar.h"

#include "model/cores/scalar_chunk.h"
#include "model/kernels/product.h"

static inline double inner(const real *a, const real *b, size_t n)
{
    double sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < n; j++)
        sum += (double)a[j] * (double)b[j];
    return sum;
}

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
        p->dl[x] = -slope * vdot(du, o + x * u->ld_o, u->dv) / D;
        for (int j = 0; j < u->dv; j++)
            du[j] /= D;
    }
}

/* dq = scale past_x (S du_x + dl_x n) + P k */
static void back_q(const struct scalar *u, const struct scalar_grad *g,
                   const struct part *p, const real *P)
{
    if (p->S) {
        gemm_nt(p->dq, g->ld_dq, p->du, u->ld_o, p->S, u->dv, u->T, u->dk, u->dv,
                u->scale, 0);
        for (int x = 0; u->den && x < u->T; x++)
            vaxpy(p->dq + x * g->ld_dq, u->scale * p->dl[x], p->S + n_at(u), u->dk);
        if (!flat(u))
            scalar_rows(p->dq, g->ld_dq, p->w.past, u->T, u->dk);
    }
    gemm_nn(p->dq, g->ld_dq, P, L, u->k, u->ld_k, u->T, u->dk, u->T, 1, p->S != NULL);
}

/* dk = e_y (G v_y + Gn) + Pᵀ q,  dv = e_y Gᵀ k_y + Aᵀ du,  e: weights in the
 * leaving state. */
static void back_kv(const struct scalar *u, const struct scalar_grad *g,
                    const struct part *p, const real *A, const real *P)
{
    real e[L], keep = !p->last;

    if (!p->last) {
        row_of(e, &p->w, u->T - 1, u->T);
        gemm_nt(p->dk, g->ld_dk, u->v, u->ld_v, p->G, u->dv, u->T, u->dk, u->dv, 1, 0);
        for (int y = 0; u->den && y < u->T; y++)
            vaxpy(p->dk + y * g->ld_dk, 1, p->G + n_at(u), u->dk);
        gemm_nn(p->dv, g->ld_dv, u->k, u->ld_k, p->G, u->dv, u->T, u->dv, u->dk, 1, 0);
        if (!flat(u)) {
            scalar_rows(p->dk, g->ld_dk, e, u->T, u->dk);
            scalar_rows(p->dv, g->ld_dv, e, u->T, u->dv);
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
        scalar_outer(u, p->G, keep, u->scale, p->w.past, u->q, u->ld_q, p->du, u->ld_o);
    if (!u->den)
        return;
    for (int x = 0; x < u->T; x++)
        by[x] = u->scale * p->w.past[x] * p->dl[x];
    scalar_sum(p->G + n_at(u), keep, by, u->q, u->ld_q, u->T, u->dk);
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
    scalar_apply(u, &p->w, A, P, shift);
    back_q(u, g, p, P);
    back_kv(u, g, p, A, P);
    if (p->S)
        back_state(u, p);
}

/* di_t = k_t . dk_t,  df_t = sum_{s >= t} (q_s . dq_s - k_s . dk_s). Over the tokens
 * after the chunk the sum is <G, S> of the leaving state, handed in, so that rounding
 * does not gather over the sequence. */
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
        scalar_weigh(&p.w, &u, m_of(c, p.S));
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

            head_back(c, g, o, d_o, kept + i * head_kept(c),
                      scratch + i * head_state(c), b, h);
        }
}
