/* A bias of one token, as it is typed: TOKEN+X or TOKEN-X.
 *
 *     15043+1     the token with this id
 *     ' cat'-5    the one token that this text is
 *     2-inf       never
 */
#ifndef WEFT_BIAS_H
#define WEFT_BIAS_H

#include "infer/sampler.h"
#include "tokenizer/tokenizer.h"

/* FAIL_USAGE: not of that form, no such id, or a text of several tokens, which are then
 * named. FAIL_MEMORY. */
enum fail bias_parse(struct logit_bias *b, const char *text, const struct tokenizer *t,
                     struct why *why);

#endif
