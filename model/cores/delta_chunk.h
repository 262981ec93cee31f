/* One chunk of one head of the gated delta rule: its rows, its weights, its triangular
 * solves. The mathematics and the letters are those of delta.c.
 */
#ifndef WEFT_DELTA_CHUNK_H
#define WEFT_DELTA_CHUNK_H

#include "model/cores/delta.h"

/* Its n rows, and the memory it is worked out in. A pair on one line lies one below the
 * other and makes 2 n rows. Those of A, C, dA, dC and E are DELTA_CHUNK apart. */
struct delta_chunk {
    int         n, dk, dv;
    size_t      row, head;          // the first row, and the head, among all
    const real *q, *k, *v;          // rows of the caller
    double      sum[DELTA_CHUNK];   // G
    real        e[DELTA_CHUNK], r[DELTA_CHUNK], beta[DELTA_CHUNK];
    real       *qs, *ks;            // (n, dk) scale q; k
    real       *A, *C;              // (n, n); of C only y < x is set
    real       *y, *w;              // (n, dv) q S in the place of y in forward
    real       *u;                  // (n, dv)
    real       *dA, *dC;            // (n, n); these and the rest in backward only
    real       *d_o, *z;            // (n, dv) du, then z, then -y in z
    real       *E;                  // (n, n)
    real       *G;                  // (dk, dv) Γ
};

/* Memory for any chunk of c, from base or only counted; in reals. */
size_t delta_chunk_layout(struct delta_chunk *u, real *base, const struct delta *c,
                         bool back);

/* The chunk of head h of sequence b that begins at token t. */
void delta_chunk_open(struct delta_chunk *u, const struct delta *c, int b, int h, int t);

/* qs, ks, A and C; E where it is wanted (NULL: not). */
void delta_chunk_score(const struct delta_chunk *u, const struct delta *c, real *E);

/* w and u, of which w holds k S; without a state it holds nothing. */
void delta_chunk_solve(const struct delta_chunk *u, const struct delta *c, bool state);

/* z and y, of which z holds du. */
void delta_chunk_solve_back(const struct delta_chunk *u);

#endif
