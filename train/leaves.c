#include "train/leaves.h"

#include "model/kernels/arena.h"

#include <stdlib.h>

/* ---- memory ---- */

/* Left subtrees that wait at one time, in a tree of n leaves. */
static int depth_of(int n)
{
    return n > 1 ? 1 + depth_of(n - n / 2) : 0;
}

size_t leaves_bytes(const struct model *m, int n, int shares)
{
    return (size_t)depth_of(n / shares) * m->n * sizeof(real);
}

enum fail leaves_open(struct leaves *l, const struct model *m, int n, int shares,
                      struct why *why)
{
    bool memory;

    *l = (struct leaves){.depth = depth_of(n / shares), .bytes = m->n * sizeof(real)};
    l->loss = calloc((size_t)n, sizeof *l->loss);
    l->held = calloc((size_t)l->depth + 1, sizeof *l->held);
    memory = l->loss && l->held;
    for (int i = 0; memory && i < l->depth; i++)
        memory = (l->held[i] = pages_alloc(l->bytes)) != NULL;
    if (memory)
        return FAIL_NONE;
    leaves_close(l);
    return fail(why, FAIL_MEMORY,
                "out of memory for the gradients of accumulate=%d micro-batches; reduce "
                "accumulate, width or layers",
                n);
}

void leaves_close(struct leaves *l)
{
    for (int i = 0; l->held && i < l->depth; i++)
        pages_free(l->held[i], l->bytes);
    free(l->held);
    free(l->loss);
    *l = (struct leaves){0};
}

/* ---- the sum ---- */

/* right = left + right, and left = 0. */
static void add(real *restrict right, real *restrict left, size_t n)
{
    #pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < n; i++) {
        right[i] = left[i] + right[i];
        left[i] = 0;
    }
}

/* One sum. The last leaf's gradient is the right operand of every left subtree that still
 * waits, and they are added to it as far as it stands. */
struct sum {
    struct leaves      *l;
    const struct model *m;
    struct pass        *p;
    leaf_run            run;
    void               *user;
    int                 waiting;    // left subtrees, in held
    size_t              stands;     // the sum from here on
};

static void last_ready(void *user, size_t from)
{
    struct sum *s = user;

    for (int i = s->waiting - 1; i >= 0; i--)
        add(s->p->dw + from, s->l->held[i] + from, s->stands - from);
    s->stands = from;
    if (s->l->ready)
        s->l->ready(s->user, from);
}

static enum fail run_last(struct sum *s, int i, struct why *why)
{
    enum fail err;

    s->p->ready = last_ready;
    s->p->ready_user = s;
    err = s->run(s->user, i, &s->l->loss[i], why);
    s->p->ready = NULL;
    if (!err)
        last_ready(s, 0);
    return err;
}

/* The part of the tree that is `level` below the root, whose end is on its right edge. */
static enum fail sum(struct sum *s, int first, int n, int level, bool edge,
                     struct why *why)
{
    int       right = n / 2, left = n - right;
    enum fail err;

    if (n == 1)
        return edge ? run_last(s, first, why)
                    : s->run(s->user, first, &s->l->loss[first], why);
    err = sum(s, first, left, level + 1, false, why);
    if (err)
        return err;
    pass_swap_gradients(s->p, s->m, &s->l->held[level]);
    s->waiting += edge;
    err = sum(s, first + left, right, level + 1, edge, why);
    if (!edge)
        add(s->p->dw, s->l->held[level], s->m->n);
    return err;
}

enum fail leaves_sum(struct leaves *l, const struct model *m, struct pass *p, int first,
                     int n, leaf_run run, void *user, struct why *why)
{
    struct sum s = {l, m, p, run, user, .stands = m->n};

    return sum(&s, first, n, 0, true, why);
}
