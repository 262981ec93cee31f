/* Text for the laboratory: stories of the built-in grammar byte by byte, each with its
 * end, some of them held out. Their exact entropy is known. Or the same, or a file, as
 * the tokenizer of a model cuts it.
 */
#ifndef WEFT_LAB_CORPUS_H
#define WEFT_LAB_CORPUS_H

#include "tokenizer/tokenizer.h"
#include "tools/lab/task.h"

enum { CORPUS_VOCAB = 257, CORPUS_EOS = 256 };

struct corpus {
    int32_t *id;                // (n) owned
    long     n;
    long     held;              // what is from id[held] on is held out
    double   floor;             // bits per byte of it by the grammar; of a file NAN
    const struct tokenizer *tokenizer;  // NULL: bytes
};

/* At least `bytes` to train on and `held_out` more, in whole stories. FAIL_INPUT; then
 * there is nothing to close. */
enum fail corpus_open(struct corpus *c, long bytes, long held_out, uint64_t seed,
                      struct why *why);

/* Text as this tokenizer, which must outlive it, cuts it, prefix before each document:
 * stories or, unless path is NULL, what data/text.h finds there. Of that the first tokens
 * are taken, as many as asked for in bytes, and the last held_out of them, or an eighth
 * when that is less, are held out. FAIL_INPUT, FAIL_MEMORY. */
enum fail corpus_open_for(struct corpus *c, const struct tokenizer *t, const char *prefix,
                          const char *path, long bytes, long held_out, uint64_t seed,
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
