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

#include "model/cores/scalar.h"
#include "model/mixer.h"

enum forget_kind { FORGET_NONE, FORGET_FIXED, FORGET_LEARNED };

#define FORGET_KINDS "none|fixed|learned"
#define FORGET_OPT                                                                       \
    {                                                                                    \
        "decay", "of a head's memory, by token", OPT_CHOICE, FORGET_KINDS, FORGET_NONE,  \
            0, 0                                                                         \
    }

struct forget {
    enum forget_kind kind;
    int              w;              // index of wf; bf follows
    real            *log_f, *dlog_f; // (B, T, H), fixed: (H); NULL: none
};

/* wf and bf of a learned one; params returns how many. p and w are at wf. */
int  forget_params(enum forget_kind kind, const struct mixer_cfg *c, struct param *p);
void forget_init(enum forget_kind kind, const struct mixer_cfg *c, real *const *w);

/* The buffers, kind and w set, and the core's log_f. Backward needs dlog_f, H apart. */
void forget_carve(struct forget *f, struct room *m, struct scalar *core);

/* log_f from x; dx, dwf and dbf += from dlog_f. */
void forget_forward(const struct ctx *ctx, const struct forget *f, const real *x);
void forget_backward(const struct ctx *ctx, const struct forget *f, real *dx,
                     const real *x);

/* Widen r (H) to hold a of every token, after forward. */
void forget_range(const struct ctx *ctx, const struct forget *f, struct range *r);

/* FLOPs of a token. */
double forget_flops(enum forget_kind kind, const struct mixer_cfg *c);

#endif
