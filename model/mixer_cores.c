#include "model/mixer_cores.h"

#include <math.h>

/* ---- one weight a token and head --------------------------------------------------- */

struct scalar_heads scalar_heads_layout(struct layout *m, struct act q, struct act k,
                                        struct act v, struct scalar core)
{
    struct scalar_heads s = {.o = act_keep(m, "o", (size_t)core.H * core.dv)};

    core.B = m->B, core.T = m->T;
    core.scale = core.scale > 0 ? core.scale : 1 / (real)sqrt(core.dk);
    core.q = q.x, core.k = k.x, core.v = v.x;
    core.ld_q = q.ld, core.ld_k = k.ld, core.ld_v = v.ld, core.ld_o = s.o.ld;
    s.core = core;
    s.grad = (struct scalar_grad){.dq = q.dx, .dk = k.dx, .dv = v.dx, .ld_dq = q.ld,
                                  .ld_dk = k.ld, .ld_dv = v.ld};
    s.kept = layout_save(m, "kept", scalar_kept(&core));
    s.scratch = layout_grad(m, "scratch", scalar_scratch(&core));
    s.state = layout_state(m, scalar_state(&core));
    layout_flops(m, core.H * scalar_flops(m->T, core.dk, core.dv));
    return s;
}

void scalar_heads_forget(struct scalar_heads *s, struct act log_f)
{
    s->core.log_f = log_f.x, s->core.ld_f = log_f.ld;
    s->grad.dlog_f = log_f.dx, s->grad.ld_df = log_f.ld;
}

void scalar_heads_input(struct scalar_heads *s, struct act log_i)
{
    s->core.log_i = log_i.x, s->core.ld_i = log_i.ld;
    s->grad.dlog_i = log_i.dx, s->grad.ld_di = log_i.ld;
}

void scalar_heads_forward(const struct ctx *ctx, const struct scalar_heads *s)
{
    if (ctx->state)
        scalar_extend(&s->core, ctx->state, s->state, s->o.x);
    else
        scalar_forward(&s->core, s->o.x, s->kept);
}

void scalar_heads_backward(const struct scalar_heads *s)
{
    scalar_backward(&s->core, &s->grad, s->core.den == SCALAR_PLAIN ? NULL : s->o.x,
                    s->o.dx, s->kept, s->scratch);
}

/* ---- a decay for every key channel ------------------------------------------------- */

struct vector_heads vector_heads_layout(struct layout *m, struct act q, struct act k,
                                        struct act v, struct act g, struct vector core)
{
    struct vector_heads s = {.o = act_keep(m, "o", (size_t)core.H * core.dv)};

    core.B = m->B, core.T = m->T;
    core.scale = core.scale > 0 ? core.scale : 1 / (real)sqrt(core.dk);
    core.q = q.x, core.k = k.x, core.v = v.x, core.g = g.x;
    core.ld_q = q.ld, core.ld_k = k.ld, core.ld_v = v.ld, core.ld_g = g.ld;
    core.ld_o = s.o.ld;
    s.core = core;
    s.grad = (struct vector_grad){.dq = q.dx, .dk = k.dx, .dv = v.dx, .dg = g.dx,
                                  .ld_dq = q.ld, .ld_dk = k.ld, .ld_dv = v.ld,
                                  .ld_dg = g.ld};
    s.kept = layout_save(m, "kept", vector_kept(&core));
    s.scratch = layout_grad(m, "scratch", vector_scratch(&core));
    s.state = layout_state(m, vector_state(&core));
    layout_flops(m, core.H * vector_flops(m->T, core.dk, core.dv));
    return s;
}

void vector_heads_forward(const struct ctx *ctx, const struct vector_heads *s)
{
    if (ctx->state)
        vector_extend(&s->core, ctx->state, s->state, s->o.x);
    else
        vector_forward(&s->core, s->o.x, s->kept);
}

void vector_heads_backward(const struct vector_heads *s)
{
    vector_backward(&s->core, &s->grad, s->o.dx, s->kept, s->scratch);
}

/* ---- the gated delta rule ---------------------------------------------------------- */

struct delta_heads delta_heads_layout(struct layout *m, struct act q, struct act k,
                                      struct act v, struct act log_a, struct act beta,
                                      struct delta core)
{
    struct delta_heads s = {.o = act_keep(m, "o", (size_t)core.H * core.dv)};

    core.B = m->B, core.T = m->T;
    core.scale = core.scale > 0 ? core.scale : 1 / (real)sqrt(core.dk);
    core.q = q.x, core.k = k.x, core.v = v.x;
    core.ld = q.ld, core.ld_o = s.o.ld;
    core.log_a = log_a.x, core.beta = beta.x;
    s.core = core;
    s.grad = (struct delta_grad){q.dx, k.dx, v.dx, log_a.dx, beta.dx};
    s.kept = layout_save(m, "kept", delta_kept(&core));
    s.scratch = layout_work(m, "scratch", delta_scratch(&core, pass_trains(m->mode)));
    s.state = layout_state(m, delta_state(&core));
    layout_flops(m, core.H * delta_flops(m->T, core.dk, core.dv));
    return s;
}

void delta_heads_forward(const struct ctx *ctx, const struct delta_heads *s)
{
    if (ctx->state)
        delta_extend(&s->core, ctx->state, s->state, s->o.x, s->scratch);
    else
        delta_forward(&s->core, s->o.x, s->kept, s->scratch);
}

void delta_heads_backward(const struct delta_heads *s)
{
    delta_backward(&s->core, &s->grad, s->o.dx, s->kept, s->scratch);
}

/* ---- N states of every channel ----------------------------------------------------- */

/* A s, its exponential, a h, (s u) B, their sum, C h and its sum, for each of the N
 * numbers of each channel. */
static double selective_flops(const struct selective *core)
{
    return 7.0 * core->C * core->N;
}

struct selective_channels selective_layout(struct layout *m, struct act u,
                                           struct act step, struct act in, struct act out,
                                           struct selective core)
{
    const size_t n = (size_t)m->B * core.C;
    struct selective_channels s = {.o = act_keep(m, "o", core.C)};

    core.B = m->B, core.T = m->T;
    core.u = u.x, core.step = step.x, core.in = in.x, core.out = out.x, core.ld = in.ld;
    s.core = core;
    s.grad = (struct selective_grad){
        .du = u.dx, .dstep = step.dx, .din = in.dx, .dout = out.dx, .ld = in.ld,
        .drate = layout_grad(m, "drate", n * core.N), .dskip = layout_grad(m, "dskip", n),
    };
    s.kept = layout_save(m, "kept", selective_kept(&core));
    s.scratch = layout_grad(m, "scratch", selective_scratch(&core));
    s.state = layout_state(m, selective_state(&core));
    layout_elementwise(m, selective_flops(&core));
    return s;
}

void selective_channels_forward(const struct ctx *ctx, const struct selective_channels *s)
{
    if (ctx->state)
        selective_extend(&s->core, ctx->state, s->state, s->o.x);
    else
        selective_forward(&s->core, s->o.x, s->kept);
}

void selective_channels_backward(const struct selective_channels *s)
{
    selective_backward(&s->core, &s->grad, s->o.dx, s->kept, s->scratch);
}
