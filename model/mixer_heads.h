/* The parts of a mixer of heads: the projection to q, k and the rest, rotated; the cores
 * that mix tokens; the norm, gate and projection of what they leave.
 */
#ifndef WEFT_MIXER_HEADS_H
#define WEFT_MIXER_HEADS_H

#include "model/cores/scalar.h"
#include "model/cores/vector.h"
#include "model/layers/gate.h"
#include "model/layers/norm.h"
#include "model/mixer_acts.h"

/* ---- heads in ---------------------------------------------------------------------- */

/* A row that begins with q (H, dk) and holds k (Hk, dk). */
struct heads_in {
    int        w;           // index of the product's first weight
    int        Hk;
    struct act row, k;
};

/* row = x Wᵀ, then q and k rotated by the position encoding. */
void heads_in_forward(const struct ctx *ctx, const struct heads_in *s, const real *x);

/* dx += and dW += from row.dx, which is left holding the gradient before the rotation. */
void heads_in_backward(const struct ctx *ctx, const struct heads_in *s, real *dx,
                       const real *x);

/* The rotations alone, where something stands between them and the product. */
void heads_rotate(const struct ctx *ctx, const struct heads_in *s);
void heads_rotate_back(const struct ctx *ctx, const struct heads_in *s);

/* H heads of C / H channels: what struct mixer's angles() says for most mixers. */
void heads_angles(const struct mixer_cfg *c, int *heads, int *dk);

/* ---- cores ------------------------------------------------------------------------- */

/* A core between activations, with its memory. */
struct scalar_heads {
    struct scalar      core;
    struct scalar_grad grad;
    real              *kept, *scratch;
    size_t             state;       // where its state is, in reals
};

/* Lay it out for these q, k and v. H, dk, dv and how it weighs are set in s->core; the
 * gradients of gates, if wanted, are set in s->grad afterwards. */
void scalar_heads_layout(struct scalar_heads *s, struct room *m, struct act q,
                         struct act k, struct act v);

/* o from an empty state, or from and to ctx->state. */
void scalar_heads_forward(const struct ctx *ctx, const struct scalar_heads *s, real *o);

/* The gradients of q, k, v and gates from o.dx, which with a denominator is changed. */
void scalar_heads_backward(const struct scalar_heads *s, struct act o);

/* The same of a core with a decay for every key channel. */
struct vector_heads {
    struct vector      core;
    struct vector_grad grad;
    real              *kept, *scratch;
    size_t             state;
};

void vector_heads_layout(struct vector_heads *s, struct room *m, struct act q,
                         struct act k, struct act v, struct act g);
void vector_heads_forward(const struct ctx *ctx, const struct vector_heads *s, real *o);
void vector_heads_backward(const struct vector_heads *s, struct act o);

/* ---- heads out --------------------------------------------------------------------- */

/* y = Wo( norm(o) w act(g) ), the norm over each head. */
struct heads_out {
    struct norm norm;
    bool        mean;           // LayerNorm; otherwise RMSNorm
    enum gate   act;
    int         w, wo;          // indices of the weights; w -1: none
    struct act  g;              // the gate's logits (H, dv)
    struct act  o, gated;       // (H, dv): of the core; after norm and gate
    real       *normed;         // as o, in backward
    real       *partial;        // of the norm
};

/* Lays out o and what follows it; what stands before o is set. */
void heads_out_layout(struct heads_out *s, struct room *m);

void heads_out_forward(const struct ctx *ctx, const struct heads_out *s, real *y);

/* o.dx = and g.dx = from dy, dw += and dWo +=. */
void heads_out_backward(const struct ctx *ctx, const struct heads_out *s, const real *dy);

#endif
