/* The two ends of a mixer of heads: the rows that enter its core, the heads
 * that leave it.
 *
 * A row is what one product makes of a token: q (H, dk), then k (Hk, dk), then
 * whatever else.
 */
#ifndef WEFT_MIXER_HEADS_H
#define WEFT_MIXER_HEADS_H

#include "model/layers/gate.h"
#include "model/layers/norm.h"
#include "model/mixer.h"

/* ---- entering ---------------------------------------------------------------------- */

struct rows {
    int    w;   // index of the first weight; w and those that follow are (ld, C)
    int    Hk;  // heads of k
    size_t k;   // where k begins
    size_t ld;  // channels of a row
};

/* rows (B, T, ld) = x wᵀ, with q and k rotated. */
void rows_forward(const struct ctx *ctx, const struct rows *o, real *rows, const real *x);

/* dx += and dw += from drows, which is left holding the gradient before the rotation. */
void rows_backward(const struct ctx *ctx, const struct rows *o, real *dx, real *drows,
                   const real *rows, const real *x);

/* The rotations alone, where something stands between them and the product. */
void rows_rotate(const struct ctx *ctx, const struct rows *o, real *rows);
void rows_rotate_back(const struct ctx *ctx, const struct rows *o, real *drows,
                      const real *rows);

/* H heads of C / H channels: what struct mixer's angles() says for most mixers. */
void rows_angles(const struct mixer_cfg *c, int *heads, int *dk);

/* ---- leaving ----------------------------------------------------------------------- */

/* y = Wo( norm(o) w act(g) ), the norm over each head. */
struct leave {
    struct norm norm;
    bool        mean;               // LayerNorm; otherwise RMSNorm
    enum gate   act;
    int         w, wo;              // indices of the weights; w -1: none
    real       *o, *gated;          // (B, T, H, dv)
    real       *d_o, *normed;       // in backward, as o
    real       *partial;            // of the norm
};

/* The buffers; all but those is set. */
void leave_layout(struct leave *s, struct layout *m);

/* y from s->o and g, ld reals from token to token. */
void leave_forward(const struct ctx *ctx, const struct leave *s, real *y, const real *g,
                   size_t ld);

/* s->d_o = and dg = from dy; dg is spaced as g. */
void leave_backward(const struct ctx *ctx, const struct leave *s, real *dg,
                    const real *dy, const real *g, size_t ld);

#endif
