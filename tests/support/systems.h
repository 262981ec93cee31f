/* The scan layers as dynamical systems, step by step in double: their definitions. */
#ifndef WEFT_SYSTEMS_H
#define WEFT_SYSTEMS_H

#include "tests/support/layer.h"

#include <math.h>

/* A layer over one sequence, in the form
 *
 *     h_t = L_t h_{t-1} + B_t u_t,   o_t = C_t h_t + D u_t,   y_t = Wo (gate_t o_t)
 *
 * L, B, C (T, e, N) act on each of the N states of a channel; u, gate (T, e); D (e). */
struct system {
    int     T, e, N;
    double *u, *gate, *L, *B, *C, *D;
};

/* The system of a qlstm, rglru, mingru or s6 layer with B = 1, from its
 * parameters and x. */
void system_open(struct system *s, const struct layer *l);
void system_close(struct system *s);

/* gate_t o_t of the plain recurrence, in a new (T, e). */
double *system_run(const struct system *s);

/* y (T, out) = x (T, in) wᵀ + b in a new array, w from row `from` of a parameter on;
 * b may be NULL. */
double *system_product(const struct layer *l, const char *name, int from, int out, int in,
                       const double *x, const real *b);

double *system_inputs(const struct layer *l);       // x of sequence 0, in a new (T, C)

static inline double sigmoid(double z) { return 1 / (1 + exp(-z)); }
static inline double softplus(double z) { return fmax(z, 0) + log1p(exp(-fabs(z))); }

/* A parameter by name, and its size. */
real  *weights_of(const struct layer *l, const char *name);
size_t weights_count(const struct layer *l, const char *name);

#endif
