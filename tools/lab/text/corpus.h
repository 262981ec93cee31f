/* Text for the laboratory: stories of the built-in grammar byte by byte, each with its
 * end, some of them held out. Their exact entropy is known.
 */
#ifndef WEFT_LAB_CORPUS_H
#define WEFT_LAB_CORPUS_H

#include "tools/lab/task.h"

enum { CORPUS_VOCAB = 257, CORPUS_EOS = 256 };

struct corpus {
    int16_t *id;                // (n) owned
    long     n;
    long     held;              // stories from id[held] on are held out
    double   floor;             // bits per byte of these by the grammar
};

/* At least `bytes` to train on and `held_out` more, in whole stories. FAIL_INPUT; then
 * there is nothing to close. */
enum fail corpus_open(struct corpus *c, long bytes, long held_out, uint64_t seed,
                      struct why *why);
void corpus_close(struct corpus *c);

/* task_fill; user is the corpus. T tokens from anywhere before what is held out. */
void corpus_fill(const void *user, struct rng *r, int T, int32_t *tokens,
                 int32_t *targets);

/* What the model makes of the text held out, in windows of T tokens that do not overlap:
 * for each position of a window, the nats of all tokens there and how many bytes of text
 * they are (an end is none). nats, bytes (T). FAIL_MEMORY. */
enum fail corpus_score(const struct corpus *c, const struct model *m, int T, double *nats,
                       double *bytes, struct why *why);

/* Bits per byte at positions from .. to - 1 of these. */
double corpus_bits(const double *nats, const double *bytes, int from, int to);

#endif
