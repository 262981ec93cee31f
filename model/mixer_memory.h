/* What a mixer or a position encoding is made of, declared in one walk, layout(): its
 * weights, its buffers and its state, and what it costs.
 *
 * The walk runs once for all passes over (B, T) and leaves its pointers in a struct of
 * the mixer's own. It also runs without memory, to measure, and to tell names and shapes.
 * How long a buffer must live is said by the function that takes it:
 *
 *                       train       score       extend
 *     layout_keep       kept        kept        scratch      made by forward for backward
 *     layout_save       kept        kept        none         the same, unused in extend
 *     layout_work       scratch     scratch     scratch      made anew by every call
 *     layout_grad       scratch     none        none         of backward
 *     layout_stream     none        none        scratch      of extend
 *
 * What is none is NULL; so is everything where the walk only measures.
 */
#ifndef WEFT_MIXER_MEMORY_H
#define WEFT_MIXER_MEMORY_H

#include "model/kernels/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdbool.h>

/* ---- weights ----------------------------------------------------------------------- */

enum { MIXER_PARAMS = 32 };

enum init {
    INIT_INPUT,         // N(0, sqrt(2 / (5 cols)))
    INIT_OUTPUT,        // the same / sqrt(2 layers)
    INIT_ZERO,
    INIT_ONE,
    INIT_CONST,         // a
    INIT_NORMAL,        // N(0, a)
    INIT_UNIFORM,       // U(-a, a)
    INIT_OWN,           // by the mixer's init()
};

/* A tensor (rows, cols), row-major; a vector has cols == 0. Tensors lie in memory in
 * the order of declaration without gaps, so neighbours with equal cols may be used
 * as one matrix. */
struct param {
    const char *name;
    int         rows, cols;
    enum init   init;
    double      a;              // of INIT_CONST, INIT_NORMAL, INIT_UNIFORM
    bool        decay;          // weight decay applies
    bool        buffer;         // saved, but no gradient, no moments, no clipping
    bool        direct;         // never read by product_forward: in no fewer bits
};

static inline size_t param_size(const struct param *p)
{
    return (size_t)p->rows * (p->cols ? p->cols : 1);
}

/* A declared tensor in its place. Only init() writes w. */
struct weight {
    real *w, *dw;               // dw, to be added to: NULL where nothing is trained
    real *part;                 // (B, n) of layout_summed, in backward
};

/* w from element `at` on, also where it is not in place. */
static inline struct weight weight_from(struct weight w, size_t at)
{
    return (struct weight){.w = w.w ? w.w + at : NULL, .dw = w.dw ? w.dw + at : NULL};
}

/* ---- the walk ---------------------------------------------------------------------- */

/* What a pass over a model is for. */
enum pass_mode {
    PASS_EXTEND,        // more tokens of running sequences
    PASS_SCORE,         // forward alone
    PASS_TRAIN,         // forward, then backward
    PASS_RECOMPUTE,     // the same, keeping only each block's input between the two
};

static inline bool pass_trains(enum pass_mode mode)
{
    return mode >= PASS_TRAIN;
}

enum { LAYOUT_ACTS = 2048 };

struct layout {
    enum pass_mode mode;
    int            B, T;
    int            C;                       // width of the layer's x and y
    int            window;                  // drawn, see smaller_window; 0: none
    real *const   *w, *const *dw;           // weights in order; NULL: none in place
    struct arena  *kept, *scratch;

    struct param  *params;                  // (MIXER_PARAMS) declared; NULL: not wanted
    int            n_params;                // so far
    size_t         state;                   // bytes of a sequence's state so far
    double         flops;                   // of forward over one sequence, so far; a
                                            // multiply-add counts 2
    double         elementwise;             // what of them is in no matrix product
    double         paper_state;             // numbers of a sequence's state, by the
                                            // paper's formula: state is held to it
    int            heads, dk;               // that an encoding may rotate
    const char    *problem;                 // why this configuration cannot work; or NULL
    alignas(16) char acts[LAYOUT_ACTS];     // the struct that layout() fills
};

/* That struct. */
static inline void *layout_acts(struct layout *m, size_t bytes)
{
    assert(bytes <= LAYOUT_ACTS);
    (void)bytes;
    return m->acts;
}

static inline size_t layout_tokens(const struct layout *m)
{
    return (size_t)m->B * m->T;
}

/* The next tensor. */
static inline struct weight layout_weight(struct layout *m, struct param p)
{
    const int i = m->n_params++;

    assert(i < MIXER_PARAMS);
    if (m->params)
        m->params[i] = p;
    return (struct weight){.w = m->w ? m->w[i] : NULL, .dw = m->dw ? m->dw[i] : NULL};
}

/* FLOPs of a token; those that are in no matrix product. */
static inline void layout_flops(struct layout *m, double n)
{
    m->flops += m->T * n;
}

static inline void layout_elementwise(struct layout *m, double n)
{
    m->elementwise += m->T * n;
    layout_flops(m, n);
}

/* A matrix that a token is multiplied by once, and to which weight decay applies; a
 * vector, to which it does not. */
static inline struct weight layout_matrix(struct layout *m, const char *name, int rows,
                                          int cols, enum init init)
{
    layout_flops(m, 2.0 * rows * cols);
    return layout_weight(m, (struct param){name, rows, cols, init, .decay = true});
}

static inline struct weight layout_vector(struct layout *m, const char *name, int n,
                                          enum init init)
{
    return layout_weight(m, (struct param){name, n, 0, init});
}

/* A position encoding may rotate q and k: key heads and their width. */
static inline void layout_rotates(struct layout *m, int heads, int dk)
{
    m->heads = heads, m->dk = dk;
}

/* A configuration without this cannot work; the walk goes on. */
static inline void layout_require(struct layout *m, bool holds, const char *otherwise)
{
    if (!holds && !m->problem)
        m->problem = otherwise;
}

/* ---- buffers ----------------------------------------------------------------------- */

static inline void *layout_work_bytes(struct layout *m, const char *name, size_t bytes)
{
    return arena_bytes(m->scratch, name, bytes);
}

static inline void *layout_grad_bytes(struct layout *m, const char *name, size_t bytes)
{
    return pass_trains(m->mode) ? layout_work_bytes(m, name, bytes) : NULL;
}

static inline real *layout_save(struct layout *m, const char *name, size_t n)
{
    return m->mode == PASS_EXTEND ? NULL : arena_reals(m->kept, name, n);
}

static inline real *layout_work(struct layout *m, const char *name, size_t n)
{
    return arena_reals(m->scratch, name, n);
}

static inline real *layout_keep(struct layout *m, const char *name, size_t n)
{
    return m->mode == PASS_EXTEND ? layout_work(m, name, n) : layout_save(m, name, n);
}

static inline real *layout_grad(struct layout *m, const char *name, size_t n)
{
    return layout_grad_bytes(m, name, n * sizeof(real));
}

static inline real *layout_stream(struct layout *m, const char *name, size_t n)
{
    return m->mode == PASS_EXTEND ? layout_work(m, name, n) : NULL;
}

/* A vector of whose gradient each sequence has a sum of its own, part, for add_parts. */
static inline struct weight layout_summed(struct layout *m, const char *name, int n,
                                          enum init init)
{
    struct weight w = layout_vector(m, name, n, init);

    w.part = layout_grad(m, name, (size_t)m->B * n);
    return w;
}

/* p + n, also where nothing is laid out and p is NULL. */
static inline real *layout_at(real *p, size_t n)
{
    return p ? p + n : NULL;
}

/* Where the next part of a sequence's state begins, in reals from its start: a part of n
 * reals, or of n doubles. */
static inline size_t layout_state(struct layout *m, size_t n)
{
    size_t at = m->state;

    m->state += n * sizeof(real);
    return at / sizeof(real);
}

static inline size_t layout_state_doubles(struct layout *m, size_t n)
{
    m->state = whole_lines(m->state);
    return layout_state(m, n * sizeof(double) / sizeof(real));
}

#endif
