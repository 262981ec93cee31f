/* From what several seeds measured to an answer: two one-sided tests for each claim, how
 * likely its support is if it is false (p) and its refutation if it is true (q). A claim
 * holds when p is below 0.05 after Holm's correction over all claims judged together,
 * fails when q is; otherwise nothing is decided.
 */
#ifndef WEFT_LAB_JUDGE_H
#define WEFT_LAB_JUDGE_H

#include <stdbool.h>

struct finding {
    double p, q;            // NAN: too few seeds to say
    bool   learnt;          // the claim's gate
    char   gate[96];        // what was measured there, when it was not met
};

/* The mean of x (n seeds) lies above the limit, by Student's t. */
struct finding find_above(const double *x, int n, double limit);
struct finding find_below(const double *x, int n, double limit);

/* y more than x, seed by seed; refuted by a difference below `least`. */
struct finding find_more(const double *x, const double *y, int n, double least);

/* y as x, seed by seed: two one-sided tests of a difference within the margin. */
struct finding find_equal(const double *x, const double *y, int n, double margin);

/* k of n seeds: more than this share of all seeds would, by the binomial law. */
struct finding find_share(int k, int n, double share);

/* Arms rise in their order, x (arms, n): Page's test over the seeds, exact. Arms at most
 * JUDGE_ORDER. */
enum { JUDGE_ORDER = 6 };
struct finding find_order(const double *x, int arms, int n);

/* All n of them: the weakest support; the strongest refutation, for n tries. */
struct finding find_all(const struct finding *f, int n);

/* One that was chosen of n, by what it is judged on: so many chances to be above. */
void of_several(struct finding *f, int n);

/* Does the mean of the n values reach `enough`, or lie 3 standard errors above `trivial`?
 * If not, the finding says so, `what` was looked at. NAN: there is no such way. */
void gate_learnt(struct finding *f, const char *what, const double *x, int n,
                 double enough, double trivial);

/* The share p of a binomial law that gives k of n: bounds that hold in 95 of 100
 * (Clopper and Pearson). */
struct interval {
    double low, high;
};
struct interval share_interval(int k, int n);

/* Of a two-sided p and the sign of its statistic, the one-sided p of "above". */
double one_sided(double p, double sign);

/* The chance of k or more of n, each with chance share. */
double binomial_from(int k, int n, double share);

#endif
