/* A SentencePiece model, taken apart and checked without SentencePiece, whose own reader
 * can be led out of bounds by a hostile file. What passes has the form that
 * tokenizer_train gives its models, and no other field on the first level:
 *
 *     1  piece, repeated     { 1 text, 2 score (float), 3 type }
 *     2  trainer_spec        { 3 model_type 1 unigram | 2 bpe, 35 byte_fallback = 1, .. }
 *     3  normalizer_spec     { 2 precompiled_charsmap empty, 3 add_dummy_prefix = 0,
 *                              4 remove_extra_whitespaces = 0,
 *                              5 escape_whitespaces = 1, .. }
 *
 *     ids: 0 unknown, 1, 2 control, 3 .. 258 bytes <0x00> .. <0xFF>, then normal
 */
#ifndef WEFT_TOKENIZER_VALIDATE_H
#define WEFT_TOKENIZER_VALIDATE_H

#include "data/base/fail.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MODEL_BYTE0       = 3,          // id of the first byte piece
    MODEL_NORMAL0     = 259,        // id of the first normal piece
    MODEL_PIECES      = 1 << 20,    // at most
    MODEL_PIECE_BYTES = 256,        // at most
};

struct model_piece {
    const char *text;           // inside the model
    size_t      len;
    float       score;
    uint64_t    type;
};

struct model_form {
    bool                bpe;
    bool                blank;  // add_dummy_prefix: a space goes before every text
    size_t              n;
    struct model_piece *piece;  // (n) malloc'ed; the caller frees
};

/* FAIL_INPUT when the model is not sound; FAIL_MEMORY. Then f is all zero. A model of
 * others may have add_dummy_prefix: model_parse_foreign takes it too. */
enum fail model_parse(struct model_form *f, const void *model, size_t len);
enum fail model_parse_foreign(struct model_form *f, const void *model, size_t len);

/* The pieces as a model of this form, without add_dummy_prefix; malloc'ed. FAIL_INPUT:
 * they are not sound; FAIL_MEMORY. */
enum fail model_write(const struct model_form *f, void **model, size_t *len);

#ifdef __cplusplus
}
#endif
#endif
