/* Muon (Jordan et al. 2024; arXiv:2502.16982): momentum, orthogonalised, for the matrices
 * inside blocks. All else is AdamW's: embedding, head, norms, biases, convolutions.
 *
 *     g *= clip / norm                      as AdamW
 *     m = mu m + (1 - mu) g                 u = mu m + (1 - mu) g          (Nesterov)
 *     X = u / |u|                           then five times (Newton-Schulz)
 *         A = X Xᵀ (rows <= cols), or XᵀX
 *         X = a X + (b A + c A²) X, or X (b A + c A²)
 *     w = w (1 - lr decay) - lr 0.2 sqrt(max(rows, cols)) X
 *
 * X comes near the orthogonal factor of u: its singular values lie about 1. The last
 * factor gives it the size of AdamW's steps, so that the same rate serves both.
 */
#ifndef WEFT_MUON_H
#define WEFT_MUON_H

#include "model/model.h"

struct muon {
    double decay, clip;
    size_t from, to;            // update only matrices that begin there; to = 0: all
    real  *scratch;             // owned: `each` reals for each of `threads`
    size_t each;
    int    threads;
};

/* Is this one of its parameters: a matrix inside a block, with weight decay? */
bool muon_takes(const struct model_param *p);

/* Scratch for all threads. FAIL_MEMORY; then nothing needs closing. */
enum fail muon_open(struct muon *o, const struct model *model, double decay, double clip,
                    struct why *why);
void   muon_close(struct muon *o);                  // a zeroed one is fine
size_t muon_bytes(const struct model *model);       // of scratch

/* Update every parameter that it takes; m: as AdamW's. norm: of the gradients of all
 * (adamw_norm). Zeroes g on the way. A matrix is one thread's, so that the result is the
 * same for any number of them. */
void muon_step(const struct muon *o, struct model *model, real *g, real *m, double norm,
               double lr);

/* FLOPs of a step: those of the products. */
double muon_flops(const struct model *model);

#endif
