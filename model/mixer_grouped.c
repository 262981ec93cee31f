#include "model/mixer_grouped.h"

#include "model/cores/kv_cache.h"

#include <math.h>
#include <string.h>

struct grouped grouped_layout(struct layout *m, const struct mixer_cfg *c,
                              enum attention_kind kind, int window, int span)
{
    const int      C = c->C, e = C / c->H, kv = c->Hk * e;
    struct grouped s = {.kind = kind, .window = window, .span = span};

    s.row = act_row(m, (struct act_part[]){{"wq", &s.q, C}, {"wk", &s.k, kv},
                                           {"wv", &s.v, kv}, {0}});
    s.wo = layout_out(m, C);
    layout_rotates(m, c->Hk, e);
    s.o = act_keep(m, "o", C);
    if (kind == ATTENTION_SOFTMAX)
        s.lse = layout_save(m, "lse", layout_tokens(m) * c->H);
    s.core = (struct attention){
        .kind = kind, .B = m->B, .T = m->T, .H = c->H, .Hk = c->Hk, .e = e,
        .scale = 1 / (real)sqrt(e), .q = s.q.x, .k = s.k.x, .v = s.v.x,
        .ld_q = s.row.ld, .ld_kv = s.row.ld,
    };
    s.scratch = layout_stream(m, "scratch", kv_cache_scratch(&s.core, span));
    layout_state(m, kv_cache_state(&s.core, span));
    m->flops += 4.0 * attention_pairs(m->T, smaller_window(window, m->window)) * C;
    m->paper_state = 2.0 * span * kv;
    return s;
}

void grouped_norm(struct grouped *s, struct layout *m, const struct mixer_cfg *c)
{
    const int e = s->core.e;

    s->qn = layout_vector(m, "qn", e, INIT_ONE);
    s->kn = layout_vector(m, "kn", e, INIT_ONE);
    s->norm_q = heads_norm(c, e);
    s->norm_k = heads_norm(c, e);
    s->norm_k.groups = c->Hk;
    s->raw = layout_keep(m, "raw", layout_tokens(m) * (c->H + c->Hk) * e);
    s->partial = layout_grad(m, "partial", norm_partial(&s->norm_q));
}

void grouped_sink(struct grouped *s, struct layout *m)
{
    s->sink = layout_summed(m, "sink", s->core.H, INIT_ZERO);
    s->core.sink = s->sink.w;
}

static struct attention core_of(const struct ctx *ctx, const struct grouped *s)
{
    struct attention core = s->core;

    core.window = smaller_window(s->window, ctx->window);
    return core;
}

static void norm_forward(const struct ctx *ctx, const struct grouped *s)
{
    const long   n = ctx_rows(ctx);
    const size_t ld = s->row.ld, C = ctx->cfg->C,
                 qk = C + (size_t)s->norm_k.groups * s->norm_k.e;

    for (long i = 0; i < n; i++)
        memcpy(s->raw + i * qk, s->row.x + i * ld, qk * sizeof(real));
    rms_forward(&s->norm_q, s->q.x, ld, s->q.x, ld, s->qn.w, n);
    rms_forward(&s->norm_k, s->k.x, ld, s->k.x, ld, s->kn.w, n);
}

static void norm_backward(const struct ctx *ctx, const struct grouped *s)
{
    const long   n = ctx_rows(ctx);
    const size_t ld = s->row.ld, C = ctx->cfg->C,
                 qk = C + (size_t)s->norm_k.groups * s->norm_k.e;

    rms_backward(&s->norm_q, s->q.dx, ld, 0, s->qn.dw, s->q.dx, ld, s->raw, qk,
                 s->qn.w, n, s->partial);
    rms_backward(&s->norm_k, s->k.dx, ld, 0, s->kn.dw, s->k.dx, ld, s->raw + C, qk,
                 s->kn.w, n, s->partial);
}

void grouped_forward(const struct ctx *ctx, const struct grouped *s, const real *x)
{
    struct attention core = core_of(ctx, s);

    if (s->qn.w) {
        proj_forward(ctx, s->row, x);
        norm_forward(ctx, s);
        heads_rotate(ctx, s->q, s->k);
    } else {
        heads_project(ctx, s->row, s->q, s->k, x);
    }
    if (ctx->state)
        kv_cache_extend(&core, s->span, ctx->state, ctx->pos, s->o.x, s->scratch);
    else
        attention_forward(&core, s->o.x, s->lse);
}

void grouped_weights(const struct ctx *ctx, const struct grouped *s, int b, int t,
                     double *p)
{
    struct attention core = core_of(ctx, s);

    attention_weights(&core, b, t, p);
}

void grouped_backward(const struct ctx *ctx, const struct grouped *s, real *dx,
                      const real *x)
{
    struct attention core = core_of(ctx, s);

    attention_backward(&core, s->lse ? s->o.x : NULL, s->lse, s->o.dx, s->q.dx, s->k.dx,
                       s->v.dx, s->sink.part);
    if (s->sink.w)
        add_parts(ctx, s->sink, ctx->cfg->H);
    if (s->qn.w) {
        heads_rotate_back(ctx, s->q, s->k);
        norm_backward(ctx, s);
        proj_backward(ctx, dx, 0, s->row, x);
    } else {
        heads_project_back(ctx, dx, 0, s->row, s->q, s->k, x);
    }
}
