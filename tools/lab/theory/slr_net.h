/* One attention layer that reads a single location, trained on samples of
 * tools/lab/theory/oracle.h.
 *
 *     f(X) = sum_l sigma_l z_l       chi = X k / sqrt(D),  z = X v / sqrt(D)
 *
 *     softmax    e^chi_l / sum e^chi          softplus   s(chi_l) / sum s(chi)
 *     linear     1 + chi_l                    erf        1 + erf(c + chi_l)
 *     sigmoid    1 / (1 + e^-(c + chi_l))     relu       max(c + chi_l, 0)
 *
 * s(x) = log(1 + e^x). Parameters w = (k, v, c): 2 D + 1 reals; c rests at zero where it
 * has no use.
 */
#ifndef WEFT_LAB_SLR_NET_H
#define WEFT_LAB_SLR_NET_H

#include "tools/lab/learn.h"
#include "tools/lab/theory/oracle.h"

#include <stddef.h>

enum slr_arm { SLR_SOFTMAX, SLR_SOFTPLUS, SLR_LINEAR, SLR_ERF, SLR_SIGMOID, SLR_RELU,
               SLR_ARMS };

extern const char *const slr_arm_name[SLR_ARMS];

/* The activation of an element-wise arm; NULL for the normalised. */
double (*slr_activation(enum slr_arm arm))(double);

/* n samples; tokens beyond a sample's length are absent. SLR_SIDE samples lie side by
 * side, and their sums over D are made at once. */
enum { SLR_SIDE = 32, SLR_LONGEST = 64, SLR_WIDEST = 256 };
struct slr_batch {
    int   n, L, D;          // L: the longest, at most SLR_LONGEST; D at most SLR_WIDEST
    int  *length, *at;      // (n); at: the relevant token
    real *x;                // (n / SLR_SIDE, L, D, SLR_SIDE), the last group in full
    real *y;                // (n)
};
size_t slr_reals(int n, int L, int D);      // that x takes

/* The teacher for an even D: k* has entries +-1, v* is k* with every other
 * sign turned. */
void slr_teacher(real *k, real *v, int D, struct rng *r);

/* x, y, length and at filled for the setting. */
void slr_draw(const struct slr *s, struct slr_batch *b, const real *k, const real *v,
              struct rng *r);

/* g += the gradient of the mean over the batch of (f - y)^2 / 2; returns that mean. */
double slr_loss(enum slr_arm arm, const struct slr_batch *b, const real *w, real *g);

/* Scalar products over D: all that the risk depends on. */
struct slr_order {
    double m_kk, m_vv;              // k.k*, v.v*
    double m_kv, m_vk;              // k.v*, v.k*
    double q_kk, q_vv, q_vk;        // k.k, v.v, v.k
    double c;
};

struct slr_order slr_order(const real *w, const real *k, const real *v, int D);

/* The risk at these order parameters from n draws of (chi, chi*); z and z* are
 * integrated out. */
struct estimate slr_risk(const struct slr *s, enum slr_arm arm, const struct slr_order *o,
                         long n, uint64_t seed);

#endif
