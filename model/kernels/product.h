/* Linear maps over rows, and their gradients, on all threads.
 *
 *     y = x wᵀ,   dx = dy w,   dw = dyᵀ x        x (n, in), w (out, in), y (n, out)
 *
 * Matrices lie in rows without gaps and do not overlap. A product over many rows is cut
 * into tiles, each a product of gemm.h on one thread inside a parallel loop; one over few
 * rows (decoding) is made of dot products, each weight read once. How n and out are cut
 * never changes a bit, nor who makes which part of a sum over rows (dw), so results are
 * the same for any number of threads; that of few rows may differ in the last bits from
 * that of the same rows among many. Nothing is allocated, nothing can fail.
 */
#ifndef WEFT_PRODUCT_H
#define WEFT_PRODUCT_H

#include "model/kernels/gemm.h"

#include <stdbool.h>

/* Matrices in fewer bits, bf16 or q8_0, whose rows are multiples of Q8_BLOCK. */
struct packed_matrix {
    const real          *w;             // what it stands for, (rows, cols)
    const unsigned char *data;          // rows of packed_bytes(type, cols)
    int                  rows, cols;
};

struct packed_weights {
    enum packed                 type;
    int                         n;
    const struct packed_matrix *matrix; // (n) by rising w
    bool                        round_rows; // what meets them, if it is many rows
};

/* From now on product_forward reads these in place of what they stand for, in this thread
 * and the parallel regions that it begins; p stays the caller's. NULL: none. */
void product_take_packed(const struct packed_weights *p);

/* Are there such? Then a loop that calls gemm.h itself would miss them. */
bool product_reads_packed(void);

/* Lend a place for matrices that are laid out as panels, in this thread and as above; it
 * holds one product's at a time. NULL: none. */
void product_take_room(real *at, size_t n);

/* A matrix that tiles of rows are multiplied with: x wᵀ, w (n, k), where it is turned, or
 * dy w, w (k, n). */
struct product_right {
    const real *w;
    int         n, k;
    bool        turned;
    real       *laid;           // NULL: each product lays out its own panels
};

/* With fewer rows nothing is laid out, whatever the number of threads. */
long product_many(void);

/* w as the tiles of `rows` rows in all will meet it. *taken is how much of the room is
 * used: 0 before a product's first matrix. */
struct product_right product_right(const real *w, int n, int k, bool turned, long rows,
                                   size_t *taken);

/* Lay out those that have a place: inside a parallel region, which all its threads must
 * reach. */
void product_lay(const struct product_right *b, int count);

/* c (m, n) = a b + keep c, of columns from .. from + n - 1 of b; keep is 0 or 1. For one
 * thread, as gemm.h. */
void product_by(const struct product_right *b, real *c, size_t ldc, const real *a,
                size_t lda, int m, int from, int n, real keep);

/* What else is done with rows from .. from + n - 1 while they are in the cache, on any
 * thread. run NULL: nothing. */
struct rows_work {
    void      (*run)(const void *of, long from, long n);
    const void *of;
};

/* y = x wᵀ; y is overwritten. */
void product_forward(real *y, const real *x, const real *w, long n, int in, int out);

/* Then `then` with every row of y. */
void product_forward_then(real *y, const real *x, const real *w, long n, int in, int out,
                          struct rows_work then);

/* dx = dy w + keep dx,  dw += dyᵀ x.   keep is 0 or 1; dx or dw may be NULL: not
 * wanted. */
void product_backward(real *dx, real keep, real *dw, const real *dy, const real *x,
                      const real *w, long n, int in, int out);

/* After `first` with every row of dy. */
void product_backward_after(struct rows_work first, real *dx, real keep, real *dw,
                            const real *dy, const real *x, const real *w, long n, int in,
                            int out);

/* dw += dyᵀ x inside a parallel region, which all its threads must reach: they share the
 * tiles, and go on without waiting for each other. */
void product_weights(real *dw, const real *dy, const real *x, long n, int in, int out);

/* Rows of a tile for a product over n rows: for loops that make several products of the
 * same rows while these are in the cache. */
int product_tile(long n);

/* This machine's rate of products now, in GFLOP/s: 512 rows a thread, on all threads,
 * times 768 x 768; best of `tries`, of some 10 ms each. */
double product_gflops(const struct gemm *by, int tries);

#endif
