/* How well a model predicts text: nats of every token, each scored once.
 *
 * The tokens are cut into windows of `context` that do not overlap; the input of the
 * first token is EOS, of every other its predecessor; the last window may be short.
 * Nothing is carried from one window to the next. */
#ifndef WEFT_SCORE_H
#define WEFT_SCORE_H

#include "data/shard.h"
#include "model/pass.h"

enum { SCORE_BUCKETS = 24 };

struct score {
    double   nats;                          // in all
    uint64_t tokens;
    double   bucket_nats[SCORE_BUCKETS];    // by position t in the window: log2(1 + t)
    uint64_t bucket_tokens[SCORE_BUCKETS];
};

/* The next up to n tokens into ids, and how many: 0 at the end. */
typedef enum fail (*score_next)(void *user, uint32_t *ids, long n, long *got,
                                struct why *why);

/* (optional) told the ids and nats of every window, in order. */
typedef void (*score_each)(void *user, const uint32_t *ids, const real *nats, long n);

/* Score a stream of tokens with B windows at a time. p was opened for at least (B,
 * context). At most max_tokens (0: all). What next returns; FAIL_INPUT: an id is not
 * below the model's vocabulary; FAIL_MEMORY. */
enum fail score_run(const struct model *m, struct pass *p, int B, int eos,
                    score_next next, void *user, uint64_t max_tokens, score_each each,
                    void *each_user, struct score *out, struct why *why);

/* score_next over a shard: user is a struct shard_cursor with shard set and
 * the rest zero. */
struct shard_cursor {
    const struct shard *shard;
    uint64_t            at;             // next token
    uint32_t            ids[SHARD_FRAME], n;
    uint64_t            frame;          // held in ids when n > 0
};
enum fail shard_cursor_next(void *user, uint32_t *ids, long n, long *got,
                            struct why *why);

/* The ratio sum x / sum y of n pairs (a window's nats and bytes) taken as independent
 * draws, and its standard error:
 *
 *     r = sum x / sum y        error² = n / (n - 1) sum (x - r y)² / (sum y)²
 */
struct spread {
    uint64_t n;
    double   x, y, xx, xy, yy;          // sums
};
void   spread_add(struct spread *s, double x, double y);
double spread_error(const struct spread *s);            // NaN below two pairs

#endif
