/* Single-location regression (arXiv:2509.21936) and the risks that bound it,
 * by quadrature.
 *
 *     x_l in R^D, l = 1..L        chi_l = x_l . k* / sqrt(D),  z_l = x_l . v* / sqrt(D)
 *     y = z_e                     the one relevant token e, uniform on 1..L
 *     spiked:  chi_e ~ N(sqrt(nu), 1), all else N(0, 1)
 *     max:     all N(0, 1), then e drawn from softmax(nu chi); nu = INFINITY: the top
 *
 * k* and v* are orthogonal of norm sqrt(D), so chi and z are independent and nothing
 * here depends on D. A risk is the mean of (f - y)^2 over tokens; y has variance 1 and is
 * free of noise.
 */
#ifndef WEFT_LAB_ORACLE_H
#define WEFT_LAB_ORACLE_H

enum slr_kind {
    SLR_SPIKED,
    SLR_MAX,
};

struct slr {
    enum slr_kind kind;
    double        nu;
    int           lo, hi;           // L is uniform on lo .. hi
};

/* E[x^moment p^power],  p = e^(cx) / (e^(cx) + sum of e^(c x_l) over the L - 1 rivals).
 *
 * x ~ N(own, 1); one rival has mean `marked`, the others 0. Exact for any L by
 * p^n = integral of t^(n-1) e^(-t/p) / (n-1)!, under which the rivals separate. */
double slr_share(double c, int L, double own, double marked, int power, int moment);

/* The least risk of any predictor: 1 - E[p_e] under the posterior p. */
double slr_bayes(const struct slr *s);

/* Softmax attention at k = a k*, v = b v*, spiked:  1 - 2 b E[p_e(a)] + b^2
 * E[sum_l p_l(a)^2]. */
double slr_softmax(const struct slr *s, double a, double b);

/* E[chi_e]. */
double slr_location(const struct slr *s);

/* The least risk of sum_l (b + c chi_l) z_l:
 * spiked  L (L - 1) / (L^2 + nu (L - 1)),  max  1 - (1 + E[chi_e]^2) / L,  at
 * the mean of L. */
double slr_linear(const struct slr *s);

/* The least risk of sum_l sigma(chi_l) z_l over all functions sigma. */
double slr_elementwise(const struct slr *s);

/* The least risk of b sum_l sigma(c + a chi_l) z_l over a, b, c. */
double slr_family(const struct slr *s, double (*sigma)(double));

#endif
