#include "model/mixer_acts.h"

#include "model/kernels/product.h"
#include "model/meter.h"

/* ---- activations ------------------------------------------------------------------- */

struct act act_row(struct layout *m, const struct act_part *parts)
{
    struct act row;
    size_t     n = 0;

    for (const struct act_part *p = parts; p->part; p++)
        n += p->n;
    row = act_keep(m, "row", n);
    n = 0;
    for (const struct act_part *p = parts; p->part; p++) {
        *p->part = act_from(row, n);
        n += p->n;
    }
    return row;
}

/* ---- projections ------------------------------------------------------------------- */

void proj_forward(real *y, const real *x, const real *w, long n, int in, int out)
{
    enum meter was = meter_switch(METER_PROJECTIONS);

    product_forward(y, x, w, n, in, out);
    meter_switch(was);
}

void proj_backward(real *dx, real keep, real *dw, const real *dy, const real *x,
                   const real *w, long n, int in, int out)
{
    enum meter was = meter_switch(METER_PROJECTIONS);

    product_backward(dx, keep, dw, dy, x, w, n, in, out);
    meter_switch(was);
}

void in_proj_forward(const struct ctx *ctx, int w, struct act y, const real *x)
{
    proj_forward(y.x, x, ctx->w[w], ctx_rows(ctx), ctx->cfg->C, (int)y.ld);
}

void in_proj_backward(const struct ctx *ctx, int w, real *dx, struct act y, const real *x)
{
    proj_backward(dx, 1, ctx->dw[w], y.dx, x, ctx->w[w], ctx_rows(ctx), ctx->cfg->C,
                  (int)y.ld);
}

void out_proj_forward(const struct ctx *ctx, int w, real *y, struct act x)
{
    proj_forward(y, x.x, ctx->w[w], ctx_rows(ctx), (int)x.ld, ctx->cfg->C);
}

void out_proj_backward(const struct ctx *ctx, int w, struct act x, const real *dy)
{
    proj_backward(x.dx, 0, ctx->dw[w], dy, x.x, ctx->w[w], ctx_rows(ctx), (int)x.ld,
                  ctx->cfg->C);
}

void add_partials(const struct ctx *ctx, int w, const real *partial, size_t n)
{
    for (size_t i = 0; i < ctx->B * n; i++)
        ctx->dw[w][i % n] += partial[i];
}

/* ---- a short convolution ----------------------------------------------------------- */

struct short_conv short_conv_layout(struct layout *m, int w, int b, int C, size_t ld_x,
                                    size_t ld_y, bool silu)
{
    struct short_conv s = {.conv = {.B = m->B, .T = m->T, .C = C, .ld_x = ld_x,
                                    .ld_y = ld_y, .w = layout_param(m, w), .silu = silu},
                           .w = w, .b = b};

    if (b >= 0)
        s.conv.b = layout_param(m, b);
    s.state = layout_state(m, conv_state(&s.conv));
    return s;
}

void short_conv_forward(const struct ctx *ctx, const struct short_conv *s, real *y,
                        const real *x)
{
    if (ctx->state)
        conv_extend(&s->conv, ctx->state, s->state, y, x);
    else
        conv_forward(&s->conv, y, x);
}

void short_conv_backward(const struct ctx *ctx, const struct short_conv *s, real *dx,
                         real *dy, const real *x)
{
    conv_backward(&s->conv, dx, ctx->dw[s->w], s->b < 0 ? NULL : ctx->dw[s->b], dy, x);
}
