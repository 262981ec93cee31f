/* What a mixer of heads has around its core: the rotation of q and k, and the step of a
 * token; the norm, gate and projection of what the core leaves.
 */
#ifndef WEFT_MIXER_HEADS_H
#define WEFT_MIXER_HEADS_H

#include "model/layers/gate.h"
#include "model/layers/norm.h"
#include "model/layers/step.h"
#include "model/mixer_cores.h"

/* Rotate q (H, dk) and k (heads, dk) as the position encoding says; a layout() that said
 * layout_rotates(heads, dk). */
void heads_rotate(const struct ctx *ctx, struct act q, struct act k);

/* q.dx and k.dx become the gradients before the rotation. */
void heads_rotate_back(const struct ctx *ctx, struct act q, struct act k);

/* row = its product with x, of which q and k are parts, which are rotated at once; and
 * back: q.dx and k.dx as above, then dx = keep dx + ... and dw +=; keep is 0 or 1. */
void heads_project(const struct ctx *ctx, struct act row, struct act q, struct act k,
                   const real *x);
void heads_project_back(const struct ctx *ctx, real *dx, real keep, struct act row,
                        struct act q, struct act k, const real *x);

/* The step of a token and the decay that follows from it, one of each head
 * (model/layers/step.h): s = softplus(z + dtb), log a = -e^alog s. */
struct heads_step {
    struct step   step;
    struct weight dtb, alog;    // (H), by the mixer's init()
    struct act    z, s, log_a;  // (H)
};

struct heads_step heads_step_layout(struct layout *m, int H, struct act z);

void heads_step_forward(const struct heads_step *g);

/* z.dx =, ddtb += and dalog += from log_a.dx and ds, that of s; NULL: none. */
void heads_step_backward(const struct heads_step *g, const real *ds);

/* An RMSNorm with its weight. y.x = from x.x; x.dx = and dw += from y.dx. */
struct rms {
    struct norm   norm;
    struct weight w;
    real         *partial;
};

/* One norm (dv) for all heads, with the model's epsilon. */
struct norm heads_norm(const struct mixer_cfg *c, int dv);

struct rms rms_layout(struct layout *m, const char *name, struct norm norm);
void rms_act_forward(const struct ctx *ctx, const struct rms *o, struct act y,
                     struct act x);
void rms_act_backward(const struct ctx *ctx, const struct rms *o, struct act y,
                      struct act x);

/* y = Wo( norm(o) w act(g) ), the norm over each head. */
struct heads_out {
    struct norm   norm;
    enum gate     act;
    struct weight w, wo;        // w NULL: none
    struct act    o, g;         // (H, dv): of the core; the gate's logits
    struct act    gated;        // after norm and gate
    real         *partial;      // of the norm
};

/* Lays out the rest; w and wo are set apart. */
void heads_out_layout(struct heads_out *s, struct layout *m, struct norm norm,
                      enum gate act, struct act o, struct act g);

void heads_out_forward(const struct ctx *ctx, const struct heads_out *s, real *y);

/* o.dx = and g.dx = from dy, dw += and dWo +=. */
void heads_out_backward(const struct ctx *ctx, const struct heads_out *s, const real *dy);

#endif
