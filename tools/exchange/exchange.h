/* Models out of weft and into it: one file a format, both ways. tools/exchange/names.h
 * has the names of tensors, forms.h the architectures, vocab.h the tokenizers.
 *
 * Export writes into a directory that appears whole. What the other side cannot have is
 * refused with the reason; what it has only nearly is told in `notes`.
 */
#ifndef WEFT_EXCHANGE_H
#define WEFT_EXCHANGE_H

#include "tools/exchange/forms.h"
#include "tools/exchange/vocab.h"

#include <limits.h>

/* ---- out --------------------------------------------------------------------------- */

struct outgoing {
    char              name[128];        // of the run: the last part of its path
    char              dir[PATH_MAX];    // the checkpoint
    const char       *to;               // "hf", "gguf", "llama2c"
    char              command[PATH_MAX + 64];
    enum packed       type;
    struct model      model;
    struct tokenizer *tokenizer;
    struct vocab      vocab;
    char              form[64];         // what it is there: "LlamaForCausalLM"
    char              notes[4][256];    // what a user must know
    int               n_notes;
};

void note(struct outgoing *x, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Write the files of the format into dir, and say in x->form what it became. FAIL_USAGE:
 * the model cannot go there; FAIL_WRITE, FAIL_MEMORY. */
enum fail hf_export(struct outgoing *x, const char *dir, struct why *why);
enum fail gguf_export(struct outgoing *x, const char *dir, struct why *why);
enum fail llama2c_export(struct outgoing *x, const char *dir, struct why *why);

/* README.md: what the model is, what it was trained on, how well it predicts, and how it
 * was made. FAIL_WRITE. */
enum fail card_write(const struct outgoing *x, const char *dir, struct why *why);

/* Whether texts have a space before them; FAIL_USAGE: another prefix, which none of the
 * formats has. */
enum fail prefix_is_blank(const struct config *c, bool *blank, struct why *why);

/* ---- in ---------------------------------------------------------------------------- */

struct incoming {
    struct model      model;
    struct tokenizer *tokenizer;
    char              from[64];         // what it was: "llama2.c", "GGUF llama"
    char              note[128];        // what a user must know; "": nothing
};

/* Read a model into a zeroed *in. tokenizer is a file of the user's choice, or NULL.
 * FAIL_INPUT, FAIL_MEMORY; incoming_close is due then too. */
enum fail hf_import(struct incoming *in, const char *dir, const char *tokenizer,
                    struct why *why);
enum fail gguf_import(struct incoming *in, const char *path, const char *tokenizer,
                      struct why *why);
enum fail llama2c_import(struct incoming *in, const char *path, const char *tokenizer,
                         struct why *why);
void incoming_close(struct incoming *in);

/* ---- what they share --------------------------------------------------------------- */

/* A file in memory. FAIL_INPUT. */
struct mapped {
    const unsigned char *bytes;
    size_t               len;
};
enum fail map_open(struct mapped *f, const char *path, struct why *why);
void      map_close(struct mapped *f);

/* A tokenizer from a file of any form: weft's, SentencePiece's, llama2.c's tokenizer.bin
 * of `vocab` tokens. *blank: texts want a space before them. FAIL_INPUT. */
enum fail tokenizer_take(struct tokenizer **t, const char *path, int vocab, bool *blank,
                         struct why *why);

/* tokenizer.bin's tokens, malloc'ed, of exactly n: a u32 (the longest), then for each an
 * f32 score, a u32 length and its bytes. FAIL_INPUT. */
enum fail llama2c_tokens(struct token **token, int n, const unsigned char *bytes,
                         size_t len, struct why *why);

/* weft's own settings as others carry them, and back. FAIL_INPUT. */
json_t   *settings_json(const struct config *c);
enum fail settings_take(struct config *c, const json_t *j, const char *where,
                        struct why *why);

/* Check the settings, see that `numbers` weights in a file can be those of such a model,
 * and open it. FAIL_INPUT, FAIL_MEMORY. */
enum fail incoming_open(struct incoming *in, struct config *c, double numbers,
                        const char *where, struct why *why);

/* Leave a note where texts begin there with another token than weft's EOS. first is that
 * token; -1: there is none. The tokenizer is open. */
void incoming_begins(struct incoming *in, double first);

/* dir/name. */
bool file_beside(char *buf, size_t cap, const char *dir, const char *name);

#endif
