#include "tools/lab/theory/slr_net.h"

#include "model/kernels/vmath.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { LONGEST = 64, DRAWS = 2048 };

const char *const slr_arm_name[SLR_ARMS] = {
    [SLR_SOFTMAX] = "softmax", [SLR_SOFTPLUS] = "softplus", [SLR_LINEAR] = "linear",
    [SLR_ERF] = "erf", [SLR_SIGMOID] = "sigmoid", [SLR_RELU] = "relu",
};

/* ---- activations ------------------------------------------------------------------- */

static double linear(double x) { return 1 + x; }
static double one_plus_erf(double x) { return 1 + erf(x); }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double relu(double x) { return x > 0 ? x : 0; }
static double softplus(double x) { return (x > 0 ? x : 0) + log1p(exp(-fabs(x))); }

static double one(double x) { return (void)x, 1; }
static double erf_slope(double x) { return 1.1283791670955126 * exp(-x * x); }
static double sigmoid_slope(double x) { return sigmoid(x) * sigmoid(-x); }
static double step(double x) { return x > 0; }

/* A normalised arm divides value by its sum over the tokens. */
static const struct {
    bool normalised, biased;
    double (*value)(double), (*slope)(double);
} arms[SLR_ARMS] = {
    [SLR_SOFTMAX]  = {true, false, exp, exp},
    [SLR_SOFTPLUS] = {true, false, softplus, sigmoid},
    [SLR_LINEAR]   = {false, false, linear, one},
    [SLR_ERF]      = {false, true, one_plus_erf, erf_slope},
    [SLR_SIGMOID]  = {false, true, sigmoid, sigmoid_slope},
    [SLR_RELU]     = {false, true, relu, step},
};

double (*slr_activation(enum slr_arm arm))(double)
{
    return arms[arm].normalised ? NULL : arms[arm].value;
}

/* sigma (L) from chi (L), which loses its maximum when the arm does not mind. Returns
 * what value was divided by. */
static double weigh(enum slr_arm arm, double *chi, double c, int L, double *sigma)
{
    double sum = 0, top = chi[0];

    for (int l = 1; l < L; l++)
        top = chi[l] > top ? chi[l] : top;
    for (int l = 0; l < L; l++) {
        chi[l] += arms[arm].biased ? c : arm == SLR_SOFTMAX ? -top : 0;
        sum += sigma[l] = arms[arm].value(chi[l]);
    }
    if (!arms[arm].normalised)
        return 1;
    for (int l = 0; l < L; l++)
        sigma[l] /= sum;
    return sum;
}

/* ---- samples ----------------------------------------------------------------------- */

void slr_teacher(real *k, real *v, int D, struct rng *r)
{
    for (int i = 0; i < D; i++) {
        k[i] = rng_next(r) >> 63 ? 1 : -1;
        v[i] = i % 2 ? k[i] : -k[i];
    }
}

/* The token that max takes among L with scores chi. */
static int choose(double nu, const double *chi, int L, struct rng *r)
{
    double top = -INFINITY;
    int    at = 0;

    for (int l = 0; l < L; l++) {
        double gumbel = isinf(nu) ? 0 : -log(-log(1 - rng_uniform(r))) / nu;

        if (chi[l] + gumbel > top)
            top = chi[l] + gumbel, at = l;
    }
    return at;
}

static void draw_one(const struct slr *s, struct slr_batch *b, int i, const real *k,
                     const real *v, struct rng *r)
{
    int    L = s->lo + (int)rng_below(r, s->hi - s->lo + 1), D = b->D;
    real  *x = b->x + (size_t)i * b->L * D, root = vsqrt(D);
    double chi[LONGEST];

    b->length[i] = L;
    if (s->kind == SLR_SPIKED) {
        b->at[i] = (int)rng_below(r, L);
        x += (size_t)b->at[i] * D;
        for (int j = 0; j < D; j++)
            x[j] += (real)sqrt(s->nu) * k[j] / root;
    } else {
        for (int l = 0; l < L; l++)
            chi[l] = vdot(x + (size_t)l * D, k, D) / root;
        b->at[i] = choose(s->nu, chi, L, r);
        x += (size_t)b->at[i] * D;
    }
    b->y[i] = vdot(x, v, D) / root;
}

void slr_draw(const struct slr *s, struct slr_batch *b, const real *k, const real *v,
              struct rng *r)
{
    normals(r, b->x, (long)b->n * b->L * b->D);
    for (int i = 0; i < b->n; i++)
        draw_one(s, b, i, k, v, r);
}

/* ---- loss -------------------------------------------------------------------------- */

static inline void add_scaled(real *g, const real *x, real by, int D)
{
    for (int j = 0; j < D; j++)
        g[j] += by * x[j];
}

double slr_loss(enum slr_arm arm, const struct slr_batch *b, const real *w, real *g)
{
    int    D = b->D;
    double chi[LONGEST], z[LONGEST], sigma[LONGEST], root = sqrt(D), total = 0;

    for (int i = 0; i < b->n; i++) {
        const real *x = b->x + (size_t)i * b->L * D;
        double      f = 0, sum, error;

        for (int l = 0; l < b->length[i]; l++) {
            chi[l] = vdot(x + (size_t)l * D, w, D) / root;
            z[l] = vdot(x + (size_t)l * D, w + D, D) / root;
        }
        sum = weigh(arm, chi, w[2 * D], b->length[i], sigma);
        for (int l = 0; l < b->length[i]; l++)
            f += sigma[l] * z[l];
        error = (f - b->y[i]) / b->n;
        total += error * (f - b->y[i]) / 2;

        // df/dchi_l = slope(chi_l) (z_l - f) / sum when normalised, else slope(chi_l) z_l
        for (int l = 0; l < b->length[i]; l++) {
            double d = error * arms[arm].slope(chi[l]) / sum *
                       (z[l] - arms[arm].normalised * f);

            add_scaled(g, x + (size_t)l * D, (real)(d / root), D);
            add_scaled(g + D, x + (size_t)l * D, (real)(error * sigma[l] / root), D);
            g[2 * D] += arms[arm].biased ? (real)d : 0;
        }
    }
    return total;
}

/* ---- risk -------------------------------------------------------------------------- */

struct slr_order slr_order(const real *w, const real *k, const real *v, int D)
{
    struct slr_order o = {.c = w[2 * D]};

    for (int i = 0; i < D; i++) {
        double wk = w[i], wv = w[D + i];

        o.m_kk += wk * k[i] / D, o.m_vv += wv * v[i] / D;
        o.m_kv += wk * v[i] / D, o.m_vk += wv * k[i] / D;
        o.q_kk += wk * wk / D, o.q_vv += wv * wv / D, o.q_vk += wk * wv / D;
    }
    return o;
}

/* A token's (chi*, chi) = (g, m_kk g + side h) about their means, g and h ~ N(0, 1);
 * given those, z is N(m_vk g + z_h h, rest) and z* is N(star_h h, star_rest), with
 * covariance `both`. */
struct given {
    double side, z_h, star_h, rest, star_rest, both;
};

static struct given given_chi(const struct slr_order *o)
{
    double       side = sqrt(fmax(o->q_kk - o->m_kk * o->m_kk, 0));
    struct given c = {.side = side};

    c.z_h = side > 1e-9 ? (o->q_vk - o->m_vk * o->m_kk) / side : 0;
    c.star_h = side > 1e-9 ? o->m_kv / side : 0;
    c.rest = o->q_vv - o->m_vk * o->m_vk - c.z_h * c.z_h;
    c.star_rest = 1 - c.star_h * c.star_h;
    c.both = o->m_vv - c.z_h * c.star_h;
    return c;
}

/* E[(f - y)^2 | chi, chi*] of one sample; g (2, L). */
static double risk_given(const struct slr *s, enum slr_arm arm, const struct slr_order *o,
                         const struct given *c, const real *g, int L, struct rng *r)
{
    bool   spiked = s->kind == SLR_SPIKED;
    double star[LONGEST], chi[LONGEST], sigma[LONGEST], f = 0, squares = 0, off;
    int    at;

    for (int l = 0; l < L; l++)
        star[l] = g[l];
    at = spiked ? (int)rng_below(r, L) : choose(s->nu, star, L, r);
    if (spiked)
        star[at] += sqrt(s->nu);
    for (int l = 0; l < L; l++)
        chi[l] = o->m_kk * star[l] + c->side * g[L + l];
    weigh(arm, chi, o->c, L, sigma);
    for (int l = 0; l < L; l++) {
        f += sigma[l] * (o->m_vk * star[l] + c->z_h * g[L + l]);
        squares += sigma[l] * sigma[l];
    }
    off = f - c->star_h * g[L + at];
    return off * off + squares * c->rest - 2 * sigma[at] * c->both + c->star_rest;
}

struct estimate slr_risk(const struct slr *s, enum slr_arm arm, const struct slr_order *o,
                         long n, uint64_t seed)
{
    struct given given = given_chi(o);
    long         blocks = (n + DRAWS - 1) / DRAWS;
    double       sum = 0, squares = 0;

    for (long b = 0; b < blocks; b++) {
        struct rng r = rng_open(seed, RNG_LAB, (1ull << 40) + b);
        real       g[2 * LONGEST];

        for (int i = 0; i < DRAWS; i++) {
            int    L = s->lo + (int)rng_below(&r, s->hi - s->lo + 1);
            double risk;

            normals(&r, g, 2 * L);
            risk = risk_given(s, arm, o, &given, g, L, &r);
            sum += risk, squares += risk * risk;
        }
    }
    return estimate_of(sum, squares, (double)blocks * DRAWS);
}
