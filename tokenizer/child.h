/* Work that may exit, abort or leak, done in a process of its own. */
#ifndef WEFT_CHILD_H
#define WEFT_CHILD_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Run work(user, out) in a child and collect what it writes to the descriptor `out`. The
 * child closes close_fd (unless -1), dies with its parent, and prints nothing. Returns 0
 * when work returned 0; then *bytes (malloc'ed, caller frees) has *len bytes. Otherwise
 * -1 with *bytes NULL, and words (cap > 0 bytes) has the child's first line on stderr, or
 * how it ended. */
int child_run(int (*work)(void *user, int out), void *user, int close_fd, char **bytes,
              size_t *len, char *words, size_t cap);

/* write() until all is written. Returns 0, or -1. */
int child_write(int out, const void *bytes, size_t len);

#ifdef __cplusplus
}
#endif
#endif
