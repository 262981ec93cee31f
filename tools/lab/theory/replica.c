#include "tools/lab/theory/replica.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LONGEST = 4, MOST = 2 * LONGEST, NEWTON = 40, HALVINGS = 20 };
enum { ROUNDS = 80, COARSE = 68 };          // COARSE: of them with an eighth of the draws

typedef double square[MOST][MOST];

/* ---- one sample -------------------------------------------------------------------- */

/* The teacher's chi and z, and the noise about m times them: k's L, then v's. */
struct draw {
    double teacher[MOST], noise[MOST], y;
};

static struct draw draw_one(const struct slr *s, int L, struct rng *r)
{
    struct draw d;
    real        g[2 * MOST];

    normals(r, g, 4 * L);
    for (int i = 0; i < 2 * L; i++)
        d.teacher[i] = g[i], d.noise[i] = g[2 * L + i];
    d.teacher[0] += sqrt(s->nu);            // the first token is the relevant one
    d.y = d.teacher[L];
    return d;
}

/* p of L chi, and f = p . z. */
static double attend(const double *u, int L, double *p)
{
    double most = u[0], sum = 0, f = 0;

    for (int l = 1; l < L; l++)
        most = fmax(most, u[l]);
    for (int l = 0; l < L; l++)
        sum += p[l] = exp(u[l] - most);
    for (int l = 0; l < L; l++)
        f += (p[l] /= sum) * u[L + l];
    return f;
}

/* What u is the least of. */
struct cost {
    const double *w, *V;                    // (2 L)
    double        y;
    int           L;
};

static double cost_at(const struct cost *c, const double *u)
{
    double p[LONGEST], error = attend(u, c->L, p) - c->y, sum = error * error;

    for (int i = 0; i < 2 * c->L; i++)
        sum += (u[i] - c->w[i]) * (u[i] - c->w[i]) / c->V[i];
    return sum / 2;
}

/* Its gradient and second derivatives; those of f left out where f curves the wrong way,
 * with whole = false.
 *
 *     df/dchi_l = p_l (z_l - f) = d_l,  df/dz_l = p_l
 *     d2f/dchi_l dchi_j = d_l ([l = j] - p_j) - p_l d_j
 *     d2f/dchi_l dz_j   = p_l ([l = j] - p_j)
 */
static void derive(const struct cost *c, const double *u, bool whole, double *gradient,
                   square A)
{
    const int L = c->L;
    double    p[LONGEST], d[MOST], error = attend(u, L, p), f = error;

    error -= c->y;
    for (int l = 0; l < L; l++)
        d[l] = p[l] * (u[L + l] - f), d[L + l] = p[l];
    for (int i = 0; i < 2 * L; i++) {
        gradient[i] = error * d[i] + (u[i] - c->w[i]) / c->V[i];
        for (int j = 0; j < 2 * L; j++)
            A[i][j] = d[i] * d[j] + (i == j ? 1 / c->V[i] : 0);
    }
    for (int l = 0; whole && l < L; l++)
        for (int j = 0; j < L; j++) {
            A[l][j] += error * (d[l] * ((l == j) - p[j]) - p[l] * d[j]);
            A[l][L + j] += error * p[l] * ((l == j) - p[j]);
            A[L + j][l] = A[l][L + j];
        }
}

/* A = R Rᵀ, R lower, in its place. False: A is not positive definite. */
static bool factorise(square A, int n)
{
    for (int j = 0; j < n; j++)
        for (int i = j; i < n; i++) {
            double x = A[i][j];

            for (int k = 0; k < j; k++)
                x -= A[i][k] * A[j][k];
            if (i == j && x <= 1e-9)
                return false;
            A[i][j] = i == j ? sqrt(x) : x / A[j][j];
        }
    return true;
}

/* x = A^-1 x */
static void divide(const square R, int n, double *x)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++)
            x[i] -= R[i][k] * x[k];
        x[i] /= R[i][i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++)
            x[i] -= R[k][i] * x[k];
        x[i] /= R[i][i];
    }
}

static void factorised(const struct cost *c, const double *u, double *gradient, square A)
{
    derive(c, u, true, gradient, A);
    if (!factorise(A, 2 * c->L)) {
        derive(c, u, false, gradient, A);
        factorise(A, 2 * c->L);
    }
}

/* u by Newton's steps from w, halved while they do not help; slope[i] = du_i/dw_i. */
static void settle(const struct cost *c, double *u, double *slope)
{
    const int n = 2 * c->L;
    double    step[MOST], to[MOST], now, steep = 1;
    square    A;

    memcpy(u, c->w, n * sizeof *u);
    for (int t = 0; t < NEWTON && steep > 1e-9; t++) {
        factorised(c, u, step, A);
        steep = 0;
        for (int i = 0; i < n; i++)
            steep = fmax(steep, fabs(step[i]));
        divide(A, n, step);
        now = cost_at(c, u);
        for (double size = 1, tries = 0; tries < HALVINGS; size /= 2, tries++) {
            for (int i = 0; i < n; i++)
                to[i] = u[i] - size * step[i];
            if (cost_at(c, to) <= now)
                break;
        }
        memcpy(u, to, n * sizeof *u);
    }
    factorised(c, u, step, A);
    for (int i = 0; i < n; i++) {
        double unit[MOST] = {0};

        unit[i] = 1;
        divide(A, n, unit);
        slope[i] = unit[i] / c->V[i];
    }
}

/* ---- all of them ------------------------------------------------------------------- */

struct side {                               // of k or of v
    double m, q, V;
    double Q, W, M;                         // sums over the samples so far
};

static double spread(const struct side *s) { return sqrt(fmax(s->q - s->m * s->m, 0)); }

static void add_sample(const struct slr *s, struct side side[2], struct rng *r)
{
    const int   L = s->hi;
    struct draw d = draw_one(s, L, r);
    double      w[MOST], V[MOST], u[MOST], slope[MOST];

    for (int i = 0; i < 2 * L; i++) {
        w[i] = side[i / L].m * d.teacher[i] + spread(&side[i / L]) * d.noise[i];
        V[i] = side[i / L].V;
    }
    settle(&(struct cost){w, V, d.y, L}, u, slope);
    for (int i = 0; i < 2 * L; i++) {
        struct side *to = &side[i / L];
        double       g = (u[i] - w[i]) / V[i];

        to->Q += g * g;
        to->W += (1 - slope[i]) / V[i];
        to->M += g * d.teacher[i];
    }
}

/* Half of the way to what the means say. */
static void move(struct side *s, double alpha, double decay, int n)
{
    double W = alpha * s->W / n, M = alpha * s->M / n + W * s->m, V = 1 / (decay + W);

    s->q = (s->q + (M * M + alpha * s->Q / n) * V * V) / 2;
    s->m = (s->m + M * V) / 2;
    s->V = (s->V + V) / 2;
}

struct slr_order replica_fit(const struct slr *s, double alpha, double decay, int n,
                             uint64_t seed)
{
    struct side side[2] = {{.m = 1, .q = 1.5, .V = 1}, {.m = 0.8, .q = 0.8, .V = 1}};

    for (int t = 0; t < ROUNDS; t++) {
        struct rng r = rng_open(seed, RNG_LAB, 1ull << 43);    // the same at each round
        int        draws = t < COARSE ? n / 8 : n;

        for (int i = 0; i < 2; i++)
            side[i].Q = side[i].W = side[i].M = 0;
        for (int i = 0; i < draws; i++)
            add_sample(s, side, &r);
        for (int i = 0; i < 2; i++)
            move(&side[i], alpha, decay, draws);
    }
    return (struct slr_order){.m_kk = side[0].m, .q_kk = side[0].q, .m_vv = side[1].m,
                              .q_vv = side[1].q};
}

/* E[g^2] of k and of v. The chance that token l is the relevant one, given w and y:
 *
 *     p_l ~ e^(sqrt(nu) w_l) N(y; w_l of z, V),   g = sqrt(nu) p_l,  p_l (y - w_l) / V
 */
static void add_posterior(const struct slr *s, struct side side[2], struct rng *r)
{
    const int   L = s->hi;
    struct draw d = draw_one(s, L, r);
    double      w[MOST], p[MOST] = {0}, V = fmax(1 - side[1].m, 1e-6);

    for (int i = 0; i < 2 * L; i++)
        w[i] = side[i / L].m * d.teacher[i] + spread(&side[i / L]) * d.noise[i];
    for (int l = 0; l < L; l++)
        p[l] = sqrt(s->nu) * w[l] - (d.y - w[L + l]) * (d.y - w[L + l]) / (2 * V);
    attend(p, L, p);
    for (int l = 0; l < L; l++) {
        double g = p[l] * (d.y - w[L + l]) / V;

        side[0].Q += s->nu * p[l] * p[l];
        side[1].Q += g * g;
    }
}

struct slr_order replica_bayes(const struct slr *s, double alpha, int n, uint64_t seed)
{
    struct side side[2] = {{.m = 0.5, .q = 0.5}, {.m = 0.5, .q = 0.5}};

    for (int t = 0; t < ROUNDS; t++) {
        struct rng r = rng_open(seed, RNG_LAB, 1ull << 43);

        side[0].Q = side[1].Q = 0;
        for (int i = 0; i < n; i++)
            add_posterior(s, side, &r);
        for (int i = 0; i < 2; i++) {
            double Q = alpha * side[i].Q / n;

            side[i].m = side[i].q = (side[i].m + Q / (1 + Q)) / 2;
        }
    }
    return (struct slr_order){.m_kk = sqrt(s->nu) * side[0].m,
                              .q_kk = s->nu * side[0].m,
                              .m_vv = side[1].m, .q_vv = side[1].m};
}
