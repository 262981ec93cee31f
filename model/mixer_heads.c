#include "model/mixer_heads.h"

#include "model/kernels/product.h"
#include "model/meter.h"

/* ---- rotation ---------------------------------------------------------------------- */

void heads_rotate(const struct ctx *ctx, struct act q, struct act k)
{
    const struct angles *a = &ctx->angles;

    rotate(a, q.x, ctx->B, ctx->T, ctx->cfg->H, q.ld);
    rotate(a, k.x, ctx->B, ctx->T, a->heads, k.ld);
}

void heads_rotate_back(const struct ctx *ctx, struct act q, struct act k)
{
    const struct angles *a = &ctx->angles;

    rotate_back(a, q.x, q.dx, ctx->B, ctx->T, ctx->cfg->H, q.ld, q.ld);
    rotate_back(a, k.x, k.dx, ctx->B, ctx->T, a->heads, k.ld, k.ld);
}

struct turned {
    const struct ctx *ctx;
    struct act        q, k;
};

static void turn_rows(const void *of, long from, long n)
{
    const struct turned *z = of;
    const struct angles *a = &z->ctx->angles;

    rotate_rows(a, z->q.x, z->ctx->T, from, n, z->ctx->cfg->H, z->q.ld);
    rotate_rows(a, z->k.x, z->ctx->T, from, n, a->heads, z->k.ld);
}

static void turn_rows_back(const void *of, long from, long n)
{
    const struct turned *z = of;
    const struct angles *a = &z->ctx->angles;
    const size_t         q = z->q.ld, k = z->k.ld;

    rotate_back_rows(a, z->q.x, z->q.dx, z->ctx->T, from, n, z->ctx->cfg->H, q, q);
    rotate_back_rows(a, z->k.x, z->k.dx, z->ctx->T, from, n, a->heads, k, k);
}

void heads_project(const struct ctx *ctx, struct act row, struct act q, struct act k,
                   const real *x)
{
    const struct turned z = {ctx, q, k};
    enum meter          was = meter_switch(METER_PROJECTIONS);

    if (ctx->angles.cos)
        product_forward_then(row.x, x, row.w.w, ctx_rows(ctx), row.in, (int)row.ld,
                             (struct rows_work){turn_rows, &z});
    else
        proj_forward(ctx, row, x);
    meter_switch(was);
}

void heads_project_back(const struct ctx *ctx, real *dx, real keep, struct act row,
                        struct act q, struct act k, const real *x)
{
    const struct turned z = {ctx, q, k};
    enum meter          was;

    if (!ctx->angles.cos) {
        proj_backward(ctx, dx, keep, row, x);
        return;
    }
    was = meter_switch(METER_PROJECTIONS);
    product_backward_after((struct rows_work){turn_rows_back, &z}, dx, keep, row.w.dw,
                           row.dx, x, row.w.w, ctx_rows(ctx), row.in, (int)row.ld);
    meter_switch(was);
}

/* ---- step, norm, gate -------------------------------------------------------------- */

struct heads_step heads_step_layout(struct layout *m, int H, struct act z)
{
    struct heads_step g = {.z = z};

    g.s = act_keep(m, "s", H);
    g.log_a = act_keep(m, "log_a", H);
    g.dtb = layout_vector(m, "dtb", H, INIT_OWN);
    g.alog = layout_vector(m, "alog", H, INIT_OWN);
    g.step = (struct step){(long)layout_tokens(m), H, z.ld, g.dtb.w, g.alog.w};
    return g;
}

void heads_step_forward(const struct heads_step *g)
{
    step_forward(&g->step, g->s.x, g->log_a.x, g->z.x);
}

void heads_step_backward(const struct heads_step *g, const real *ds)
{
    step_backward(&g->step, g->z.dx, g->dtb.dw, g->alog.dw, ds, g->log_a.dx, g->s.x,
                  g->log_a.x);
}

struct norm heads_norm(const struct mixer_cfg *c, int dv)
{
    return (struct norm){c->H, dv, .shared = true, .eps = (real)c->eps};
}

struct rms rms_layout(struct layout *m, const char *name, struct norm norm)
{
    const int  n = norm.shared ? norm.e : norm.groups * norm.e;
    struct rms o = {.norm = norm, .w = layout_vector(m, name, n, INIT_ONE)};

    o.partial = layout_grad(m, "partial", norm_partial(&norm));
    return o;
}

void rms_act_forward(const struct ctx *ctx, const struct rms *o, struct act y,
                     struct act x)
{
    rms_forward(&o->norm, y.x, y.ld, x.x, x.ld, o->w.w, ctx_rows(ctx));
}

void rms_act_backward(const struct ctx *ctx, const struct rms *o, struct act y,
                      struct act x)
{
    rms_backward(&o->norm, x.dx, x.ld, 0, o->w.dw, y.dx, y.ld, x.x, x.ld, o->w.w,
                 ctx_rows(ctx), o->partial);
}

void heads_out_layout(struct heads_out *s, struct layout *m, struct norm norm,
                      enum gate act, struct act o, struct act g)
{
    s->norm = norm;
    s->act = act;
    s->o = o, s->g = g;
    s->gated = act_after(m, "gated", o);
    s->partial = layout_grad(m, "partial", rms_gated_partial(&norm));
}

void heads_out_forward(const struct ctx *ctx, const struct heads_out *s, real *y)
{
    const size_t e = s->o.ld;

    norm_gate_forward(&s->norm, s->act, s->gated.x, e, s->o.x, e, s->g.x, s->g.ld,
                      s->w.w, ctx_rows(ctx));
    out_proj_forward(ctx, s->wo, y, s->gated);
}

void heads_out_backward(const struct ctx *ctx, const struct heads_out *s, const real *dy)
{
    out_proj_backward(ctx, s->wo, s->gated, dy);
    norm_gate_backward(&s->norm, s->act, s->o.dx, s->g.dx, s->g.ld, s->w.dw, s->o.x,
                       s->o.ld, s->g.x, s->g.ld, s->w.w, ctx_rows(ctx), s->partial);
}
