/* The layers that loop tests run over: every mixer of the table by its bare name, then
 * settings that take another way through the code. */
#ifndef WEFT_VARIANTS_H
#define WEFT_VARIANTS_H

#include "tests/support/layer.h"

enum { VARIANT_LONGEST = 300 };         // tokens that a layer opened here has room for

int         variant_count(void);
const char *variant_entry(int i);       // "softmax(window=5)"

/* Configuration of variant i for width C, and the layer of it: 2 heads unless the entry
 * says otherwise. Heads of variant_open are 12 wide, no multiple of a vector. */
struct mixer_cfg variant_cfg(int i, int C);
void             variant_open(struct layer *l, int i, int B, int T);

#endif
