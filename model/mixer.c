#include "model/mixer.h"

#include "model/arena.h"

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

/* How memory is parted between an encoding and its mixer.
 *
 *     kept      struct angles | the encoding's | the mixer's
 *     scratch   dtheta        | the encoding's | the mixer's        dtheta only when trained
 *     state     the encoding's | the mixer's
 */
struct parts {
    struct angles *angles;
    real          *dtheta;
    size_t         n_dtheta;
    void          *kept[2], *scratch[2];
    size_t         state;               // where the mixer's begins
    struct sizes   sizes;
};

static void carve(struct parts *p, const struct mixer_cfg *c, int B, int T, void *kept,
                  void *scratch)
{
    struct sizes e = {0}, m = {0};
    struct arena k = arena_over(kept), s = arena_over(scratch), st = arena_over(NULL);
    int          heads, dk;

    *p = (struct parts){0};
    c->position->sizes(c, B, T, &e);
    c->mixer->sizes(c, B, T, &m);
    if (c->position->backward) {
        c->mixer->angles(c, &heads, &dk);
        p->n_dtheta = (size_t)B * T * heads * (dk / 2);
    }
    p->angles = arena_bytes(&k, sizeof *p->angles);
    p->kept[0] = arena_bytes(&k, e.kept);
    p->kept[1] = arena_bytes(&k, m.kept);
    p->dtheta = arena_reals(&s, p->n_dtheta);
    p->scratch[0] = arena_bytes(&s, e.scratch);
    p->scratch[1] = arena_bytes(&s, m.scratch);
    arena_bytes(&st, e.state);
    p->state = st.used;
    arena_bytes(&st, m.state);
    p->sizes = (struct sizes){k.used, s.used, st.used};
}

void mixer_sizes(const struct mixer_cfg *c, int B, int T, struct sizes *s)
{
    struct parts p;

    carve(&p, c, B, T, NULL, NULL);
    *s = p.sizes;
}

/* ctx as the encoding sees it. */
static struct ctx encoding_ctx(const struct ctx *ctx, const struct parts *p)
{
    struct param unused[MIXER_PARAMS];
    int          n = ctx->cfg->position->params ? ctx->cfg->mixer->params(ctx->cfg, unused) : 0;
    struct ctx   e = *ctx;

    e.kept = p->kept[0];
    e.scratch = p->scratch[0];
    e.w += n;
    if (e.dw)
        e.dw += n;
    return e;
}

static struct ctx inner_ctx(const struct ctx *ctx, const struct parts *p, struct angles angles)
{
    struct ctx m = *ctx;

    m.kept = p->kept[1];
    m.scratch = p->scratch[1];
    m.angles = angles;
    return m;
}

void mixer_forward(struct ctx *ctx, const real *x, real *y)
{
    struct parts p;
    struct ctx   e, m;

    carve(&p, ctx->cfg, ctx->B, ctx->T, ctx->kept, ctx->scratch);
    e = encoding_ctx(ctx, &p);
    ctx->cfg->position->forward(&e, x);
    *p.angles = e.angles;
    m = inner_ctx(ctx, &p, e.angles);
    ctx->cfg->mixer->forward(&m, x, y);
}

void mixer_backward(struct ctx *ctx, const real *x, const real *dy, real *dx)
{
    struct parts p;
    struct ctx   e, m;

    carve(&p, ctx->cfg, ctx->B, ctx->T, ctx->kept, ctx->scratch);
    e = encoding_ctx(ctx, &p);
    e.angles = *p.angles;
    if (p.n_dtheta) {
        memset(p.dtheta, 0, p.n_dtheta * sizeof *p.dtheta);
        e.angles.dtheta = p.dtheta;
    }
    m = inner_ctx(ctx, &p, e.angles);
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
        struct parts p;
        struct ctx   part = *ctx, e, m;

        part.B = n;
        part.pos = ctx->pos + b;
        carve(&p, ctx->cfg, n, ctx->T, NULL, ctx->scratch);
        for (int i = 0; i < n; i++)
            inner[i] = (char *)state[b + i] + p.state;
        e = encoding_ctx(&part, &p);
        ctx->cfg->position->extend(&e, state + b, x + (size_t)b * ctx->T * C);
        m = inner_ctx(&part, &p, e.angles);
        ctx->cfg->mixer->extend(&m, inner, x + (size_t)b * ctx->T * C, y + (size_t)b * ctx->T * C);
    }
}

int mixer_decay(struct ctx *ctx, struct range *r)
{
    struct parts p;
    struct ctx   m;

    if (!ctx->cfg->mixer->decay)
        return 0;
    carve(&p, ctx->cfg, ctx->B, ctx->T, ctx->kept, ctx->scratch);
    m = inner_ctx(ctx, &p, *p.angles);
    return ctx->cfg->mixer->decay(&m, r);
}

double mixer_flops(const struct mixer_cfg *c, int T, int window)
{
    return c->mixer->flops(c, T, window) + c->position->flops(c, T);
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
        case INIT_OUTPUT:  w[i] = (real)(input / sqrt(2.0 * layers) * rng_normal(r)); break;
        case INIT_OWN:     break;
        }
}

/* Tensor i draws from stream first + i, own initialisations from the streams after the last. */
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
