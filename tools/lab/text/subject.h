/* A run whose softmax attention is to be replaced: its weights, its tokenizer, and the
 * list of mixers that follows. */
#ifndef WEFT_LAB_SUBJECT_H
#define WEFT_LAB_SUBJECT_H

#include "model/model.h"
#include "tokenizer/tokenizer.h"

struct subject {
    struct model      model;
    struct tokenizer *tokenizer;
    uint64_t          hash;         // of its weights
};

/* Load the checkpoint that path means (checkpoint_find). Query heads that share a key
 * head get a copy each: the model computes the same, and mixers without shared heads find
 * their weights. FAIL_INPUT, FAIL_MEMORY; then there is nothing to close. */
enum fail subject_open(struct subject *s, const char *path, struct why *why);
void      subject_close(struct subject *s);     // a zeroed one is fine

/* The model's mixers with `arm` in the place of every softmax, turning queries and keys
 * as that did. FAIL_USAGE: there is none. */
enum fail subject_mixers(const struct subject *s, const char *arm, char *to,
                         size_t cap, struct why *why);

#endif
