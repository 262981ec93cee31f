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

/* Indices of the parameters, in the order of params(). */
enum { WU, WG, CONV, WO, N_PARAMS };

/* Declare the parameters: name, rows, columns (0: a vector), how it begins, and whether
 * weight decay applies (to matrices). They lie in memory one behind the other, so that wu
 * and wg, both (C, C), are also one matrix (2 C, C). Allocation, initialisation,
 * checkpoints, clipping and the optimiser follow from this table. */
static int params(const struct mixer_cfg *c, struct param *p)
{
    p[WU] = (struct param){"wu", c->C, c->C, INIT_INPUT, .decay = true};
    p[WG] = (struct param){"wg", c->C, c->C, INIT_INPUT, .decay = true};
    p[CONV] = (struct param){"conv", c->C, CONV_TAPS, INIT_UNIFORM, .a = 0.5};
    p[WO] = (struct param){"wo", c->C, c->C, INIT_OUTPUT, .decay = true};
    return N_PARAMS;
}

/* The buffers. A struct act is an activation x and its gradient dx, which lies as x does;
 * ld is the distance from token to token. */
struct acts {
    struct act        row, u, g;    // (B, T, 2, C), and its two halves
    struct act        z, gated;     // (B, T, C): gated is z silu(g)
    struct short_conv conv;         // with its weight and where its state lies
};

/* Lay the buffers out, once for all passes over (B, T); how long each lives is said by
 * the function that takes it (the table in model/mixer_memory.h). The same walk measures,
 * so it may not look at what they hold. */
static void layout(struct layout *m, const struct mixer_cfg *c)
{
    struct acts *a = layout_acts(m, sizeof *a);
    const size_t C = c->C;

    a->row = act_row(m, (struct act_part[]){{&a->u, C}, {&a->g, C}, {0}});
    a->z = act_keep(m, "z", C);
    a->gated = (struct act){layout_keep(m, "gated", layout_tokens(m) * C), a->z.dx, C};
    a->conv = short_conv_layout(m, CONV, -1, c->C, a->u.ld, a->z.ld, false);
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

    in_proj_forward(ctx, WU, a->row, x);
    short_conv_forward(ctx, &a->conv, a->z.x, a->u.x);
    gate_forward(GATE_SILU, a->gated.x, C, a->z.x, C, a->g.x, a->g.ld, ctx_rows(ctx), C);
    out_proj_forward(ctx, WO, y, a->gated);
}

/* dx += and dw[i] += from dy, forward's steps in reverse. Both accumulate; gradients of
 * activations hold garbage and are overwritten first. Sums over tokens go in an order
 * that does not depend on the number of threads. */
static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct acts *a = ctx->acts;
    const int          C = ctx->cfg->C;

    // d(gated) = dy Wo, then dz = d(gated) silu(g), dg = d(gated) z silu'(g)
    out_proj_backward(ctx, WO, a->gated, dy);
    gate_backward(GATE_SILU, a->z.dx, a->g.dx, a->g.ld, a->gated.dx, C, a->z.x, C, a->g.x,
                  a->g.ld, ctx_rows(ctx), C);
    short_conv_backward(ctx, &a->conv, a->u.dx, a->z.dx, a->u.x);
    in_proj_backward(ctx, WU, dx, a->row, x);
}

/* Of one sequence of T tokens, forward, a multiply-add as two: a test counts the matrix
 * products that run, to 5 %. A mixer that is not mostly products says in elementwise what
 * of this is in none of them. */
static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * (6.0 * c->C * c->C + conv_flops(c->C));
}

/* ---- what instruments ask (model/mixer_instruments.h) ------------------------------ */

/* What a sequence carries from token to token, in numbers: layout() is held to it. */
static double state(const struct mixer_cfg *c) { return (CONV_TAPS - 1.0) * c->C; }

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
    .position = "none",
    .params   = params,
    .layout   = layout,
    .forward  = forward,
    .backward = backward,
    .flops    = flops,
    .instruments = &(struct instruments){
        .system = "L shifts three tokens on, B adds one, C = conv[:, :3], D = conv[:, 3]",
        .state = state, .decay = decay,
    },
};
