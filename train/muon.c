#include "train/muon.h"

#include "model/kernels/arena.h"
#include "model/kernels/gemm.h"
#include "train/adamw.h"

#include <math.h>
#include <omp.h>
#include <string.h>

enum { ROUNDS = 5 };

static const double momentum = 0.95, tiny = 1e-7, size = 0.2;
static const real   a = 3.4445, b = -4.7750, c = 2.0315;

bool muon_takes(const struct model_param *p)
{
    return !strncmp(p->name, "blocks.", 7) && p->is.rows > 1 && p->is.cols > 1 &&
           p->is.decay && !p->is.buffer;
}

/* ---- memory ---- */

static int smaller(const struct param *p)
{
    return p->rows < p->cols ? p->rows : p->cols;
}

static int larger(const struct param *p)
{
    return p->rows < p->cols ? p->cols : p->rows;
}

/* Reals for the largest matrix: two X, and A and its polynomial. */
static size_t scratch_each(const struct model *model)
{
    size_t most = 0;

    for (int i = 0; i < model->n_param; i++) {
        const struct param *p = &model->param[i].is;
        size_t              n = smaller(p), need = 2 * (param_size(p) + n * n);

        if (muon_takes(&model->param[i]) && need > most)
            most = need;
    }
    return most;
}

size_t muon_bytes(const struct model *model)
{
    return scratch_each(model) * (size_t)omp_get_max_threads() * sizeof(real);
}

enum fail muon_open(struct muon *o, const struct model *model, double decay, double clip,
                    struct why *why)
{
    *o = (struct muon){.decay = decay, .clip = clip, .each = scratch_each(model),
                       .threads = omp_get_max_threads()};
    if (o->each == 0)
        return 0;
    o->scratch = pages_alloc(o->each * (size_t)o->threads * sizeof(real));
    return o->scratch ? 0 : fail(why, FAIL_MEMORY,
                                 "out of memory for Muon's matrices; reduce width, or "
                                 "take optimiser=adamw");
}

void muon_close(struct muon *o)
{
    pages_free(o->scratch, o->each * (size_t)o->threads * sizeof(real));
    *o = (struct muon){0};
}

/* ---- one matrix ---- */

/* Orthogonalise x (rows, cols) into the returned place, which is x or y. */
static real *orthogonalise(real *x, real *y, real *A, real *B, int rows, int cols)
{
    int  n = rows < cols ? rows : cols;
    bool wide = rows <= cols;

    for (int i = 0; i < ROUNDS; i++) {
        real *was = x;

        if (wide)
            gemm_nt(A, n, x, cols, x, cols, n, n, cols, 1, 0);
        else
            gemm_tn(A, n, x, cols, x, cols, n, n, rows, 1, 0);
        memcpy(B, A, (size_t)n * n * sizeof *B);
        gemm_nn(B, n, A, n, A, n, n, n, n, c, b);
        memcpy(y, x, (size_t)rows * cols * sizeof *y);
        if (wide)
            gemm_nn(y, cols, B, n, x, cols, rows, cols, n, 1, a);
        else
            gemm_nn(y, cols, x, cols, B, n, rows, cols, n, 1, a);
        x = y;
        y = was;
    }
    return x;
}

static void update(const struct muon *o, const struct param *p, real *w, real *g, real *m,
                   double norm, double lr, real *scratch)
{
    size_t n = param_size(p), s = smaller(p);
    real  *x = scratch, *y = x + n, *A = y + n, *B = A + s * s;
    real   mu = (real)momentum, keep = (real)(1 - lr * o->decay), inverse, rate;
    real   clip = (real)(o->clip > 0 && norm > o->clip ? o->clip / norm : 1);

    for (size_t i = 0; i < n; i++) {
        real now = (1 - mu) * (g[i] * clip);

        g[i] = 0;
        m[i] = mu * m[i] + now;
        x[i] = mu * m[i] + now;
    }
    inverse = (real)(1 / (sqrt(sum_squares(x, n)) + tiny));
    for (size_t i = 0; i < n; i++)
        x[i] *= inverse;
    x = orthogonalise(x, y, A, B, p->rows, p->cols);
    rate = (real)(lr * size * sqrt(larger(p)));
    for (size_t i = 0; i < n; i++)
        w[i] = w[i] * keep - rate * x[i];
}

/* ---- all of them ---- */

void muon_step(const struct muon *o, struct model *model, real *g, real *m, double norm,
               double lr)
{
    int threads = omp_get_max_threads();    // NOLINT: the pragma reads it

    #pragma omp parallel for schedule(dynamic) \
        num_threads(threads < o->threads ? threads : o->threads)
    for (int i = 0; i < model->n_param; i++) {
        const struct model_param *p = &model->param[i];

        if (muon_takes(p) && p->at >= o->from && (!o->to || p->at < o->to))
            update(o, &p->is, model->w + p->at, g + p->at, m + p->at, norm, lr,
                   o->scratch + o->each * (size_t)omp_get_thread_num());
    }
}

/* A and X: 2 s² l each; A²: 2 s³. */
double muon_flops(const struct model *model)
{
    double sum = 0;

    for (int i = 0; i < model->n_param; i++) {
        double s = smaller(&model->param[i].is), l = larger(&model->param[i].is);

        if (muon_takes(&model->param[i]))
            sum += ROUNDS * (4 * s * s * l + 2 * s * s * s);
    }
    return sum;
}
