/* The population loss of a softmax layer with value matrix A and key-query matrix B on
 * Gaussian tokens of covariance S, for the target M x (arXiv:2603.01514): a matrix
 * factorisation.
 *
 *     f(A, B) = |A S Bᵀ S^1/2 - M S^1/2|^2 / 2 = |P Rᵀ - G|^2 / 2
 *     P = A S^1/2,  R = S^1/2 B S^1/2,  G = M S^1/2
 *
 * S is diagonal; matrices are (FACTOR, FACTOR), row-major.
 */
#ifndef WEFT_LAB_FACTOR_H
#define WEFT_LAB_FACTOR_H

#include "data/base/rng.h"

#include <stdbool.h>
#include <stdint.h>

enum { FACTOR = 8, FACTOR2 = FACTOR * FACTOR };

struct factor {
    double s[FACTOR];               // of S
    double M[FACTOR2];
    double A[FACTOR2], B[FACTOR2];
};

enum descent { DESCENT_PLAIN, DESCENT_ADAM, DESCENT_PRECONDITIONED, DESCENTS };

/* S with eigenvalues from 1 down to 1/condition, M of N(0, 1) entries, and A, B from
 * the singular vectors of the cross-moment of `samples` pairs (x, M x), so that P Rᵀ
 * is near G. */
void factor_open(struct factor *f, double condition, int samples, uint64_t seed);

/* f, and its gradients unless NULL. */
double factor_loss(const struct factor *f, double *dA, double *dB);

/* |A T_n(x) - M x|^2 / 2 of one query x and n tokens z_i that r draws, T_n the mean of
 * the z_i by the softmax of z_i . Bᵀ x. */
double factor_layer_loss(const struct factor *f, int n, struct rng *r);

/* Steps until the loss is below `goal` of its first value, at most `most`; curve, unless
 * NULL, takes its share at the `points` steps of at. most + 1: not reached. */
int factor_run(const struct factor *from, enum descent how, double lr, double goal,
               int most, const int *at, double *curve, int points);

#endif
