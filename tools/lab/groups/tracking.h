/* Models on word problems: trained, or set by hand. Accuracy is taken by position, in
 * ranges that end at 1/4, 1/2, 1, 2, 4 and 8 times the training length.
 */
#ifndef WEFT_LAB_TRACKING_H
#define WEFT_LAB_TRACKING_H

#include "tools/lab/groups/groups.h"
#include "tools/lab/task.h"

enum { TRACK_RANGES = 6, TRACK_TIMES = 8 };     // up to TRACK_TIMES the training length
enum { TRACK_ONCE = 2, TRACK_TWICE, TRACK_FOURFOLD };   // ranges by their end

extern const double track_times[TRACK_RANGES];

/* Train t, whose vocabulary and data are set here, on words of the group and fill values
 * (TRACK_RANGES) from `tests` words. */
enum fail track_words(struct task *t, const struct group *g, int tests, struct lab *l,
                      const char *key, double *values, struct why *why);

/* The hand-set model on words of 64, 1024, 16384 and 131072 tokens: a cell each, by
 * position as if trained on an eighth of that, and one verdict. */
enum fail track_exact(struct lab *l, struct why *why);

#endif
