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

/* The rooms of an encoding and of its mixer. One goes on where the other ends:
 *
 *     kept      struct angles | the encoding's | the mixer's
 *     scratch   dtheta        | the encoding's | the mixer's    dtheta when trained
 *     state     the encoding's | the mixer's, each from a cache line on
 */
struct rooms {
    struct room    encoding, mixer;
    struct angles *angles;
    real          *dtheta;
    size_t         n_dtheta;
};

/* Where the encoding's parameters begin. */
static int own_params(const struct mixer_cfg *c)
{
    struct param unused[MIXER_PARAMS];

    return c->position->params ? c->mixer->params(c, unused) : 0;
}

static void carve(struct rooms *r, const struct ctx *ctx, enum call call)
{
    const struct mixer_cfg *c = ctx->cfg;
    struct room *e = &r->encoding;
    int          heads, dk;

    *r = (struct rooms){.encoding = {
        .call = call, .B = ctx->B, .T = ctx->T,
        .w = ctx->w ? ctx->w + own_params(c) : NULL, .kept = arena_over(ctx->kept),
        .scratch = arena_over(ctx->scratch),
    }};
    r->angles = arena_bytes(&e->kept, sizeof *r->angles);
    if (c->position->backward && call == BACKWARD) {
        c->mixer->angles(c, &heads, &dk);
        r->n_dtheta = room_rows(e) * heads * (dk / 2);
        r->dtheta = room_back(e, r->n_dtheta);
    }
    if (c->position->carve)
        c->position->carve(e, c);
    r->mixer = *e;
    r->mixer.state = 0;
    r->mixer.w = ctx->w;
    c->mixer->carve(&r->mixer, c);
}

void mixer_sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct rooms r;

    *s = (struct sizes){0};
    for (enum call call = FORWARD; call <= EXTEND; call++) {
        carve(&r, &(struct ctx){.cfg = c, .B = B, .T = T}, call);
        s->kept = r.mixer.kept.used > s->kept ? r.mixer.kept.used : s->kept;
        s->scratch = r.mixer.scratch.used > s->scratch ? r.mixer.scratch.used
                                                       : s->scratch;
    }
    s->state = whole_lines(r.encoding.state) + whole_lines(r.mixer.state);
}

/* ctx as the encoding sees it. */
static struct ctx encoding_ctx(const struct ctx *ctx, struct rooms *r)
{
    struct ctx e = *ctx;

    e.acts = r->encoding.names;
    e.w = r->encoding.w;
    if (e.dw)
        e.dw += own_params(ctx->cfg);
    return e;
}

static struct ctx inner_ctx(const struct ctx *ctx, struct rooms *r, struct angles angles)
{
    struct ctx m = *ctx;

    m.acts = r->mixer.names;
    m.angles = angles;
    return m;
}

void mixer_forward(struct ctx *ctx, const real *x, real *y)
{
    struct rooms r;
    struct ctx   e, m;

    carve(&r, ctx, FORWARD);
    e = encoding_ctx(ctx, &r);
    ctx->cfg->position->forward(&e, x);
    *r.angles = e.angles;
    m = inner_ctx(ctx, &r, e.angles);
    ctx->cfg->mixer->forward(&m, x, y);
}

void mixer_backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct rooms r;
    struct ctx   e, m;

    carve(&r, ctx, BACKWARD);
    e = encoding_ctx(ctx, &r);
    e.angles = *r.angles;
    if (r.n_dtheta) {
        memset(r.dtheta, 0, r.n_dtheta * sizeof *r.dtheta);
        e.angles.dtheta = r.dtheta;
    }
    m = inner_ctx(ctx, &r, e.angles);
    ctx->cfg->mixer->backward(&m, x, dy, dx);
    if (ctx->cfg->position->backward)
        ctx->cfg->position->backward(&e, x, dx);
}

void mixer_extend(struct ctx *ctx, void *const *state, const real *x, real *y)
{
    enum { AT_ONCE = 64 };
    const size_t C = ctx->cfg->C;

    for (int b = 0; b < ctx->B; b += AT_ONCE) {
        int          n = ctx->B - b < AT_ONCE ? ctx->B - b : AT_ONCE;
        void        *inner[AT_ONCE];
        struct rooms r;
        struct ctx   part = *ctx, e, m;

        part.B = n;
        part.pos = ctx->pos + b;
        carve(&r, &part, EXTEND);
        for (int i = 0; i < n; i++)
            inner[i] = (char *)state[b + i] + whole_lines(r.encoding.state);
        e = encoding_ctx(&part, &r);
        ctx->cfg->position->extend(&e, state + b, x + (size_t)b * ctx->T * C);
        m = inner_ctx(&part, &r, e.angles);
        m.state = inner;
        ctx->cfg->mixer->forward(&m, x + (size_t)b * ctx->T * C,
                                 y + (size_t)b * ctx->T * C);
    }
}

int mixer_decay(struct ctx *ctx, struct range *r)
{
    struct rooms p;
    struct ctx   m;

    if (!ctx->cfg->mixer->decay)
        return 0;
    carve(&p, ctx, FORWARD);
    m = inner_ctx(ctx, &p, *p.angles);
    return ctx->cfg->mixer->decay(&m, r);
}

void mixer_zeros(const struct ctx *ctx, struct zeros *sum)
{
    struct rooms r;
    struct ctx   m;

    if (!ctx->cfg->mixer->zeros)
        return;
    carve(&r, ctx, FORWARD);
    m = inner_ctx(ctx, &r, *r.angles);
    ctx->cfg->mixer->zeros(&m, sum);
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
