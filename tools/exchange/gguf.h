/* GGUF, llama.cpp's file: keys with values, tensor descriptions, then the data.
 *
 *     "GGUF"  u32 version 3  u64 tensors  u64 keys
 *     key     string name, u32 type, value             string: u64 length, bytes
 *     array   u32 type, u64 length, values
 *     tensor  string name, u32 dims, u64 sizes (columns first), u32 type, u64 offset
 *     data    from the next multiple of general.alignment (32) on; so every offset
 *
 * The reader works on bytes in memory alone and trusts nothing: every length is checked
 * against what is left, and the tensors must lie inside the file without overlap.
 */
#ifndef WEFT_GGUF_H
#define WEFT_GGUF_H

#include "tools/exchange/names.h"

#include <stdio.h>

enum gguf_type {
    GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL,
    GGUF_STRING, GGUF_ARRAY, GGUF_U64, GGUF_I64, GGUF_F64, GGUF_TYPES,
};

/* A key and where its value lies. */
struct gguf_key {
    const char          *name;          // not ended by a NUL
    size_t               name_len;
    enum gguf_type       type;          // of an array: of its elements
    bool                 array;
    uint64_t             n;             // elements; 1 unless an array
    const unsigned char *at;            // the first
};

struct gguf {
    struct gguf_key  *key;              // (n_keys)
    int               n_keys;
    struct foreigners tensors;          // data points into the bytes
};

/* FAIL_INPUT: damaged, truncated, or a tensor of another type than F32, F16, BF16 and
 * Q8_0; FAIL_MEMORY. On failure nothing needs closing. bytes must outlive g. */
enum fail gguf_parse(struct gguf *g, const unsigned char *bytes, size_t len,
                     const char *where, struct why *why);
void      gguf_close(struct gguf *g);

/* NULL: there is none. */
const struct gguf_key *gguf_find(const struct gguf *g, const char *name);

/* Element i of a key as a number (a bool is 0 or 1), or `otherwise` when it is none. */
double gguf_number(const struct gguf_key *k, uint64_t i, double otherwise);

/* Element i of a key of strings; NULL: it is none. Starting from i = 0 in order, *at
 * (NULL at first) makes that one pass. */
const char *gguf_string(const struct gguf_key *k, const unsigned char **at, size_t *len);

/* ---- writing ----------------------------------------------------------------------- */

/* A header that grows in memory. */
struct gguf_out {
    FILE    *to;
    char    *bytes;
    size_t   len;
    uint64_t n_keys;
};

bool gguf_begin(struct gguf_out *g);                    // false: out of memory
void gguf_put_string(struct gguf_out *g, const char *name, const char *text);
void gguf_put_u32(struct gguf_out *g, const char *name, uint32_t v);
void gguf_put_f32(struct gguf_out *g, const char *name, float v);
void gguf_put_bool(struct gguf_out *g, const char *name, bool v);
void gguf_put_array(struct gguf_out *g, const char *name, enum gguf_type type,
                    uint64_t n);                        // its elements follow:
void gguf_element(struct gguf_out *g, const void *bytes, size_t len);
void gguf_element_string(struct gguf_out *g, const char *text, size_t len);

/* The file: these keys and these tensors. FAIL_WRITE, FAIL_MEMORY; g is used up. */
enum fail gguf_write(struct gguf_out *g, const char *path, const struct foreigners *f,
                     struct why *why);

#endif
