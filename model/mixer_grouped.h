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
    struct act row, q, k, v;    // after norm and rotation
    struct act o;               // (H, e)
    struct weight wo;           // (C, C), for o or what is made of it
    struct weight qn, kn;       // (e) of qk_norm; NULL: none
    struct weight sink;         // (H); NULL: none
    struct norm norm_q, norm_k;
    real *raw;                  // (B, T, H + Hk, e) q and k before norm and rotation
    real *lse;                  // (B, H, T) of softmax, in training
    real *partial;              // of the norms
    real *scratch;              // of the kv cache
    struct attention core;
};

/* A decode state holds the last `span` tokens. With qk_norm and a sink on demand. */
struct grouped grouped_layout(struct layout *m, const struct mixer_cfg *c,
                              enum attention_kind kind, int window, int span);
void           grouped_norm(struct grouped *s, struct layout *m,
                            const struct mixer_cfg *c);
void           grouped_sink(struct grouped *s, struct layout *m);

void grouped_forward(const struct ctx *ctx, const struct grouped *s, const real *x);

/* Of instruments: mixer_weights. */
void grouped_weights(const struct ctx *ctx, const struct grouped *s, int b, int t,
                     double *p);

/* dx +=, dw += from o.dx. */
void grouped_backward(const struct ctx *ctx, const struct grouped *s, real *dx,
                      const real *x);

#endif
