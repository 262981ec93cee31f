/* What every mixer is made of: activations with their gradients, the projections at its
 * two ends, and a short convolution.
 */
#ifndef WEFT_MIXER_ACTS_H
#define WEFT_MIXER_ACTS_H

#include "model/layers/conv.h"
#include "model/mixer_instruments.h"

/* ---- activations ------------------------------------------------------------------- */

/* Activations x (B, T, n), ld reals from token to token, and their gradient dx, which
 * lies as x does and is there in backward only. */
struct act {
    real  *x, *dx;
    size_t ld;
};

/* n channels, from forward to backward; or made anew by every call. */
static inline struct act act_keep(struct layout *m, const char *name, size_t n)
{
    const size_t size = layout_tokens(m) * n;

    return (struct act){layout_keep(m, name, size), layout_grad(m, name, size), n};
}

static inline struct act act_work(struct layout *m, const char *name, size_t n)
{
    const size_t size = layout_tokens(m) * n;

    return (struct act){layout_work(m, name, size), layout_grad(m, name, size), n};
}

/* The channels of a from `at` on. */
static inline struct act act_from(struct act a, size_t at)
{
    return (struct act){layout_at(a.x, at), layout_at(a.dx, at), a.ld};
}

/* A row: what one product makes of a token, in parts side by side. */
struct act_part {
    struct act *part;
    size_t      n;              // channels
};

/* Lays out a row of these parts, kept from forward to backward, and sets each. The list
 * ends with {0}. */
struct act act_row(struct layout *m, const struct act_part *parts);

/* ---- projections ------------------------------------------------------------------- */

/* y = x wᵀ and its gradient: product_forward and product_backward (kernels/product.h),
 * for which `weft bench` has an account of its own. */
void proj_forward(real *y, const real *x, const real *w, long n, int in, int out);
void proj_backward(real *dx, real keep, real *dw, const real *dy, const real *x,
                   const real *w, long n, int in, int out);

/* y = x Wᵀ, where W is the weight of this index, or it and those that follow it. The
 * activation has no gaps; the width of the layer's own x and y is C. */
void in_proj_forward(const struct ctx *ctx, int w, struct act y, const real *x);
void in_proj_backward(const struct ctx *ctx, int w, real *dx, struct act y,
                      const real *x);                           // dx +=, dW +=
void out_proj_forward(const struct ctx *ctx, int w, real *y, struct act x);
void out_proj_backward(const struct ctx *ctx, int w, struct act x,
                       const real *dy);                         // x.dx =, dW +=

/* dW += the sums over sequences of partial (B, n). */
void add_partials(const struct ctx *ctx, int w, const real *partial, size_t n);

/* ---- a short convolution (model/layers/conv.h) with its weights and its state ------ */

struct short_conv {
    struct conv conv;
    int         w, b;           // indices of the weights; b -1: none
    size_t      state;          // where its state is, in reals
};

/* C channels, from rows ld_x apart to rows ld_y apart. */
struct short_conv short_conv_layout(struct layout *m, int w, int b, int C, size_t ld_x,
                                    size_t ld_y, bool silu);

void short_conv_forward(const struct ctx *ctx, const struct short_conv *s, real *y,
                        const real *x);
void short_conv_backward(const struct ctx *ctx, const struct short_conv *s, real *dx,
                         real *dy, const real *x);

#endif
