/* AdamW with global-norm clipping.
 *
 *     norm = |g| over all trained tensors;  g *= clip / norm  when norm > clip > 0
 *     m = b1 m + (1 - b1) g                 v = b2 v + (1 - b2) g²
 *     w = w (1 - lr decay)                  for decayed tensors
 *     w = w - lr (m / (1 - b1ⁿ)) / (sqrt(v / (1 - b2ⁿ)) + eps)
 */
#ifndef WEFT_ADAMW_H
#define WEFT_ADAMW_H

#include "model/model.h"

struct adamw {
    double beta1, beta2, eps, decay, clip;
    double table_lr;            // factor on the rate of the embedding and the head
    bool   muon;                // leave the matrices that muon.h takes alone
    bool   mixers;              // update the mixers' parameters alone
    size_t from, to;            // update only these elements, cut as below; to = 0: all
    double loud;                // model_loudness: the embedding learns so much faster and
                                // decays by what goes beyond adamw_decay(1) alone, the
                                // final norm learns so much slower; 0: no
};

/* The decay for a text that comes by so often: what comes by often is learned by heart,
 * and the more weights decay the later (docs/recipe.md, "A text that comes by often"). */
double adamw_decay(double passes);

/* Sum of squares in double, in an order that n alone decides. */
double sum_squares(const real *x, size_t n);

/* Global norm of the gradients of every trained parameter. Fixed blocks, fixed sum, in
 * double: the same for any number of threads. NaN or infinity in any gradient shows in
 * the result. */
double adamw_norm(const struct model *model, const real *g);

/* The same norm, made by several that have a share of the elements each. The array is cut
 * at multiples of ADAMW_BLOCK and where a parameter begins; each piece has one sum of
 * squares in part, at adamw_place of its beginning (adamw_place(model, n) sums in all).
 * adamw_squares writes those of the elements [from, to), adamw_total adds up part, zero
 * where there was nothing to write. */
enum { ADAMW_BLOCK = TINY(1 << 14, 32) };
size_t adamw_place(const struct model *model, size_t cut);
void   adamw_squares(const struct model *model, const real *g, size_t from, size_t to,
                     double *part);
double adamw_total(const struct model *model, const double *part);

/* Update number n = 1, 2, ... of every trained parameter (but see muon). norm is
 * adamw_norm's. g, m and v have the layout of model->w. The g of what is updated is left
 * zero, for the next step to add to. */
void adamw_step(const struct adamw *o, struct model *model, real *g, real *m, real *v,
                double norm, double lr, long n);

#endif
