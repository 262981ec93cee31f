/* Finite groups of permutations and their word problems: the smallest tasks in which a
 * state must be tracked.
 *
 *     tokens    start g_1 g_2 ...       drawn uniformly; start is token `order`
 *     targets     -   g_1 ... g_i       at every i: the product so far
 *
 * Each prefix makes the product uniform again, so whoever has missed one element guesses
 * with probability 1 / order. Whoever knows how often each came, but not in which order,
 * knows the product up to commutators: in S3 its sign, so that one of three is left.
 */
#ifndef WEFT_LAB_GROUPS_H
#define WEFT_LAB_GROUPS_H

#include "data/base/rng.h"

#include <stdbool.h>

enum { GROUP_MAX = 60 };

struct group {
    const char *name;
    int         letters, order;                 // permutations of so many letters
    int         abelian;                        // order of the largest commuting quotient
    uint8_t     product[GROUP_MAX][GROUP_MAX];  // [a][b]: a, then b; element 0 is neutral
};

/* name: parity (all permutations of 2 letters), z3 (the even ones of 3), s3 (all of
 * 3), a5 (the even ones of 5). False when it is none of them. */
bool group_make(struct group *g, const char *name);

static inline int group_vocab(const struct group *g) { return g->order + 1; }

static inline bool group_commutes(const struct group *g)
{
    return g->abelian == g->order;
}

/* Shares of right answers: by guessing, and by all that commutes. */
static inline double group_guess(const struct group *g) { return 1.0 / g->order; }
static inline double group_unordered(const struct group *g)
{
    return (double)g->abelian / g->order;
}

/* task_fill of a word of T - 1 elements; user is a struct group. */
void group_fill(const void *user, struct rng *r, int T, int32_t *tokens,
                int32_t *targets);

#endif
