#include "model/mixer_heads.h"

/* ---- heads in ---------------------------------------------------------------------- */

void heads_rotate(const struct ctx *ctx, const struct heads_in *s)
{
    rotate(&ctx->angles, s->row.x, ctx->B, ctx->T, ctx->cfg->H, s->row.ld);
    rotate(&ctx->angles, s->k.x, ctx->B, ctx->T, s->Hk, s->row.ld);
}

void heads_rotate_back(const struct ctx *ctx, const struct heads_in *s)
{
    const size_t ld = s->row.ld;

    rotate_back(&ctx->angles, s->row.x, s->row.dx, ctx->B, ctx->T, ctx->cfg->H, ld, ld);
    rotate_back(&ctx->angles, s->k.x, s->k.dx, ctx->B, ctx->T, s->Hk, ld, ld);
}

void heads_in_forward(const struct ctx *ctx, const struct heads_in *s, const real *x)
{
    in_proj_forward(ctx, s->w, s->row, x);
    heads_rotate(ctx, s);
}

void heads_in_backward(const struct ctx *ctx, const struct heads_in *s, real *dx,
                       const real *x)
{
    heads_rotate_back(ctx, s);
    in_proj_backward(ctx, s->w, dx, s->row, x);
}

void heads_angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->H;
    *dk = c->C / c->H;
}

/* ---- cores ------------------------------------------------------------------------- */

void scalar_heads_layout(struct scalar_heads *s, struct layout *m, struct act q,
                         struct act k, struct act v)
{
    struct scalar *o = &s->core;

    o->B = m->B, o->T = m->T;
    o->q = q.x, o->k = k.x, o->v = v.x;
    o->ld_q = q.ld, o->ld_k = k.ld, o->ld_v = v.ld, o->ld_o = (size_t)o->H * o->dv;
    s->grad = (struct scalar_grad){.dq = q.dx, .dk = k.dx, .dv = v.dx, .ld_dq = q.ld,
                                   .ld_dk = k.ld, .ld_dv = v.ld};
    s->kept = layout_save(m, "kept", scalar_kept(o));
    s->scratch = layout_grad(m, "scratch", scalar_scratch(o));
    s->state = layout_state(m, scalar_state(o));
}

void scalar_heads_forward(const struct ctx *ctx, const struct scalar_heads *s, real *o)
{
    if (ctx->state)
        scalar_extend(&s->core, ctx->state, s->state, o);
    else
        scalar_forward(&s->core, o, s->kept);
}

void scalar_heads_backward(const struct scalar_heads *s, struct act o)
{
    scalar_backward(&s->core, &s->grad, s->core.den == SCALAR_PLAIN ? NULL : o.x, o.dx,
                    s->kept, s->scratch);
}

void vector_heads_layout(struct vector_heads *s, struct layout *m, struct act q,
                         struct act k, struct act v, struct act g)
{
    struct vector *o = &s->core;

    o->B = m->B, o->T = m->T;
    o->q = q.x, o->k = k.x, o->v = v.x, o->g = g.x;
    o->ld_q = q.ld, o->ld_k = k.ld, o->ld_v = v.ld, o->ld_g = g.ld;
    o->ld_o = (size_t)o->H * o->dv;
    s->grad = (struct vector_grad){.dq = q.dx, .dk = k.dx, .dv = v.dx, .dg = g.dx,
                                   .ld_dq = q.ld, .ld_dk = k.ld, .ld_dv = v.ld,
                                   .ld_dg = g.ld};
    s->kept = layout_save(m, "kept", vector_kept(o));
    s->scratch = layout_grad(m, "scratch", vector_scratch(o));
    s->state = layout_state(m, vector_state(o));
}

void vector_heads_forward(const struct ctx *ctx, const struct vector_heads *s, real *o)
{
    if (ctx->state)
        vector_extend(&s->core, ctx->state, s->state, o);
    else
        vector_forward(&s->core, o, s->kept);
}

void vector_heads_backward(const struct vector_heads *s, struct act o)
{
    vector_backward(&s->core, &s->grad, o.dx, s->kept, s->scratch);
}

/* ---- heads out --------------------------------------------------------------------- */

void heads_out_layout(struct heads_out *s, struct layout *m)
{
    const size_t n = (size_t)s->norm.groups * s->norm.e;

    s->o = act_keep(m, "o", n);
    s->gated = (struct act){layout_keep(m, "gated", layout_tokens(m) * n), s->o.dx, n};
    s->normed = layout_grad(m, "normed", layout_tokens(m) * n);
    s->partial = layout_grad(m, "partial", norm_partial(&s->norm));
}

static void normalise(const struct ctx *ctx, const struct heads_out *s, real *y)
{
    (s->mean ? ln_forward : rms_forward)(&s->norm, y, s->o.ld, s->o.x, s->o.ld,
                                         s->w < 0 ? NULL : ctx->w[s->w], ctx_rows(ctx));
}

void heads_out_forward(const struct ctx *ctx, const struct heads_out *s, real *y)
{
    const size_t e = s->o.ld;

    normalise(ctx, s, s->gated.x);
    gate_forward(s->act, s->gated.x, e, s->gated.x, e, s->g.x, s->g.ld, ctx_rows(ctx),
                 (int)e);
    out_proj_forward(ctx, s->wo, y, s->gated);
}

void heads_out_backward(const struct ctx *ctx, const struct heads_out *s, const real *dy)
{
    const long   n = ctx_rows(ctx);
    const size_t e = s->o.ld;
    const real  *w = s->w < 0 ? NULL : ctx->w[s->w];
    real        *dw = s->w < 0 ? NULL : ctx->dw[s->w], *d = s->o.dx;

    out_proj_backward(ctx, s->wo, s->gated, dy);
    normalise(ctx, s, s->normed);
    gate_backward(s->act, d, s->g.dx, s->g.ld, d, e, s->normed, e, s->g.x, s->g.ld, n,
                  (int)e);
    (s->mean ? ln_backward : rms_backward)
        (&s->norm, d, e, 0, dw, d, e, s->o.x, e, w, n, s->partial);
}
