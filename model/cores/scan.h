/* Elementwise linear recurrences: the core of qlstm, rglru, mingru and s6.
 *
 *     scan        h_t = a_t h_{t-1} + b_t                                      h (C)
 *     selective   h_t[n] = e^{A[n] s_t} h_{t-1}[n] + s_t B_t[n] u_t            h (N, C)
 *                 y_t = sum_n C_t[n] h_t[n] + skip u_t
 *
 * Every channel is a recurrence of its own: loops run over sequences and stripes
 * of channels in parallel and are vectorised over channels. The selective form
 * holds N states per channel; only those between chunks of SCAN_CHUNK tokens are kept,
 * backward replays the ones inside.
 *
 * Arrays (B, T, C) lie without gaps; rows of the others are ld reals apart. Results have
 * the same bits for any number of threads.
 */
#ifndef WEFT_SCAN_H
#define WEFT_SCAN_H

#include "model/kernels/real.h"

#include <stddef.h>

enum { SCAN_CHUNK = TINY(32, 4) };       // tokens

/* ---- scan -------------------------------------------------------------------------- */

struct scan {
    int         B, T, C;
    const real *a;              // (B, T, C)
};

/* h (B, T, C) holds b and is left holding the states, from an empty one. */
void scan_forward(const struct scan *s, real *h);

/* dh (B, T, C) is left holding db_t = dh_t + a_{t+1} db_{t+1}; da_t = db_t h_{t-1},
 * 0 at the first token, is overwritten, rows ld_da apart. h as left by forward. */
void scan_backward(const struct scan *s, real *dh, real *da, size_t ld_da, const real *h);

/* As forward, from and to the state (C) at state[b] + at. */
void scan_extend(const struct scan *s, void *const *state, size_t at, real *h);

/* ---- selective --------------------------------------------------------------------- */

struct selective {
    int         B, T, C, N;
    const real *u, *step;       // (B, T, C); step is s
    const real *in, *out;       // (B, T, N), B and C of the formula
    size_t      ld;             // of in and out
    const real *rate;           // (N, C), A
    const real *skip;           // (C)
};

/* Where backward writes. All are overwritten. */
struct selective_grad {
    real  *du, *dstep;          // (B, T, C)
    real  *din, *dout;          // (B, T, N)
    size_t ld;                  // of din and dout
    real  *drate, *dskip;       // (B, N, C), (B, C): the sum of each sequence
};

/* Sizes in reals, from B, T, C and N alone. */
size_t selective_kept(const struct selective *s);       // from forward to backward
size_t selective_scratch(const struct selective *s);    // of backward
size_t selective_state(const struct selective *s);      // of one sequence

/* y (B, T, C), from an empty state. */
void selective_forward(const struct selective *s, real *y, real *kept);
void selective_backward(const struct selective *s, const struct selective_grad *g,
                        const real *dy, const real *kept, real *scratch);

/* T more tokens of each sequence, whose state (N, C) is at state[b] + at;
 * zero at the start. */
void selective_extend(const struct selective *s, void *const *state, size_t at, real *y);

#endif
