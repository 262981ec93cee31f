#include "tools/lab/theory/icl_net.h"

#include "model/kernels/arena.h"
#include "model/kernels/product.h"
#include "model/kernels/vmath.h"
#include "tools/lab/learn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int wide(const struct icl_net *a) { return a->task.d + a->task.t; }

/* ---- memory ------------------------------------------------------------------------ */

static size_t lay_out(struct icl_net *a, void *base, size_t bytes)
{
    struct arena m = arena_over(base, bytes);
    size_t       e = wide(a), B = a->B, heads = (size_t)a->H * e,
                 tokens = B * a->task.L * e;

    a->n = heads * a->task.d + heads * a->task.t;
    a->kq = arena_reals(&m, "kq", a->n);
    a->dkq = arena_reals(&m, "dkq", a->n);
    a->mask = arena_reals(&m, "mask", a->n);
    a->moments = arena_reals(&m, "moments", 2 * a->n);
    a->z = arena_reals(&m, "z", tokens);
    a->x = arena_reals(&m, "x", B * a->task.d);
    a->y = arena_reals(&m, "y", B * a->task.t);
    a->yhat = arena_reals(&m, "yhat", B * a->task.t);
    a->dyhat = arena_reals(&m, "dyhat", B * a->task.t);
    a->q = arena_reals(&m, "q", B * heads);
    a->o = arena_reals(&m, "o", B * heads);
    a->dq = arena_reals(&m, "dq", B * heads);
    a->d_o = arena_reals(&m, "d_o", B * heads);
    a->p = arena_reals(&m, "p", B * a->H * a->task.L);
    a->ds = arena_reals(&m, "ds", B * a->H * a->task.L);
    if (base) {
        a->ov = a->kq + heads * a->task.d;
        a->dov = a->dkq + heads * a->task.d;
    }
    return m.used;
}

bool icl_open(struct icl_net *a, const struct icl_task *task, int H, int B, bool linear)
{
    size_t bytes;

    *a = (struct icl_net){.task = *task, .H = H, .B = B, .linear = linear};
    bytes = lay_out(a, NULL, 0);
    a->memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!a->memory)
        return false;
    memset(a->memory, 0, bytes);
    lay_out(a, a->memory, bytes);
    for (size_t i = 0; i < a->n; i++)
        a->mask[i] = 1;
    return true;
}

void icl_close(struct icl_net *a)
{
    free(a->memory);
    *a = (struct icl_net){0};
}

/* ---- prompts ----------------------------------------------------------------------- */

/* y (n) += target j of the tokens x (d, n). */
static void add_target(const struct icl_task *k, const real *beta, const real *x, int n,
                       int j, real *y)
{
    int from = k->groups ? j * k->d / k->t : 0,
        to = k->groups ? (j + 1) * k->d / k->t : k->d;

    for (int i = from; i < to; i++)
        vaxpy(y, beta[j * k->d + i] * (real)k->beta, x + (size_t)i * n, n);
}

static void scale(const struct icl_task *k, real *x, int n)
{
    for (int i = 0; k->spread && i < k->d; i++)
        vscale(x + (size_t)i * n, (real)k->spread[i], x + (size_t)i * n, n);
}

static void draw_prompt(struct icl_net *a, int b, struct rng *r)
{
    const struct icl_task *k = &a->task;
    real *z = a->z + (size_t)b * k->L * wide(a), *x = a->x + (size_t)b * k->d, beta[256];

    normals(r, beta, k->t * k->d);
    normals(r, x, k->d);
    normals(r, z, (long)k->L * wide(a));
    scale(k, x, 1);
    scale(k, z, k->L);
    for (int j = 0; j < k->t; j++) {
        real *y = z + (size_t)(k->d + j) * k->L;        // noise up to here

        vscale(y, (real)sqrt(k->noise), y, k->L);
        add_target(k, beta, z, k->L, j, y);
        a->y[b * k->t + j] = 0;
        add_target(k, beta, x, 1, j, &a->y[b * k->t + j]);
    }
}

void icl_draw(struct icl_net *a, uint64_t seed, uint64_t first)
{
    #pragma omp parallel for
    for (int b = 0; b < a->B; b++) {
        struct rng r = rng_open(seed, RNG_LAB, first + b);

        draw_prompt(a, b, &r);
    }
}

/* ---- the layer --------------------------------------------------------------------- */

/* s (L) = the tokens z (e, L) along q (e). */
static void scores(real *s, const real *z, const real *q, int e, int L)
{
    vscale(s, q[0], z, L);
    for (int j = 1; j < e; j++)
        vaxpy(s, q[j], z + (size_t)j * L, L);
}

static void softmax(real *p, int L)
{
    real top = vmax(p, L, p[0]), sum = 0;

    #pragma omp simd reduction(+ : sum)
    for (int i = 0; i < L; i++)
        sum += p[i] = vexp(p[i] - top);
    vscale(p, 1 / sum, p, L);
}

/* p and o of all heads and prompts. */
static void attend(const struct icl_net *a)
{
    const int e = wide(a), L = a->task.L;

    #pragma omp parallel for
    for (int bh = 0; bh < a->B * a->H; bh++) {
        const real *z = a->z + (size_t)(bh / a->H) * L * e;
        real       *p = a->p + (size_t)bh * L, *o = a->o + (size_t)bh * e;

        scores(p, z, a->q + (size_t)bh * e, e, L);
        if (a->linear)
            vscale(p, 1 / (real)L, p, L);
        else
            softmax(p, L);
        for (int j = 0; j < e; j++)
            o[j] = vdot(p, z + (size_t)j * L, L);
    }
}

/* dq from d_o. The tokens are given: they have no gradient.
 *
 *     ds_i = p_i (z_i . d_o - o . d_o);  linear: z_i . d_o / L
 *     dq = sum_i ds_i z_i
 */
static void attend_back(const struct icl_net *a)
{
    const int e = wide(a), L = a->task.L;

    #pragma omp parallel for
    for (int bh = 0; bh < a->B * a->H; bh++) {
        const real *z = a->z + (size_t)(bh / a->H) * L * e, *p = a->p + (size_t)bh * L,
                   *d_o = a->d_o + (size_t)bh * e;
        real       *ds = a->ds + (size_t)bh * L,
                    mean = vdot(a->o + (size_t)bh * e, d_o, e);

        scores(ds, z, d_o, e, L);
        #pragma omp simd
        for (int i = 0; i < L; i++)
            ds[i] = a->linear ? ds[i] / (real)L : p[i] * (ds[i] - mean);
        for (int j = 0; j < e; j++)
            a->dq[(size_t)bh * e + j] = vdot(ds, z + (size_t)j * L, L);
    }
}

double icl_loss(struct icl_net *a)
{
    int    e = wide(a), n = a->B * a->task.t;
    double sum = 0;

    product_forward(a->q, a->x, a->kq, a->B, a->task.d, a->H * e);
    attend(a);
    product_forward(a->yhat, a->o, a->ov, a->B, a->H * e, a->task.t);
    for (int i = 0; i < n; i++) {
        double error = (double)a->yhat[i] - a->y[i];

        a->dyhat[i] = (real)(error / a->B);
        sum += error * error / 2;
    }
    return sum / a->B;
}

double icl_grad(struct icl_net *a)
{
    double loss = icl_loss(a);
    int    e = wide(a);

    memset(a->dkq, 0, a->n * sizeof *a->dkq);
    product_backward(a->d_o, 0, a->dov, a->dyhat, a->o, a->ov, a->B, a->H * e, a->task.t);
    attend_back(a);
    product_backward(NULL, 0, a->dkq, a->dq, a->x, a->kq, a->B, a->task.d, a->H * e);
    for (size_t i = 0; i < a->n; i++)
        a->dkq[i] *= a->mask[i];
    return loss;
}

/* ---- training and testing ---------------------------------------------------------- */

/* A step of plain descent. */
static void descend(struct icl_net *a, double lr, bool factored)
{
    for (size_t i = 0; i < a->n; i++) {
        real by = (real)lr * a->dkq[i];

        a->kq[i] = factored ? a->kq[i] * (1 - by) * (1 - by) : a->kq[i] - by;
    }
}

void icl_learn(struct icl_net *a, const struct icl_course *c, long from, long to)
{
    for (long t = from; t < to; t++) {
        double lr = c->steady ? c->lr : cooled(c->lr, t, c->steps);

        icl_draw(a, c->seed, (uint64_t)t * a->B);
        icl_grad(a);
        if (c->sgd)
            descend(a, lr, c->factored);
        else
            adam(a->kq, a->dkq, a->moments, (int)a->n, lr, t + 1);
    }
}

struct estimate icl_risk(const struct icl_net *a, int L, long n, uint64_t seed)
{
    struct icl_task task = a->task;
    struct icl_net  test;
    double          sum = 0, squares = 0;

    task.L = L;
    if (!icl_open(&test, &task, a->H, 256, a->linear))
        return (struct estimate){NAN, NAN};
    memcpy(test.kq, a->kq, a->n * sizeof *a->kq);
    for (long done = 0; done < n; done += test.B) {
        icl_draw(&test, seed, (1ull << 40) + done);
        icl_loss(&test);
        for (int b = 0; b < test.B; b++) {
            double error = 0;

            for (int j = 0; j < task.t; j++)
                error += pow((double)test.yhat[b * task.t + j] -
                                 test.y[b * task.t + j], 2);
            sum += error, squares += error * error;
        }
    }
    n = (n + test.B - 1) / test.B * test.B;
    icl_close(&test);
    return estimate_of(sum, squares, (double)n);
}
