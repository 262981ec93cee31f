/* Sending for memory before it is read or written. The CPU foresees long runs only: not a
 * piece of a row, nor what lies beyond a page.
 */
#ifndef WEFT_AHEAD_H
#define WEFT_AHEAD_H

#include "model/kernels/real.h"

enum { AHEAD_ROWS = 8 };    // of a loop over rows that has little to do for each

/* The lines of n reals. */
static inline __attribute__((always_inline)) void send_for(const real *x, int n)
{
    for (int i = 0; i < n; i += 64 / (int)sizeof *x)
        __builtin_prefetch(x + i);
}

/* What will be written, too. */
static inline __attribute__((always_inline)) void send_for_own(const real *x, int n)
{
    for (int i = 0; i < n; i += 64 / (int)sizeof *x)
        __builtin_prefetch(x + i, 1);
}

#endif
