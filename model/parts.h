/* The parameters of a model as tensors of a file: float32 there, real in memory. */
#ifndef WEFT_PARTS_H
#define WEFT_PARTS_H

#include "model/model.h"

#include <stdbool.h>

enum { PARTS = 4 };

/* A set of tensors of the model's layout: all parameters, or the trained ones
 * under a prefix. */
struct part {
    const char *prefix;         // "", "m.", "v."
    bool        buffers;        // with buffers
    real       *values;         // (m->n)
};

/* Write n (at most PARTS) parts to a safetensors file. FAIL_WRITE. */
int parts_write(const char *path, const struct model *m, const struct part *part, int n,
                struct why *why);

/* Read them back: every tensor of the parts, of the model's shapes, and no other.
 * FAIL_INPUT. */
int parts_read(const char *path, const struct model *m, const struct part *part, int n,
               struct why *why);

#endif
