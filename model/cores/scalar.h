/* Linear attention with one scalar weight per token and head: the core of linear, luna,
 * normattn, inline, retention, ssd and mlstm.
 *
 *     S_t = e^{f_t} S_{t-1} + e^{i_t} k_t v_tᵀ         S (dk, dv)
 *     n_t = e^{f_t} n_{t-1} + e^{i_t} k_t              n (dk), with a denominator
 *     u_t = scale S_tᵀ q_t,   l_t = scale n_t . q_t
 *     o_t = u_t                                        SCALAR_PLAIN
 *           u_t / (l_t + den_eps)                      SCALAR_SUM
 *           u_t / max(|l_t|, 1)                        SCALAR_MAX
 *
 * f (log_f) and i (log_i) are optional, 0 without. Training runs over chunks of
 * SCALAR_CHUNK tokens and is made of matrix products; only the states between chunks are
 * kept.
 *
 * With log_i, states are held as e^{-m} S and e^{-m} n, m the running maximum of the
 * exponents: gates of any size neither overflow nor lose digits. m is a pure rescaling
 * and has no gradient.
 *
 * Every function loops over all sequences and heads in parallel (in place of, not inside,
 * the mixer's loop; inside one it runs serially). Results have the same bits for any
 * number of threads.
 */
#ifndef WEFT_SCALAR_H
#define WEFT_SCALAR_H

#include "model/cores/range.h"
#include "model/kernels/real.h"

#include <stdbool.h>
#include <stddef.h>

enum { SCALAR_CHUNK = TINY(32, 4) };     // tokens

enum scalar_den {
    SCALAR_PLAIN,
    SCALAR_SUM,
    SCALAR_MAX,
};

/* Rows: token t of sequence b is row b T + t, ld reals from row to row; head h starts at
 * h dk (q, k), h dv (v, o) or h (gates) in it. */
struct scalar {
    int         B, T, H, dk, dv;
    const real *q, *k, *v;
    size_t      ld_q, ld_k, ld_v, ld_o;
    bool        shared;             // one q and k (dk) serves all heads
    const real *log_f, *log_i;      // NULL: 0; log_i only with a denominator
    size_t      ld_f, ld_i;         // 0: the same for all tokens, (H)
    enum scalar_den den;
    real        scale, den_eps;     // den_eps of SCALAR_SUM
};

/* Where backward writes; rows as above. All are overwritten. */
struct scalar_grad {
    real  *dq, *dk, *dv;         // heads at h dk and h dv also when q and k are shared:
    size_t ld_dq, ld_dk, ld_dv;  // the caller then sums dq and dk over heads
    real  *dlog_f, *dlog_i;      // NULL: not wanted
    size_t ld_df, ld_di;         // heads at h
};

/* Sizes in reals, from B, T, H, dk, dv and den alone. */
size_t scalar_kept(const struct scalar *c);     // from forward to backward
size_t scalar_scratch(const struct scalar *c);  // of backward; the others need none
size_t scalar_state(const struct scalar *c);    // of one sequence, independent of B and T

/* FLOPs of forward for a token and head, T in the sequence: the products that run, the
 * square blocks of a chunk whole. */
double scalar_flops(int T, int dk, int dv);

/* o from an empty state. */
void scalar_forward(const struct scalar *c, real *o, real *kept);

/* Widen r (H) by e^{f_t} n_{t-1} / n_t, n_t = l_t + den_eps, of every token but the
 * first; after forward of SCALAR_SUM, with its kept. log_q (B, T, H): with log_i,
 * logarithms that q was divided by. */
void scalar_ratios(const struct scalar *c, const real *kept, const real *log_q,
                   struct range *r);

/* After forward, with its kept and, where there is a denominator, its o (otherwise NULL).
 * d_o has rows as o; with a denominator it is left holding du = d_o / denominator. */
void scalar_backward(const struct scalar *c, const struct scalar_grad *g, const real *o,
                     real *d_o, const real *kept, real *scratch);

/* T more tokens of each sequence, whose state is the scalar_state() reals at
 * state[b] + at; zero at the start. T = 1 is one step of the recurrence. */
void scalar_extend(const struct scalar *c, void *const *state, size_t at, real *o);

#endif
