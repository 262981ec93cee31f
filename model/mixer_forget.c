#include "model/mixer_forget.h"

#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "model/layers/bias.h"

#include <math.h>

/* 1 - a of head h of H. */
static double forgotten(int h, int H)
{
    if (h == H - 1)
        return 0;
    return exp2(H > 2 ? -1 - 4.0 * h / (H - 2) : -3);
}

int forget_params(enum forget_kind kind, const struct mixer_cfg *c, struct param *p)
{
    if (kind != FORGET_LEARNED)
        return 0;
    p[0] = (struct param){"wf", c->H, c->C, INIT_ZERO, .decay = true};
    p[1] = (struct param){"bf", c->H, 0, INIT_OWN};
    return 2;
}

void forget_init(enum forget_kind kind, const struct mixer_cfg *c, real *const *w)
{
    for (int h = 0; kind == FORGET_LEARNED && h < c->H; h++) {
        double lost = fmax(forgotten(h, c->H), 0x1p-10);

        w[1][h] = (real)log((1 - lost) / lost);
    }
}

void forget_carve(struct forget *f, struct room *m, struct scalar *core)
{
    const size_t H = core->H, n = f->kind == FORGET_LEARNED ? room_rows(m) * H : H;

    if (f->kind == FORGET_NONE)
        return;
    f->log_f = room_keep(m, n);
    core->log_f = f->log_f;
    if (f->kind == FORGET_FIXED)
        return;
    f->dlog_f = room_back(m, n);
    core->ld_f = H;
}

void forget_forward(const struct ctx *ctx, const struct forget *f, const real *x)
{
    const int  H = ctx->cfg->H;
    const long n = ctx_rows(ctx);

    if (f->kind == FORGET_FIXED)
        for (int h = 0; h < H; h++)
            f->log_f[h] = (real)log1p(-forgotten(h, H));
    if (f->kind != FORGET_LEARNED)
        return;
    product_forward(f->log_f, x, ctx->w[f->w], n, ctx->cfg->C, H);
    bias_forward(f->log_f, ctx->w[f->w + 1], n, H);
    for (long i = 0; i < n * H; i++)
        f->log_f[i] = vlsig(f->log_f[i]);
}

/* The slope of log sigmoid is 1 - sigmoid. */
void forget_backward(const struct ctx *ctx, const struct forget *f, real *dx,
                     const real *x)
{
    const int  H = ctx->cfg->H;
    const long n = ctx_rows(ctx);

    if (f->kind != FORGET_LEARNED)
        return;
    for (long i = 0; i < n * H; i++)
        f->dlog_f[i] *= (real)-expm1((double)f->log_f[i]);
    bias_backward(ctx->dw[f->w + 1], f->dlog_f, n, H);
    product_backward(dx, 1, ctx->dw[f->w], f->dlog_f, x, ctx->w[f->w], n, ctx->cfg->C, H);
}

void forget_range(const struct ctx *ctx, const struct forget *f, struct range *r)
{
    const int H = ctx->cfg->H;

    for (int h = 0; !f->log_f && h < H; h++)
        range_add(&r[h], 1);
    if (f->log_f)
        range_logs(r, f->log_f, H, f->kind == FORGET_FIXED ? 1 : ctx_rows(ctx), H, 1);
}

double forget_flops(enum forget_kind kind, const struct mixer_cfg *c)
{
    return kind == FORGET_LEARNED ? 2.0 * c->C * c->H : 0;
}
