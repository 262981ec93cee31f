/* RMSNorm and LayerNorm over groups of channels.
 *
 *     rms:  r = 1 / sqrt(mean(x²) + eps),  y = r x w
 *     ln:   the same of x - mean(x)
 *
 * x (n, groups, e) with ld reals from row to row; w (e) shared by the groups,
 * or (groups, e). The block's norm is one group of the whole width; a mixer's head
 * norm has one group a head.
 */
#ifndef WEFT_NORM_H
#define WEFT_NORM_H

#include "model/layers/gate.h"

#include <stdbool.h>
#include <stddef.h>

struct norm {
    int    groups, e;
    bool   shared;          // w (e) serves every group
    real   eps;
    bool   centre;          // LayerNorm; of heads with a gate only
};

/* y may be x. */
void rms_forward(const struct norm *o, real *y, size_t ldy, const real *x, size_t ldx,
                 const real *w, long n);

/* By the calling thread alone. */
void rms_forward_rows(const struct norm *o, real *y, size_t ldy, const real *x,
                      size_t ldx, const real *w, long n);

/* dx = r (w dy - xr mean(w dy xr)) + keep dx,  dw += sum of dy xr,  xr = r x; keep is 0
 * or 1. dx may be dy when keep is 0. partial: norm_partial() reals of scratch. */
void rms_backward(const struct norm *o, real *dx, size_t lddx, real keep, real *dw,
                  const real *dy, size_t lddy, const real *x, size_t ldx,
                  const real *w, long n, real *partial);

/* The same in pieces, for loops that have more to do with a block's rows: dw is summed
 * in NORM_BLOCKS blocks of rows, whatever the number of threads, which begin at
 * norm_block of 0, 1, ... of n rows; then over the blocks. All rows lie without gaps;
 * dx = r (...) + plus, which may be dx or, as dy, take its place. */
enum { NORM_BLOCKS = TINY(16, 3) };
static inline long norm_block(long n, int block) { return n * block / NORM_BLOCKS; }
void rms_backward_block(const struct norm *o, real *dx, const real *plus, const real *dy,
                        const real *x, const real *w, long n, int block, real *partial);
void rms_backward_sum(const struct norm *o, real *dw, const real *partial);

size_t norm_partial(const struct norm *o);

/* The RMSNorm of a gated x, y = rms(x silu(g)) w, in one pass over memory; g has x's
 * shape with ldg reals from row to row. */
void rms_gated_forward(const struct norm *o, real *y, size_t ldy, const real *x,
                       size_t ldx, const real *g, size_t ldg, const real *w, long n);

/* dx (spaced as dy, which it may be) and dg are overwritten, dw is added to. partial:
 * rms_gated_partial() reals of scratch. */
void rms_gated_backward(const struct norm *o, real *dx, real *dg, size_t lddg, real *dw,
                        const real *dy, size_t lddy, const real *x, size_t ldx,
                        const real *g, size_t ldg, const real *w, long n, real *partial);

size_t rms_gated_partial(const struct norm *o);

/* A gate after the norm, y = norm(x) w act(g), in one pass over memory. w and dw NULL:
 * ones, without a gradient. */
void norm_gate_forward(const struct norm *o, enum gate act, real *y, size_t ldy,
                       const real *x, size_t ldx, const real *g, size_t ldg,
                       const real *w, long n);

/* dx, which holds dy and lies as x, and dg are overwritten, dw is added to. partial:
 * rms_gated_partial() reals of scratch. */
void norm_gate_backward(const struct norm *o, enum gate act, real *dx, real *dg,
                        size_t lddg, real *dw, const real *x, size_t ldx, const real *g,
                        size_t ldg, const real *w, long n, real *partial);

#endif
