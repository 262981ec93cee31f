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

const struct position position_none = {
    .name    = "none",
    .about   = "no position encoding",
    .forward = forward,
    .extend  = extend,
};
