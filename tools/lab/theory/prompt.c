#include "tools/lab/theory/prompt.h"

#include "model/cores/attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 1 << 16 };          // of one call of the kernel, about

/* ---- limits ------------------------------------------------------------------------ */

static double dot(const double *a, const double *b, int d)
{
    double sum = 0;

    for (int i = 0; i < d; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The parts' share of T and da. */
static void add_parts(const struct prompt *p, const double *a, const double *e, double *T,
                      double *da)
{
    double w[PROMPT_PARTS], sum = 0, mean = 0;

    for (int k = 0; k < p->parts; k++)
        sum += w[k] = exp(dot(p->m[k], a, p->d));
    for (int k = 0; k < p->parts; k++)
        mean += w[k] / sum * dot(p->m[k], e, p->d);
    for (int k = 0; k < p->parts; k++)
        for (int i = 0; i < p->d; i++) {
            T[i] += w[k] / sum * p->m[k][i];
            da[i] += w[k] / sum * p->m[k][i] * (dot(p->m[k], e, p->d) - mean);
        }
}

void prompt_limit(const struct prompt *p, const double *a, const double *e, double *T,
                  double *da)
{
    for (int i = 0; i < p->d; i++) {
        T[i] = p->signs ? tanh(a[i]) : p->G[i] * a[i];
        da[i] = p->signs ? e[i] * (1 - T[i] * T[i]) : p->G[i] * e[i];
    }
    add_parts(p, a, e, T, da);
}

double prompt_constant(const struct prompt *p, const double *a)
{
    double power = 0, trace = 0, square = 0;

    for (int i = 0; i < p->d; i++) {
        power += a[i] * p->G[i] * a[i];
        trace += p->G[i];
        square += p->G[i] * a[i] * p->G[i] * a[i];
    }
    return exp(power) * (trace + square);
}

/* ---- the kernel -------------------------------------------------------------------- */

struct work {
    int   B, n, d;
    real *x, *dk, *dv;              // (B, n, d)
    real *q, *o, *d_o, *dq;         // (B, d)
    real *lse;                      // (B)
    void *memory;
};

static bool work_open(struct work *w, int n, int d)
{
    int    B = TOKENS / n > 1 ? TOKENS / n : 1;
    size_t wide = (size_t)B * n * d, slim = (size_t)B * d;
    real  *p = malloc((3 * wide + 4 * slim + B) * sizeof *p);

    *w = (struct work){.B = B, .n = n, .d = d, .memory = p};
    if (!p)
        return false;
    w->x = p, w->dk = p + wide, w->dv = p + 2 * wide;
    w->q = p + 3 * wide, w->o = w->q + slim, w->d_o = w->o + slim, w->dq = w->d_o + slim;
    w->lse = w->dq + slim;
    return true;
}

static void draw(const struct prompt *p, struct rng *r, real *x, int n)
{
    normals(r, x, (long)n * p->d);
    for (int i = 0; i < n; i++) {
        int k = p->parts ? (int)rng_below(r, p->parts) : 0;

        for (int j = 0; j < p->d; j++, x++)
            *x = p->signs ? (real)(*x > 0 ? 1 : -1)
                          : *x * (real)sqrt(p->G[j]) + (real)p->m[k][j];
    }
}

static void attend(struct work *w, const struct prompt *p, const double *a,
                   const double *e, uint64_t seed, uint64_t first)
{
    struct attention core = {
        .kind = ATTENTION_SOFTMAX, .B = w->B, .T = 1, .H = 1, .Hk = 1, .e = w->d,
        .first = w->n - 1, .scale = 1, .q = w->q, .k = w->x, .v = w->x, .ld_q = w->d,
        .ld_kv = w->d,
    };

    #pragma omp parallel for
    for (int b = 0; b < w->B; b++) {
        struct rng r = rng_open(seed, RNG_LAB, ((uint64_t)w->n << 32) + first + b);

        draw(p, &r, w->x + (size_t)b * w->n * w->d, w->n);
        for (int j = 0; j < w->d; j++)
            w->q[b * w->d + j] = (real)a[j], w->d_o[b * w->d + j] = (real)e[j];
    }
    attention_forward(&core, w->o, w->lse);
    attention_backward(&core, w->o, w->lse, w->d_o, w->dq, w->dk, w->dv, NULL);
}

/* Row of the gradient by V: sum_i (dv_i . e / |e|^2) x_i, less its limit T; squared. */
static double value_error(const struct work *w, int b, const double *e, const double *T)
{
    const real *x = w->x + (size_t)b * w->n * w->d, *dv = w->dv + (size_t)b * w->n * w->d;
    double      row[PROMPT_MAX] = {0}, norm = dot(e, e, w->d), error = 0;

    for (int i = 0; i < w->n; i++, x += w->d, dv += w->d) {
        double p = 0;

        for (int j = 0; j < w->d; j++)
            p += dv[j] * e[j] / norm;
        for (int j = 0; j < w->d; j++)
            row[j] += p * x[j];
    }
    for (int j = 0; j < w->d; j++)
        error += (row[j] - T[j]) * (row[j] - T[j]);
    return error;
}

struct sums {
    double s[3], ss[3];                     // output, query, value
    double o[PROMPT_MAX], oo[PROMPT_MAX];
};

static void add_prompt(struct sums *t, const struct work *w, int b, const double *e,
                       const double *T, const double *da)
{
    double error[3] = {0, 0, value_error(w, b, e, T)};

    for (int j = 0; j < w->d; j++) {
        double o = w->o[b * w->d + j], dq = w->dq[b * w->d + j];

        error[0] += (o - T[j]) * (o - T[j]);
        error[1] += (dq - da[j]) * (dq - da[j]);
        t->o[j] += o, t->oo[j] += o * o;
    }
    for (int i = 0; i < 3; i++)
        t->s[i] += error[i], t->ss[i] += error[i] * error[i];
}

bool prompt_measure(const struct prompt *p, const double *a, const double *e, int n,
                    long prompts, uint64_t seed, struct prompt_error *out)
{
    double      T[PROMPT_MAX], da[PROMPT_MAX];
    struct sums t = {{0}};
    struct work w;
    long        done = 0;

    if (!work_open(&w, n, p->d))
        return false;
    prompt_limit(p, a, e, T, da);
    for (; done < prompts; done += w.B) {
        attend(&w, p, a, e, seed, done);
        for (int b = 0; b < w.B; b++)
            add_prompt(&t, &w, b, e, T, da);
    }
    out->output = estimate_of(t.s[0], t.ss[0], done);
    out->query = estimate_of(t.s[1], t.ss[1], done);
    out->value = estimate_of(t.s[2], t.ss[2], done);
    for (int j = 0; j < p->d; j++) {
        struct estimate one = estimate_of(t.o[j], t.oo[j], done);

        out->mean[j] = one.mean, out->se[j] = one.se;
    }
    free(w.memory);
    return true;
}
