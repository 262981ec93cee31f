/* The decays between the rows of one chunk, for the elementwise half of vector.
 *
 * A chunk of at most CHUNK rows is cut into parts of PART rows. With a_x = e^{g_x}
 * and part rows x0 .. x1 - 1:
 *
 *     q'_x = q_x a_{x0} ... a_x            from the start of its part
 *     k'_y = k_y a_{y+1} ... a_{x1-1}      to the end of its part; then aged by parts
 *
 * A query sees a key of an earlier part with q'_x . k'_y once k' has been aged to x0.
 * Within a part the decay between two rows is a product of fewer than PART of the a. So
 * no factor exceeds 1 for any g <= 0, and there is one exponential per row and channel.
 *
 * Everything here is for n <= CHANNELS channels, in arrays (rows, n).
 */
#ifndef WEFT_DECAYS_H
#define WEFT_DECAYS_H

#include "model/kernels/real.h"

#include <stddef.h>

enum { CHUNK = 64, PART = 16, PARTS = CHUNK / PART, CHANNELS = 64 };

struct decays {
    int         T, n;                           // rows, channels
    const real *q, *k;                          // as given, ld apart
    size_t      ld_q, ld_k;
    real        a[CHUNK * CHANNELS];
    real        aged_q[CHUNK * CHANNELS];       // q'
    real        aged_k[CHUNK * CHANNELS];       // k'
    real        part[PARTS * CHANNELS];         // e^{sum of g over part i}
    real        past[(PARTS + 1) * CHANNELS];   // e^{sum of g before part i}
};

/* T, n, q, k and their strides are set. */
void decays_fill(struct decays *s, const real *g, size_t ld_g);

/* The row after the last of the part that begins at x0. */
static inline int decays_end(const struct decays *s, int x0)
{
    return s->T - x0 < PART ? s->T : x0 + PART;
}

/* The decay over the whole chunk (n). */
static inline const real *decays_through(const struct decays *s)
{
    return s->past + (s->T + PART - 1) / PART * s->n;
}

/* Rows before x0 of y times the decay over the part that begins there. */
void decays_age(const struct decays *s, real *y, int x0);

/* Rows [x0, x1) of y times the decay from the start of the chunk to their part's. */
void decays_reach_back(const struct decays *s, real *y, int x0, int x1);

/* A_xy += scale sum_j q_xj k_yj a_{y+1,j} ... a_xj   for y <= x in the part.
 * A (T, CHUNK). */
void decays_scores(const struct decays *s, real *A, int x0, real scale);

/* dq_x = a_{x0} ... a_x d_x + sum_{y < x} P_xy k_y a_{y+1} ... a_x   for x in the
 * part. P as A; dq ld apart. */
void decays_back_q(const struct decays *s, real *dq, size_t ld, const real *P,
                   const real *d, int x0);

/* dk_y = a_{y+1} ... a_{x1-1} d_y + sum_{x > y} P_xy q_x a_{y+1} ... a_x   for y in
 * the part. */
void decays_back_k(const struct decays *s, real *dk, size_t ld, const real *P,
                   const real *d, int x0);

#endif
