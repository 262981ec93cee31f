#include "tools/lab/theory/oracle.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Trapezoids on the whole line converge faster than any power of the step for these
 * integrands. Gaussians run over |x| <= SPAN, t = e^u over LOW <= u <= HIGH. */
enum { SPAN = 9, LOW = -40, HIGH = 4 };

static double gauss(double x)
{
    return 0.39894228040143268 * exp(-x * x / 2);
}

static double normal_cdf(double x)
{
    return erfc(-x * 0.70710678118654752) / 2;
}

/* ---- shares of a softmax ----------------------------------------------------------- */

/* A step in x for which c times it is a step in u that both integrals bear. */
static double step_of(double c)
{
    return c > 3 ? 0.3 / c : 0.1;
}

/* E[exp(-e^(w + c x))], x ~ N(0, 1). */
static double laplace(double w, double c, double h)
{
    double sum = 0;
    int    half = (int)(SPAN / h);

    for (int i = -half; i <= half; i++)
        sum += gauss(i * h) * exp(-exp(w + c * i * h));
    return sum * h;
}

/* What all rivals together let through at w = u - c x: a table over multiples of c h. */
static double *rivals(double c, int L, double own, double marked, double h,
                      int first, int n)
{
    double *through = malloc(n * sizeof *through);

    for (int k = 0; through && k < n; k++) {
        double w = (first + k) * c * h - c * own;
        double plain = L > 2 || marked == 0 ? laplace(w, c, h) : 1;
        double other = marked == 0 ? plain : laplace(w + c * marked, c, h);

        through[k] = pow(plain, L - 2) * other;
    }
    return through;
}

double slr_share(double c, int L, double own, double marked, int power, int moment)
{
    double  h = step_of(c), sum = 0, *through;
    int     half = (int)(SPAN / h), from = (int)(LOW / (c * h)),
            to = (int)(HIGH / (c * h));

    if (L < 2)
        return moment ? own : 1;
    through = rivals(c, L, own, marked, h, from - half, to - from + 2 * half + 1);
    if (!through)
        return NAN;
    for (int j = from; j <= to; j++) {
        double t = exp(j * c * h), inner = 0;

        for (int i = -half; i <= half; i++)
            inner += gauss(i * h) * (moment ? own + i * h : 1) *
                     through[j - i - from + half];
        sum += pow(t, power) * exp(-t) * inner;
    }
    free(through);
    return sum * c * h * h;
}

/* ---- softmax ----------------------------------------------------------------------- */

static double mean_length(const struct slr *s)
{
    return (s->lo + s->hi) / 2.0;
}

/* The mean of f over the lengths. */
static double over_lengths(const struct slr *s, double (*f)(const struct slr *, int L))
{
    double sum = 0;

    for (int L = s->lo; L <= s->hi; L++)
        sum += f(s, L);
    return sum / (s->hi - s->lo + 1);
}

static double bayes_at(const struct slr *s, int L)
{
    if (s->kind == SLR_SPIKED)
        return 1 - slr_share(sqrt(s->nu), L, sqrt(s->nu), 0, 1, 0);
    return isinf(s->nu) ? 0 : 1 - L * slr_share(s->nu, L, 0, 0, 2, 0);
}

double slr_bayes(const struct slr *s)
{
    return over_lengths(s, bayes_at);
}

double slr_softmax(const struct slr *s, double a, double b)
{
    double root = sqrt(s->nu), sum = 0;

    for (int L = s->lo; L <= s->hi; L++) {
        double right = slr_share(a, L, root, 0, 1, 0);
        double squares = slr_share(a, L, root, 0, 2, 0);

        if (L > 1)
            squares += (L - 1) * slr_share(a, L, 0, root, 2, 0);
        sum += 1 - 2 * b * right + b * b * squares;
    }
    return sum / (s->hi - s->lo + 1);
}

/* ---- densities of chi -------------------------------------------------------------- */

/* of(x): the relevant token's; all(x): summed over the tokens; both in the mean over L.
 * With them the risk of any sigma is 1 - 2 int of sigma + int all sigma^2, least at
 * sigma = of/all. */
struct density {
    double  from, h;
    int     n;
    double *of, *all;
};

/* P(e = 1 | chi_1 = x) under softmax(nu chi), for x = i h, |i| <= half. */
static bool chosen(double nu, int L, double h, int half, double *p)
{
    int     from = (int)(LOW / (nu * h)), to = (int)(HIGH / (nu * h));
    double *through = rivals(nu, L, 0, 0, h, from - half, to - from + 2 * half + 1);

    for (int i = -half; through && i <= half; i++) {
        p[i + half] = 0;
        for (int j = from; j <= to; j++) {
            double t = exp(j * nu * h);

            p[i + half] += t * exp(-t) * through[j - i - from + half] * nu * h;
        }
    }
    free(through);
    return through != NULL;
}

static bool add_max(const struct slr *s, struct density *d, int L)
{
    int     half = d->n / 2;
    double *p = malloc(d->n * sizeof *p);
    bool    ok = p && (L < 2 || isinf(s->nu) || chosen(s->nu, L, d->h, half, p));

    for (int i = 0; ok && i < d->n; i++) {
        double x = d->from + i * d->h;
        double is = L < 2 ? 1 : isinf(s->nu) ? pow(normal_cdf(x), L - 1) : p[i];

        d->of[i] += L * gauss(x) * is / (s->hi - s->lo + 1);
    }
    free(p);
    return ok;
}

static void close_density(struct density *d)
{
    free(d->of), free(d->all);
}

static bool open_density(const struct slr *s, struct density *d)
{
    bool   spiked = s->kind == SLR_SPIKED, ok;
    double shift = spiked ? sqrt(s->nu) : 0;

    d->h = spiked || isinf(s->nu) ? 0.02 : step_of(s->nu) / 2;
    d->n = 2 * (int)(SPAN / d->h) + 1 + (int)(shift / d->h);
    d->from = -(int)(SPAN / d->h) * d->h;
    d->of = calloc(d->n, sizeof *d->of);
    d->all = calloc(d->n, sizeof *d->all);
    ok = d->of && d->all;
    for (int i = 0; ok && i < d->n; i++) {
        double x = d->from + i * d->h;

        d->of[i] = spiked ? gauss(x - shift) : 0;
        d->all[i] = d->of[i] + (mean_length(s) - spiked) * gauss(x);
    }
    for (int L = s->lo; ok && !spiked && L <= s->hi; L++)
        ok = add_max(s, d, L);
    if (!ok)
        close_density(d);
    return ok;
}

double slr_location(const struct slr *s)
{
    struct density d;
    double         sum = 0;

    if (!open_density(s, &d))
        return NAN;
    for (int i = 0; i < d.n; i++)
        sum += d.of[i] * (d.from + i * d.h);
    close_density(&d);
    return sum * d.h;
}

double slr_linear(const struct slr *s)
{
    double L = mean_length(s), m;

    if (s->kind == SLR_SPIKED)
        return L * (L - 1) / (L * L + s->nu * (L - 1));
    m = slr_location(s);
    return 1 - (1 + m * m) / L;
}

double slr_elementwise(const struct slr *s)
{
    struct density d;
    double         sum = 0;

    if (!open_density(s, &d))
        return NAN;
    for (int i = 0; i < d.n; i++)
        sum += d.all[i] > 0 ? d.of[i] * d.of[i] / d.all[i] : 0;
    close_density(&d);
    return 1 - sum * d.h;
}

/* ---- one activation ---------------------------------------------------------------- */

/* With the best b:  1 - (int of sigma)^2 / int all sigma^2. */
static double risk_at(const struct density *d, double (*sigma)(double), double a,
                      double c)
{
    double hit = 0, power = 0;

    for (int i = 0; i < d->n; i++) {
        double y = sigma(c + a * (d->from + i * d->h));

        hit += d->of[i] * y;
        power += d->all[i] * y * y;
    }
    return power > 0 ? 1 - hit * hit / power * d->h : 1;
}

/* Compass search from (a, c): steps halve when no direction improves and grow
 * when one does. */
static double search(const struct density *d, double (*sigma)(double), double a, double c)
{
    static const int way[4][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
    double           best = risk_at(d, sigma, a, c);

    for (double step = 0.5; step > 1e-3;) {
        bool better = false;

        for (int i = 0; i < 4 && !better; i++) {
            double risk = risk_at(d, sigma, a + step * way[i][0], c + step * way[i][1]);

            if ((better = risk < best - 1e-8))
                best = risk, a += step * way[i][0], c += step * way[i][1];
        }
        step *= better ? 1.5 : 0.5;
    }
    return best;
}

double slr_family(const struct slr *s, double (*sigma)(double))
{
    struct density d;
    double         best = 1;

    if (!open_density(s, &d))
        return NAN;
    for (int i = 0; i < 4; i++) {
        double risk = search(&d, sigma, 0.5 + 1.5 * (i & 1), -2 * (i >> 1));

        best = risk < best ? risk : best;
    }
    close_density(&d);
    return best;
}
