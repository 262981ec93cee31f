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

enum {
    PART   = 1 << 16,                   // bytes that are looked at together
    SPARSE = 1 << 26,                   // from here on, pages are given back
};

static bool is_zero(const char *p, size_t bytes)
{
    return bytes == 0 || (!*p && !memcmp(p, p + 1, bytes - 1));
}

/* What is not zero becomes zero; pages that were never touched stay so. */
static void clear_parts(char *p, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += PART) {
        size_t n = bytes - at < PART ? bytes - at : PART;

        if (!is_zero(p + at, n))
            memset(p + at, 0, n);
    }
}

/* Whole pages of much memory are given back, and are zero when they are touched again.
 * Of less they are kept: touching them again costs more, and what begins inside a huge
 * page would cut it up. */
void pages_clear(void *p, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), head = -(uintptr_t)p & (page - 1);
    char  *first = (char *)p + head;
    size_t whole = bytes > SPARSE ? (bytes - head) / page * page : 0;

    if (!whole || madvise(first, whole, MADV_DONTNEED)) {
        clear_parts(p, bytes);
        return;
    }
    memset(p, 0, head);
    memset(first + whole, 0, bytes - head - whole);
}

void pages_copy(void *to, const void *from, size_t bytes)
{
    const char *p = from;
    char       *q = to;

    if (bytes > SPARSE)
        pages_clear(to, bytes);
    for (size_t at = 0; at < bytes; at += PART) {
        size_t n = bytes - at < PART ? bytes - at : PART;

        if (is_zero(p + at, n))
            clear_parts(q + at, n);
        else
            memcpy(q + at, p + at, n);
    }
}

void pages_free(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}
