/* safetensors: u64 header length, a JSON header, raw little-endian data.
 *
 *     {"__metadata__": {"key": "text"},
 *      "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
 *
 * The reader trusts nothing: header length (at most SAFETENSORS_HEADER), JSON without
 * repeated keys, types, shapes and ranges are checked, and the tensors must tile the data
 * exactly. It reads the whole file.
 */
#ifndef WEFT_SAFETENSORS_H
#define WEFT_SAFETENSORS_H

#include "data/base/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SAFETENSORS_HEADER = 16 << 20, TENSOR_NAME = 128, TENSOR_DIMS = 4 };

enum dtype { DTYPE_F32, DTYPE_F64, DTYPE_I64, DTYPE_F16, DTYPE_BF16 };

struct tensor {
    char        name[TENSOR_NAME];
    enum dtype  dtype;
    int         dims;   // 0 .. TENSOR_DIMS
    int64_t     shape[TENSOR_DIMS];
    size_t      n;      // elements
    const void *data;   // reader: inside the bytes read, unaligned; writer: the caller's
};

struct safetensors {
    struct tensor *tensor;          // (n) in the order of the header
    int            n;
    char         **meta;            // 2 n_meta strings: key, value, key, value ...
    int            n_meta;
    char          *bytes;           // (len) the file, owned
    size_t         len;
    bool           mapped;          // bytes are its pages, not a copy
};

/* FAIL_INPUT. On failure nothing needs closing. */
enum fail safetensors_open(struct safetensors *s, const char *path, struct why *why);

/* The same without a copy: bytes are the file's pages, and writing there changes this
 * process's only. Touching them after another program has made the file shorter is a
 * SIGBUS. */
enum fail safetensors_map(struct safetensors *s, const char *path, struct why *why);
void safetensors_close(struct safetensors *s);          // a zeroed one is fine

/* NULL: there is none. */
const struct tensor *safetensors_find(const struct safetensors *s, const char *name);
const char          *safetensors_meta(const struct safetensors *s, const char *key);

/* Write n tensors in this order; fsynced, not renamed (the caller commits a directory).
 * meta as above. FAIL_WRITE. */
enum fail safetensors_write(const char *path, const struct tensor *tensor, int n,
                            const char *const *meta, int n_meta, struct why *why);

#endif
