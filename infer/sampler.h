/* Choosing the next token: llama.cpp's names, order and defaults.
 *
 *     repeat penalty -> top-k -> top-p -> min-p -> temperature -> draw
 *
 * temp <= 0 takes the most likely token after the penalty. Equal logits rank by
 * lower id. A NaN logit counts as -infinity; when nothing is left to choose from, the
 * choice is id 0.
 *
 * Memory is fixed when a sampler opens.
 */
#ifndef WEFT_SAMPLER_H
#define WEFT_SAMPLER_H

#include "model/kernels/real.h"

#include <stdint.h>

struct sampler_options {
    double   temp;              // 0.8
    int      top_k;             // 40; 0: all
    double   top_p;             // 0.95; 1: all
    double   min_p;             // 0.05; 0: all
    double   repeat_penalty;    // 1: none
    int      repeat_last_n;     // 64
    uint64_t seed;
};

void sampler_defaults(struct sampler_options *o);

struct sampler;     // one sequence's: its random stream, recent tokens, scratch

/* Two samplers with equal options and stream make equal choices. NULL: out of memory. */
struct sampler *sampler_open(const struct sampler_options *o, int vocab, uint64_t stream);
void            sampler_close(struct sampler *s);                       // NULL is fine

/* Choose from logits (vocab) and accept the choice. */
int32_t sampler_pick(struct sampler *s, const real *logits);

/* Count a token among the recent ones, for the repeat penalty. */
void sampler_accept(struct sampler *s, int32_t token);

/* Never pick this token (EOS under --ignore-eos); -1: none. */
void sampler_ban(struct sampler *s, int32_t token);

#endif
