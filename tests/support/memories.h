/* The mixers with a matrix state as dynamical systems, step by step in double: their
 * definitions.
 *
 *     S_t = L_t S_{t-1} + B_t u_t',   o_t = S_t' C_t + D_t        S (N, P) of each head
 *     y_t = Wo finish(o_t)
 */
#ifndef WEFT_MEMORIES_H
#define WEFT_MEMORIES_H

#include "model/cores/range.h"
#include "tests/support/layer.h"

struct memory {
    int     T, H, N, P;
    int     first;          // token from which on L means something
    double *L;              // (T, H, N, N)
    double *B, *C;          // (T, H, N)
    double *u, *D;          // (T, H, P)
};

/* The system of a layer with B = 1, from its parameters and x. */
void memory_open(struct memory *s, const struct layer *l);
void memory_close(struct memory *s);

/* finish(o) of the plain recurrence, in a new (T, H P). */
double *memory_run(const struct memory *s, const struct layer *l);

/* The range of |L|'s eigenvalues of each head into r (H). */
void memory_range(const struct memory *s, struct range *r);

#endif
