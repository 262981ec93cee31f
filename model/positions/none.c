/* No position encoding: nothing rotates. */
#include "model/mixer.h"

static void forward(struct ctx *ctx, const real *x)
{
    (void)x;
    ctx->angles = (struct angles){0};
}

static void extend(struct ctx *ctx, void *const *state, const real *x)
{
    (void)state;
    forward(ctx, x);
}

static double flops(const struct mixer_cfg *c, int T)
{
    (void)c, (void)T;
    return 0;
}

const struct position position_none = {
    .name    = "none",
    .about   = "no position encoding",
    .forward = forward,
    .extend  = extend,
    .flops   = flops,
};
