/* Golden files: reference inputs, parameters, outputs and gradients of one layer each,
 * in double precision, with the layer's configuration as text in the metadata.
 *
 *     x, dy, y, dx            input, upstream gradient, output, d sum(y dy) / dx
 *     param.N, grad.N         parameters and gradients; buffers have no gradient
 */
#ifndef WEFT_GOLDEN_H
#define WEFT_GOLDEN_H

#include "model/files/safetensors.h"
#include "model/mixer.h"

#include <stdint.h>

struct golden {
    struct safetensors file;
    const char        *path;
    const char        *layer;           // of the metadata
};

/* All of these fail the running test, naming the file, when something is amiss. */
void golden_open(struct golden *g, const char *path);
void golden_close(struct golden *g);

const char   *golden_text(const struct golden *g, const char *key);
double        golden_number(const struct golden *g, const char *key);
const double *golden_values(const struct golden *g, const char *name, size_t n);
int32_t      *golden_ids(const struct golden *g, const char *name, size_t n);   // free it

size_t        golden_rows(const struct golden *g);                              // B T

/* Copy a tensor of n elements into a, or into a new array that the caller frees. */
void  golden_read(const struct golden *g, const char *name, real *a, size_t n);
real *golden_new(const struct golden *g, const char *name, size_t n);

/* A number that a layer does not take as an argument must be the one it computes with. */
void golden_assert_constant(const struct golden *g, const char *key, double value);

/* Compare with a tensor under the golden tolerance; what is printed after its name. */
void golden_compare(const struct golden *g, const char *name, const char *what,
                    const real *a, size_t n);

/* The entry of `mixers` that the metadata describes, such as
 * "softmax(heads=4,kv_heads=2,window=5,qk_norm=1,sink=1)+rope(base=10000.0)". Keys are
 * read with this prefix ("swa." in a model, "" in a layer's own file). A key that the
 * mixer does not offer as an option must have the value that is built in. window >= 0
 * replaces the window. */
void golden_entry(const struct golden *g, const char *prefix, int window, char *entry,
                  size_t cap);

/* The configuration of an entry for this file's width, heads and length. */
struct mixer_cfg golden_cfg(const struct golden *g, const char *entry);

/* Only the part after the plus, without it: "none", "rope(base=10000.0)", "srope(...)";
 * empty when the metadata has no key rope. */
void golden_position(const struct golden *g, const char *prefix, char *entry, size_t cap);

/* Check a whole file of the layers adamw and lm. */
void golden_check_adamw(const struct golden *g);
void golden_check_lm(const struct golden *g);

#endif
