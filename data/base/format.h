/* Numbers as people write and read them. */
#ifndef WEFT_FORMAT_H
#define WEFT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>

void format_count(char *buf, size_t cap, double n);         // 12.3M
void format_bytes(char *buf, size_t cap, double n);         // 1.2 GiB
void format_time(char *buf, size_t cap, double seconds);    // 3m20s

/* 90, 90s, 3m, 1h30m: above 0, and at most TIME_MOST, ten years. */
#define TIME_MOST (10 * 365.25 * 86400)
bool parse_time(const char *text, double *seconds);
bool parse_count(const char *text, double *n);              // 5000, 12k, 3M, 2B, 1e15

#endif
