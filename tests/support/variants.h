/* The layers that loop tests run over: every mixer by its bare name, then settings that
 * take another way through the code: a table of them, and each value of a mixer's flags
 * and choices and each position encoding that the table leaves out.
 *
 * WEFT_MIXER=NAME in the environment leaves those of one mixer (make test-mixer). */
#ifndef WEFT_VARIANTS_H
#define WEFT_VARIANTS_H

#include "tests/support/layer.h"

enum { VARIANT_LONGEST = 300 };         // tokens that a layer opened here has room for

int         variant_count(void);        // to be called before the others
const char *variant_entry(int i);       // "softmax(window=5)"
uint64_t    variant_seed(int i);        // of its entry, whatever stands before it

/* The first of them are the mixers themselves. */
int                 variant_mixers(void);
const struct mixer *variant_mixer(int i);

/* Configuration of variant i for width C, and the layer of it: 2 heads unless the entry
 * says otherwise. Heads of variant_open are 12 wide, no multiple of a vector. */
struct mixer_cfg variant_cfg(int i, int C);
void             variant_open(struct layer *l, int i, int B, int T);

#endif
