/* Text to ids and back.
 *
 * One API over SentencePiece (unigram, bpe) and a byte tokenizer. Encoding loses nothing:
 * joining the bytes of the pieces gives back the text, whatever it holds. What
 * SentencePiece cannot carry (bytes that are not UTF-8, U+2581, U+2585, NUL, tab,
 * newline) is encoded as byte pieces. No token crosses a newline, so lines may be encoded
 * one by one.
 *
 *     ids      SentencePiece: unk 0, bos 1, eos 2, then 256 byte pieces, then the rest
 *              bytes: id = byte, eos 256; the vocabulary is 257
 *     model    stored as tokenizer.model: SentencePiece's own file, or "weft-bytes"
 *
 * A tokenizer is immutable once loaded and may be used by several threads at once.
 * No C++ exception and no exit() reaches the caller.
 */
#ifndef WEFT_TOKENIZER_H
#define WEFT_TOKENIZER_H

#include "data/base/fail.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a vocabulary that is trained may be asked to be. */
enum { TOKENIZER_VOCAB_MIN = 264, TOKENIZER_VOCAB_MAX = 1 << 20 };

struct tokenizer;

/* The next piece of training text and its length, or NULL at the end. The text stays
 * valid until the next call. The end of a piece counts as the end of a line. */
typedef const char *(*tokenizer_next)(void *user, size_t *len);

/* Train a tokenizer of `vocab` ids, or up to a tenth less, and hand over its model
 * (malloc'ed; caller frees). kind is "unigram", "bpe" or "bytes" (which reads no text).
 * `next` is called in this process, until it has given about 32 MiB; the trainer runs in
 * a child, so call this before the first OpenMP region. close_fd: a descriptor the child
 * must not inherit (the run's lock), or -1. The same text gives the same model.
 * On failure *model is NULL. FAIL_USAGE: no such kind, or no such vocabulary; when it is
 * only too large for this text, *fits is the largest that is not (else 0). FAIL_INPUT: no
 * text, or SentencePiece's trainer failed: in its own words. FAIL_MEMORY,
 * FAIL_INTERRUPTED. */
enum fail tokenizer_train(const char *kind, int vocab, tokenizer_next next, void *user,
                          int close_fd, void **model, size_t *len, int *fits,
                          struct why *why);

/* Load from memory. The bytes are checked before SentencePiece sees them. FAIL_INPUT: no
 * tokenizer of weft, or a damaged one; FAIL_MEMORY. On failure *t is NULL. */
enum fail tokenizer_load(struct tokenizer **t, const void *model, size_t len,
                         struct why *why);
void      tokenizer_free(struct tokenizer *t); // NULL is fine

/* Has *t, read from path, as many ids as the model that it comes with? FAIL_INPUT: no;
 * it is freed and *t is NULL. */
enum fail tokenizer_expect(struct tokenizer **t, int vocab, const char *path,
                           struct why *why);

const char *tokenizer_kind(const struct tokenizer *t);           // unigram, bpe, bytes
int         tokenizer_vocab(const struct tokenizer *t);          // number of ids
int         tokenizer_eos(const struct tokenizer *t);
uint64_t    tokenizer_fingerprint(const struct tokenizer *t);    // xxh3 of the model

/* The model as given to tokenizer_load; owned by t. */
const void *tokenizer_model(const struct tokenizer *t, size_t *len);

/* Returns how many ids the text needs, at most len, which may exceed cap (then only cap
 * were written and a second call with a larger buffer succeeds), or -1 when out of
 * memory. No bos, no eos. */
long tokenizer_encode(const struct tokenizer *t, const char *text, size_t len,
                      uint32_t *ids, size_t cap);

/* The bytes that id stands for; owned by t. Special ids (unk, bos, eos) and ids beyond
 * the vocabulary have none: *len = 0. A byte piece may be part of a UTF-8 character. */
const char *tokenizer_piece(const struct tokenizer *t, uint32_t id, size_t *len);

/* Join the bytes of n ids into text; returns how many that needs, writing at most cap. */
size_t tokenizer_decode(const struct tokenizer *t, const uint32_t *ids, size_t n,
                        char *text, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
