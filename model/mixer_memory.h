/* The buffers of a mixer or of a position encoding.
 *
 * A mixer has a struct of buffers of its own and lays them out in one walk, layout(),
 * once for all passes over (B, T). How long a buffer must live is said by the function
 * that takes it:
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

enum { LAYOUT_ACTS = 1024 };

struct layout {
    enum pass_mode mode;
    int            B, T;
    const real *const *w;                   // parameters; NULL when it measures
    struct arena  *kept, *scratch;
    size_t         state;                   // bytes of a sequence's state so far
    alignas(16) char acts[LAYOUT_ACTS];     // the struct that layout() fills
};

/* That struct. */
static inline void *layout_acts(struct layout *m, size_t bytes)
{
    assert(bytes <= LAYOUT_ACTS);
    (void)bytes;
    return m->acts;
}

static inline const real *layout_param(const struct layout *m, int i)
{
    return m->w ? m->w[i] : NULL;
}

static inline size_t layout_tokens(const struct layout *m)
{
    return (size_t)m->B * m->T;
}

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
