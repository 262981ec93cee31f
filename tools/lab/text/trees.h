/* ListOps (arXiv:1804.06028) as the Long Range Arena draws it (arXiv:2011.04006).
 *
 *     tree(d) = digit                          with chance 3/4, and always at d = depth
 *             | op tree(d+1) ... tree(d+1) ]   op of MIN MAX MED SM, 2 to args trees
 *
 * from tree(1), kept when min < tokens < max. MED is the median rounded down, SM the sum
 * modulo 10. The task is the value of the whole.
 *
 *     tokens    0-9 the digits, then operators, the closing bracket, what fills up
 */
#ifndef WEFT_LAB_TREES_H
#define WEFT_LAB_TREES_H

#include "data/base/rng.h"

#include <stdbool.h>

enum { TREE_MIN = 10, TREE_MAX, TREE_MED, TREE_SM, TREE_END, TREE_PAD, TREE_VOCAB };
enum { TREE_LONGEST = 2048, TREE_ARGS = 10 };

struct tree_form {
    int depth, args, min, max;      // args <= TREE_ARGS, max <= TREE_LONGEST
};

struct tree {
    int     n;                      // tokens
    uint8_t token[TREE_LONGEST];
    int8_t  value[TREE_LONGEST];    // of the subtree that a closing bracket ends;
                                    // elsewhere -1
};

/* Draw until one is kept; returns how many draws it took. */
long tree_draw(const struct tree_form *f, struct rng *r, struct tree *t);

/* The root's value: value[n - 1]. */
static inline int tree_value(const struct tree *t) { return t->value[t->n - 1]; }

/* task_fill of one tree, T >= max; wanted is the root's value at its closing bracket
 * or, with every, the value of each subtree at its own. user is a struct tree_task. */
struct tree_task {
    struct tree_form form;
    bool             every;
};
void tree_fill(const void *user, struct rng *r, int T, int32_t *tokens, int32_t *targets);

/* Shares of right answers, each measured on samples other than those its guess was
 * learnt on: the commonest value; the commonest given the root's operator; the
 * commonest given also what the operator makes of the digits directly below the root,
 * and how many subtrees (up to 3) it misses. And of the answers for every subtree, the
 * commonest given its operator. */
struct tree_baselines {
    double majority, root, digits, every;
    double kept;                    // share of draws kept
};
struct tree_baselines tree_guess(const struct tree_form *f, uint64_t seed, int samples);

#endif
