#include "model/layers/piecewise.h"

#include "model/kernels/arena.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static int channels_of(const struct piecewise *p)
{
    return p->channels / p->groups;
}

size_t piecewise_layout(struct piecewise *p, real *base)
{
    struct arena a = arena_over(base, SIZE_MAX);
    size_t       n = (size_t)p->hidden + 1;

    for (p->search = 1; p->search <= p->hidden;)
        p->search *= 2;
    p->knot = arena_reals(&a, "knot", (size_t)p->groups * p->search);
    p->anchor = arena_reals(&a, "anchor", p->groups * n);
    p->value = arena_reals(&a, "value", n * p->channels);
    p->slope = arena_reals(&a, "slope", n * p->channels);
    return a.used / sizeof(real);
}

/* ---- the table --------------------------------------------------------------------- */

/* Unit j is active above its knot (f1 >= 0) or up to it. One that does not depend
 * on u has its knot at -INFINITY when it is always active, at INFINITY when never. */
static real knot_of(real f1, real f1b)
{
    if (f1 == 0)
        return f1b > 0 ? -INFINITY : INFINITY;
    return -f1b / f1;
}

static bool active(real f1, real f1b, const real *knot, int piece)
{
    real at = knot_of(f1, f1b);
    bool above = piece > 0 && knot[piece - 1] >= at;

    return f1 < 0 ? !above : above;
}

static void sort(real *a, int n)
{
    for (int i = 1; i < n; i++) {
        real x = a[i];
        int  j = i;

        for (; j > 0 && a[j - 1] > x; j--)
            a[j] = a[j - 1];
        a[j] = x;
    }
}

/* A finite end of piece i, if it has one. */
static real anchor_of(const real *knot, int i)
{
    if (i > 0 && isfinite(knot[i - 1]))
        return knot[i - 1];
    return isfinite(knot[i]) ? knot[i] : 0;
}

static void build_piece(const struct piecewise *p, const struct piecewise_net *w, int g,
                        int i)
{
    const int   hidden = p->hidden, per = channels_of(p);
    const real *knot = p->knot + (size_t)g * p->search, *f1 = w->f1 + (size_t)g * hidden;
    const real *f1b = w->f1b + (size_t)g * hidden;
    real        at = anchor_of(knot, i);

    p->anchor[g * (hidden + 1) + i] = at;
    for (int l = g * per; l < (g + 1) * per; l++) {
        const real *f2 = w->f2 + (size_t)l * hidden;
        double      value = w->f2b[l], slope = 0;

        for (int j = 0; j < hidden; j++)
            if (active(f1[j], f1b[j], knot, i)) {
                value += (double)f2[j] * ((double)f1[j] * (double)at + (double)f1b[j]);
                slope += (double)f2[j] * (double)f1[j];
            }
        p->value[(size_t)i * p->channels + l] = (real)value;
        p->slope[(size_t)i * p->channels + l] = (real)slope;
    }
}

void piecewise_build(struct piecewise *p, const struct piecewise_net *w)
{
    for (int g = 0; g < p->groups; g++) {
        real *knot = p->knot + (size_t)g * p->search;

        for (int j = 0; j < p->search; j++)
            knot[j] = INFINITY;
        for (int j = 0; j < p->hidden; j++)
            knot[j] = knot_of(w->f1[g * p->hidden + j], w->f1b[g * p->hidden + j]);
        sort(knot, p->hidden);
        for (int i = 0; i <= p->hidden; i++)
            build_piece(p, w, g, i);
    }
}

/* How many knots are at or below u. */
static inline int find(const struct piecewise *p, const real *knot, real u)
{
    int i = 0;

    for (int step = p->search / 2; step; step /= 2)
        i += knot[i + step - 1] <= u ? step : 0;
    return i < p->hidden ? i : p->hidden;
}

/* ---- reading ----------------------------------------------------------------------- */

void piecewise_read(const struct piecewise *p, real *psi, const real *u, int n)
{
    const int per = channels_of(p), channels = p->channels;

    for (int g = 0; g < p->groups; g++) {
        const real *knot = p->knot + (size_t)g * p->search;
        const real *anchor = p->anchor + (size_t)g * (p->hidden + 1);

        for (int i = 0; i < n; i++) {
            int    piece = find(p, knot, u[i]);
            size_t at = (size_t)piece * channels + (size_t)g * per;
            real   from = u[i] - anchor[piece];

            for (int l = 0; l < per; l++)
                psi[(size_t)i * channels + g * per + l] = p->value[at + l] +
                                                          p->slope[at + l] * from;
        }
    }
}

size_t piecewise_sums(const struct piecewise *p)
{
    return 2 * ((size_t)p->hidden + 1) * p->channels;
}

void piecewise_back(const struct piecewise *p, real *du, double *sums, const real *dpsi,
                    const real *u, int n)
{
    const int per = channels_of(p), channels = p->channels;
    double   *plain = sums + piecewise_sums(p) / 2;

    memset(du, 0, n * sizeof *du);
    for (int g = 0; g < p->groups; g++)
        for (int i = 0; i < n; i++) {
            int         piece = find(p, p->knot + (size_t)g * p->search, u[i]);
            size_t      at = (size_t)piece * channels + (size_t)g * per;
            const real *d = dpsi + (size_t)i * channels + g * per;

            for (int l = 0; l < per; l++) {
                du[i] += p->slope[at + l] * d[l];
                sums[at + l] += (double)d[l] * (double)u[i];
                plain[at + l] += d[l];
            }
        }
}

static double column_sum(const double *a, int n, int step)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += a[(size_t)i * step];
    return sum;
}

/* With X, Y the sums of dpsi u and dpsi over the pieces where unit j is active:
 *
 *     df2 = f1 X + f1b Y,  df1 = f2 X,  df1b = f2 Y       df2b: dpsi over all pieces
 */
void piecewise_weights(const struct piecewise *p, const struct piecewise_net *dw,
                       const struct piecewise_net *w, const double *sums)
{
    const int     hidden = p->hidden, channels = p->channels, per = channels_of(p);
    const double *plain = sums + piecewise_sums(p) / 2;

    for (int l = 0; l < channels; l++) {
        int         g = l / per;
        const real *knot = p->knot + (size_t)g * p->search;

        for (int j = 0; j < hidden; j++) {
            size_t in = (size_t)g * hidden + j, out = (size_t)l * hidden + j;
            double X = 0, Y = 0;

            for (int i = 0; i <= hidden; i++)
                if (active(w->f1[in], w->f1b[in], knot, i)) {
                    X += sums[(size_t)i * channels + l];
                    Y += plain[(size_t)i * channels + l];
                }
            dw->f2[out] += (real)((double)w->f1[in] * X + (double)w->f1b[in] * Y);
            dw->f1[in] += (real)((double)w->f2[out] * X);
            dw->f1b[in] += (real)((double)w->f2[out] * Y);
        }
        dw->f2b[l] += (real)column_sum(plain + l, hidden + 1, channels);
    }
}
