/* Choosing the next token: llama.cpp's names, order and defaults.
 *
 *     bias -> penalties -> top-k -> top-p -> min-p -> temperature -> draw
 *
 *     l += bias[id]
 *     l  = l > 0 ? l / repeat : l * repeat              where id is among the recent
 *     l -= presence + frequency count[id]               where count[id] > 0
 *
 * The recent tokens are the last repeat_last_n, the prompt's too (llama.cpp's window).
 * count is of the tokens that this sampler has picked since it was opened, and of no
 * others: presence and frequency penalties are OpenAI's, which leave the prompt alone.
 *
 * temp <= 0 takes the most likely token after the penalties. Equal logits rank by
 * lower id. A NaN logit counts as -infinity; when nothing is left to choose from, the
 * choice is id 0.
 *
 * Memory is fixed when a sampler opens.
 */
#ifndef WEFT_SAMPLER_H
#define WEFT_SAMPLER_H

#include "model/kernels/real.h"

#include <stdint.h>

/* What is added to the logit of a token; -INFINITY: never pick it. */
struct logit_bias {
    int32_t id;
    double  add;
};

struct sampler_options {
    double   temp;              // 0.8
    int      top_k;             // 40; 0: all
    double   top_p;             // 0.95; 1: all
    double   min_p;             // 0.05; 0: all
    double   repeat_penalty;    // 1: none
    int      repeat_last_n;     // 64
    double   presence_penalty;  // 0: none; negative ones make tokens come again
    double   frequency_penalty; // 0: none
    const struct logit_bias *bias;      // (n_bias) copied; ids below vocab; biases of the
    int      n_bias;                    // same id add up
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

/* Choose otherwise from now on. */
void sampler_temp(struct sampler *s, double temp);
void sampler_seed(struct sampler *s, uint64_t seed);

/* A copy (NULL: out of memory); and back to what it was when it was copied, but for a
 * temperature or a seed that was set since. */
struct sampler *sampler_copy(const struct sampler *s);
void            sampler_restore(struct sampler *s, const struct sampler *was);

/* Never pick this token (EOS under --ignore-eos); -1: none. */
void sampler_ban(struct sampler *s, int32_t token);

#endif
