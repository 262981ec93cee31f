/* A stream into memory, as open_memstream's. What there is no memory for fclose tells;
 * of glibc's own streams it is lost without a word, and half a file is written. */
#ifndef WEFT_MEMORY_H
#define WEFT_MEMORY_H

#include <stddef.h>
#include <stdio.h>

/* *bytes, which the caller frees, and *len are up to date after fflush and fclose, and a
 * NUL follows. NULL: no memory. */
FILE *memory_stream(char **bytes, size_t *len);

#endif
