/* One line of .jsonl. Written for text: no tree is built and nothing is allocated,
 * whatever the line holds; the string is decoded in place. */
#ifndef WEFT_JSONL_H
#define WEFT_JSONL_H

#include <stdbool.h>
#include <stddef.h>

/* The string under `field` of the object that the line is; its text lies inside the line,
 * which is overwritten. Strict (RFC 8259), with two remarks: bytes that are not UTF-8 are
 * kept, and a second `field` is an error. On failure problem (cap bytes) says what is
 * wrong and, for the syntax, in which column. */
bool jsonl_field(char *line, size_t len, const char *field, const char **text, size_t *n,
                 char *problem, size_t cap);

#endif
