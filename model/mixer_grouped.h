/* Attention with grouped keys and values: what softmax and rela have in common.
 *
 *     q, k, v = Wq x, Wk x, Wv x       q (H, e), k and v (Hk, e), e = C / H
 *     q, k <- rms(q) qn, rms(k) kn     with qk_norm; then the encoding rotates both
 *     o = attention(q, k, v)           (H, e), model/cores/attention.h
 *
 * Key head h serves query heads h G .. h G + G - 1, G = H / Hk. The decode state is a kv
 * cache of the last `span` rotated keys and values.
 */
#ifndef WEFT_MIXER_GROUPED_H
#define WEFT_MIXER_GROUPED_H

#include "model/cores/attention.h"
#include "model/mixer_heads.h"

struct grouped {
    enum attention_kind kind;
    int    window;              // tokens a query sees; 0: all
    int    span;
    int    qn, sink;            // indices of weights: of qn, which kn follows, and of the
                                // sink; -1: none
    struct act row, q, k, v;    // after norm and rotation
    struct act o;               // (H, e)
    struct heads_in in;
    struct norm norm_q, norm_k;
    real *raw;                  // (B, T, H + Hk, e) q and k before norm and rotation
    real *lse;                  // (B, H, T) of softmax, in training
    real *dsink;                // (B, H)
    real *partial;              // of the norms
    real *scratch;              // of the kv cache
    struct attention core;
};

/* The first four parameters: wq, wk, wv and wo. Returns 4. */
int  grouped_params(const struct mixer_cfg *c, struct param *p);
void grouped_angles(const struct mixer_cfg *c, int *heads, int *dk);

/* kind, window, span, qn and sink are set. */
void grouped_layout(struct grouped *s, struct room *m, const struct mixer_cfg *c);

void grouped_forward(const struct ctx *ctx, const struct grouped *s, const real *x);

/* dx +=, dw += from o.dx. */
void grouped_backward(const struct ctx *ctx, const struct grouped *s, real *dx,
                      const real *x);

/* Of one sequence, with the projections. */
double grouped_flops(const struct mixer_cfg *c, int T, int window);

/* Numbers in a sequence's kv cache. */
double grouped_state(const struct mixer_cfg *c, int span);

#endif
