#include "tools/lab/theory/icl_net.h"

#include "model/cores/attention.h"
#include "model/kernels/arena.h"
#include "model/kernels/product.h"
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
    a->dk = arena_reals(&m, "dk", tokens);
    a->dv = arena_reals(&m, "dv", tokens);
    a->x = arena_reals(&m, "x", B * a->task.d);
    a->y = arena_reals(&m, "y", B * a->task.t);
    a->yhat = arena_reals(&m, "yhat", B * a->task.t);
    a->dyhat = arena_reals(&m, "dyhat", B * a->task.t);
    a->q = arena_reals(&m, "q", B * heads);
    a->o = arena_reals(&m, "o", B * heads);
    a->dq = arena_reals(&m, "dq", B * heads);
    a->d_o = arena_reals(&m, "d_o", B * heads);
    a->lse = arena_reals(&m, "lse", B * a->H);
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

/* Target j of one token. */
static real target(const struct icl_task *k, const real *beta, const real *x, int j)
{
    int  from = k->groups ? j * k->d / k->t : 0,
         to = k->groups ? (j + 1) * k->d / k->t : k->d;
    real y = 0;

    for (int i = from; i < to; i++)
        y += beta[j * k->d + i] * x[i];
    return y * (real)k->beta;
}

static void scale(const struct icl_task *k, real *x)
{
    for (int i = 0; k->spread && i < k->d; i++)
        x[i] *= (real)k->spread[i];
}

/* Noise comes first in a token's row and gives way to the targets. */
static void draw_prompt(struct icl_net *a, int b, struct rng *r)
{
    const struct icl_task *k = &a->task;
    int  e = wide(a);
    real *z = a->z + (size_t)b * k->L * e, *x = a->x + (size_t)b * k->d, beta[256];

    normals(r, beta, k->t * k->d);
    normals(r, x, k->d);
    normals(r, z, (long)k->L * e);
    scale(k, x);
    for (int j = 0; j < k->t; j++)
        a->y[b * k->t + j] = target(k, beta, x, j);
    for (int i = 0; i < k->L; i++, z += e) {
        scale(k, z);
        for (int j = 0; j < k->t; j++)
            z[k->d + j] = z[k->d + j] * (real)sqrt(k->noise) + target(k, beta, z, j);
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

static struct attention core_of(const struct icl_net *a)
{
    return (struct attention){
        .kind = ATTENTION_SOFTMAX, .B = a->B, .T = 1, .H = a->H, .Hk = 1, .e = wide(a),
        .first = a->task.L - 1, .scale = 1, .q = a->q, .k = a->z, .v = a->z,
        .ld_q = (size_t)a->H * wide(a), .ld_kv = wide(a),
    };
}

/* out_h = S in_h for all heads and prompts, S = sum_i z_i z_iᵀ / L. */
static void second_moments(const struct icl_net *a, real *out, const real *in)
{
    int e = wide(a), L = a->task.L;

    #pragma omp parallel for
    for (int b = 0; b < a->B; b++) {
        const real *z = a->z + (size_t)b * L * e;
        real        S[1024];

        gemm_tn(S, e, z, e, z, e, e, e, L, (real)1 / (real)L, 0);
        gemm_nn(out + (size_t)b * a->H * e, e, in + (size_t)b * a->H * e, e, S, e, a->H,
                e, e, 1, 0);
    }
}

double icl_loss(struct icl_net *a)
{
    int    e = wide(a), n = a->B * a->task.t;
    double sum = 0;

    product_forward(a->q, a->x, a->kq, a->B, a->task.d, a->H * e);
    if (a->linear) {
        second_moments(a, a->o, a->q);
    } else {
        struct attention core = core_of(a);

        attention_forward(&core, a->o, a->lse);
    }
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
    if (a->linear) {
        second_moments(a, a->dq, a->d_o);
    } else {
        struct attention core = core_of(a);

        attention_backward(&core, a->o, a->lse, a->d_o, a->dq, a->dk, a->dv, NULL);
    }
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
