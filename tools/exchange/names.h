/* One table of names for all exchanges, read both ways: a parameter of weft, what the
 * others call it, and how its numbers lie there.
 *
 *     HF       transformers' Llama and its like          FLA     flash-linear-attention
 *     BAMBA    transformers' Mamba-2 with attention      GGUF    llama.cpp
 *
 * Export walks the model's parameters and writes a tensor for each. Import walks them
 * again, finds each tensor and takes its numbers; a tensor that no parameter asked for is
 * an error that names it.
 */
#ifndef WEFT_NAMES_H
#define WEFT_NAMES_H

#include "model/files/safetensors.h"
#include "model/kernels/packed.h"
#include "model/model.h"

enum dialect { DIALECT_HF, DIALECT_FLA, DIALECT_BAMBA, DIALECT_GGUF, DIALECTS };

/* A tensor of a file of others. */
struct foreign {
    char        name[TENSOR_NAME];
    int         dims;
    int64_t     shape[TENSOR_DIMS];     // rows first
    size_t      n;
    enum packed type;
    const void *data;                   // packed_bytes(type, n) of them
    bool        used;                   // a parameter took it
};

struct foreigners {
    struct foreign *tensor;             // (n) malloc'ed
    int             n;
    void           *memory;             // of their data, where it is owned
};

/* How a model's tensors are named and laid out. */
struct spelling {
    enum dialect dialect;
    bool         interleaved;   // rotary pairs lie at 2j, 2j + 1: rows of wq and wk turn
    bool         sinks;         // every layer has sinks; without: NO_SINK
    enum packed  type;          // of matrices
    bool         vectors;       // of vectors too; else they are f32
};

#define NO_SINK (-1e4f)

/* Every parameter as a tensor, in the model's order. FAIL_USAGE: one has no name there,
 * or a number too large for the type; FAIL_MEMORY. */
enum fail foreign_make(struct foreigners *f, const struct model *m,
                       const struct spelling *s, struct why *why);

/* Fill the model's parameters. FAIL_INPUT: a tensor is missing, of another shape, not
 * finite, or one too many. where names the file. */
enum fail foreign_take(const struct model *m, struct foreigners *f,
                       const struct spelling *s, const char *where, struct why *why);

void foreign_free(struct foreigners *f);    // a zeroed one is fine

#endif
