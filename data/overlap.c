#define XXH_STATIC_LINKING_ONLY         // what a state of its holds
#include "data/overlap.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2 * OVERLAP_MOST };

bool overlap_open(struct overlap *o)
{
    *o = (struct overlap){.hash = calloc(SLOTS, sizeof *o->hash),
                          .line = XXH3_createState()};
    if (o->line)
        XXH3_64bits_reset(o->line);
    return o->hash && o->line;
}

void overlap_close(struct overlap *o)
{
    free(o->hash);
    XXH3_freeState(o->line);
    *o = (struct overlap){0};
}

void overlap_record(struct overlap *o, struct record *r)
{
    uint64_t            *hash = o->hash;
    XXH3_state_t        *line = o->line;
    const unsigned char *secret = line->extSecret;      // points into xxHash

    record_bytes(r, o, sizeof *o);
    o->hash = hash;
    o->line = line;
    record_bytes(r, hash, SLOTS * sizeof *hash);
    record_bytes(r, line, sizeof *line);
    line->extSecret = secret;
    if (o->n >= OVERLAP_MOST)
        record_refuse(r);
}

/* Where the hash is, or its free slot. Its upper bits choose: the lower ones drop out. */
static uint64_t *find(const struct overlap *o, uint64_t hash)
{
    size_t at = (size_t)(hash >> 32) % SLOTS;

    while (o->hash[at] && o->hash[at] != hash)
        at = (at + 1) % SLOTS;
    return &o->hash[at];
}

static void put(struct overlap *o, uint64_t hash)
{
    uint64_t *slot = find(o, hash);

    o->n += *slot == 0;
    *slot = hash;
}

/* Half of the set, under one more bit; in place, each run of slots from its start. */
static void halve(struct overlap *o)
{
    size_t first = 0;

    o->drop = o->drop << 1 | 1;
    while (o->hash[first])
        first++;
    o->n = 0;
    for (size_t i = 1; i <= SLOTS; i++) {
        uint64_t *slot = &o->hash[(first + i) % SLOTS], hash = *slot;

        *slot = 0;
        if (hash && !(hash & o->drop))
            put(o, hash);
    }
}

static void take_line(struct overlap *o, bool training)
{
    uint64_t hash = XXH3_64bits_digest(o->line);
    bool     counts = o->len >= OVERLAP_LEAST && hash && !(hash & o->drop);

    XXH3_64bits_reset(o->line);
    o->len = 0;
    if (counts && training) {
        put(o, hash);
        if (o->n == OVERLAP_MOST)
            halve(o);
    } else if (counts) {
        o->lines++;
        o->seen += *find(o, hash) != 0;
    }
}

static void take(struct overlap *o, const char *bytes, size_t len, bool document_ends,
                 bool training)
{
    while (len) {
        const char *end = memchr(bytes, '\n', len);
        size_t      n = end ? (size_t)(end - bytes) : len;

        XXH3_64bits_update(o->line, bytes, n);
        o->len += n;
        if (end)
            take_line(o, training);
        bytes += n + (end != NULL);
        len -= n + (end != NULL);
    }
    if (document_ends)
        take_line(o, training);
}

void overlap_learn(struct overlap *o, const char *bytes, size_t len, bool document_ends)
{
    take(o, bytes, len, document_ends, true);
}

void overlap_count(struct overlap *o, const char *bytes, size_t len, bool document_ends)
{
    take(o, bytes, len, document_ends, false);
}
