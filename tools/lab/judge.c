#include "tools/lab/judge.h"

#include "tools/compare/stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct finding both(double p, double q)
{
    return (struct finding){.p = p, .q = q, .learnt = true};
}

double one_sided(double p, double sign) { return sign > 0 ? p / 2 : 1 - p / 2; }

/* The chance of a mean this high when it should be `limit`. Seeds that agree to the last
 * digit were asked too few questions to differ: no seed is known better than to one in a
 * thousand. */
static double chance_above(const struct mean *m, double limit)
{
    double by = m->mean - limit, error = fmax(m->error, 1e-3 / sqrt(fmax(m->n, 1)));

    if (m->n < 2)
        return NAN;
    return one_sided(student_p(by / error, m->n - 1), by);
}

struct finding find_above(const double *x, int n, double limit)
{
    struct mean m = mean_of(x, n);
    double      p = chance_above(&m, limit);

    return both(p, 1 - p);
}

struct finding find_below(const double *x, int n, double limit)
{
    struct finding f = find_above(x, n, limit);

    return both(f.q, f.p);
}

struct finding find_more(const double *x, const double *y, int n, double least)
{
    struct mean d = paired_test(x, y, n).diff;

    return both(chance_above(&d, 0), 1 - chance_above(&d, least));
}

struct finding find_equal(const double *x, const double *y, int n, double margin)
{
    struct mean d = paired_test(x, y, n).diff;
    double      below = chance_above(&d, -margin), above = chance_above(&d, margin);

    return both(fmax(below, 1 - above), fmin(1, 2 * fmin(above, 1 - below)));
}

/* ---- k of n ---- */

double binomial_from(int k, int n, double share)
{
    return k <= 0 ? 1 : k > n ? 0 : beta_share(k, n - k + 1, share);
}

struct finding find_share(int k, int n, double share)
{
    if (n < 1)
        return both(NAN, NAN);
    return both(binomial_from(k, n, share), 1 - binomial_from(k + 1, n, share));
}

/* The share with which k or more of n have this chance, by halving. */
static double share_at(int k, int n, double chance)
{
    double low = 0, high = 1;

    for (int i = 0; i < 60; i++) {
        double mid = (low + high) / 2;

        if (binomial_from(k, n, mid) < chance)
            low = mid;
        else
            high = mid;
    }
    return low;
}

struct interval share_interval(int k, int n)
{
    return (struct interval){k ? share_at(k, n, 0.025) : 0,
                             k < n ? share_at(k + 1, n, 0.975) : 1};
}

/* ---- order ---- */

/* Twice the rank of each of k values, ties sharing the mean of theirs. */
static int doubled_rank(const double *x, int k, int i, int stride)
{
    int rank = 1;

    for (int j = 0; j < k; j++)
        rank += 2 * (x[j * stride] < x[i * stride]) + (x[j * stride] == x[i * stride]);
    return rank;
}

/* Page's L of the seeds, doubled: sum over arms of (i + 1) times its ranks. */
static int page_sum(const double *x, int arms, int n)
{
    int sum = 0;

    for (int s = 0; s < n; s++)
        for (int a = 0; a < arms; a++)
            sum += (a + 1) * doubled_rank(x + s, arms, a, n);
    return sum;
}

/* Into count[L]: how many orders of k arms have this doubled L. */
static void count_orders(int *order, int used, int k, int sum, double *count)
{
    if (used == k) {
        count[sum]++;
        return;
    }
    for (int r = 1; r <= k; r++) {
        bool taken = false;

        for (int i = 0; i < used; i++)
            taken |= order[i] == r;
        order[used] = r;
        if (!taken)
            count_orders(order, used + 1, k, sum + 2 * (used + 1) * r, count);
    }
}

/* The law of the sum over n seeds from that of one, both over 0 .. top each. */
static double *sum_of_seeds(const double *one, int top, int n)
{
    double *law = calloc((size_t)top * (size_t)n + 1, sizeof *law);

    if (!law)
        return NULL;
    law[0] = 1;
    for (int s = 1; s <= n; s++)
        for (int i = top * s; i >= 0; i--) {
            double sum = 0;

            for (int j = 0; j <= top && j <= i; j++)
                sum += one[j] > 0 ? one[j] * law[i - j] : 0;
            law[i] = sum;
        }
    return law;
}

struct finding find_order(const double *x, int arms, int n)
{
    enum { TOP = 2 * JUDGE_ORDER * (JUDGE_ORDER + 1) * (2 * JUDGE_ORDER + 1) / 6 };
    double one[TOP + 1] = {0}, *law, all = 1, below = 0, at;
    int    order[JUDGE_ORDER], top = 2 * arms * (arms + 1) * (2 * arms + 1) / 6;
    int    sum = page_sum(x, arms, n);

    if (n < 2 || arms < 2 || arms > JUDGE_ORDER)
        return both(NAN, NAN);
    count_orders(order, 0, arms, 0, one);
    for (int i = 2; i <= arms; i++)
        all *= i;
    for (int i = 0; i <= top; i++)
        one[i] /= all;
    law = sum_of_seeds(one, top, n);
    if (!law)
        return both(NAN, NAN);
    for (int i = 0; i < sum; i++)
        below += law[i];
    at = law[sum];
    free(law);
    return both(1 - below, below + at);
}

struct finding find_all(const struct finding *f, int n)
{
    struct finding all = both(0, 1);

    for (int i = 0; i < n; i++) {
        all.p = isnan(all.p) || isnan(f[i].p) ? NAN : fmax(all.p, f[i].p);
        all.q = fmin(all.q, n * f[i].q);
        if (all.learnt && !f[i].learnt)
            all.learnt = false, memcpy(all.gate, f[i].gate, sizeof all.gate);
    }
    return n ? all : both(NAN, NAN);
}

void of_several(struct finding *f, int n) { f->p = n * f->p > 1 ? 1 : n * f->p; }

/* ---- gates ---- */

void gate_learnt(struct finding *f, const char *what, const double *x, int n,
                 double enough, double trivial)
{
    struct mean m = mean_of(x, n);
    double      error = n > 1 ? m.error : 0;

    if (!f->learnt || m.mean >= enough || m.mean > trivial + 3 * error)
        return;
    f->learnt = false;
    snprintf(f->gate, sizeof f->gate, "%.40s %.3f, not %.3g", what, m.mean,
             fmin(enough, trivial + 3 * error));
}
