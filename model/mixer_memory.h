/* The buffers of a mixer or of a position encoding.
 *
 * A mixer names its buffers in a struct of its own and lays them out in one walk,
 * carve(), once for all passes over (B, T). How long a buffer must live is said by the
 * function that takes it:
 *
 *                   train       score       extend
 *     room_keep     kept        kept        scratch      made by forward for backward
 *     room_save     kept        kept        none         the same, of no use in extend
 *     room_work     scratch     scratch     scratch      made anew by every call
 *     room_back     scratch     none        none         of backward
 *     room_flow     none        none        scratch      of extend
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

enum { ROOM_NAMES = 1024 };

struct room {
    enum pass_mode mode;
    int            B, T;
    const real *const *w;                   // parameters; NULL when it measures
    struct arena  *kept, *scratch;
    size_t         state;                   // bytes of a sequence's state so far
    alignas(16) char names[ROOM_NAMES];     // the struct that carve() fills
};

/* That struct. */
static inline void *room_names(struct room *m, size_t bytes)
{
    assert(bytes <= ROOM_NAMES);
    (void)bytes;
    return m->names;
}

static inline const real *room_param(const struct room *m, int i)
{
    return m->w ? m->w[i] : NULL;
}

static inline size_t room_rows(const struct room *m)
{
    return (size_t)m->B * m->T;
}

static inline void *room_work_bytes(struct room *m, size_t bytes)
{
    return arena_bytes(m->scratch, bytes);
}

static inline void *room_back_bytes(struct room *m, size_t bytes)
{
    return pass_trains(m->mode) ? room_work_bytes(m, bytes) : NULL;
}

static inline real *room_save(struct room *m, size_t n)
{
    return m->mode == PASS_EXTEND ? NULL : arena_reals(m->kept, n);
}

static inline real *room_work(struct room *m, size_t n)
{
    return room_work_bytes(m, n * sizeof(real));
}

static inline real *room_keep(struct room *m, size_t n)
{
    return m->mode == PASS_EXTEND ? room_work(m, n) : room_save(m, n);
}

static inline real *room_back(struct room *m, size_t n)
{
    return room_back_bytes(m, n * sizeof(real));
}

static inline real *room_flow(struct room *m, size_t n)
{
    return m->mode == PASS_EXTEND ? room_work(m, n) : NULL;
}

/* p + n, also where nothing is laid out and p is NULL. */
static inline real *room_at(real *p, size_t n)
{
    return p ? p + n : NULL;
}

/* Where the next part of a sequence's state begins: n reals, in reals from its start;
 * or bytes from a cache line on, in bytes. */
static inline size_t room_state(struct room *m, size_t n)
{
    size_t at = m->state;

    m->state += n * sizeof(real);
    return at / sizeof(real);
}

static inline size_t room_state_bytes(struct room *m, size_t bytes)
{
    size_t at = whole_lines(m->state);

    m->state = at + bytes;
    return at;
}

#endif
