/* JSON, by jansson: what all who read and write it share. */
#ifndef WEFT_JSON_H
#define WEFT_JSON_H

#include "data/base/fail.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* jansson drops what it has no memory for and says so to the one call alone: a key that
 * is not set would be missing in a file. After json_watch, which the program calls first,
 * json_write and json_ran_out know of any such failure since they were last asked. */
void json_watch(void);
bool json_ran_out(void);

/* j as text, malloc'ed; flags are json_dumps's, whose own text may lie where free must
 * not go. NULL: out of memory. j may be NULL, too. */
char *json_to_text(const json_t *j, size_t flags);

/* A file of at most max bytes; no key twice. advice ends the line when it is damaged:
 * what to do. On failure *j is NULL. FAIL_INPUT, FAIL_MEMORY. */
enum fail json_read(json_t **j, const char *path, size_t max, const char *advice,
                    struct why *why);

/* Replace path by j, as file_write, with a newline at its end; flags are json_dumps's. j
 * is taken over, and may be NULL: out of memory. FAIL_WRITE, FAIL_MEMORY. */
enum fail json_write(const char *path, json_t *j, size_t flags, struct why *why);

/* j on a line of its own; taken over. Whether that arrived is for ferror to say. */
void json_line(FILE *to, json_t *j, size_t flags);

/* Bytes as a string, with U+FFFD for each that is part of no character. */
json_t *json_from_bytes(const char *bytes, size_t len);

/* A number, or null when it is not finite; and back, where anything else is NAN. */
json_t *json_from_double(double x);
double  json_to_double(const json_t *j);

#endif
