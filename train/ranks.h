/* The ranks of a training: processes that mpirun started together. Rank 0 has the run's
 * directory and prints; every rank opens the data itself.
 *
 * Only ranks.c knows MPI, and only when built with it (make MPI=1). Without it, and where
 * mpirun did not start the process, there is one rank and all of this does nothing.
 *
 * Every function below that all ranks must call together says so; an error of MPI itself
 * ends all of them.
 */
#ifndef WEFT_RANKS_H
#define WEFT_RANKS_H

#include "data/base/fail.h"
#include "model/kernels/real.h"

#include <stdbool.h>
#include <stddef.h>

/* Join the others, all together; what other ranks than 0 print goes nowhere from here on.
 * However this process exits, it leaves them in order. FAIL_INPUT: the ranks differ in
 * build, processor or C library, whose results would differ; FAIL_USAGE: mpirun started
 * this, but it was built without MPI. */
enum fail ranks_open(struct why *why);

int  ranks_n(void);             // how many, 1 without MPI
int  ranks_me(void);            // this one's number, from 0
int  ranks_beside(void);        // how many of them are on this machine, itself included

/* Can so many ranks share a step of `accumulate` passes? FAIL_USAGE. */
enum fail ranks_check(int accumulate, struct why *why);

/* All together: the first failure of any rank becomes that of all, line included, with
 * the rank's number unless it is 0. Who waits leaves the processor to others. */
enum fail ranks_agree(enum fail err, struct why *why);

bool ranks_any(bool here);                  // all together: is it true on any?
void ranks_share(void *p, size_t bytes);    // all together: rank 0's to all

/* All together: a part of x is cut at cut[0] <= cut[1] <= ... <= cut[n] into n shares.
 * ranks_share_of says which one is this rank's.
 *
 * ranks_sum: each rank's own share of x becomes the sum over all ranks, as the tree of
 * train/leaves.h over their numbers; the other shares are left undefined. Recursive
 * halving: a rank exchanges half of x with its neighbour at distance 1, a quarter at
 * distance 2, and so on.
 * ranks_spread: every rank gets every share from its owner. The same way back.
 * ranks_collect, ranks_deal: rank 0's `whole` gets, or gives, every share; the others
 * have theirs in x. */
int  ranks_share_of(int rank);
void ranks_sum(real *x, const size_t *cut);
void ranks_spread(real *x, const size_t *cut);
void ranks_collect(real *whole, const real *x, const size_t *cut);
void ranks_deal(const real *whole, real *x, const size_t *cut);

/* All together: ranks_sum of several buckets, cut (buckets, n + 1), while the caller
 * computes: ranks_sum_begin, then ranks_sum_ready as often as more of x stands, from
 * element `from` on; the last bucket is summed as soon as all of it stands, and so on
 * down to the first. ranks_sum_end, when all of x stands, waits for the rest. In between
 * no other function of these may be called. Another thread sends and adds; without one,
 * or with WEFT_OVERLAP=0 in the environment, ranks_sum_end does everything. The same
 * bits. */
void ranks_sum_begin(real *x, const size_t *cut, int buckets);
void ranks_sum_ready(size_t from);
void ranks_sum_end(void);
bool ranks_overlap(bool on);    // from now on; is it possible?

/* All together: of every x[i] that one rank has, where the others have 0, each gets a
 * copy. */
void ranks_merge(double *x, size_t n);

/* All together: rank r's x[r each .. (r + 1) each) to all. */
void ranks_gather(double *x, int each);

/* As ranks_spread, for few numbers, cut[0] = 0: in one call of MPI. */
void ranks_spread_doubles(double *x, const size_t *cut);

/* Bytes of shares that this rank has sent so far, to be summed or as they are. */
double ranks_sent(void);

#endif
