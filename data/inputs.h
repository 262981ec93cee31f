/* The text files that a list of paths means: see data/text.h. */
#ifndef WEFT_INPUTS_H
#define WEFT_INPUTS_H

#include "data/base/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct input {
    char    *path;          // owned; "-" is stdin
    uint64_t size;          // bytes on disk; 0 for stdin
    bool     jsonl, zst;    // by its name; of stdin unknown
};

struct inputs {
    struct input *file;     // owned
    size_t        n, cap;
};

/* Every file is there, readable and regular, or FAIL_INPUT. On failure *in is zero. */
enum fail inputs_list(struct inputs *in, const char *const *paths, int n,
                      struct why *why);
/* Stdin: "-", or a file of that name, where it is kept to be read again
 * (data/spool.h). */
bool inputs_stdin(const char *path);

void inputs_free(struct inputs *in);        // a zeroed one is fine

#endif
