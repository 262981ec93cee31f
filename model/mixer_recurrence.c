#include "model/mixer_recurrence.h"

#include "model/cores/scan.h"
#include "model/layers/bias.h"

void recurrence_layout(struct recurrence *r, struct layout *m,
                       const struct recurrence_form *form, int e)
{
    r->form = form;
    r->e = e;
    r->h = r->v = act_keep(m, "h", e);
    if (form->logits) {
        r->u = act_after(m, "u", r->h);
        r->v = act_after(m, "v", r->h);
        r->a = layout_grad(m, "a", layout_tokens(m) * e);
        if (!r->a)
            r->a = r->v.x;
    } else {
        r->z = r->row;
        r->a = layout_keep(m, "a", layout_tokens(m) * e);
    }
    r->state = layout_state(m, e);
}

/* Row i. */
static struct recurrence_token token(const struct ctx *ctx, const struct recurrence *r,
                                     long i)
{
    const size_t at = i * r->e;

    return (struct recurrence_token){
        .e = r->e,
        .first = i % ctx->T == 0 && (!ctx->pos || ctx->pos[i / ctx->T] == 0),
        .p = r->row.x + i * r->row.ld, .z = r->z.x + i * r->z.ld,
        .u = layout_at(r->u.x, at), .a = r->a + at, .h = r->h.x + at, .v = r->v.x + at,
        .dp = layout_at(r->row.dx, i * r->row.ld), .dz = layout_at(r->z.dx, i * r->z.ld),
        .dh = layout_at(r->h.dx, at),
    };
}

static void each_token(const struct ctx *ctx, const struct recurrence *r,
                       void (*do_token)(const struct ctx *,
                                        const struct recurrence_token *))
{
    const long n = ctx_rows(ctx);

    #pragma omp parallel for schedule(static) if (n > FEW_ROWS)
    for (long i = 0; i < n; i++) {
        struct recurrence_token t = token(ctx, r, i);

        do_token(ctx, &t);
    }
}

static void gates_forward(const struct ctx *ctx, const struct recurrence *r)
{
    const struct recurrence_form *f = r->form;

    short_conv_forward(ctx, &r->conv, r->u.x, r->row.x + r->e);
    f->logits(ctx, r);
    bias_forward(r->z.x, r->bg.w, ctx_rows(ctx), (int)r->z.ld);
}

void recurrence_forward(const struct ctx *ctx, const struct recurrence *r, const real *x,
                        real *y)
{
    const struct recurrence_form *f = r->form;
    struct scan scan = {ctx->B, ctx->T, r->e, r->a};

    proj_forward(ctx, r->row, x);
    if (r->bin.w)
        bias_forward(r->row.x, r->bin.w, ctx_rows(ctx), (int)r->row.ld);
    if (f->logits)
        gates_forward(ctx, r);
    each_token(ctx, r, f->input);
    if (ctx->state)
        scan_extend(&scan, ctx->state, r->state, r->h.x);
    else
        scan_forward(&scan, r->h.x);
    if (f->output)
        each_token(ctx, r, f->output);
    out_proj_forward(ctx, r->wo, y, r->v);
}

static void gates_backward(const struct ctx *ctx, const struct recurrence *r)
{
    const struct recurrence_form *f = r->form;

    bias_backward(r->bg.dw, r->z.dx, ctx_rows(ctx), (int)r->z.ld);
    f->logits_back(ctx, r);
    short_conv_backward(&r->conv, r->row.dx + r->e, r->u.dx, r->row.x + r->e);
}

void recurrence_backward(const struct ctx *ctx, const struct recurrence *r, const real *x,
                         const real *dy, real *dx)
{
    const struct recurrence_form *f = r->form;
    struct scan scan = {ctx->B, ctx->T, r->e, r->a};

    out_proj_backward(ctx, r->wo, r->v, dy);
    if (f->output)
        each_token(ctx, r, f->output_back);
    scan_backward(&scan, r->h.dx, r->z.dx, r->z.ld, r->h.x);
    each_token(ctx, r, f->input_back);
    if (f->logits)
        gates_backward(ctx, r);
    if (r->bin.w)
        bias_backward(r->bin.dw, r->row.dx, ctx_rows(ctx), (int)r->row.ld);
    proj_backward(ctx, dx, 0, r->row, x);
}
