#include "tests/support/encoding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct shape {
    int T, C, A, half;
};

static struct shape shape_of(const struct layer *l)
{
    int dk = l->param[layer_param(l, "wq")].rows / l->cfg.H;

    return (struct shape){l->T, l->cfg.C, l->param[layer_param(l, "wk")].rows / dk,
                          dk / 2};
}

/* A parameter by name; NULL when the layer has none. */
static const real *find(const struct layer *l, const char *name)
{
    int i = layer_param(l, name);

    return i < 0 ? NULL : l->wp[i];
}

static double dot(const real *w, const double *x, int n)
{
    double sum = 0;

    for (int i = 0; i < n; i++)
        sum += (double)w[i] * x[i];
    return sum;
}

/* Tokens of sequence b, each of A chunks divided by its length: a new (T, C). */
static double *unit_chunks(const struct layer *l, int b, const struct shape *s)
{
    int     n = s->T * s->C, g = s->C / s->A;
    double *x = malloc((size_t)n * sizeof *x);

    for (int i = 0; i < n; i += g) {
        double square = 1e-6;

        for (int j = i; j < i + g; j++) {
            x[j] = (double)l->x[(size_t)b * n + j];
            square += x[j] * x[j];
        }
        for (int j = i; j < i + g; j++)
            x[j] /= sqrt(square);
    }
    return x;
}

/* w of angle p (of A half) for one token. */
static double projected(const struct layer *l, const struct shape *s, const double *xh,
                        int p)
{
    const real *a = find(l, "sr_a"), *W = find(l, "sr_w");
    int         g = s->C / s->A, h = p / s->half;
    double      sum = 0;

    if (!a) {
        for (int i = 0; i < g; i++)
            sum += (double)W[p * g + i] * (double)W[p * g + i];
        return (double)find(l, "sr_s")[h] * dot(W + p * g, xh + h * g, g) / sqrt(sum);
    }
    int rank = l->param[layer_param(l, "sr_a")].rows;

    for (int i = 0; i < rank; i++)
        sum += (double)find(l, "sr_b")[p * rank + i] * dot(a + i * s->C, xh, s->C);
    return sum;
}

/* By how much token t winds up angle p, from xh of all. */
static double increment(const struct layer *l, const struct shape *s, const double *xh,
                        int t, int p)
{
    const real *taps = find(l, "sr_conv"), *bias = find(l, "sr_bias"),
               *wg = find(l, "sr_wg");
    const bool  silu = !strstr(l->entry, "act=none");
    int         h = p / s->half;
    double      z = 0;

    for (int j = 0; j < 4 && j <= t; j++)
        z += (double)taps[4 * p + 3 - j] * projected(l, s, xh + (t - j) * s->C, p);
    if (silu)
        z /= 1 + exp(-z);
    if (bias)
        z += exp((double)bias[p]);
    if (wg)
        z /= 1 + exp(-dot(wg + h * s->C, xh + t * s->C, s->C) -
                     (double)find(l, "sr_bg")[h]);
    return z;
}

/* (T, A, half) of sequence b, new. */
static double *angles_of(const struct layer *l, int b, const struct shape *s)
{
    const bool selective = !strcmp(l->cfg.position->name, "srope");
    int        P = s->A * s->half;
    double    *xh = unit_chunks(l, b, s), *sum = calloc(P, sizeof *sum);
    double    *theta = malloc((size_t)s->T * P * sizeof *theta);

    for (int i = 0; i < s->T * P; i++) {
        int t = i / P, p = i % P;

        sum[p] = selective ? sum[p] + increment(l, s, xh, t, p) : t;
        theta[i] = sum[p] * pow(l->cfg.position_opt[0], -(p % s->half) / (double)s->half);
    }
    free(xh), free(sum);
    return theta;
}

void encoding_turn(const struct layer *l, int b, double *z, int heads)
{
    struct shape s = shape_of(l);
    double      *theta;

    if (!strcmp(l->cfg.position->name, "none"))
        return;
    theta = angles_of(l, b, &s);
    for (int i = 0; i < s.T * heads; i++)
        for (int j = 0; j < s.half; j++) {
            int     t = i / heads, h = i % heads / (heads / s.A);
            double  angle = theta[(t * s.A + h) * s.half + j];
            double *a = z + (size_t)i * 2 * s.half + j, *c = a + s.half, x = *a, y = *c;

            *a = x * cos(angle) - y * sin(angle);
            *c = x * sin(angle) + y * cos(angle);
        }
    free(theta);
}
