/* Linear attention with a decay for every key channel: the core of gla and metala.
 *
 *     S_t = diag(e^{g_t}) S_{t-1} + k_t v_tᵀ       S (dk, dv), g_t (dk) <= 0
 *     o_t = scale S_tᵀ q_t
 *
 * Training runs over chunks of VECTOR_CHUNK tokens and is made of matrix products; only
 * the states between chunks are kept. Every factor that is ever formed is a decay between
 * two tokens, so none exceeds 1: g of any size, -INFINITY included, neither overflows
 * nor loses digits.
 *
 * Every function loops over all sequences and heads in parallel. Results have the same
 * bits for any number of threads.
 */
#ifndef WEFT_VECTOR_H
#define WEFT_VECTOR_H

#include "model/kernels/real.h"

#include <stddef.h>

enum { VECTOR_CHUNK = TINY(64, 6) };     // tokens; a multiple of a sub-block

/* Rows: token t of sequence b is row b T + t, ld reals from row to row; head h starts
 * at h dk (q, k, g) or h dv (v, o) in it. */
struct vector {
    int         B, T, H, dk, dv;
    const real *q, *k, *v, *g;
    size_t      ld_q, ld_k, ld_v, ld_g, ld_o;
    real        scale;
};

/* Where backward writes; rows as above. All are overwritten. */
struct vector_grad {
    real  *dq, *dk, *dv, *dg;
    size_t ld_dq, ld_dk, ld_dv, ld_dg;
};

/* Sizes in reals, from B, T, H, dk and dv. */
size_t vector_kept(const struct vector *c);     // from forward to backward
size_t vector_scratch(const struct vector *c);  // of backward; the others need none
size_t vector_state(const struct vector *c);    // of one sequence, independent of B and T

/* FLOPs of forward for a token and head, T in the sequence: the products that run. */
double vector_flops(int T, int dk, int dv);

/* o from an empty state. */
void vector_forward(const struct vector *c, real *o, real *kept);

/* After forward, with its kept. d_o has rows as o. */
void vector_backward(const struct vector *c, const struct vector_grad *g, const real *d_o,
                     const real *kept, real *scratch);

/* T more tokens of each sequence, whose state S (H, dk, dv) is the vector_state() reals
 * at state[b] + at; zero at the start. T = 1 is one step of the recurrence. */
void vector_extend(const struct vector *c, void *const *state, size_t at, real *o);

#endif
