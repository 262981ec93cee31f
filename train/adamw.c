#include "train/adamw.h"

#include "model/kernels/vmath.h"
#include "train/muon.h"

#include <math.h>

/* The parameters' array is cut into blocks at fixed places, whatever the number of
 * threads; GROUP partial sums are held at a time. */
enum { BLOCK = ADAMW_BLOCK, GROUP = TINY(1024, 3) };

/* What is the same for all elements of a parameter in a step. */
struct factors {
    real b1, b2, eps, lr;
    real scale;                 // of the gradient, from clipping
    real unbias_m, unbias_v;    // 1 / (1 - b1ⁿ), 1 / (1 - b2ⁿ)
    real keep;                  // of the weight: 1 - lr decay
};

/* The last parameter that starts at or before element `at`. */
static int param_at(const struct model *model, size_t at)
{
    int lo = 0, hi = model->n_param - 1;

    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;

        if (model->param[mid].at <= at)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

/* Is there a parameter i, and does it start before `end`? */
static bool starts_before(const struct model *model, int i, size_t end)
{
    return i < model->n_param && model->param[i].at < end;
}

/* Narrow [*from, *to) to the elements of p in it; false when none of them is trained. */
static bool trained_part(const struct model_param *p, size_t *from, size_t *to)
{
    size_t end = p->at + param_size(&p->is);

    if (p->is.buffer)
        return false;
    if (*from < p->at)
        *from = p->at;
    if (*to > end)
        *to = end;
    return *from < *to;
}

/* In SUMS interleaved sums, added up in order. */
double sum_squares(const real *x, size_t n)
{
    enum { SUMS = 8 };
    double part[SUMS] = {0}, sum = 0;
    size_t i = 0;

    for (; i + SUMS <= n; i += SUMS)
        for (int j = 0; j < SUMS; j++)
            part[j] += (double)x[i + j] * (double)x[i + j];
    for (; i < n; i++)
        part[i % SUMS] += (double)x[i] * (double)x[i];
    for (int j = 0; j < SUMS; j++)
        sum += part[j];
    return sum;
}

static double block_squares(const struct model *model, const real *g, size_t block)
{
    size_t start = block * BLOCK, end = start + BLOCK;
    double sum = 0;

    for (int i = param_at(model, start); starts_before(model, i, end); i++) {
        size_t from = start, to = end;

        if (trained_part(&model->param[i], &from, &to))
            sum += sum_squares(g + from, to - from);
    }
    return sum;
}

double adamw_norm(const struct model *model, const real *g)
{
    size_t blocks = (model->n + BLOCK - 1) / BLOCK;
    double sum = 0, part[GROUP];

    for (size_t first = 0; first < blocks; first += GROUP) {
        size_t count = blocks - first < GROUP ? blocks - first : GROUP;

        #pragma omp parallel for
        for (size_t i = 0; i < count; i++)
            part[i] = block_squares(model, g, first + i);
        for (size_t i = 0; i < count; i++)
            sum += part[i];
    }
    return sqrt(sum);
}

/* ---- in parts ---- */

/* Of one block and one parameter there is one sum, at the sum of their numbers: from one
 * piece to the next, one of them grows or both. */
size_t adamw_place(const struct model *model, size_t cut)
{
    if (cut >= model->n)
        return (model->n + BLOCK - 1) / BLOCK + (size_t)model->n_param;
    return cut / BLOCK + (size_t)param_at(model, cut);
}

void adamw_squares(const struct model *model, const real *g, size_t from, size_t to,
                   double *part)
{
    size_t first = from / BLOCK, end = (to + BLOCK - 1) / BLOCK;

    #pragma omp parallel for
    for (size_t block = first; block < end; block++) {
        size_t start = block * BLOCK, stop = start + BLOCK;

        start = start > from ? start : from;
        stop = stop < to ? stop : to;
        for (int i = param_at(model, start); starts_before(model, i, stop); i++) {
            size_t x = start, y = stop;

            if (trained_part(&model->param[i], &x, &y))
                part[block + (size_t)i] = sum_squares(g + x, y - x);
        }
    }
}

double adamw_total(const struct model *model, const double *part)
{
    double total = 0;

    for (size_t start = 0; start < model->n; start += BLOCK) {
        double sum = 0;

        for (int i = param_at(model, start); starts_before(model, i, start + BLOCK); i++)
            sum += part[start / BLOCK + (size_t)i];
        total += sum;
    }
    return sqrt(total);
}

/* ---- the update ---- */

double adamw_decay(double passes)
{
    static const double least = 0.1, most = 1, few = 6;
    double              more = fmax(passes / few, 1);

    return fmin(least * more * more, most);
}

static void update(const struct factors *f, size_t n, real *restrict w, real *restrict g,
                   real *restrict m, real *restrict v)
{
    const struct factors c = *f;

    for (size_t i = 0; i < n; i++) {
        real x = g[i] * c.scale;

        g[i] = 0;
        m[i] = c.b1 * m[i] + (1 - c.b1) * x;
        v[i] = c.b2 * v[i] + (1 - c.b2) * x * x;
        w[i] = w[i] * c.keep -
               c.lr * (m[i] * c.unbias_m) / (vsqrt(v[i] * c.unbias_v) + c.eps);
    }
}

/* f with the rate and decay of parameter i. */
static struct factors of_param(struct factors f, const struct adamw *o,
                               const struct model *model, int i, double lr)
{
    bool   table = i == 0 || (i == model->n_param - 1 && !model->cfg.tied);
    double decay = model->param[i].is.decay ? o->decay : 0;

    lr *= table ? o->table_lr : 1;
    if (o->loud > 1 && i == 0)
        decay = fmax(decay - adamw_decay(1), 0);
    f.keep = (real)(1 - lr * decay);        // of what is loud, too: it is a share
    if (o->loud > 1)                        // a tied head: the final norm is the last
        lr *= i == 0 ? o->loud : i == model->n_param - 1 ? 1 / o->loud : 1;
    f.lr = (real)lr;
    return f;
}

void adamw_step(const struct adamw *o, struct model *model, real *g, real *m, real *v,
                double norm, double lr, long n)
{
    size_t               last = o->to ? o->to : model->n;
    const struct factors all = {
        .b1 = (real)o->beta1, .b2 = (real)o->beta2, .eps = (real)o->eps,
        .scale = (real)(o->clip > 0 && norm > o->clip ? o->clip / norm : 1),
        .unbias_m = (real)(1 / (1 - pow(o->beta1, (double)n))),
        .unbias_v = (real)(1 / (1 - pow(o->beta2, (double)n))),
    };

    #pragma omp parallel for
    for (size_t block = o->from / BLOCK; block < (last + BLOCK - 1) / BLOCK; block++) {
        size_t start = block * BLOCK, end = start + BLOCK;

        start = start > o->from ? start : o->from;
        end = end < last ? end : last;
        for (int i = param_at(model, start); starts_before(model, i, end); i++) {
            struct factors f = of_param(all, o, model, i, lr);
            size_t         from = start, to = end;

            if ((o->muon && muon_takes(&model->param[i])) ||
                (o->mixers && !model_of_mixer(model, i)))
                continue;
            if (trained_part(&model->param[i], &from, &to))
                update(&f, to - from, model->w + from, g + from, m + from, v + from);
        }
    }
}
