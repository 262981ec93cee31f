#include "tools/lab/theory/factor.h"

#include "data/base/rng.h"

#include <math.h>
#include <string.h>

enum { N = FACTOR, NN = FACTOR2 };

/* ---- small matrices ---------------------------------------------------------------- */

/* c = op(a) op(b), op a transposition where the flag is set. */
static void multiply(double *c, const double *a, bool ta, const double *b, bool tb)
{
    double out[NN];

    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;

            for (int k = 0; k < N; k++)
                sum += (ta ? a[k * N + i] : a[i * N + k]) *
                       (tb ? b[j * N + k] : b[k * N + j]);
            out[i * N + j] = sum;
        }
    memcpy(c, out, sizeof out);
}

/* x <- x m^-1 for a positive definite m, by Cholesky: m = L Lᵀ, then y Lᵀ = x and
 * z L = y. */
static void divide(double *x, const double *m)
{
    double L[NN] = {0};

    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++) {
            double sum = m[i * N + j];

            for (int k = 0; k < j; k++)
                sum -= L[i * N + k] * L[j * N + k];
            L[i * N + j] = i == j ? sqrt(sum) : sum / L[j * N + j];
        }
    for (int r = 0; r < N; r++) {
        double *row = x + r * N;

        for (int i = 0; i < N; i++) {
            for (int k = 0; k < i; k++)
                row[i] -= L[i * N + k] * row[k];
            row[i] /= L[i * N + i];
        }
        for (int i = N - 1; i >= 0; i--) {
            for (int k = i + 1; k < N; k++)
                row[i] -= L[k * N + i] * row[k];
            row[i] /= L[i * N + i];
        }
    }
}

/* One rotation that makes columns p and q of U orthogonal; V turns with it. */
static void rotate(double *U, double *V, int p, int q)
{
    double a = 0, b = 0, c = 0, angle, co, si;

    for (int i = 0; i < N; i++) {
        a += U[i * N + p] * U[i * N + p];
        b += U[i * N + q] * U[i * N + q];
        c += U[i * N + p] * U[i * N + q];
    }
    angle = 0.5 * atan2(2 * c, a - b);
    co = cos(angle), si = sin(angle);
    for (int i = 0; i < 2 * N; i++) {
        double *row = i < N ? U + i * N : V + (i - N) * N, x = row[p], y = row[q];

        row[p] = co * x + si * y;
        row[q] = co * y - si * x;
    }
}

/* Factors of G = P Rᵀ with PᵀP = RᵀR diagonal: its singular value decomposition by
 * one-sided Jacobi rotations, the singular values shared out evenly. */
static void split(const double *G, double *P, double *R)
{
    memcpy(P, G, NN * sizeof *P);
    memset(R, 0, NN * sizeof *R);
    for (int i = 0; i < N; i++)
        R[i * N + i] = 1;
    for (int sweep = 0; sweep < 30; sweep++)
        for (int p = 0; p < N; p++)
            for (int q = p + 1; q < N; q++)
                rotate(P, R, p, q);
    for (int j = 0; j < N; j++) {
        double norm = 0;

        for (int i = 0; i < N; i++)
            norm += P[i * N + j] * P[i * N + j];
        norm = sqrt(sqrt(norm));
        for (int i = 0; i < N; i++)
            P[i * N + j] /= norm, R[i * N + j] *= norm;
    }
}

/* ---- the loss ---------------------------------------------------------------------- */

/* P and R from A and B, and back. */
static void to_factors(const struct factor *f, double *P, double *R)
{
    for (int i = 0; i < NN; i++) {
        P[i] = f->A[i] * sqrt(f->s[i % N]);
        R[i] = f->B[i] * sqrt(f->s[i % N] * f->s[i / N]);
    }
}

static void from_factors(struct factor *f, const double *P, const double *R)
{
    for (int i = 0; i < NN; i++) {
        f->A[i] = P[i] / sqrt(f->s[i % N]);
        f->B[i] = R[i] / sqrt(f->s[i % N] * f->s[i / N]);
    }
}

/* E = P Rᵀ - G; returns |E|^2 / 2. */
static double residual(const struct factor *f, const double *P, const double *R,
                       double *E)
{
    double sum = 0;

    multiply(E, P, false, R, true);
    for (int i = 0; i < NN; i++) {
        E[i] -= f->M[i] * sqrt(f->s[i % N]);
        sum += E[i] * E[i] / 2;
    }
    return sum;
}

double factor_loss(const struct factor *f, double *dA, double *dB)
{
    double P[NN], R[NN], E[NN], loss;

    to_factors(f, P, R);
    loss = residual(f, P, R, E);
    if (!dA)
        return loss;
    multiply(dA, E, false, R, false);
    multiply(dB, E, true, P, false);
    for (int i = 0; i < NN; i++) {
        dA[i] *= sqrt(f->s[i % N]);
        dB[i] *= sqrt(f->s[i % N] * f->s[i / N]);
    }
    return loss;
}

/* ---- descent ----------------------------------------------------------------------- */

void factor_open(struct factor *f, double condition, int samples, uint64_t seed)
{
    struct rng r = rng_open(seed, RNG_LAB, 1ull << 43);
    double     C[NN] = {0}, P[NN], R[NN], x[N], y;

    for (int i = 0; i < N; i++)
        f->s[i] = pow(condition, -i / (N - 1.0));
    for (int i = 0; i < NN; i++)
        f->M[i] = rng_normal(&r);
    for (int k = 0; k < samples; k++) {
        for (int i = 0; i < N; i++)
            x[i] = rng_normal(&r);              // whitened: S^-1/2 times a token
        for (int i = 0; i < N; i++) {
            y = 0;
            for (int j = 0; j < N; j++)
                y += f->M[i * N + j] * sqrt(f->s[j]) * x[j];
            for (int j = 0; j < N; j++)
                C[i * N + j] += y * x[j] / samples;
        }
    }
    split(C, P, R);
    from_factors(f, P, R);
}

static void adam_part(double *w, const double *g, double *m, double *v, double lr, long t)
{
    for (int i = 0; i < NN; i++) {
        m[i] += 0.1 * (g[i] - m[i]);
        v[i] += 0.001 * (g[i] * g[i] - v[i]);
        w[i] -= lr * m[i] / (1 - pow(0.9, t)) /
                (sqrt(v[i] / (1 - pow(0.999, t))) + 1e-12);
    }
}

static void preconditioned(struct factor *f, double lr)
{
    double P[NN], R[NN], E[NN], dP[NN], dR[NN], m[NN];

    to_factors(f, P, R);
    residual(f, P, R, E);
    multiply(dP, E, false, R, false);
    multiply(dR, E, true, P, false);
    multiply(m, R, true, R, false);
    divide(dP, m);
    multiply(m, P, true, P, false);
    divide(dR, m);
    for (int i = 0; i < NN; i++)
        P[i] -= lr * dP[i], R[i] -= lr * dR[i];
    from_factors(f, P, R);
}

/* One step: A -= lr dA, or Adam's, or ScaledGD's in P and R,
 *     P -= lr (P Rᵀ - G) R (RᵀR)^-1,   R -= lr (P Rᵀ - G)ᵀ P (PᵀP)^-1.
 * moments (2, 2, FACTOR2) are Adam's; t counts from 1. */
static void step(struct factor *f, enum descent how, double lr, double *moments, long t)
{
    double dA[NN], dB[NN];

    if (how == DESCENT_PRECONDITIONED) {
        preconditioned(f, lr);
        return;
    }
    factor_loss(f, dA, dB);
    if (how == DESCENT_ADAM) {
        adam_part(f->A, dA, moments, moments + NN, lr, t);
        adam_part(f->B, dB, moments + 2 * NN, moments + 3 * NN, lr, t);
    } else {
        for (int i = 0; i < NN; i++)
            f->A[i] -= lr * dA[i], f->B[i] -= lr * dB[i];
    }
}

int factor_run(const struct factor *from, enum descent how, double lr, double goal,
               int most, const int *at, double *curve, int points)
{
    struct factor f = *from;
    double        moments[4 * NN] = {0}, first = factor_loss(&f, NULL, NULL), share = 1;
    int           reached = most + 1, point = 0;

    for (int t = 0; t <= most; t++) {
        share = factor_loss(&f, NULL, NULL) / first;
        if (curve && point < points && at[point] == t)
            curve[point++] = share;
        if (share < goal && reached > most)
            reached = t;
        if (!(share < 1e6) || (reached <= most && point >= points))
            break;
        step(&f, how, lr, moments, t + 1);
    }
    for (; curve && point < points; point++)
        curve[point] = NAN;
    return reached;
}

/* ---- the layer itself -------------------------------------------------------------- */

double factor_layer_loss(const struct factor *f, int n, struct rng *r)
{
    double x[FACTOR], q[FACTOR] = {0}, sum = 0, T[FACTOR] = {0}, loss = 0;

    for (int i = 0; i < FACTOR; i++)
        x[i] = rng_normal(r) * sqrt(f->s[i]);
    for (int i = 0; i < FACTOR2; i++)
        q[i % FACTOR] += f->B[i] * x[i / FACTOR];
    for (int k = 0; k < n; k++) {
        double z[FACTOR], w = 0;

        for (int i = 0; i < FACTOR; i++)
            z[i] = rng_normal(r) * sqrt(f->s[i]), w += z[i] * q[i];
        sum += w = exp(w);
        for (int i = 0; i < FACTOR; i++)
            T[i] += w * z[i];
    }
    for (int i = 0; i < FACTOR; i++) {
        double off = 0;

        for (int j = 0; j < FACTOR; j++)
            off += f->A[i * FACTOR + j] * T[j] / sum - f->M[i * FACTOR + j] * x[j];
        loss += off * off / 2;
    }
    return loss;
}
