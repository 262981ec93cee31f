/* Multi-query associative recall, as Zoology generates it (arXiv:2312.04927;
 * multiquery_ar.py):
 *
 *     k1 v1 k2 v2 ... kK vK | q . q . . . q .          T tokens, '.' is token 0
 *
 * Keys are K different ones of 1 .. V/2 - 1, values K different ones of V/2 .. V - 1.
 * After the 2K tokens of the context there are (T - 2K) / 2 slots of two tokens; slot i =
 * 1, 2, ... has weight i^(a - 1), a = 0.01, and K slots are drawn one after the other
 * without replacement. Key j stands at the first token of the j-th slot drawn, and its
 * value is the answer wanted there; the value itself is never shown again.
 */
#ifndef WEFT_RECALL_H
#define WEFT_RECALL_H

#include "tools/lab/task.h"

enum { RECALL_PAIRS = 64, RECALL_SLOTS = 1024, RECALL_KS = 4, RECALL_ARM = 128,
       RECALL_ARMS = 64 };

/* user of recall_fill: a sequence takes one of these numbers of pairs, with equal chance.
 * T is even and at least 4 times each, V at least 4 times. */
struct recall {
    int vocab;
    int pairs[RECALL_KS], n;
};
void recall_fill(const void *user, struct rng *r, int T, int32_t *tokens,
                 int32_t *targets);

/* One model trained on a mixture of numbers of pairs and tested on each: the first
 * block is RECALL_SHIFT for every arm, the second the arm. */
struct recall_size {
    struct recall recall;
    int           length, width, heads, batch, tests;
    long          steps;
    double        lr;
    int           mlp;              // hidden width; 0: as Zoology has it, without
    int           seeds;            // at most; 0: all that the laboratory has
};
/* A short convolution with a skip around a state of one number a channel: what lets every
 * arm see the token before (Based has a convolution there). */
#define RECALL_SHIFT "s6(expand=1,state=1)"
#define RECALL_COLUMNS "right1,right2,right3,right4,state"

enum { RECALL_SEEDS = 32 };         // judged, at most

struct recall_result {
    double right[RECALL_KS];        // at each of recall.pairs; NaN beyond its n
    double state;                   // bytes of one sequence's decode state
    double mean;                    // of right over recall.pairs
    double seed[RECALL_SEEDS][RECALL_KS];   // right of each; the others are their means
};

/* Does the arm parse and fit? FAIL_USAGE. */
enum fail recall_check(const struct recall_size *s, const char *arm, struct why *why);

/* The mean over the seeds, with the learning rate rates[0]; on development seeds each of
 * `rates` (n_rates) is tried and told, and the best at the most pairs kept. */
enum fail recall_arm(struct lab *l, const struct recall_size *s, const double *rates,
                     int n_rates, const char *arm, struct recall_result *out,
                     struct why *why);
int recall_rates(const struct lab *l, int n_rates);     // how many of them are tried
int recall_starts(const struct lab *l, const struct recall_size *s);    // and seeds

/* Of each seed into x: right at recall.pairs[i], its mean over them, or its least.
 * Returns how many. */
enum { RECALL_MEAN = -1, RECALL_LEAST = -2 };
int recall_seeds(const struct lab *l, const struct recall_size *s,
                 const struct recall_result *r, int i, double x[RECALL_SEEDS]);

/* What naming any of the values shown would get: at recall.pairs[i], or in the mean. */
double recall_bag(const struct recall_size *s, int i);

/* NAME.svg: accuracy at the largest number of pairs against the decode state, a point for
 * each of n <= RECALL_ARMS arms. */
enum fail recall_chart(struct lab *l, const char *name, const struct recall_size *s,
                       const char (*arm)[RECALL_ARM], const struct recall_result *r,
                       int n, struct why *why);

#endif
