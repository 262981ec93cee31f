/* What a rela layer attended to. */
#ifndef WEFT_RELA_H
#define WEFT_RELA_H

#include "model/mixer.h"

/* After mixer_forward of a rela layer with the same ctx, from what it kept: the share
 * of weights A that are zero among the visible pairs (b, h, t, u), and of rows (b, h, t)
 * that are zero in all. Costs the scores of one forward pass. */
void rela_sparsity(const struct ctx *ctx, double *sparsity, double *nulls);

#endif
