/* One walk measures and lays out memory: the same function takes its buffers from an
 * arena that lies over memory, or from one over NULL, which only counts.
 *
 *     struct arena a = arena_over(NULL, 0);       // measure
 *     lay_out(&buffers, &a);
 *     memory = pages_alloc(a.used);
 *     a = arena_over(memory, a.used);             // lay out
 *     lay_out(&buffers, &a);
 *
 * Every buffer starts on a cache line. A buffer that does not fit is a mistake in the
 * program, which ends with the buffer's name on stderr and SIGABRT. Where somebody else
 * sees to the end, as for the parts of one buffer, the size is SIZE_MAX.
 */
#ifndef WEFT_ARENA_H
#define WEFT_ARENA_H

#include "model/kernels/real.h"

#include <stddef.h>
#include <stdint.h>

struct arena {
    char  *base;        // NULL: only count
    size_t size, used;  // bytes
};

/* bytes, rounded up to whole cache lines. */
static inline size_t whole_lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static inline struct arena arena_over(void *base, size_t bytes)
{
    return (struct arena){base, base ? bytes : SIZE_MAX, 0};
}

/* The next bytes of a, or the end of the program. NULL where a only counts. */
void *arena_bytes(struct arena *a, const char *name, size_t bytes);

static inline real *arena_reals(struct arena *a, const char *name, size_t n)
{
    return arena_bytes(a, name, n * sizeof(real));
}

/* Zeroed pages straight from the system, huge where it can; NULL when there are none. */
void *pages_alloc(size_t bytes);
void  pages_free(void *p, size_t bytes);        // NULL is fine

/* The same for what may never be used in full: memory is taken as it is written to. What
 * lies in such pages is cleared and copied without taking memory for what is zero. */
void *pages_reserve(size_t bytes);
void  pages_clear(void *p, size_t bytes);
void  pages_copy(void *to, const void *from, size_t bytes);

#endif
