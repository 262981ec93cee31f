/* The position encodings as formulas, in double: their definitions. */
#ifndef WEFT_ENCODING_H
#define WEFT_ENCODING_H

#include "tests/support/layer.h"

/* Turn z (T, heads, dk), q or k of sequence b, as the layer's encoding says. A layer
 * whose wk has A heads has A heads of angles. */
void encoding_turn(const struct layer *l, int b, double *z, int heads);

#endif
