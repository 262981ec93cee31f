/* Softmax attention that reads a single location, fitted to N = alpha D samples of
 * tools/lab/theory/oracle.h, spiked, as D grows without end: its order parameters by
 * statistical physics (arXiv:2509.21936, section 5).
 *
 *     least over k, v of  sum_i (f(X_i) - y_i)^2 / 2 + decay (|k|^2 + |v|^2) / 2
 *
 * Seen from one sample, the fit without it gives every token chi and z that lie about
 * the teacher's, w = m chi* + sqrt(q - m^2) N(0, 1), and that the sample then moves:
 *
 *     u = least of (f(u) - y)^2 / 2 + |u_k - w_k|^2 / (2 V_k) + |u_v - w_v|^2 / (2 V_v)
 *
 * With g = (u - w) / V, sums over tokens and means over samples, for k and for v each:
 *
 *     Q = alpha E[g^2],  W = alpha E[1 - du/dw] / V,  M = alpha E[g chi*] + W m
 *     V = 1 / (decay + W),  m = M V,  q = (M^2 + Q) V^2
 *
 * until nothing changes.
 */
#ifndef WEFT_LAB_REPLICA_H
#define WEFT_LAB_REPLICA_H

#include "tools/lab/theory/slr_net.h"

/* k and v of the fit; means are over n draws. */
struct slr_order replica_fit(const struct slr *s, double alpha, double decay, int n,
                             uint64_t seed);

/* Those of the best that can be made of the samples: softmax at sqrt(nu) times the mean
 * of k* and at that of v*, given them. There q = m, and g is known in closed form. */
struct slr_order replica_bayes(const struct slr *s, double alpha, int n, uint64_t seed);

#endif
