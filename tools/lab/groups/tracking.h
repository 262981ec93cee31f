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

#define TRACK_PARTS                                                                     \
    {"parts", "the real part of the exponent forgets, the imaginary part places: parity "\
     "since the last reset needs both", NULL, "gla+srope by hand, either part left out", \
     "prefixes right"}

/* NAN in all LAB_VALUES, for columns of an experiment that a cell does not fill. */
void track_nothing(double *values);

/* Train t, whose vocabulary and data are set here, on words of the group and fill values
 * (TRACK_RANGES) from `tests` words. */
enum fail track_words(struct task *t, const struct group *g, int tests, struct lab *l,
                      const char *key, double *values, struct why *why);

/* Its claim, for the tables of those that run it. */
#define TRACK_BY_HAND                                                                   \
    {"by-hand", "one gla layer with half turns set by hand computes parity at any "     \
     "length", NULL, "gla+srope by hand", "prefixes right"}

/* The hand-set model on words of 64, 1024, 16384 and 131072 tokens: a cell each, by
 * position as if trained on an eighth of that, and one verdict. */
enum fail track_exact(struct lab *l, struct why *why);

/* The hand-set model on parity, and on parity since the last start token, with and
 * without its decay and its turns: a cell each, and one verdict. */
enum fail track_parts(struct lab *l, struct why *why);

#endif
