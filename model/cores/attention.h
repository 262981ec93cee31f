/* Causal attention in blocks of scores, and its gradient: no (T, T) matrix is ever held.
 *
 *     s_tu = scale q_t . k_u          visible iff 0 <= t - u < window (0: no limit)
 *     p_t = softmax(s_t)              over visible u; with a sink, one logit more
 *           max(s_t, 0)               ATTENTION_RELU
 *     o_t = sum_u p_tu v_u
 *
 * Softmax keeps only the log-sum-exp of each row (FlashAttention, arXiv:2205.14135),
 * ReLU nothing. Key head h serves query heads h G .. h G + G - 1, G = H / Hk.
 *
 * Every function loops over all sequences and heads in parallel; results have the same
 * bits for any number of threads.
 */
#ifndef WEFT_ATTENTION_H
#define WEFT_ATTENTION_H

#include "model/kernels/real.h"

#include <stddef.h>

enum attention_kind {
    ATTENTION_SOFTMAX,
    ATTENTION_RELU,
};

/* Queries are the last T of first + T positions. Query t of sequence b is row b T + t of
 * q, key u is row b (first + T) + u of k and of v; heads lie e apart in a row. */
struct attention {
    enum attention_kind kind;
    int         B, T, H, Hk, e;
    int         first;              // keys before the first query
    int         window;
    real        scale;
    const real *sink;               // (H), softmax only; NULL: none
    const real *q, *k, *v;
    size_t      ld_q, ld_kv;        // reals from row to row
};

/* o (B, T, H, e), and of softmax lse (B, H, T) in units of log 2, or NULL when no
 * backward follows. */
void attention_forward(const struct attention *a, real *o, real *lse);

/* After forward, with its o and lse (ReLU: NULL). dq, dk and dv are overwritten, rows as
 * of q, k and v; so is dsink (B, H), if there is a sink. */
void attention_backward(const struct attention *a, const real *o, const real *lse,
                        const real *d_o, real *dq, real *dk, real *dv, real *dsink);

/* ReLU: the visible pairs (b, h, t, u) with p = 0, and the rows (b, h, t) that
 * have no other. */
void attention_zeros(const struct attention *a, long *pairs, long *rows);

/* What query t of sequence b gives to the keys before it and to its own, by every head,
 * divided by their sum: p (H, first + t + 1), 0 where it does not see a key, and of a
 * head that gives nothing. A sink is left out. In plain loops, for instruments. */
void attention_weights(const struct attention *a, int b, int t, double *p);

/* Visible pairs (t, u) of T tokens. */
double attention_pairs(int T, int window);

#endif
