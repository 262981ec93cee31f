/* The clock, interrupts, and what this process holds. */
#ifndef WEFT_CLOCK_H
#define WEFT_CLOCK_H

#include <stddef.h>

double wall_seconds(void);          // monotonic
size_t memory_held(void);           // bytes of memory this process holds now; 0: unknown

/* Set from SIGINT, SIGTERM and SIGHUP once catch_interrupts was called; a second signal
 * kills. Calling it again clears the flag and catches anew. */
extern volatile int interrupted;
void catch_interrupts(void);

#endif
