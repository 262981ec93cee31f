/* The gated recurrence: channels that forget and take in by gates which see the input
 * alone. What qlstm, rglru and mingru have in common.
 *
 *     p, w = Win x + bin               p, w (e)
 *     u = conv(w)                      no activation
 *     z = gates of u + bg              (gates, e) logits
 *     a, b = input(z, u)               the mixer's own
 *     h_t = a_t h_{t-1} + b_t
 *     y = Wo output(p, z, h)           the mixer's own
 *
 * Without a convolution (mingru) z = Win x, and y = Wo h.
 */
#ifndef WEFT_MIXER_RECURRENCE_H
#define WEFT_MIXER_RECURRENCE_H

#include "model/mixer_acts.h"

/* One token: e channels of each of the above. */
struct recurrence_token {
    int         e;
    bool        first;          // of its sequence
    const real *p, *z, *u;
    real       *a, *h, *v;      // v is what output makes
    real       *dp, *dz, *dh;   // in backward
};

struct recurrence;

/* What a mixer brings. */
struct recurrence_form {
    /* z from u, without bias; and u.dx += , dw += from z.dx. NULL: no convolution. */
    void (*logits)(const struct ctx *ctx, const struct recurrence *r);
    void (*logits_back)(const struct ctx *ctx, const struct recurrence *r);

    /* Write a; and b into h, where the scan makes h of it. */
    void (*input)(const struct ctx *ctx, const struct recurrence_token *t);

    /* Given da (in dz[0 .. e - 1], where the scan left it) and db (in dh): write all of
     * dz that output_back has not written, and du into dh. With a convolution also write
     * into a what sums over tokens to the gradient of the mixer's own weights; without
     * one a must stay as it is. */
    void (*input_back)(const struct ctx *ctx, const struct recurrence_token *t);

    /* Write v from p, z and h. NULL: v is h. */
    void (*output)(const struct ctx *ctx, const struct recurrence_token *t);

    /* Given dv (in dh): write dp, dh, the part of dz that output reads, and a again,
     * whose place v may have taken in forward. */
    void (*output_back)(const struct ctx *ctx, const struct recurrence_token *t);
};

struct recurrence {
    const struct recurrence_form *form;
    int    e;
    struct act row;             // (2, e) p, w with bias; or z
    struct act z;               // (gates, e) with bias
    struct weight bin, bg, wo;  // bin NULL: none
    struct short_conv conv;
    struct act u;               // (e), its gradient in h.dx
    struct act h;               // (e) states
    struct act v;               // (e), its gradient in h.dx
    real  *a;                   // (B, T, e); may lie in v, which forward writes later
    size_t state;               // where h is, in reals
};

/* Lays out u, h, v and a. The row, the weights and, with a convolution, it and z are
 * set. */
void recurrence_layout(struct recurrence *r, struct layout *m,
                       const struct recurrence_form *form, int e);
void recurrence_forward(const struct ctx *ctx, const struct recurrence *r, const real *x,
                        real *y);
void recurrence_backward(const struct ctx *ctx, const struct recurrence *r, const real *x,
                         const real *dy, real *dx);

#endif
