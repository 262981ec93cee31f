/* The decode state of attention: the last `span` keys and values of a sequence.
 *
 *     k (Hk, span, e), then v (Hk, span, e); position p is in slot p mod span
 */
#ifndef WEFT_KV_CACHE_H
#define WEFT_KV_CACHE_H

#include "model/cores/attention.h"

/* Sizes in reals, from Hk, e and T of a alone. */
size_t kv_cache_state(const struct attention *a, int span);
size_t kv_cache_scratch(const struct attention *a, int span);

/* o (B, T, H, e) of T more tokens of each sequence: q, k and v are theirs (first = 0),
 * state[b] is the cache of sequence b, which has seen pos[b] tokens. A token sees the
 * last `window` positions, at most `span`; all are stored. T = 1 decodes, T > 1 prefills.
 */
void kv_cache_extend(const struct attention *a, int span, void *const *state,
                     const long *pos, real *o, real *scratch);

#endif
