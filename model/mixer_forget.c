#include "model/mixer_forget.h"

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

struct forget forget_layout(struct layout *m, enum forget_kind kind,
                            struct scalar_heads *s)
{
    struct forget f = {.kind = kind, .H = s->core.H};

    if (kind == FORGET_FIXED)
        f.log_f.x = layout_keep(m, "log_f", f.H);
    if (kind == FORGET_LEARNED) {
        f.log_f = act_row(m, (struct act_part[]){{"wf", NULL, f.H, INIT_ZERO}, {0}});
        f.bf = layout_vector(m, "bf", f.H, INIT_OWN);
    }
    scalar_heads_forget(s, f.log_f);
    return f;
}

void forget_init(const struct forget *f)
{
    for (int h = 0; f->kind == FORGET_LEARNED && h < f->H; h++) {
        double lost = fmax(forgotten(h, f->H), 0x1p-10);

        f->bf.w[h] = (real)log((1 - lost) / lost);
    }
}

void forget_forward(const struct ctx *ctx, const struct forget *f, const real *x)
{
    const int  H = f->H;
    const long n = ctx_rows(ctx);

    if (f->kind == FORGET_FIXED)
        for (int h = 0; h < H; h++)
            f->log_f.x[h] = (real)log1p(-forgotten(h, H));
    if (f->kind != FORGET_LEARNED)
        return;
    proj_forward(ctx, f->log_f, x);
    bias_forward(f->log_f.x, f->bf.w, n, H);
    for (long i = 0; i < n * H; i++)
        f->log_f.x[i] = vlsig(f->log_f.x[i]);
}

/* The slope of log sigmoid is 1 - sigmoid. */
void forget_backward(const struct ctx *ctx, const struct forget *f, real *dx,
                     const real *x)
{
    const int  H = f->H;
    const long n = ctx_rows(ctx);

    if (f->kind != FORGET_LEARNED)
        return;
    for (long i = 0; i < n * H; i++)
        f->log_f.dx[i] *= (real)-expm1((double)f->log_f.x[i]);
    bias_backward(f->bf.dw, f->log_f.dx, n, H);
    proj_backward(ctx, dx, 1, f->log_f, x);
}

void forget_range(const struct ctx *ctx, const struct forget *f, struct range *r)
{
    const int H = f->H;

    for (int h = 0; !f->log_f.x && h < H; h++)
        range_add(&r[h], 1);
    if (f->log_f.x)
        range_logs(r, f->log_f.x, H, f->kind == FORGET_FIXED ? 1 : ctx_rows(ctx), H, 1);
}
