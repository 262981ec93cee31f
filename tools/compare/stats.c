#include "tools/compare/stats.h"

#include <math.h>

struct mean mean_of(const double *x, int n)
{
    struct mean m = {.mean = NAN, .error = NAN};
    double      sum = 0, squares = 0;

    for (int i = 0; i < n; i++)
        if (isfinite(x[i])) {
            sum += x[i];
            m.n++;
        }
    if (m.n == 0)
        return m;
    m.mean = sum / m.n;
    for (int i = 0; i < n; i++)
        if (isfinite(x[i]))
            squares += (x[i] - m.mean) * (x[i] - m.mean);
    if (m.n > 1)
        m.error = sqrt(squares / (m.n - 1) / m.n);
    return m;
}

struct rate rate_of(const double *x, int n)
{
    double best = NAN, worst = NAN;

    for (int i = 0; i < n; i++)
        if (isfinite(x[i])) {
            best = fmax(best, x[i]);
            worst = fmin(worst, x[i]);
        }
    return (struct rate){best, worst < 0.9 * best};
}

/* The continued fraction of I_x(a, b), by Lentz's method; it converges quickly for
 * x < (a + 1) / (a + b + 2):
 *
 *     1/(1+ d1/(1+ d2/(1+ ...)))    d_2m   = m (b-m) x / ((a+2m-1)(a+2m))
 *                                   d_2m+1 = -(a+m)(a+b+m) x / ((a+2m)(a+2m+1))
 */
static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 0, f = 1;

    for (int i = 1; i < 400; i++) {
        double m = i / 2, k = a + 2 * m;
        double term = i & 1 ? -(a + m) * (a + b + m) * x / (k * (k + 1))
                            : m * (b - m) * x / ((k - 1) * k);

        d = 1 / (1 + term * d);
        c = 1 + term / c;
        f *= c * d;
        if (fabs(c * d - 1) < 1e-15)
            break;
    }
    return 1 / f;
}

double beta_share(double a, double b, double x)
{
    double front;

    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    if (x > (a + 1) / (a + b + 2))
        return 1 - beta_share(b, a, 1 - x);
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a;
    return front * beta_fraction(a, b, x);
}

double student_p(double t, double freedom)
{
    return isnan(t) ? NAN : beta_share(freedom / 2, 0.5, freedom / (freedom + t * t));
}

struct paired paired_test(const double *x, const double *y, int n)
{
    double        sum = 0, squares = 0;
    struct paired r = {.diff = {.mean = NAN, .error = NAN}, .p = NAN};

    for (int i = 0; i < n; i++)
        if (isfinite(y[i] - x[i])) {
            sum += y[i] - x[i];
            r.diff.n++;
        }
    if (r.diff.n == 0)
        return r;
    r.diff.mean = sum / r.diff.n;
    for (int i = 0; i < n; i++)
        if (isfinite(y[i] - x[i]))
            squares += pow(y[i] - x[i] - r.diff.mean, 2);
    if (r.diff.n < 2)
        return r;
    r.diff.error = sqrt(squares / (r.diff.n - 1) / r.diff.n);
    r.p = r.diff.error > 0 ? student_p(r.diff.mean / r.diff.error, r.diff.n - 1)
                           : r.diff.mean == 0;
    return r;
}

void holm(double *p, int n)
{
    int    tests = 0, left;
    double least = 0;

    for (int i = 0; i < n; i++)
        tests += !isnan(p[i]);
    left = tests;
    for (double last = -1; left > 0;) {
        double next = INFINITY, raised;
        int    same = 0;

        for (int i = 0; i < n; i++)
            if (p[i] > last && p[i] < next)
                next = p[i];
        if (!isfinite(next))
            break;
        raised = fmin(1, fmax(least, next * left));
        for (int i = 0; i < n; i++)
            same += p[i] == next;
        least = raised;
        last = next;
        left -= same;
        // corrected values wait below zero, so that they are not met again
        for (int i = 0; i < n; i++)
            if (p[i] == next)
                p[i] = -2 - raised;
    }
    for (int i = 0; i < n; i++)
        if (p[i] <= -2)
            p[i] = -2 - p[i];
}
