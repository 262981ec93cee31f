/* The gated delta rule: a memory that decays, in which a token replaces what is stored
 * under its key, or the part beta of it. The core of deltanet.
 *
 *     u_t = beta_t (v_t - e^{g_t} S_{t-1}ᵀ k_t)
 *     S_t = e^{g_t} S_{t-1} + k_t u_tᵀ             S (dk, dv)
 *     o_t = scale S_tᵀ q_t
 *
 * g (log_a) <= 0. Keys of length <= 1 and 0 <= beta <= 2 keep every step from growing.
 * Training runs over chunks of DELTA_CHUNK tokens and is made of matrix products and
 * triangular solves; only the states between chunks are kept.
 *
 * Every function loops over all sequences and heads in parallel (in place of, not inside,
 * the mixer's loop). Results have the same bits for any number of threads.
 */
#ifndef WEFT_DELTA_H
#define WEFT_DELTA_H

#include "model/kernels/real.h"

#include <stdbool.h>
#include <stddef.h>

enum { DELTA_CHUNK = TINY(32, 4) };      // tokens

/* Rows: token t of sequence b is row b T + t, ld reals from row to row; head h starts
 * at h dk (of q, k) or h dv (of v, o) in it. Gates are (B, T, H). */
struct delta {
    int         B, T, H, dk, dv;
    const real *q, *k, *v;
    size_t      ld, ld_o;           // ld of q, k and v
    const real *log_a, *beta;
    real        scale;
};

/* Where backward writes; shapes as in struct delta. All are overwritten. */
struct delta_grad {
    real *dq, *dk, *dv;
    real *dlog_a, *dbeta;
};

/* Sizes in reals, from B, T, H, dk and dv alone. */
size_t delta_kept(const struct delta *c);               // from forward to backward
size_t delta_scratch(const struct delta *c, bool back); // of backward, or the other two
size_t delta_state(const struct delta *c);              // of one sequence, any B, T

/* FLOPs of forward for a token and head, T in the sequence: the products and solves that
 * run. */
double delta_flops(int T, int dk, int dv);

/* o from an empty state. */
void delta_forward(const struct delta *c, real *o, real *kept, real *scratch);

/* After forward, with its kept. d_o has rows as o. */
void delta_backward(const struct delta *c, const struct delta_grad *g, const real *d_o,
                    const real *kept, real *scratch);

/* T more tokens of each sequence, whose state is the delta_state() reals at
 * state[b] + at; zero at the start. T = 1 is one step of the recurrence. */
void delta_extend(const struct delta *c, void *const *state, size_t at, real *o,
                  real *scratch);

#endif
