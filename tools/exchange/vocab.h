/* Tokenizers in the forms of others.
 *
 *     SentencePiece's .model    unigram or bpe; add_dummy_prefix becomes `prefix`
 *     tokenizer.json            Hugging Face's, written only
 *     tokenizer.bin             llama2.c's
 *     tokenizer.ggml.*          llama.cpp's: llama (bpe), t5 (unigram), gpt2 (bytes)
 */
#ifndef WEFT_VOCAB_H
#define WEFT_VOCAB_H

#include "tokenizer/model_form.h"
#include "tokenizer/tokenizer.h"

#include <jansson.h>

enum vocab_kind { VOCAB_UNIGRAM, VOCAB_BPE, VOCAB_BYTES };

/* The pieces of a tokenizer. */
struct vocab {
    enum vocab_kind   kind;
    int               n, eos;
    struct model_form form;         // of unigram and bpe; points into the tokenizer
    bool              space;        // U+2581 alone is a piece
};

/* FAIL_MEMORY. t must outlive it. */
enum fail vocab_open(struct vocab *v, const struct tokenizer *t, struct why *why);
void      vocab_close(struct vocab *v);

/* SentencePiece's names of the types of pieces, which GGUF shares. */
enum { PIECE_NORMAL = 1, PIECE_UNKNOWN = 2, PIECE_CONTROL = 3, PIECE_BYTE = 6 };

/* One token in somebody else's list. */
struct token {
    char  text[MODEL_PIECE_BYTES + 1];
    size_t len;
    float score;
    int   type;
};

/* Token i as GGUF has it. unigram: a byte below 0x80 whose character is no piece is that
 * character as a normal token, as t5 has no bytes. */
void vocab_gguf(const struct vocab *v, int i, struct token *t);

/* Weft's id of the token that llama2.c has at a place, where documents begin after
 * LLAMA2C_FIRST; and that token's text there, blanks as blanks. */
enum { LLAMA2C_FIRST = 1 };
int  vocab_llama2c_id(const struct vocab *v, int place);
void vocab_llama2c(const struct vocab *v, int place, struct token *t);

/* tokenizer.json; NULL when out of memory. blank: a space before every text. */
json_t *vocab_json(const struct vocab *v, bool blank);

/* ---- and back ---------------------------------------------------------------------- */

/* A SentencePiece model of weft's form from n tokens in its order (unknown, two controls,
 * 256 bytes, normal ones), malloc'ed. FAIL_INPUT: they are not in that order, or not
 * sound; FAIL_MEMORY. */
enum fail vocab_make(const struct token *token, int n, bool bpe, void **model,
                     size_t *len, struct why *why);

/* A .model of others in weft's form, malloc'ed; *blank: it puts a space before texts.
 * FAIL_INPUT: of a form that weft cannot have; FAIL_MEMORY. */
enum fail vocab_convert(const void *bytes, size_t size, void **model, size_t *len,
                        bool *blank, struct why *why);

#endif
