/* Gated convolution: each channel mixes its last four tokens.
 *
 *     u, g = Wu x, Wg x                        each (C)
 *     z_t = sum_{j < 4} conv[:, j] u_{t-3+j}   zeros before t = 0
 *     y = Wo( z silu(g) )
 *
 * About the smallest mixer that is complete.
 */

/* To make a mixer foo of this file:
 *
 *     sed s/template/foo/ docs/template-mixer.c > model/mixers/foo.c
 *     add X(foo) to MIXERS in model/mixer.h
 *     make test-mixer M=foo
 *
 * Then put your mathematics in the place of this one's, a step at a time, and run the
 * third line after each. The comment at the top is what `weft info --arch foo` prints:
 * formulas, shapes, the paper. Delete this one. model/mixer.h is the manual.
 *
 * x and y are (B, T, C): B sequences of T tokens of C channels, row-major. real is float,
 * or double in MODE=double, where finite differences judge backward to 2e-6: write no
 * float literal such as 0.5f, but (real)0.5. */
#include "model/kernels/product.h"
#include "model/layers/conv.h"
#include "model/layers/gate.h"
#include "model/mixer.h"

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

/* The buffers of a call. */
struct acts {
    real  *row, *drow;      // (B, T, 2, C): u, g
    real  *z, *dz;          // (B, T, C)
    real  *gated;           // (B, T, C): z silu(g)
    size_t last;            // where the last inputs of the convolution are in the state
};

/* Lay the buffers out; how long each lives is said by the function that takes it (the
 * table in model/mixer_memory.h). One walk serves every call and also measures, so it may
 * not look at what they hold. room_state is what a sequence carries from token to token
 * when it streams. */
static void carve(struct room *m, const struct mixer_cfg *c)
{
    struct acts *a = room_names(m, sizeof *a);
    const size_t n = room_rows(m) * c->C;

    a->row = room_keep(m, 2 * n);
    a->z = room_keep(m, n);
    a->gated = room_keep(m, n);
    a->drow = room_back(m, 2 * n);
    a->dz = room_back(m, n);
    a->last = room_state(m, (CONV_TAPS - 1) * (size_t)c->C);
}

/* The convolution of u in rows of [u, g] into z. */
static struct conv taps(const struct ctx *ctx)
{
    const int C = ctx->cfg->C;

    return (struct conv){ctx->B, ctx->T, C, 2 * (size_t)C, C, ctx->w[CONV]};
}

/* What forward and extend share: everything before and behind the mixing of time. */
static void enter(const struct ctx *ctx, const real *x)
{
    const struct acts *a = ctx->acts;
    const int          C = ctx->cfg->C;

    product_forward(a->row, x, ctx->w[WU], ctx_rows(ctx), C, 2 * C);
}

static void finish(const struct ctx *ctx, real *y)
{
    const struct acts *a = ctx->acts;
    const long         n = ctx_rows(ctx);
    const int          C = ctx->cfg->C;

    gate_forward(GATE_SILU, a->gated, C, a->z, C, a->row + C, 2 * C, n, C);
    product_forward(y, a->gated, ctx->w[WO], n, C, C);
}

/* y from x, every sequence from its beginning. Token t may see tokens 0 .. t only, and no
 * sequence another; both are tested bit for bit. */
static void forward(struct ctx *ctx, const real *x, real *y)
{
    const struct acts *a = ctx->acts;
    struct conv        c = taps(ctx);

    enter(ctx, x);
    conv_forward(&c, a->z, a->row);
    finish(ctx, y);
}

/* dx += and dw[i] += from dy, forward's steps in reverse. Both accumulate; what backward
 * itself lays out holds garbage and is overwritten first. Sums over tokens go in an order
 * that does not depend on the number of threads. */
static void backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    const struct acts *a = ctx->acts;
    const long         n = ctx_rows(ctx);
    const int          C = ctx->cfg->C;
    struct conv        c = taps(ctx);

    // d(gated) = dy Wo, then dz = d(gated) silu(g), dg = d(gated) z silu'(g)
    product_backward(a->dz, 0, ctx->dw[WO], dy, a->gated, ctx->w[WO], n, C, C);
    gate_backward(GATE_SILU, a->dz, a->drow + C, 2 * C, a->dz, C, a->z, C, a->row + C,
                  2 * C, n, C);
    conv_backward(&c, a->drow, ctx->dw[CONV], NULL, a->dz, a->row);
    product_backward(dx, 1, ctx->dw[WU], a->drow, x, ctx->w[WU], n, C, 2 * C);
}

/* T more tokens of each of B running sequences. state[b] is what carve() asked for, zero
 * bytes where a sequence begins. Any split of a text gives what forward gives. */
static void extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    const struct acts *a = ctx->acts;
    struct conv        c = taps(ctx);

    enter(ctx, x);
    conv_extend(&c, state, a->last, a->z, a->row);
    finish(ctx, y);
}

/* Of one sequence of T tokens, forward, a multiply-add as two: a test counts the products
 * that run. */
static double flops(const struct mixer_cfg *c, int T, int window)
{
    (void)window;
    return (double)T * (6.0 * c->C * c->C + conv_flops(c->C));
}

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
    .system   = "L shifts three tokens on, B adds one, C = conv[:, :3], D = conv[:, 3]",
    .position = "none",
    .params   = params,
    .carve    = carve,
    .forward  = forward,
    .backward = backward,
    .extend   = extend,
    .decay    = decay,
    .flops    = flops,
};
