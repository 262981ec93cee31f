/* The terminal, the clock, interrupts, and numbers as people write them. */
#ifndef WEFT_TERM_H
#define WEFT_TERM_H

#include <stdbool.h>
#include <stddef.h>

bool   term_live(void);             // stderr is a terminal: one rewritten line
int    term_width(void);            // columns of stderr, 80 when unknown
bool   term_color(void);            // stderr is a terminal and NO_COLOR is not set
double wall_seconds(void);          // monotonic
size_t memory_held(void);           // bytes of memory this process holds now; 0: unknown

void format_count(char *buf, size_t cap, double n);         // 12.3M
void format_bytes(char *buf, size_t cap, double n);         // 1.2 GiB
void format_time(char *buf, size_t cap, double seconds);    // 3m20s

bool parse_time(const char *text, double *seconds);         // 90, 90s, 3m, 1h30m; above 0
bool parse_count(const char *text, double *n);              // 5000, 12k, 3M, 2B, 1e15

/* Set from SIGINT, SIGTERM and SIGHUP once catch_interrupts was called; a second signal
 * kills. Calling it again clears the flag and catches anew. */
extern volatile int interrupted;
void catch_interrupts(void);

#endif
