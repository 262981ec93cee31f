/* Softmax attention over prompts of random tokens, through the kernel of
 * model/cores/attention.h, and its limit for an endless prompt (arXiv:2512.11784),
 * with V = I and a = U z:
 *
 *     T_n(a) = sum_i x_i e^(x_i . a) / sum_i e^(x_i . a)
 *     x ~ N(0, G)                    T(a) = G a
 *     x ~ sum_k N(m_k, G) / K        T(a) = G a + sum_k w_k m_k,  w = softmax_k(m_k . a)
 *     x = +-1 in each coordinate     T(a) = tanh(a): only Gaussians give a linear map
 */
#ifndef WEFT_LAB_PROMPT_H
#define WEFT_LAB_PROMPT_H

#include "tools/lab/learn.h"

#include <stdbool.h>

enum { PROMPT_MAX = 8, PROMPT_PARTS = 2 };

struct prompt {
    int    d;
    bool   signs;
    int    parts;                           // 0: one Gaussian about zero
    double G[PROMPT_MAX];                   // variances
    double m[PROMPT_PARTS][PROMPT_MAX];
};

/* T(a), and da = the gradient of e . T(a), both (d). */
void prompt_limit(const struct prompt *p, const double *a, const double *e, double *T,
                  double *da);

/* n E|T_n(a) - T(a)|^2 as n grows, of one Gaussian:  e^(a.Ga) (tr G + |G a|^2). */
double prompt_constant(const struct prompt *p, const double *a);

/* What the kernel does with many prompts of n tokens. value is the gradient by V,
 * as the kernel's dv tells it. */
struct prompt_error {
    struct estimate output, query, value;   // squared distances from the limit
    double mean[PROMPT_MAX], se[PROMPT_MAX];    // of the output
};

/* False: not enough memory. */
bool prompt_measure(const struct prompt *p, const double *a, const double *e, int n,
                    long prompts, uint64_t seed, struct prompt_error *out);

#endif
