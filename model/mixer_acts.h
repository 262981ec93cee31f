/* What every mixer is made of: activations with their gradients, the products that make
 * them, and a short convolution.
 */
#ifndef WEFT_MIXER_ACTS_H
#define WEFT_MIXER_ACTS_H

#include "model/layers/conv.h"
#include "model/mixer_instruments.h"

/* ---- activations ------------------------------------------------------------------- */

/* Activations x (B, T, n), ld reals from token to token, and their gradient dx, which
 * lies as x does and is there in backward only. Those of a product know its matrix. */
struct act {
    real  *x, *dx;
    size_t ld;
    struct weight w;            // (n, in)
    int    in;
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

/* What forward makes of a, which has no gaps: x of its own; its gradient lies where
 * backward then writes that of a. */
static inline struct act act_after(struct layout *m, const char *name, struct act a)
{
    return (struct act){layout_keep(m, name, layout_tokens(m) * a.ld), a.dx, a.ld};
}

/* What forward replaces by a in its place; its gradient apart. */
static inline struct act act_onto(struct layout *m, const char *name, struct act a)
{
    return (struct act){a.x, layout_grad(m, name, layout_tokens(m) * a.ld), a.ld};
}

/* The channels of a from `at` on. */
static inline struct act act_from(struct act a, size_t at)
{
    return (struct act){layout_at(a.x, at), layout_at(a.dx, at), a.ld};
}

/* a as what a matrix makes of `in` channels. */
static inline struct act act_by(struct act a, struct weight w, int in)
{
    a.w = w, a.in = in;
    return a;
}

/* ---- products ---------------------------------------------------------------------- */

/* A part of a row: n channels, of a product with the matrix `name` (n, in). */
struct act_part {
    const char *name;           // NULL: with more rows of the matrix before
    struct act *part;           // NULL: has no name of its own
    int         n;
    enum init   init;           // INIT_INPUT unless said
    double      a;
    bool        direct;         // as of struct param
};

/* A row: what one product makes of a token, in parts side by side, kept from forward to
 * backward. Declares the matrices, which lie one below the other, and sets each part. The
 * list ends with {0}. Of the layer's x, or of `in` channels. */
struct act act_row(struct layout *m, const struct act_part *parts);
struct act act_row_of(struct layout *m, int in, const struct act_part *parts);

/* y.x = x Wᵀ of y's matrix. y has no gaps. */
void proj_forward(const struct ctx *ctx, struct act y, const real *x);

/* dx = keep dx + y.dx W,  dW += y.dxᵀ x */
void proj_backward(const struct ctx *ctx, real *dx, real keep, struct act y,
                   const real *x);

/* The matrix wo (C, n) at the layer's end: y = Wo x, and from dy x.dx = and dWo +=. */
struct weight layout_out(struct layout *m, int n);
void out_proj_forward(const struct ctx *ctx, struct weight wo, real *y, struct act x);
void out_proj_backward(const struct ctx *ctx, struct weight wo, struct act x,
                       const real *dy);

/* dw += the sums over sequences of part (B, n). */
void add_parts(const struct ctx *ctx, struct weight w, size_t n);

/* ---- a short convolution (model/layers/conv.h) with its weights and its state ------ */

struct short_conv {
    struct conv   conv;
    struct weight w, b;         // (C, CONV_TAPS), (C); b NULL: none
    size_t        state;        // where its state is, in reals
};

/* Channels whose weight is a tensor of its own. */
struct taps {
    const char *name;
    int         C;
};

/* Declares the taps, a list that ends with {0}, and the bias; NULL: none. From rows ld_x
 * apart to rows ld_y apart. */
struct short_conv short_conv_layout(struct layout *m, const struct taps *taps,
                                    const char *bias, size_t ld_x, size_t ld_y,
                                    bool silu);

void short_conv_forward(const struct ctx *ctx, const struct short_conv *s, real *y,
                        const real *x);
void short_conv_backward(const struct short_conv *s, real *dx, real *dy, const real *x);

#endif
