#include "model/mixer_instruments.h"

int mixer_decay(struct mixer_layer *l, struct range *r)
{
    const struct instruments *of = l->ctx.cfg->mixer->instruments;

    return of->decay ? of->decay(&l->ctx, r) : 0;
}

void mixer_zeros(const struct mixer_layer *l, struct zeros *sum)
{
    const struct instruments *of = l->ctx.cfg->mixer->instruments;

    if (of->zeros)
        of->zeros(&l->ctx, sum);
}

bool mixer_weights(const struct mixer_layer *l, int b, int t, double *p)
{
    const struct instruments *of = l->ctx.cfg->mixer->instruments;

    if (of->weights)
        of->weights(&l->ctx, b, t, p);
    return of->weights;
}

int decay_of_logs(const struct ctx *ctx, struct range *r, const real *g, size_t ld,
                  int e)
{
    range_logs(r, g, ld, ctx_rows(ctx), ctx->cfg->H, e);
    return ctx->cfg->H;
}
