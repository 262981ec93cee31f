/* --jobs N: copies of this program that share its work by --join, one thread each. They
 * are started before this process has threads of its own. */
#ifndef WEFT_JOBS_H
#define WEFT_JOBS_H

#include "data/base/fail.h"

/* Start n of `weft argv`, with --jobs, --out and --join replaced by --join dir --worker,
 * and wait for all. The first one's stderr is this process's; the others are silent, and
 * nobody reads a worker's stdout. What a worker left undone, because it died or failed,
 * whoever calls this finds undone. A signal to this process goes on to all of them:
 * FAIL_INTERRUPTED. FAIL_MEMORY: none could be started. */
enum fail jobs_run(int n, int argc, char **argv, const char *dir, struct why *why);

#endif
