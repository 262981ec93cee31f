/* Strings to repeat (Repeat After Me, arXiv:2402.01032):
 *
 *     $ s1 s2 ... sL | s1 s2 ... sL .    next string ...   * * *
 *
 * Letters are uniform, L uniform from low to high; strings follow each other while they
 * fit into T tokens, then the pad '*'. Wanted are the letters of the second half, each at
 * the token before it.
 */
#ifndef WEFT_STRINGS_H
#define WEFT_STRINGS_H

#include "data/base/rng.h"

#include <stdint.h>

enum {
    STRING_PAD,
    STRING_BEGIN,
    STRING_TURN,
    STRING_END,
    STRING_LETTERS
}; // then the letters

/* user of strings_fill. */
struct strings {
    int letters, low, high;
};
void strings_fill(const void *user, struct rng *r, int T, int32_t *tokens,
                  int32_t *targets);

/* Tokens of one string with its copy. */
static inline int string_tokens(int length) { return 2 * length + 3; }

#endif
