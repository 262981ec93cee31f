/* A dynamic convolution (after arXiv:1901.10430): a short causal filter whose taps each
 * token makes for itself. The local term of InLine attention.
 *
 *     r_t = W2 gelu(W1 z_t + b1) + b2            (C, taps), by heads: head h sees its
 *     o_t += sum_{i < taps} r_t[:, i] v_{t-i}    own e = C / H of z
 *
 * w1 (C, e), w2 (C taps, e); row c taps + i of w2 and b2 is tap i of channel c.
 * z and o are (B, T, C), v has ld reals from token to token. When streaming, the state of
 * a sequence is its last taps - 1 values (taps - 1, C), zero at the start.
 */
#ifndef WEFT_DYNCONV_H
#define WEFT_DYNCONV_H

#include "model/kernels/real.h"

#include <stddef.h>

struct dynconv {
    int         B, T, C, H, taps;
    const real *w1, *b1, *w2, *b2;
    size_t      ld;
};

/* What dynconv_taps makes; dynconv_apply and dynconv_backward read it. */
struct dynconv_kept {
    real *pre, *hid; // (B, T, C) W1 z + b1, and its gelu
    real *r;         // (B, T, C, taps)
};

/* The gradients of the weights, to which backward adds. */
struct dynconv_grad {
    real *w1, *b1, *w2, *b2;
};

/* Make r, and what backward needs of the way there, from z. */
void dynconv_taps(const struct dynconv *f, struct dynconv_kept *k, const real *z);

/* o += the filtered v. state (or NULL): the last values of sequence b are the
 * (taps - 1) C reals at state[b] + at; they go on. */
void dynconv_apply(const struct dynconv *f, const struct dynconv_kept *k, real *o,
                   const real *v, void *const *state, size_t at);

/* From d_o, the gradient of what was added to o: dv (B, T, C; ld apart) and dz (B, T, C)
 * are overwritten, dw is added to. k->r is left holding its gradient; dhid (B, T, C) is
 * scratch. */
void dynconv_backward(const struct dynconv *f, const struct dynconv_grad *dw,
                      struct dynconv_kept *k, real *dv, real *dz, real *dhid,
                      const real *d_o, const real *z, const real *v);

#endif
