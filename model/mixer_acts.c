#include "model/mixer_acts.h"

#include "model/kernels/product.h"
#include "model/meter.h"

/* ---- products ---------------------------------------------------------------------- */

/* Declares the matrix that begins with part p. */
static struct weight part_weight(struct layout *m, const struct act_part *p, int in)
{
    struct param w = {p->name, p->n, in, p->init, p->a, .decay = true,
                      .direct = p->direct};

    for (const struct act_part *more = p + 1; more->n && !more->name; more++)
        w.rows += more->n;
    return layout_weight(m, w);
}

struct act act_row_of(struct layout *m, int in, const struct act_part *parts)
{
    struct act row;
    size_t     n = 0;

    for (const struct act_part *p = parts; p->n; p++)
        n += p->n;
    row = act_keep(m, "row", n);
    row.in = in;
    layout_flops(m, 2.0 * in * n);
    n = 0;
    for (const struct act_part *p = parts; p->n; n += p++->n) {
        struct weight w = p->name ? part_weight(m, p, in) : (struct weight){0};

        if (p == parts)
            row.w = w;
        if (p->part)
            *p->part = act_from(row, n);
    }
    return row;
}

struct act act_row(struct layout *m, const struct act_part *parts)
{
    return act_row_of(m, m->C, parts);
}

void proj_forward(const struct ctx *ctx, struct act y, const real *x)
{
    enum meter was = meter_switch(METER_PROJECTIONS);

    product_forward(y.x, x, y.w.w, ctx_rows(ctx), y.in, (int)y.ld);
    meter_switch(was);
}

void proj_backward(const struct ctx *ctx, real *dx, real keep, struct act y,
                   const real *x)
{
    enum meter was = meter_switch(METER_PROJECTIONS);

    product_backward(dx, keep, y.w.dw, y.dx, x, y.w.w, ctx_rows(ctx), y.in, (int)y.ld);
    meter_switch(was);
}

struct weight layout_out(struct layout *m, int n)
{
    return layout_matrix(m, "wo", m->C, n, INIT_OUTPUT);
}

void out_proj_forward(const struct ctx *ctx, struct weight wo, real *y, struct act x)
{
    struct act out = {.x = y, .ld = ctx->cfg->C, .w = wo, .in = (int)x.ld};

    proj_forward(ctx, out, x.x);
}

void out_proj_backward(const struct ctx *ctx, struct weight wo, struct act x,
                       const real *dy)
{
    struct act out = {.dx = (real *)dy, .ld = ctx->cfg->C, .w = wo, .in = (int)x.ld};

    proj_backward(ctx, x.dx, 0, out, x.x);
}

void add_parts(const struct ctx *ctx, struct weight w, size_t n)
{
    for (size_t i = 0; i < ctx->B * n; i++)
        w.dw[i % n] += w.part[i];
}

/* ---- a short convolution ----------------------------------------------------------- */

struct short_conv short_conv_layout(struct layout *m, const struct taps *taps,
                                    const char *bias, size_t ld_x, size_t ld_y,
                                    bool silu)
{
    struct short_conv s = {.conv = {.B = m->B, .T = m->T, .ld_x = ld_x, .ld_y = ld_y,
                                    .silu = silu}};

    for (const struct taps *t = taps; t->C; t++) {
        struct param  p = {t->name, t->C, CONV_TAPS, INIT_UNIFORM, 0.5};
        struct weight w = layout_weight(m, p);

        s.w = t == taps ? w : s.w;
        s.conv.C += t->C;
    }
    if (bias)
        s.b = layout_vector(m, bias, s.conv.C, INIT_ZERO);
    s.conv.w = s.w.w, s.conv.b = s.b.w;
    s.state = layout_state(m, conv_state(&s.conv));
    layout_flops(m, conv_flops(s.conv.C));
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

void short_conv_backward(const struct short_conv *s, real *dx, real *dy, const real *x)
{
    conv_backward(&s->conv, dx, s->w.dw, s->b.dw, dy, x);
}
