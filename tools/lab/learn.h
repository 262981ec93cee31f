/* What the small learners of the laboratory share: fresh Gaussian samples by the million,
 * and the update that follows a gradient written by hand. */
#ifndef WEFT_LAB_LEARN_H
#define WEFT_LAB_LEARN_H

#include "data/base/rng.h"
#include "model/kernels/real.h"

/* x[0 .. n) ~ N(0, 1), about 2 ns each. */
void normals(struct rng *r, real *x, long n);

/* Adam (arXiv:1412.6980) with b1 = 0.9, b2 = 0.999. moments (2, n) begin as zeros;
 * t counts from 1. */
void adam(real *w, const real *g, real *moments, int n, double lr, long t);

/* The learning rate of step t of n: constant for the first half, then a half
 * cosine to zero. */
double cooled(double lr, long t, long n);

/* Mean and its standard error from n values' sum and sum of squares. */
struct estimate {
    double mean, se;
};

struct estimate estimate_of(double sum, double squares, double n);

/* Least-squares slope of log y against log x. */
double log_slope(const double *x, const double *y, int n);

#endif
