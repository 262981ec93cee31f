#include "model/kernels/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

static void *map_pages(size_t bytes, int flags)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

void *pages_alloc(size_t bytes)
{
    return map_pages(bytes, 0);
}

void *pages_reserve(size_t bytes)
{
    return map_pages(bytes, MAP_NORESERVE);
}

enum { SPARSE = 1 << 20, PART = 1 << 16 };      // bytes: sparse from here on; looked at

/* Whole pages are given back, and are zero when they are touched again. */
void pages_clear(void *p, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), head = -(uintptr_t)p & (page - 1);
    char  *first = (char *)p + head;
    size_t whole = bytes > SPARSE ? (bytes - head) / page * page : 0;

    if (!whole || madvise(first, whole, MADV_DONTNEED)) {
        memset(p, 0, bytes);
        return;
    }
    memset(p, 0, head);
    memset(first + whole, 0, bytes - head - whole);
}

static bool is_zero(const char *p, size_t bytes)
{
    return bytes == 0 || (!*p && !memcmp(p, p + 1, bytes - 1));
}

void pages_copy(void *to, const void *from, size_t bytes)
{
    const char *p = from;

    if (bytes <= SPARSE) {
        memcpy(to, from, bytes);
        return;
    }
    pages_clear(to, bytes);
    for (size_t at = 0; at < bytes; at += PART) {
        size_t n = bytes - at < PART ? bytes - at : PART;

        if (!is_zero(p + at, n))
            memcpy((char *)to + at, p + at, n);
    }
}

void pages_free(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}
