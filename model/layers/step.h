/* The step in time that a token takes, and the decay that follows from it, as state
 * spaces have them (Mamba).
 *
 *     s = softplus(z + b),   log a = -e^alog s          each of e channels
 *
 * z (n, e) has ld reals from row to row; s and log a have no gaps; b, alog (e).
 */
#ifndef WEFT_STEP_H
#define WEFT_STEP_H

#include "model/kernels/real.h"

#include <stddef.h>

struct step {
    long        n;
    int         e;
    size_t      ld;
    const real *b, *alog;       // alog NULL: s alone is wanted
};

/* s may be z. */
void step_forward(const struct step *o, real *s, real *log_a, const real *z);

/* dz = (ds - e^alog dlog_a) (1 - e^-s), overwritten; db += and dalog += sums over rows.
 * ds NULL: none. dz, spaced as z, may be ds. */
void step_backward(const struct step *o, real *dz, real *db, real *dalog, const real *ds,
                   const real *dlog_a, const real *s, const real *log_a);

#endif
