/* Means over seeds, and how likely a difference is by chance. */
#ifndef WEFT_COMPARE_STATS_H
#define WEFT_COMPARE_STATS_H

#include <stdbool.h>

struct mean {
    int    n;
    double mean;            // NAN when n is 0
    double error;           // standard error of the mean, NAN below two
};

/* Of the n values that are finite. */
struct mean mean_of(const double *x, int n);

/* A speed, measured several times: the best counts, as whatever else ran took from the
 * others; where the slowest has less than nine tenths of it they disagree. */
struct rate {
    double best;            // NAN: none
    bool   rough;           // they disagree
};
struct rate rate_of(const double *x, int n);        // of the n that are finite

/* Student's t: the probability that |t| is at least as large by chance, with v = freedom:
 * I_{v/(v + t²)}(v/2, 1/2). */
double student_p(double t, double freedom);

/* The regularised incomplete beta function I_x(a, b), 0 <= x <= 1. */
double beta_share(double a, double b, double x);

/* y - x over the pairs in which both are finite. */
struct paired {
    struct mean diff;
    double      p;          // two-sided paired t-test; NAN below two pairs
};
struct paired paired_test(const double *x, const double *y, int n);

/* Holm's correction for n tests made together, in place: the i-th smallest p is
 * multiplied by n - i + 1, and none falls below a smaller one's. NAN is left out. */
void holm(double *p, int n);

#endif
