#include "model/mixer_instruments.h"

#include <math.h>
#include <string.h>

#define MIXER_ENTRY(name) &mixer_##name,
#define POSITION_ENTRY(name) &position_##name,

const struct mixer *const    mixers[] = {MIXERS(MIXER_ENTRY) NULL};
const struct position *const positions[] = {POSITIONS(POSITION_ENTRY) NULL};
const int                    n_mixers = sizeof mixers / sizeof *mixers - 1;

/* ---- what a layer says of itself --------------------------------------------------- */

/* A walk without memory, over one sequence of T tokens with this window drawn. params and
 * w as in struct layout, or NULL. */
static struct layout ask(void (*walk)(struct layout *, const struct mixer_cfg *),
                         const struct mixer_cfg *c, int T, int window,
                         struct param *params, real *const *w)
{
    struct arena  kept = arena_over(NULL, 0), scratch = kept;
    struct layout m = {.mode = PASS_EXTEND, .B = 1, .T = T, .C = c->C, .window = window,
                       .w = w, .kept = &kept, .scratch = &scratch, .params = params};

    if (walk)
        walk(&m, c);
    m.kept = m.scratch = NULL;
    return m;
}

static struct layout ask_mixer(const struct mixer_cfg *c)
{
    return ask(c->mixer->layout, c, 1, 0, NULL, NULL);
}

const char *mixer_problem(const struct mixer_cfg *c)
{
    return ask_mixer(c).problem;
}

void mixer_angles(const struct mixer_cfg *c, int *heads, int *dk)
{
    struct layout m = ask_mixer(c);

    *heads = m.heads;
    *dk = m.dk;
}

int mixer_own_params(const struct mixer_cfg *c)
{
    return ask_mixer(c).n_params;
}

int mixer_params(const struct mixer_cfg *c, struct param *p)
{
    int n = ask(c->mixer->layout, c, 1, 0, p, NULL).n_params;

    return n + ask(c->position->layout, c, 1, 0, p + n, NULL).n_params;
}

double mixer_flops(const struct mixer_cfg *c, int T, int window)
{
    return ask(c->mixer->layout, c, T, window, NULL, NULL).flops +
           ask(c->position->layout, c, T, window, NULL, NULL).flops;
}

double mixer_elementwise(const struct mixer_cfg *c, int T)
{
    return ask(c->mixer->layout, c, T, 0, NULL, NULL).elementwise;
}

double mixer_paper_state(const struct mixer_cfg *c)
{
    return ask_mixer(c).paper_state;
}

/* ---- memory ------------------------------------------------------------------------ */

static void take_dtheta(struct mixer_layer *l)
{
    const struct mixer_cfg *c = l->ctx.cfg;
    int heads, dk;

    if (!c->position->backward || !pass_trains(l->of_encoding.mode))
        return;
    mixer_angles(c, &heads, &dk);
    l->n_dtheta = layout_tokens(&l->of_encoding) * heads * (dk / 2);
    l->dtheta = layout_grad(&l->of_encoding, "dtheta", l->n_dtheta);
}

/* Weights are written by mixer_init alone. */
static struct layout layout_over(const struct mixer_layer *l, enum pass_mode mode,
                                 struct arena *kept, struct arena *scratch, int first)
{
    const struct ctx *x = &l->ctx;

    return (struct layout){
        .mode = mode, .B = x->B, .T = x->T, .C = x->cfg->C, .kept = kept,
        .scratch = scratch, .w = l->w ? (real *const *)l->w + first : NULL,
        .dw = l->dw ? l->dw + first : NULL,
    };
}

void mixer_layout(struct mixer_layer *l, enum pass_mode mode, struct arena *kept,
                  struct arena *scratch)
{
    const struct mixer_cfg *c = l->ctx.cfg;
    struct layout          *e = &l->of_encoding, *m = &l->of_mixer;
    const int               own = mixer_own_params(c);

    *m = layout_over(l, mode, kept, scratch, 0);
    *e = layout_over(l, mode, kept, scratch, own);
    l->encoding = l->ctx;
    l->encoding.acts = e->acts;
    l->ctx.acts = m->acts;
    take_dtheta(l);
    if (mode == PASS_EXTEND) {
        l->state = layout_work_bytes(e, "state", m->B * sizeof *l->state);
        l->inner = layout_work_bytes(e, "inner", m->B * sizeof *l->inner);
    }
    if (c->position->layout)
        c->position->layout(e, c);
    c->mixer->layout(m, c);
    assert(m->n_params == own);
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

/* ---- the calls --------------------------------------------------------------------- */

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

/* ---- initial weights --------------------------------------------------------------- */

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
    int          n = mixer_params(c, p);
    struct rng   r;

    for (int i = 0; i < n; i++) {
        r = rng_open(seed, RNG_INIT, first + i);
        param_fill(&p[i], w[i], c->layers, &r);
    }
    r = rng_open(seed, RNG_INIT, first + MIXER_PARAMS);
    if (c->mixer->init) {
        struct layout m = ask(c->mixer->layout, c, 1, 0, NULL, w);

        c->mixer->init(c, m.acts, &r);
    }
}
