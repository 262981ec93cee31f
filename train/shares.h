/* Which rank keeps the moments of which parameters, and updates them. With one rank all
 * is its own.
 *
 * The parameters' array is cut into buckets, in the order of the array: blocks of the
 * model, as many as make 1 MiB or more. The gradients of the last bucket stand first, and
 * are exchanged while the backward pass makes those before it. Each bucket is cut into a
 * share for each rank, at multiples of ADAMW_BLOCK; with Muon where parameters begin, so
 * that each of its matrices is one rank's, whole. */
#ifndef WEFT_SHARES_H
#define WEFT_SHARES_H

#include "model/model.h"

struct shares {
    int     ranks, mine;        // shares of a bucket, and which one is this rank's
    int     buckets;
    size_t *cut;                // (buckets, ranks + 1) a bucket's ends and cuts
    double *squares;            // see adamw_squares
};

/* For so many ranks, of which this one has share `mine`. FAIL_MEMORY; then nothing needs
 * closing. */
enum fail shares_open(struct shares *s, const struct model *m, int ranks, int mine,
                      bool muon, struct why *why);
void shares_close(struct shares *s);        // a zeroed one is fine

const size_t *shares_cut(const struct shares *s, int bucket);   // (ranks + 1)

/* This rank's own part of a bucket; false: there is none. */
bool shares_own(const struct shares *s, int bucket, size_t *from, size_t *to);

/* All ranks together: the norm of the gradients g, of which only the own part is
 * summed. */
double shares_norm(struct shares *s, const struct model *m, const real *g);

/* Set all of g to zero but the own part; or only that. */
void shares_zero_others(const struct shares *s, real *g);
void shares_zero_own(const struct shares *s, real *g);

/* All ranks together, as ranks_spread, ranks_collect and ranks_deal, for every bucket. */
void shares_spread(const struct shares *s, real *x);
void shares_collect(const struct shares *s, real *whole, const real *x);
void shares_deal(const struct shares *s, const real *whole, real *x);

#endif
