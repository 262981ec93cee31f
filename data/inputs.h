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

/* Every path before any is read: a field that is named needs one that may have lines of
 * JSON, else FAIL_USAGE. FAIL_INPUT as above. */
enum fail inputs_check(const char *const *paths, int n, const char *field,
                       struct why *why);

/* What is typed for n inputs, PATH or PATH:WEIGHT: each word becomes its path (a new
 * string where it had a weight, for as long as the program), *weights (n, malloc'ed) are
 * the weights, 1 where there is none. A path that is there is taken as it is, whatever
 * its name. FAIL_USAGE: a weight that is no number from 0.001 to 1000. FAIL_MEMORY. */
enum fail inputs_weigh(const char **words, int n, double **weights, struct why *why);

/* Stdin: "-", or a file of that name, where it is kept to be read again
 * (data/spool.h). */
bool inputs_stdin(const char *path);

void inputs_free(struct inputs *in);        // a zeroed one is fine

#endif
