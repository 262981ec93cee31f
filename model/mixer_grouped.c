#include "model/mixer_grouped.h"

#include "model/cores/kv_cache.h"

#include <math.h>
#include <string.h>

enum { WQ, WK, WV, WO, N_PARAMS };

static int width(const struct mixer_cfg *c) { return c->C / c->H; }

int grouped_params(const struct mixer_cfg *c, struct param *p)
{
    const int kv = c->Hk * width(c);

    p[WQ] = (struct param){"wq", c->C, c->C, INIT_INPUT, .decay = true};
    p[WK] = (struct param){"wk", kv, c->C, INIT_INPUT, .decay = true};
    p[WV] = (struct param){"wv", kv, c->C, INIT_INPUT, .decay = true};
    p[WO] = (struct param){"wo", c->C, c->C, INIT_OUTPUT, .decay = true};
    return N_PARAMS;
}

void grouped_angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    *heads = c->Hk;
    *dk = width(c);
}

void grouped_layout(struct grouped *s, struct layout *m, const struct mixer_cfg *c)
{
    const size_t n = layout_tokens(m), C = c->C, kv = (size_t)c->Hk * width(c);

    s->row = act_row(m, (struct act_part[]){{&s->q, C}, {&s->k, kv}, {&s->v, kv}, {0}});
    s->in = (struct heads_in){.w = WQ, .Hk = c->Hk, .row = s->row, .k = s->k};
    s->raw = layout_keep(m, "raw", s->qn < 0 ? 0 : n * (C + kv));
    s->o = act_keep(m, "o", C);
    s->lse = s->kind == ATTENTION_SOFTMAX ? layout_save(m, "lse", n * c->H) : NULL;
    s->dsink = layout_grad(m, "dsink", (size_t)m->B * c->H);
    s->norm_q = (struct norm){c->H, width(c), .shared = true, .eps = (real)c->eps};
    s->norm_k = (struct norm){c->Hk, width(c), .shared = true, .eps = (real)c->eps};
    s->partial = layout_grad(m, "partial", norm_partial(&s->norm_q));
    s->core = (struct attention){
        .kind = s->kind, .B = m->B, .T = m->T, .H = c->H, .Hk = c->Hk, .e = width(c),
        .scale = 1 / (real)sqrt(width(c)), .q = s->q.x, .k = s->k.x, .v = s->v.x,
        .ld_q = s->row.ld, .ld_kv = s->row.ld,
        .sink = s->sink < 0 ? NULL : layout_param(m, s->sink),
    };
    s->scratch = layout_stream(m, "scratch", kv_cache_scratch(&s->core, s->span));
    layout_state(m, kv_cache_state(&s->core, s->span));
}

static struct attention core_of(const struct ctx *ctx, const struct grouped *s)
{
    struct attention core = s->core;

    core.window = ctx_window(ctx, s->window);
    return core;
}

static void norm_forward(const struct ctx *ctx, const struct grouped *s)
{
    const long   n = ctx_rows(ctx);
    const size_t ld = s->row.ld, C = ctx->cfg->C,
                 qk = C + (size_t)s->norm_k.groups * s->norm_k.e;

    for (long i = 0; i < n; i++)
        memcpy(s->raw + i * qk, s->row.x + i * ld, qk * sizeof(real));
    rms_forward(&s->norm_q, s->q.x, ld, s->q.x, ld, ctx->w[s->qn], n);
    rms_forward(&s->norm_k, s->k.x, ld, s->k.x, ld, ctx->w[s->qn + 1], n);
}

static void norm_backward(const struct ctx *ctx, const struct grouped *s)
{
    const long   n = ctx_rows(ctx);
    const size_t ld = s->row.ld, C = ctx->cfg->C,
                 qk = C + (size_t)s->norm_k.groups * s->norm_k.e;
    const int    qn = s->qn, kn = s->qn + 1;

    rms_backward(&s->norm_q, s->q.dx, ld, 0, ctx->dw[qn], s->q.dx, ld, s->raw, qk,
                 ctx->w[qn], n, s->partial);
    rms_backward(&s->norm_k, s->k.dx, ld, 0, ctx->dw[kn], s->k.dx, ld, s->raw + C, qk,
                 ctx->w[kn], n, s->partial);
}

void grouped_forward(const struct ctx *ctx, const struct grouped *s, const real *x)
{
    struct attention core = core_of(ctx, s);

    in_proj_forward(ctx, WQ, s->row, x);
    if (s->qn >= 0)
        norm_forward(ctx, s);
    heads_rotate(ctx, &s->in);
    if (ctx->state)
        kv_cache_extend(&core, s->span, ctx->state, ctx->pos, s->o.x, s->scratch);
    else
        attention_forward(&core, s->o.x, s->lse);
}

void grouped_backward(const struct ctx *ctx, const struct grouped *s, real *dx,
                      const real *x)
{
    struct attention core = core_of(ctx, s);

    attention_backward(&core, s->lse ? s->o.x : NULL, s->lse, s->o.dx, s->q.dx, s->k.dx,
                       s->v.dx, s->dsink);
    if (s->sink >= 0)
        add_partials(ctx, s->sink, s->dsink, ctx->cfg->H);
    heads_rotate_back(ctx, &s->in);
    if (s->qn >= 0)
        norm_backward(ctx, s);
    in_proj_backward(ctx, WQ, dx, s->row, x);
}

double grouped_flops(const struct mixer_cfg *c, int T, int window)
{
    return 4.0 * T * c->C * (c->C + c->Hk * width(c)) +
           4.0 * attention_pairs(T, window) * c->C;
}

double grouped_state(const struct mixer_cfg *c, int span)
{
    return 2.0 * span * c->Hk * width(c);
}
