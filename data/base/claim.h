/* Work that any number of processes share, on one machine or on many that see the same
 * directory: a piece of it is claimed by a file, NAME.claim-0, which only one of them can
 * create. Its owner touches it every few seconds. When it died, the next takes over with
 * NAME.claim-1, and so on: at once on the owner's own machine, whose kernel knows; on
 * another when nothing was touched for CLAIM_STALE seconds. An owner who was only asleep
 * finds the next claim, and ends itself before it writes again.
 */
#ifndef WEFT_CLAIM_H
#define WEFT_CLAIM_H

#include "data/base/fail.h"

#include <stdbool.h>

enum { CLAIM_BEAT = 3, CLAIM_STALE = 30 };      // seconds

struct claim;

/* Try to claim the piece of work at path (its parent exists). *mine: NULL when another
 * process has it. FAIL_WRITE, FAIL_MEMORY. */
enum fail claim_try(const char *path, struct claim **mine, struct why *why);

/* The same, but wait for it; FAIL_INTERRUPTED. */
enum fail claim_wait(const char *path, struct claim **mine, struct why *why);

/* Give it up, for another to take; or for good: the work is done, and whoever claims it
 * next looks first and sees that. NULL is fine. */
void claim_release(struct claim *c);
void claim_finish(struct claim *c);

/* Remove the claims in a directory whose owners are dead, also those of work that was
 * done when they died, which nobody claims again. */
void claim_sweep(const char *dir);

/* (optional) Told what was lost, before this process ends because another took it. */
extern void (*claim_lost)(const char *path);

#endif
