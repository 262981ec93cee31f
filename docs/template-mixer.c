/* Gated convolution: each channel mixes its last four tokens (after arXiv:1612.08083).
 *
 *     u, g = Wu x, Wg x                        each (C)
 *     z_t = sum_{j < 4} conv[:, j] u_{t-3+j}   zeros before t = 0
 *     y = Wo( z silu(g) )
 *
 * About the smallest mixer that is complete.
 */

/* docs/adding-a-mixer.md makes a mixer of this file. The comment at the top is what
 * `weft info --arch` prints: formulas with their shapes, down to `y = `, and the paper,
 * `arXiv:`. Delete this one. model/mixer.h is the manual.
 *
 * x and y are (B, T, C): B sequences of T tokens of C channels, row-major. real is float,
 * or double in MODE=double, where finite differences judge backward to 2e-6: write no
 * float literal such as 0.5f, but (real)0.5. */
#include "model/layers/gate.h"
#include "model/mixer.h"
#include "model/mixer_acts.h"

/* Everything forward and backward work on. A struct act is an activation x and its
 * gradient dx, which lies as x does; ld is the distance from token to token. A struct
 * weight is a tensor w and its gradient dw. */
struct acts {
    struct act        row, u, g;    // (B, T, 2, C), and its two halves
    struct act        z, gated;     // (B, T, C): gated is z silu(g)
    struct weight     wo;           // (C, C)
    struct short_conv conv;         // with its weight and where its state lies
};

/* Declare it all, in one walk, once for all passes over (B, T).
 *
 * Tensors lie in memory, and in checkpoints, in the order of these lines: the matrices wu
 * and wg (C, C) that make the row, the taps conv (C, 4), wo. Naming, allocation, initial
 * values, clipping and the optimiser follow from here. So do the FLOPs of what is
 * declared; say others with layout_flops. A test counts the matrix products that run,
 * to 5 %.
 *
 * How long a buffer lives is said by the function that takes it (the table in
 * model/mixer_memory.h). The same walk measures and tells shapes, so it may not look at
 * what buffers and weights hold, or whether they are there. */
static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const int    C = c->C;

    a->row = act_row(m, (struct act_part[]){{"wu", &a->u, C}, {"wg", &a->g, C}, {0}});
    a->z = act_keep(m, "z", C);
    a->conv = short_conv_layout(m, (struct taps[]){{"conv", C}, {0}}, NULL, a->u.ld,
                                a->z.ld, false);
    a->gated = act_after(m, "gated", a->z);
    a->wo = layout_out(m, C);

    // what a sequence carries from token to token, in numbers: a test compares
    m->paper_state = (CONV_TAPS - 1.0) * C;
}

/* y from x. Every sequence begins; or, where ctx->state is set, these are more tokens of
 * running ones, and what was carried from token to token is in their states. Only the
 * mixing of time has to know: here short_conv_forward does. Token t may see tokens 0 .. t
 * only, no sequence another, and any split of a text gives what the whole gives; all
 * three are tested. */
static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct acts *a = ctx->acts;
    const int          C = ctx->cfg->C;

    proj_forward(ctx, a->row, x);
    short_conv_forward(ctx, &a->conv, a->z.x, a->u.x);
    gate_forward(GATE_SILU, a->gated.x, C, a->z.x, C, a->g.x, a->g.ld, ctx_rows(ctx), C);
    out_proj_forward(ctx, a->wo, y, a->gated);
}

/* dx = and all dw += from dy, forward's steps in reverse. Gradients of weights add up;
 * those of activations hold garbage and are overwritten first. Sums over tokens go in an
 * order that does not depend on the number of threads. */
static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct acts *a = ctx->acts;
    const int          C = ctx->cfg->C;

    // d(gated) = dy Wo, then dz = d(gated) silu(g), dg = d(gated) z silu'(g)
    out_proj_backward(ctx, a->wo, a->gated, dy);
    gate_backward(GATE_SILU, a->z.dx, a->g.dx, a->g.ld, a->gated.dx, C, a->z.x, C, a->g.x,
                  a->g.ld, ctx_rows(ctx), C);
    short_conv_backward(&a->conv, a->u.dx, a->z.dx, a->u.x);
    proj_backward(ctx, dx, 0, a->row, x);
}

/* ---- what instruments ask (model/mixer_instruments.h) ------------------------------ */

/* The state is a shift register: of h_t = L h_{t-1} + B u_t every eigenvalue of L is 0. A
 * mixer whose L is not finite, such as softmax attention, leaves decay out. */
static int decay(struct ctx *ctx, struct range *r)
{
    (void)ctx;
    range_add(r, 0);
    return 1;
}

const struct mixer mixer_template = {
    .name     = "template",
    .about    = "gated convolution of four tokens",
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .instruments = &(struct instruments){
        .system = "L shifts three tokens on, B adds one, C = conv[:, :3], D = conv[:, 3]",
        .decay = decay,
    },
};
