/* A function of one number by a small network with one hidden layer, read
 * from its pieces.
 *
 *     psi_l(u) = sum_{j < hidden} f2[l, j] relu(f1[g, j] u + f1b[g, j]) + f2b[l]
 *
 * g = 0 for all channels (groups = 1), or g = l (groups = channels). Between the knots
 * -f1b/f1 all psi are linear: a search and a multiply-add give what the network gives,
 * and the sums of a gradient over each piece give the gradient of every weight.
 */
#ifndef WEFT_PIECEWISE_H
#define WEFT_PIECEWISE_H

#include "model/kernels/real.h"

#include <stddef.h>

struct piecewise {
    int   groups, channels, hidden;
    int   search;        // a power of two, at least hidden
    int   row;           // pieces of a line: search + 1 and some; from piece hidden on
                         // all are the same
    real *knot;          // (groups, search) ascending, then INFINITY
    real *heap;          // (groups, search) the same but the last, as a tree from 1 on:
                         // below i are 2 i, smaller, and 2 i + 1
    real *line;          // value at 0 and slope of what psi is in each piece
};

/* The weights, as stored; or their gradients. */
struct piecewise_net {
    real *f1, *f1b; // (groups, hidden)
    real *f2, *f2b; // (channels, hidden), (channels)
};

/* Lay p's tables out from base (NULL: only count) once its groups, channels and hidden
 * are set; returns their size in reals. */
size_t piecewise_layout(struct piecewise *p, real *base);

/* Fill the tables from the weights. */
void piecewise_build(struct piecewise *p, const struct piecewise_net *w);

/* psi (n, channels, m) of u (n, m). */
void piecewise_read(const struct piecewise *p, real *psi, const real *u, long n, int m);

/* Sums over each piece, in double: of dpsi u and of dpsi. */
size_t piecewise_sums(const struct piecewise *p); // doubles

/* du (n, m) = sum_l slope_l dpsi_l of the piece that u is in, dpsi (n, channels, m);
 * dpsi u and dpsi are added to that piece's sums. */
void piecewise_back(const struct piecewise *p, real *du, double *sums, const real *dpsi,
                    const real *u, long n, int m);

/* Add to dw what follows from the sums. */
void piecewise_weights(const struct piecewise *p, const struct piecewise_net *dw,
                       const struct piecewise_net *w, const double *sums);

#endif
