/* How fast the heads of linear attention forget: a = e^{log_f} of cores/scalar.h.
 *
 *     none        a = 1
 *     fixed       a_h = 1 - 2^-(1 + 4 h / (H - 2)), the last head 1: from a token
 *                 to the whole past. H = 4: 0.5, 0.875, 0.969, 1; H = 2: 0.875, 1
 *     learned     a_t = sigmoid(wf x_t + bf), a gate of the input as that of mLSTM: wf
 *                 starts at 0, bf where a is the fixed one, 1 at 1 - 2^-10
 */
#ifndef WEFT_MIXER_FORGET_H
#define WEFT_MIXER_FORGET_H

#include "model/mixer_heads.h"

enum forget_kind { FORGET_NONE, FORGET_FIXED, FORGET_LEARNED };

#define FORGET_KINDS "none|fixed|learned"
#define FORGET_OPT                                                                       \
    {"decay", "of a head's memory, by token", OPT_CHOICE, .choices = FORGET_KINDS}

struct forget {
    enum forget_kind kind;
    int              H;
    struct act       log_f;     // (B, T, H) of wf, fixed: (H); none: NULL
    struct weight    bf;        // (H)
};

/* Lays out log_f, and wf and bf of a learned one, for a core that has been laid out. */
struct forget forget_layout(struct layout *m, enum forget_kind kind,
                            struct scalar_heads *s);
void          forget_init(const struct forget *f);      // bf

/* log_f from x; dx, dwf and dbf += from its gradient. */
void forget_forward(const struct ctx *ctx, const struct forget *f, const real *x);
void forget_backward(const struct ctx *ctx, const struct forget *f, real *dx,
                     const real *x);

/* Widen r (H) to hold a of every token, after forward. */
void forget_range(const struct ctx *ctx, const struct forget *f, struct range *r);

#endif
