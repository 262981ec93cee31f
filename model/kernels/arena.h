/* One walk measures and carves memory: the same function lays buffers out from a base,
 * or, with base NULL, only counts. Every buffer starts on a cache line. */
#ifndef WEFT_ARENA_H
#define WEFT_ARENA_H

#include "model/kernels/real.h"

#include <stddef.h>

struct arena {
    char  *base;        // NULL: only count
    size_t used;        // bytes
};

/* bytes, rounded up to whole cache lines. */
static inline size_t whole_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static inline struct arena arena_over(void *base)
{
    return (struct arena){base, 0};
}

static inline void *arena_bytes(struct arena *a, size_t bytes)
{
    void *p = a->base ? a->base + a->used : NULL;

    a->used += whole_lines(bytes);
    return p;
}

static inline real *arena_reals(struct arena *a, size_t n)
{
    return arena_bytes(a, n * sizeof(real));
}

/* Zeroed pages straight from the system, huge where it can; NULL when there are none. */
void *pages_alloc(size_t bytes);
void  pages_free(void *p, size_t bytes);        // NULL is fine

#endif
