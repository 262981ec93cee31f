/* The cores (model/cores/) between activations, with their memory. Each is laid out in
 * one call, from its shape and how it weighs, and then runs forward, in training or with
 * ctx->state, and backward.
 */
#ifndef WEFT_MIXER_CORES_H
#define WEFT_MIXER_CORES_H

#include "model/cores/delta.h"
#include "model/cores/scalar.h"
#include "model/cores/scan.h"
#include "model/cores/vector.h"
#include "model/mixer_acts.h"

/* ---- one weight a token and head: linear attention --------------------------------- */

struct scalar_heads {
    struct scalar      core;
    struct scalar_grad grad;
    struct act         o;           // (H, dv)
    real              *kept, *scratch;
    size_t             state;       // where its state is, in reals
};

/* Of core H, dk, dv and how it weighs are set; a scale of 0 becomes 1 / sqrt(dk). */
struct scalar_heads scalar_heads_layout(struct layout *m, struct act q, struct act k,
                                        struct act v, struct scalar core);

/* Weights (H) of tokens that have a gradient. */
void scalar_heads_forget(struct scalar_heads *s, struct act log_f);
void scalar_heads_input(struct scalar_heads *s, struct act log_i);

/* o from an empty state, or from and to ctx->state. */
void scalar_heads_forward(const struct ctx *ctx, const struct scalar_heads *s);

/* The gradients of q, k, v and gates from o.dx, which with a denominator is changed. */
void scalar_heads_backward(const struct scalar_heads *s);

/* ---- a decay for every key channel ------------------------------------------------- */

struct vector_heads {
    struct vector      core;
    struct vector_grad grad;
    struct act         o;
    real              *kept, *scratch;
    size_t             state;
};

struct vector_heads vector_heads_layout(struct layout *m, struct act q, struct act k,
                                        struct act v, struct act g, struct vector core);
void vector_heads_forward(const struct ctx *ctx, const struct vector_heads *s);
void vector_heads_backward(const struct vector_heads *s);

/* ---- the gated delta rule ---------------------------------------------------------- */

struct delta_heads {
    struct delta      core;
    struct delta_grad grad;
    struct act        o;
    real             *kept, *scratch;
    size_t            state;
};

/* q, k and v are parts of one row; log_a and beta (H). */
struct delta_heads delta_heads_layout(struct layout *m, struct act q, struct act k,
                                      struct act v, struct act log_a, struct act beta,
                                      struct delta core);
void delta_heads_forward(const struct ctx *ctx, const struct delta_heads *s);
void delta_heads_backward(const struct delta_heads *s);

/* ---- N states of every channel ----------------------------------------------------- */

struct selective_channels {
    struct selective      core;
    struct selective_grad grad;     // drate and dskip: the sums of each sequence
    struct act            o;        // (C)
    real                 *kept, *scratch;
    size_t                state;
};

/* Of core C, N, rate and skip are set; u and step (C), in and out (N) parts of a row. */
struct selective_channels selective_layout(struct layout *m, struct act u,
                                           struct act step, struct act in, struct act out,
                                           struct selective core);
void selective_channels_forward(const struct ctx *ctx,
                                const struct selective_channels *s);
void selective_channels_backward(const struct selective_channels *s);

#endif
