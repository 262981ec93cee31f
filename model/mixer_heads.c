#include "model/mixer_heads.h"

#include "model/kernels/product.h"

/* ---- entering ---------------------------------------------------------------------- */

void rows_rotate(const struct ctx *ctx, const struct rows *o, real *rows)
{
    rotate(&ctx->angles, rows, ctx->B, ctx->T, ctx->cfg->H, o->ld);
    rotate(&ctx->angles, rows + o->k, ctx->B, ctx->T, o->Hk, o->ld);
}

void rows_rotate_back(const struct ctx *ctx, const struct rows *o, real *drows,
                      const real *rows)
{
    const struct angles *a = &ctx->angles;

    rotate_back(a, rows, drows, ctx->B, ctx->T, ctx->cfg->H, o->ld, o->ld);
    rotate_back(a, rows + o->k, drows + o->k, ctx->B, ctx->T, o->Hk, o->ld, o->ld);
}

void rows_forward(const struct ctx *ctx, const struct rows *o, real *rows, const real *x)
{
    product_forward(rows, x, ctx->w[o->w], ctx_rows(ctx), ctx->cfg->C, (int)o->ld);
    rows_rotate(ctx, o, rows);
}

void rows_backward(const struct ctx *ctx, const struct rows *o, real *dx, real *drows,
                   const real *rows, const real *x)
{
    rows_rotate_back(ctx, o, drows, rows);
    product_backward(dx, 1, ctx->dw[o->w], drows, x, ctx->w[o->w], ctx_rows(ctx),
                     ctx->cfg->C, (int)o->ld);
}

void rows_angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->H;
    *dk = c->C / c->H;
}

/* ---- leaving ----------------------------------------------------------------------- */

static int channels(const struct leave *s) { return s->norm.groups * s->norm.e; }

void leave_layout(struct leave *s, struct layout *m)
{
    size_t n = layout_tokens(m) * channels(s);

    s->o = layout_keep(m, "o", n);
    s->gated = layout_keep(m, "gated", n);
    s->d_o = layout_grad(m, "d_o", n);
    s->normed = layout_grad(m, "normed", n);
    s->partial = layout_grad(m, "partial", norm_partial(&s->norm));
}

static void normalise(const struct ctx *ctx, const struct leave *s, real *y)
{
    const real *w = s->w < 0 ? NULL : ctx->w[s->w];
    size_t      e = channels(s);

    (s->mean ? ln_forward : rms_forward)(&s->norm, y, e, s->o, e, w, ctx_rows(ctx));
}

void leave_forward(const struct ctx *ctx, const struct leave *s, real *y, const real *g,
                   size_t ld)
{
    const long n = ctx_rows(ctx);
    const int  e = channels(s);

    normalise(ctx, s, s->gated);
    gate_forward(s->act, s->gated, e, s->gated, e, g, ld, n, e);
    product_forward(y, s->gated, ctx->w[s->wo], n, e, ctx->cfg->C);
}

void leave_backward(const struct ctx *ctx, const struct leave *s, real *dg,
                    const real *dy, const real *g, size_t ld)
{
    const long  n = ctx_rows(ctx);
    const int   e = channels(s);
    const real *w = s->w < 0 ? NULL : ctx->w[s->w];
    real       *dw = s->w < 0 ? NULL : ctx->dw[s->w];

    product_backward(s->d_o, 0, ctx->dw[s->wo], dy, s->gated, ctx->w[s->wo], n, e,
                     ctx->cfg->C);
    normalise(ctx, s, s->normed);
    gate_backward(s->act, s->d_o, dg, ld, s->d_o, e, s->normed, e, g, ld, n, e);
    (s->mean ? ln_backward : rms_backward)
        (&s->norm, s->d_o, e, 0, dw, s->d_o, e, s->o, e, w, n, s->partial);
}
