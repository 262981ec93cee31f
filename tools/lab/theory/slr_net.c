#include "tools/lab/theory/slr_net.h"

#include "model/kernels/vmath.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

enum { LONGEST = SLR_LONGEST, SIDE = SLR_SIDE, LANES = 8, DRAWS = 2048 };

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

size_t slr_reals(int n, int L, int D)
{
    return (size_t)((n + SIDE - 1) / SIDE) * L * D * SIDE;
}

/* The first coordinate of token l of sample i; the next are SIDE apart. */
static real *token_of(const struct slr_batch *b, int i, int l)
{
    return b->x + ((size_t)(i / SIDE) * b->L + l) * b->D * SIDE + i % SIDE;
}

/* chi, z (L, SIDE): the tokens of a group, x, along k and v. */
static void project(const struct slr_batch *b, const real *x, const real *k,
                    const real *v, real *chi, real *z)
{
    const real by = 1 / vsqrt(b->D);

    for (int l = 0; l < b->L; l++, chi += SIDE, z += SIDE) {
        real along_k[SIDE] = {0}, along_v[SIDE] = {0};

        for (int j = 0; j < b->D; j++, x += SIDE)
            for (int i = 0; i < SIDE; i++) {
                along_k[i] += k[j] * x[i];
                along_v[i] += v[j] * x[i];
            }
        vscale(chi, by, along_k, SIDE);
        vscale(z, by, along_v, SIDE);
    }
}

/* Sample i, whose tokens have the teacher's scores star (L, SIDE) and values value. */
static void draw_one(const struct slr *s, struct slr_batch *b, int i, const real *k,
                     const real *star, const real *value, double kv, struct rng *r)
{
    bool   spiked = s->kind == SLR_SPIKED;
    int    L = s->lo + (int)rng_below(r, s->hi - s->lo + 1), at;
    double chi[LONGEST], root = spiked ? sqrt(s->nu / b->D) : 0;

    for (int l = 0; l < L; l++)
        chi[l] = star[l * SIDE];
    b->length[i] = L;
    at = spiked ? (int)rng_below(r, L) : choose(s->nu, chi, L, r);
    b->at[i] = at;
    b->y[i] = value[at * SIDE];
    if (!spiked)
        return;
    for (int j = 0; j < b->D; j++)
        token_of(b, i, at)[j * SIDE] += (real)root * k[j];
    b->y[i] += (real)(root * kv / sqrt(b->D));
}

void slr_draw(const struct slr *s, struct slr_batch *b, const real *k, const real *v,
              struct rng *r)
{
    real star[LONGEST * SIDE], value[LONGEST * SIDE], kv = vdot(k, v, b->D);

    normals(r, b->x, (long)slr_reals(b->n, b->L, b->D));
    for (int i = 0; i < b->n; i++) {
        if (i % SIDE == 0)
            project(b, token_of(b, i, 0), k, v, star, value);
        draw_one(s, b, i, k, star + i % SIDE, value + i % SIDE, kv, r);
    }
}

/* ---- loss -------------------------------------------------------------------------- */

/* The loss of sample i with its tokens' chi and z, SIDE apart, which make way for what
 * its gradient takes of them: for k and for v. */
static double loss_of(enum slr_arm arm, const struct slr_batch *b, int i, const real *w,
                      real *chi, real *z, real *dc)
{
    const int L = b->length[i], D = b->D;
    double    score[LONGEST], sigma[LONGEST], by = 1 / sqrt(D), f = 0, sum, error;

    for (int l = 0; l < L; l++)
        score[l] = chi[l * SIDE];
    sum = weigh(arm, score, w[2 * D], L, sigma);
    for (int l = 0; l < L; l++)
        f += sigma[l] * z[l * SIDE];
    error = (f - b->y[i]) / b->n;

    // df/dchi_l = slope(chi_l) (z_l - f) / sum when normalised, else slope(chi_l) z_l
    for (int l = 0; l < L; l++) {
        double d = error / sum * arms[arm].slope(score[l]) *
                   (z[l * SIDE] - (arms[arm].normalised ? f : 0));

        chi[l * SIDE] = (real)(d * by);
        z[l * SIDE] = (real)(error * sigma[l] * by);
        *dc += arms[arm].biased ? (real)d : 0;
    }
    for (int l = L; l < b->L; l++)
        chi[l * SIDE] = z[l * SIDE] = 0;
    return error * (f - b->y[i]) / 2;
}

/* What SIDE / LANES parts add to one lane. */
static inline real fold(const real *by, const real *x)
{
    return by[0] * x[0] + by[LANES] * x[LANES] + by[2 * LANES] * x[2 * LANES] +
           by[3 * LANES] * x[3 * LANES];
}

/* sum[j] += the tokens of a group times by_k, by_v (L, SIDE), in LANES parts. */
static void gather(const struct slr_batch *b, const real *x, const real *by_k,
                   const real *by_v, real sum[][2 * LANES])
{
    for (int l = 0; l < b->L; l++, by_k += SIDE, by_v += SIDE)
        for (int j = 0; j < b->D; j++, x += SIDE) {
            #pragma omp simd
            for (int i = 0; i < LANES; i++) {
                sum[j][i] += fold(by_k + i, x + i);
                sum[j][LANES + i] += fold(by_v + i, x + i);
            }
        }
}

double slr_loss(enum slr_arm arm, const struct slr_batch *b, const real *w, real *g)
{
    real   chi[LONGEST * SIDE], z[LONGEST * SIDE], sum[SLR_WIDEST][2 * LANES] = {{0}};
    double total = 0;
    int    D = b->D;

    for (int first = 0; first < b->n; first += SIDE) {
        const real *x = token_of(b, first, 0);
        int         n = b->n - first < SIDE ? b->n - first : SIDE;

        project(b, x, w, w + D, chi, z);
        for (int i = 0; i < n; i++)
            total += loss_of(arm, b, first + i, w, chi + i, z + i, &g[2 * D]);
        for (int l = 0; l < b->L && n < SIDE; l++)
            for (int i = n; i < SIDE; i++)
                chi[l * SIDE + i] = z[l * SIDE + i] = 0;
        gather(b, x, chi, z, sum);
    }
    for (int j = 0; j < D; j++)
        for (int i = 0; i < LANES; i++)
            g[j] += sum[j][i], g[D + j] += sum[j][LANES + i];
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
