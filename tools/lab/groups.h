/* Finite groups of permutations and their word problems: the smallest tasks in which a state
 * must be tracked.
 *
 *     tokens    g_1 g_2 ... g_T         drawn uniformly from the group
 *     targets   g_1 ... g_i             at every i: the product so far
 *
 * Each prefix makes the product uniform again, so whoever has missed one element guesses with
 * probability 1 / order.
 */
#ifndef WEFT_LAB_GROUPS_H
#define WEFT_LAB_GROUPS_H

#include "data/rng.h"

#include <stdbool.h>

enum { GROUP_MAX = 60 };

struct group {
    const char *name;
    int         letters, order;                     // permutations of so many letters
    uint8_t     product[GROUP_MAX][GROUP_MAX];      // [a][b]: a, then b; element 0 is neutral
};

/* name: parity (all permutations of 2 letters), z3 (the even ones of 3), s3 (all of 3), a5 (the
 * even ones of 5). False when it is none of them. */
bool group_make(struct group *g, const char *name);

/* One word of T elements. tokens, targets (T). */
void group_word(const struct group *g, struct rng *r, int T, int32_t *tokens, int32_t *targets);

#endif
