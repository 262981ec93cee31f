/* The parameters of a model as tensors of a file: float32 there, real in memory. */
#ifndef WEFT_TENSORS_H
#define WEFT_TENSORS_H

#include "model/model.h"

#include <stdbool.h>

enum { TENSOR_SETS = 2 };

/* One array of the model's layout, as the tensors prefix + parameter's name: the
 * parameters themselves, or what the trainer keeps for each trained one. */
struct tensor_set {
    const char *prefix;         // "", "m.", "v."
    bool        buffers;        // with buffers
    real       *values;         // (m->n); NULL: tensors_read only checks
};

/* Write n (at most TENSOR_SETS) parts to a safetensors file. FAIL_WRITE.
 * FAIL_DIVERGED, and nothing is written: a number is not finite. */
enum fail tensors_write(const char *path, const struct model *m,
                        const struct tensor_set *part, int n, struct why *why);

/* Read them back: every tensor of the parts, of the model's shapes, and no other; all
 * numbers finite. FAIL_INPUT. */
enum fail tensors_read(const char *path, const struct model *m,
                       const struct tensor_set *part, int n, struct why *why);

/* The parameters of m from a file that tensors_write has made, read as above, but not
 * copied: m has the pages of the file, until model_close (see safetensors_map). They are
 * copied where their order or a real is another than in the file. */
enum fail tensors_map(const char *path, struct model *m, struct why *why);

/* FAIL_DIVERGED: a number of the file is not finite. FAIL_INPUT: it is no such file. */
enum fail tensors_check_finite(const char *path, struct why *why);

#endif
