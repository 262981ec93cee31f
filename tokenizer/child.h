/* Work that may exit, abort or leak, done in a process of its own. */
#ifndef WEFT_CHILD_H
#define WEFT_CHILD_H

#include "data/base/fail.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Run work(user, out) in a child and collect what it writes to the descriptor `out`. The
 * child closes close_fd (unless -1), dies with its parent, and prints nothing. When
 * work returned 0, *bytes (malloc'ed, caller frees) has *len bytes; otherwise it is NULL.
 * FAIL_MEMORY: work returned it, or we have none; FAIL_INTERRUPTED: SIGINT or SIGTERM
 * ended the child; FAIL_INPUT: anything else, with the child's first line on stderr, or
 * how it ended. */
enum fail child_run(enum fail (*work)(void *user, int out), void *user, int close_fd,
                    char **bytes, size_t *len, struct why *why);

/* write() until all is written. Returns 0, or -1. */
int child_write(int out, const void *bytes, size_t len);

#ifdef __cplusplus
}
#endif
#endif
