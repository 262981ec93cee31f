#include "model/mixer.h"

#include <math.h>
#include <string.h>

#define MIXER_ENTRY(name) &mixer_##name,
#define POSITION_ENTRY(name) &position_##name,

const struct mixer *const    mixers[] = {MIXERS(MIXER_ENTRY) NULL};
const struct position *const positions[] = {POSITIONS(POSITION_ENTRY) NULL};
const int                    n_mixers = sizeof mixers / sizeof *mixers - 1;

int mixer_params(const struct mixer_cfg *c, struct param *p)
{
    int n = c->mixer->params(c, p);

    return c->position->params ? n + c->position->params(c, p + n) : n;
}

/* Where the encoding's parameters begin. */
static int own_params(const struct mixer_cfg *c)
{
    struct param unused[MIXER_PARAMS];

    return c->position->params ? c->mixer->params(c, unused) : 0;
}

static void take_dtheta(struct mixer_layer *l)
{
    const struct mixer_cfg *c = l->ctx.cfg;
    int heads, dk;

    if (!c->position->backward || !pass_trains(l->of_encoding.mode))
        return;
    c->mixer->angles(c, &heads, &dk);
    l->n_dtheta = layout_tokens(&l->of_encoding) * heads * (dk / 2);
    l->dtheta = layout_grad(&l->of_encoding, "dtheta", l->n_dtheta);
}

void mixer_layout(struct mixer_layer *l, enum pass_mode mode, struct arena *kept,
                  struct arena *scratch)
{
    const struct ctx *x = &l->ctx;
    struct layout    *e = &l->of_encoding, *m = &l->of_mixer;
    int               own = own_params(x->cfg);

    *m = (struct layout){.mode = mode, .B = x->B, .T = x->T, .w = x->w, .kept = kept,
                         .scratch = scratch};
    *e = *m;
    e->w = x->w ? x->w + own : NULL;
    l->encoding = *x;
    l->encoding.w = e->w;
    l->encoding.dw = x->dw ? x->dw + own : NULL;
    l->encoding.acts = e->acts;
    l->ctx.acts = m->acts;
    take_dtheta(l);
    if (mode == PASS_EXTEND) {
        l->state = layout_work_bytes(e, "state", x->B * sizeof *l->state);
        l->inner = layout_work_bytes(e, "inner", x->B * sizeof *l->inner);
    }
    if (x->cfg->position->layout)
        x->cfg->position->layout(e, x->cfg);
    x->cfg->mixer->layout(m, x->cfg);
    l->inner_at = whole_lines(e->state);
    l->state_bytes = l->inner_at + whole_lines(m->state);
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

void mixer_sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    *s = (struct sizes){0};
    for (enum pass_mode mode = PASS_EXTEND; mode <= PASS_TRAIN; mode++) {
        struct mixer_layer l = {.ctx = {.cfg = c, .B = B, .T = T}};
        struct arena       kept = arena_over(NULL, 0), scratch = kept;

        mixer_layout(&l, mode, &kept, &scratch);
        s->kept = larger(s->kept, kept.used);
        s->scratch = larger(s->scratch, scratch.used);
        s->state = l.state_bytes;
    }
}

void mixer_forward(struct mixer_layer *l, int window, const real *x, real *y)
{
    const struct mixer_cfg *c = l->ctx.cfg;

    l->ctx.window = window;
    c->position->forward(&l->encoding, x);
    l->ctx.angles = l->encoding.angles;
    c->mixer->forward(&l->ctx, x, y);
}

void mixer_backward(struct mixer_layer *l, const real *x, const real *dy, real *dx)
{
    const struct mixer_cfg *c = l->ctx.cfg;

    if (l->dtheta)
        memset(l->dtheta, 0, l->n_dtheta * sizeof *l->dtheta);
    l->ctx.angles.dtheta = l->encoding.angles.dtheta = l->dtheta;
    c->mixer->backward(&l->ctx, x, dy, dx);
    if (c->position->backward)
        c->position->backward(&l->encoding, x, dx);
}

void mixer_extend(struct mixer_layer *l, void *const *state, const long *pos,
                  const real *x, real *y)
{
    const struct mixer_cfg *c = l->ctx.cfg;

    for (int b = 0; b < l->ctx.B; b++) {
        l->state[b] = (char *)state[b] + l->state_at;
        l->inner[b] = (char *)l->state[b] + l->inner_at;
    }
    l->ctx.pos = l->encoding.pos = pos;
    l->ctx.state = l->inner;
    c->position->extend(&l->encoding, l->state, x);
    l->ctx.angles = l->encoding.angles;
    c->mixer->forward(&l->ctx, x, y);
}

double mixer_flops(const struct mixer_cfg *c, int T, int window)
{
    return c->mixer->flops(c, T, window) + c->position->flops(c, T);
}

real param_step(struct rng *r)
{
    double step = 1e-3 * pow(100, rng_uniform(r));

    return (real)(step + log(-expm1(-step)));
}

void param_fill(const struct param *p, real *w, int layers, struct rng *r)
{
    size_t n = param_size(p);
    double input = sqrt(2.0 / (5.0 * (p->cols ? p->cols : 1)));

    for (size_t i = 0; i < n; i++)
        switch (p->init) {
        case INIT_ZERO:    w[i] = 0; break;
        case INIT_ONE:     w[i] = 1; break;
        case INIT_CONST:   w[i] = (real)p->a; break;
        case INIT_NORMAL:  w[i] = (real)(p->a * rng_normal(r)); break;
        case INIT_UNIFORM: w[i] = (real)(p->a * (2 * rng_uniform(r) - 1)); break;
        case INIT_INPUT:   w[i] = (real)(input * rng_normal(r)); break;
        case INIT_OUTPUT:
            w[i] = (real)(input / sqrt(2.0 * layers) * rng_normal(r));
            break;
        case INIT_OWN:     break;
        }
}

/* Tensor i draws from stream first + i, own initialisations from the streams
 * after the last. */
void mixer_init(const struct mixer_cfg *c, real *const *w, uint64_t seed, uint64_t first)
{
    struct param p[MIXER_PARAMS];
    int          own = c->mixer->params(c, p), n = mixer_params(c, p);
    struct rng   r;

    for (int i = 0; i < n; i++) {
        r = rng_open(seed, RNG_INIT, first + i);
        param_fill(&p[i], w[i], c->layers, &r);
    }
    r = rng_open(seed, RNG_INIT, first + MIXER_PARAMS);
    if (c->mixer->init)
        c->mixer->init(c, w, &r);
    r = rng_open(seed, RNG_INIT, first + MIXER_PARAMS + 1);
    if (c->position->init)
        c->position->init(c, w + own, &r);
}
