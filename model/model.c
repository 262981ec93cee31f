#include "model/model.h"

#include "model/kernels/arena.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EMBED };

/* Append one tensor, named where + its name; with m->param NULL only count. */
static void declare(struct model *m, const char *where, const struct param *is)
{
    if (m->param) {
        struct model_param *p = &m->param[m->n_param];

        p->is = *is;
        p->at = m->n;
        snprintf(p->name, sizeof p->name, "%s%s", where, is->name);
    }
    m->n += param_size(is);
    m->n_param++;
}

static void declare_block(struct model *m, int i)
{
    struct param p[BLOCK_PARAMS];
    char         block[32], mixer[32];
    int          n = block_params(&m->layer[i], m->cfg.mlp, p),
                 end = BLOCK_BEFORE + block_mixer_params(n, m->cfg.mlp);

    snprintf(block, sizeof block, "blocks.%d.", i);
    snprintf(mixer, sizeof mixer, "blocks.%d.mixer.", i);
    m->first[i] = m->n_param;
    for (int j = 0; j < n; j++)
        declare(m, j >= BLOCK_BEFORE && j < end ? mixer : block, &p[j]);
}

double model_loudness(const struct config *c)
{
    return c->copy > 0 ? sqrt(c->width) : 1;
}

/* Every tensor in order. */
static void declare_all(struct model *m)
{
    const struct config *c = &m->cfg;
    struct param embed = {"embed", c->vocab, c->width, INIT_NORMAL,
                          model_loudness(c) * c->embed_init / sqrt(c->width),
                          .decay = true};
    struct param norm = {"norm", c->width, 0, INIT_ONE};
    struct param head = {"head", c->vocab, c->width, INIT_INPUT, .decay = true};

    m->n = 0, m->n_param = 0;
    declare(m, "", &embed);
    for (int i = 0; i < c->layers; i++)
        declare_block(m, i);
    m->first[c->layers] = m->n_param;
    declare(m, "", &norm);
    if (!c->tied)
        declare(m, "", &head);
}

static void place(struct model *m, real *w)
{
    m->w = w;
    for (int i = 0; i < m->n_param; i++)
        m->wp[i] = w + m->param[i].at;
}

static int allocate(struct model *m)
{
    declare_all(m);
    m->param = calloc(m->n_param, sizeof *m->param);
    m->wp = calloc(m->n_param, sizeof *m->wp);
    m->pages_bytes = m->n * sizeof *m->w;
    m->pages = pages_alloc(m->pages_bytes);
    if (!m->param || !m->wp || !m->pages)
        return -1;
    declare_all(m);
    place(m, m->pages);
    return 0;
}

void model_hold(struct model *m, real *w, void *pages, size_t bytes)
{
    pages_free(m->pages, m->pages_bytes);
    m->pages = pages;
    m->pages_bytes = bytes;
    place(m, w);
}

enum fail model_open(struct model *m, const struct config *cfg, struct why *why)
{
    *m = (struct model){.cfg = *cfg};
    m->layer = calloc(cfg->layers, sizeof *m->layer);
    m->first = calloc(cfg->layers + 1, sizeof *m->first);
    if (m->layer && m->first) {
        for (int i = 0; i < cfg->layers; i++)
            config_layer(cfg, i, &m->layer[i]);
        if (allocate(m) == 0)
            return FAIL_NONE;
    }
    model_close(m);
    return fail(why, FAIL_MEMORY,
                "not enough memory for the model's parameters; "
                "take a smaller one (--size, layers, width)");
}

void model_unpack(struct model *m)
{
    if (m->packs)
        product_take_packed(NULL);
    pages_free(m->packs, m->packs_bytes);
    m->packs = NULL;
    m->packed.n = 0;
}

void model_close(struct model *m)
{
    pages_free(m->pages, m->pages_bytes);
    model_unpack(m);
    free(m->layer);
    free(m->first);
    free(m->param);
    free(m->wp);
    *m = (struct model){0};
}

static void init_mixer(struct model *m, int layer, uint64_t seed)
{
    real        *w[MIXER_PARAMS];
    struct block b = model_block(m, layer, NULL);
    int          at = m->first[layer] + BLOCK_BEFORE;

    for (int j = 0; j < b.n_mixer; j++)
        w[j] = m->w + m->param[at + j].at;
    mixer_init(b.cfg, w, seed, (uint64_t)(layer + 1) << 32);
}

static void scale(real *w, size_t n, double by)
{
    for (size_t i = 0; i < n; i++)
        w[i] *= (real)by;
}

/* Parameter `name` of the last block's mixer. */
static real *last_mixers(const struct model *m, const char *name)
{
    int i = m->first[m->cfg.layers - 1] + BLOCK_BEFORE;

    while (strcmp(m->param[i].is.name, name))
        i++;
    return m->w + m->param[i].at;
}

/* The last block's first head begins as a copier: rows of wv of length 1, and wo their
 * transpose, `copy` times. Attention to a word then says that word, and where to look is
 * all that is left to learn; to learn both at once takes far longer. */
static void init_copier(struct model *m)
{
    const size_t C = m->cfg.width, n = C / m->layer[m->cfg.layers - 1].H;
    real        *wv = last_mixers(m, "wv"), *wo = last_mixers(m, "wo");

    for (size_t i = 0; i < n; i++) {
        double length = 0;

        for (size_t j = 0; j < C; j++)
            length += (double)wv[i * C + j] * (double)wv[i * C + j];
        scale(wv + i * C, C, 1 / sqrt(length));
        for (size_t j = 0; j < C; j++)
            wo[j * C + i] = (real)m->cfg.copy * wv[i * C + j];
    }
}

void model_init(struct model *m, uint64_t seed)
{
    struct why unread;

    for (int i = 0; i < m->n_param; i++) {
        struct rng r = rng_open(seed, RNG_INIT, i);

        param_fill(&m->param[i].is, m->w + m->param[i].at, m->cfg.layers, &r);
    }
    for (int i = 0; i < m->cfg.layers; i++)
        init_mixer(m, i, seed);
    for (int i = 0; i < m->n_param; i++)
        if (m->param[i].is.init == INIT_OUTPUT)
            scale(m->w + m->param[i].at, param_size(&m->param[i].is), m->cfg.out_init);
    scale(m->w + m->param[m->first[m->cfg.layers]].at, m->cfg.width,
          1 / model_loudness(&m->cfg));
    if (m->cfg.copy > 0 && !config_check_start(&m->cfg, &unread))
        init_copier(m);
}

/* The parameter of m that is named as p and has its shape, or NULL. */
static const struct model_param *counterpart(const struct model *m,
                                             const struct model_param *p)
{
    for (int i = 0; i < m->n_param; i++) {
        const struct model_param *q = &m->param[i];

        if (!strcmp(q->name, p->name) && q->is.rows == p->is.rows &&
            q->is.cols == p->is.cols)
            return q;
    }
    return NULL;
}

void model_take(struct model *m, const struct model *from, bool *taken)
{
    for (int i = 0; i < m->n_param; i++) {
        const struct model_param *q = counterpart(from, &m->param[i]);

        if (taken)
            taken[i] = q != NULL;
        if (q)
            memcpy(m->w + m->param[i].at, from->w + q->at,
                   param_size(&q->is) * sizeof *m->w);
    }
}

/* ---- fewer bits -------------------------------------------------------------------- */

static bool is_packable(const struct param *p)
{
    return !p->buffer && !p->direct && p->cols && p->cols % Q8_BLOCK == 0;
}

/* Lay out the table of packed matrices, and them behind it; returns the bytes. Those that
 * lie side by side do so here too: a product may go over several. */
static size_t lay_out_packed(struct model *m, enum packed type, struct arena a)
{
    struct packed_matrix *list = arena_bytes(&a, "list", m->n_param * sizeof *list);
    unsigned char        *data = arena_bytes(&a, "matrices", packed_bytes(type, m->n));

    m->packed = (struct packed_weights){type, 0, list, gemm_rounds(type)};
    for (int i = 0; list && i < m->n_param; i++) {
        const struct param *p = &m->param[i].is;

        if (!is_packable(p))
            continue;
        list[m->packed.n++] = (struct packed_matrix){m->wp[i], data, p->rows, p->cols};
        data += packed_bytes(type, param_size(p));
    }
    return a.used;
}

static void pack(enum packed type, const struct packed_matrix *to)
{
    const size_t blocks = (size_t)to->rows * to->cols / Q8_BLOCK,
                 bytes = packed_bytes(type, Q8_BLOCK);

    #pragma omp parallel for schedule(static)
    for (size_t i = 0; i < blocks; i++) {
        float block[Q8_BLOCK];

        for (int j = 0; j < Q8_BLOCK; j++)
            block[j] = (float)to->w[i * Q8_BLOCK + j];
        packed_write(type, (unsigned char *)to->data + i * bytes, block, Q8_BLOCK);
    }
}

static enum fail pack_all(struct model *m, enum packed type, struct why *why)
{
    m->packs_bytes = lay_out_packed(m, type, arena_over(NULL, 0));
    m->packs = pages_alloc(m->packs_bytes);
    m->packed.n = 0;
    if (!m->packs)
        return fail(why, FAIL_MEMORY, "not enough memory for the weights in %s",
                    packed_name(type));
    lay_out_packed(m, type, arena_over(m->packs, m->packs_bytes));
    for (int i = 0; i < m->packed.n; i++)
        pack(type, &m->packed.matrix[i]);
    return FAIL_NONE;
}

enum fail model_pack(struct model *m, const char *type, struct why *why)
{
    static const enum packed known[] = {PACKED_BF16, PACKED_Q8_0};

    model_unpack(m);
    for (int i = 0; type && i < 2; i++)
        if (!strcmp(type, packed_name(known[i])))
            return pack_all(m, known[i], why);
    return !type || !strcmp(type, packed_name(PACKED_F32))
               ? FAIL_NONE
               : fail(why, FAIL_USAGE, "--weights %s: they are f32, bf16 or q8_0", type);
}

/* ---- sizes ------------------------------------------------------------------------- */

size_t model_count(const struct model *m)
{
    size_t n = 0;

    for (int i = 0; i < m->n_param; i++)
        n += m->param[i].is.buffer ? 0 : param_size(&m->param[i].is);
    return n;
}

struct block model_block(const struct model *m, int i, real *const *dwp)
{
    return (struct block){
        .cfg = &m->layer[i],
        .mlp = m->cfg.mlp,
        .n_mixer = block_mixer_params(m->first[i + 1] - m->first[i], m->cfg.mlp),
        .w = m->wp + m->first[i],
        .dw = dwp ? dwp + m->first[i] : NULL,
    };
}

bool model_of_mixer(const struct model *m, int i)
{
    return strstr(m->param[i].name, ".mixer.") != NULL;
}

const real *model_head(const struct model *m)
{
    return m->cfg.tied ? m->wp[EMBED] : m->wp[m->n_param - 1];
}

double model_flops(const struct model *m, int T, int window)
{
    const struct config *c = &m->cfg;
    double f = 2.0 * T * c->width * c->vocab;

    for (int i = 0; i < c->layers; i++)
        f += mixer_flops(&m->layer[i], T, window) + 6.0 * T * c->width * c->mlp;
    return f;
}
