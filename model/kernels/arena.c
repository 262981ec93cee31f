#include "model/kernels/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

void *arena_bytes(struct arena *a, const char *name, size_t bytes)
{
    void  *p = a->base ? a->base + a->used : NULL;
    size_t lines = whole_lines(bytes), left = a->size - a->used;

    if (lines > left) {
        fprintf(stderr, "arena: '%s' needs %zu bytes, %zu are left\n", name, lines, left);
        abort();
    }
    a->used += lines;
    return p;
}

void *pages_alloc(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

void pages_free(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}
