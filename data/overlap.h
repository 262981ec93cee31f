/* Lines of the validation text that stand in the training text too: a loss on them says
 * what is remembered, not what is understood.
 *
 * Lines go by their hash. A set of at most OVERLAP_MOST hashes is kept; when it is full,
 * every second hash leaves it, by one more bit of the hash itself, and lines
 * of validation are counted under the same bits. So up to some million lines the count is
 * exact, beyond it is that of an even sample.
 */
#ifndef WEFT_OVERLAP_H
#define WEFT_OVERLAP_H

#include "data/base/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xxhash.h>

enum {
    OVERLAP_LEAST = 32,         // bytes of a line that counts: shorter ones recur anyway
    OVERLAP_MOST = 1 << 20,     // hashes
};

struct overlap {
    uint64_t     *hash;         // (2 OVERLAP_MOST) open addressing, 0: free; owned
    size_t        n;
    uint64_t      drop;         // only hashes without these bits
    XXH3_state_t *line;         // the line so far; owned
    size_t        len;
    uint64_t      lines, seen;  // of validation that counted, and stand in training
};

bool overlap_open(struct overlap *o);           // false: out of memory
void overlap_learn(struct overlap *o, const char *bytes, size_t len, bool document_ends);
void overlap_count(struct overlap *o, const char *bytes, size_t len, bool document_ends);
void overlap_record(struct overlap *o, struct record *r);   // save, or restore
void overlap_close(struct overlap *o);          // a zeroed one is fine

#endif
