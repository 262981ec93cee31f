/* Blocked causal softmax attention of one head, and its gradient (FlashAttention,
 * arXiv:2205.14135). Only the log-sum-exp of each row is kept; scores exist a block at a time.
 *
 *     s_tu = scale q_t . k_u   visible iff 0 <= t - u < window (window 0: no limit)
 *     p = softmax over visible u and, with a sink, one logit that has no value;   o_t = sum p v
 */
#ifndef WEFT_ATTENTION_H
#define WEFT_ATTENTION_H

#include "model/real.h"

#include <stddef.h>

enum { ATTENTION_QUERIES = 64, ATTENTION_KEYS = 256 };     // a block of scores

/* One head's rows, strided: row t of q is q + t ld_q. k and v start at position 0, q and o at
 * position first. */
struct head {
    const real *q, *k, *v;
    size_t      ld_q, ld_k, ld_v, ld_o;
    int         first;              // position of the first query
    int         e;                  // head width
    int         window;
    real        scale;
    const real *sink;               // NULL: none
};

/* Queries t0 .. t0 + n - 1 (positions; n <= ATTENTION_QUERIES): o and lse are those of position
 * `first`, like q. */
void attention_forward(const struct head *h, int t0, int n, real *o, real *lse);

/* The same queries' share of the gradient. dq is overwritten; dk and dv +=; the derivative by
 * the sink is returned. d_o, o, lse, dq start at position `first`; strides as in the head: dq as
 * q, dk as k, dv as v, d_o as o. */
real attention_backward(const struct head *h, int t0, int n, const real *o, const real *lse,
                        const real *d_o, real *dq, real *dk, real *dv);

#endif
