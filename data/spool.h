/* Stdin kept in a file: a stream can be read once, a dataset's text is read twice. */
#ifndef WEFT_SPOOL_H
#define WEFT_SPOOL_H

#include "data/base/fail.h"

/* Copy all of stdin to path. stop (may be NULL): give up when it is not 0. FAIL_INPUT:
 * stdin cannot be read or is empty. FAIL_WRITE, FAIL_INTERRUPTED. */
enum fail spool_stdin(const char *path, const volatile int *stop, struct why *why);

#endif
