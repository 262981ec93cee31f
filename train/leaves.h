/* The gradient of a step: those of its micro-batches, the leaves, each computed from
 * zero, and summed as one fixed binary tree,
 *
 *     tree(first, n) = tree(first, n - n / 2) + tree(first + n - n / 2, n / 2)
 *
 * so that the sum has the same bits however its subtrees are shared out. */
#ifndef WEFT_LEAVES_H
#define WEFT_LEAVES_H

#include "model/pass.h"

struct leaves {
    double *loss;           // (n) of each leaf
    real  **held;           // (depth) a left subtree's sum while the right one's is made;
    int     depth;          // zero when not in use
    size_t  bytes;          // of each
    /* (optional) Told while the last leaf goes backward: the sum stands from element
     * `from` on. */
    void  (*ready)(void *user, size_t from);
};

/* Leaf i: its loss, and its gradient, added to the pass's. */
typedef enum fail (*leaf_run)(void *user, int i, double *loss, struct why *why);

/* Memory for n leaves, of which one of `shares` equal shares is summed here. FAIL_MEMORY;
 * then nothing needs closing. */
enum fail leaves_open(struct leaves *l, const struct model *m, int n, int shares,
                      struct why *why);
void      leaves_close(struct leaves *l);       // a zeroed one is fine
size_t    leaves_bytes(const struct model *m, int n, int shares);

/* Sum n leaves from `first` on into p->dw, which is zero before; their losses into loss,
 * by their number. What run returns. `user` is that of run and of ready; p->ready is
 * used. */
enum fail leaves_sum(struct leaves *l, const struct model *m, struct pass *p, int first,
                     int n, leaf_run run, void *user, struct why *why);

#endif
