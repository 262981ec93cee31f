/* What a client asks: the JSON of a request, checked field by field.
 *
 * Unknown fields are ignored. A value that makes no sense is refused with its field's
 * name, and nothing that a request says is ever taken for a path.
 */
#ifndef WEFT_ASK_H
#define WEFT_ASK_H

#include "infer/asked.h"
#include "tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    ASK_BODY = 1 << 20,         // bytes
    ASK_SAMPLES = 8,
    ASK_TOP = 20,
    ASK_PROMPTS = 128,
    ASK_TEXTS = 128,            // prompts times samples
    ASK_TOKENS = 1 << 16,       // of a prompt, and of a text
    ASK_FIGURES = 1 << 21,      // tokens of all texts, times what is told of each
};

struct ask_prompt {
    int32_t *ids;               // (n)
    long     n, hidden;         // hidden: 1 when the first is an EOS nobody asked for
    char    *text;              // its bytes
    size_t   len;
    size_t   prefix;            // bytes of the model's prefix before it, in ids alone
    bool     opens;             // nothing was asked: it is the model's opening, and told
};

struct ask {
    bool              chat, stream, usage, echo;
    int               top;              // likeliest tokens to tell; -1: no logprobs
    int               samples;          // n
    long              max_tokens;
    struct asked      asked;            // how to sample, where to stop
    struct ask_prompt *prompt;          // (n_prompt)
    int               n_prompt;
    json_t           *body;             // owned; stops point into it
};

/* What a model makes of a prompt: of a text, prefix is put before it; without a text it
 * begins with its opening. Both may be "". */
struct ask_model {
    const struct tokenizer *tokenizer;
    const char             *prefix, *opening;
};

/* Read a request for text; body is taken over. template: each message of a chat, with
 * {role} and {content}. False, and why; ask_close is fine then, too. */
bool ask_read(struct ask *a, json_t *body, bool chat, const char *template,
              const struct ask_model *m, struct refusal *why);
void ask_close(struct ask *a);

/* Ids of a text, malloc'ed, *n of them; the text "</s>" is EOS. NULL: no memory. */
int32_t *ask_ids(const struct tokenizer *t, const char *text, size_t len, long *n);

/* An array of ids below vocab, malloc'ed. False, and why. */
bool ask_id_list(const json_t *list, const char *param, int vocab, int32_t **ids, long *n,
                 struct refusal *why);

#endif
