#include "infer/cache.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct snapshot {
    struct snapshot *newer, *older;
    uint64_t         hash;          // of ids
    long             n;
    size_t           bytes;         // of all of it
    bool             whole;         // a prompt ended here: it has logits
    char            *state;         // (state_bytes) the three lie behind one another
    real            *logits;        // (vocab)
    int32_t          ids[];         // (n)
};

void cache_open(struct cache *c, const struct session *s, size_t most)
{
    *c = (struct cache){.most = most, .state_bytes = s->state_bytes,
                        .vocab = s->model->cfg.vocab};
}

/* ---- the list ---- */

static void unlink_it(struct cache *c, struct snapshot *e)
{
    *(e->newer ? &e->newer->older : &c->newest) = e->older;
    *(e->older ? &e->older->newer : &c->oldest) = e->newer;
}

static void make_newest(struct cache *c, struct snapshot *e)
{
    e->newer = NULL;
    e->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}

static void drop(struct cache *c, struct snapshot *e)
{
    unlink_it(c, e);
    c->held -= e->bytes;
    c->entries--;
    free(e);
}

void cache_close(struct cache *c)
{
    while (c->oldest)
        drop(c, c->oldest);
    *c = (struct cache){0};
}

static uint64_t hash_of(const int32_t *ids, long n)
{
    return XXH3_64bits(ids, (size_t)n * sizeof *ids);
}

/* The entry of just these tokens; whole: one where a prompt ended. */
static struct snapshot *find(const struct cache *c, const int32_t *ids, long n,
                             bool whole)
{
    uint64_t hash = hash_of(ids, n);

    for (struct snapshot *e = c->newest; e; e = e->older)
        if (e->hash == hash && e->n == n && (e->whole || !whole) &&
            !memcmp(e->ids, ids, (size_t)n * sizeof *ids))
            return e;
    return NULL;
}

/* ---- finding and keeping ---- */

long cache_get(struct cache *c, struct session *s, int slot, const int32_t *ids, long n,
               real *logits)
{
    struct snapshot *e = c->entries && n > 0 ? find(c, ids, n, true) : NULL;
    long             border = n > 0 ? (n - 1) / SESSION_CHUNK * SESSION_CHUNK : 0;

    for (; !e && c->entries && border > 0; border -= SESSION_CHUNK)
        e = find(c, ids, border, false);
    if (!e) {
        c->misses++;
        return 0;
    }
    c->hits++;
    unlink_it(c, e);
    make_newest(c, e);
    session_set(s, slot, e->state, e->n);
    if (e->n == n)
        memcpy(logits, e->logits, (size_t)c->vocab * sizeof *logits);
    return e->n;
}

/* One with room for all of it, or NULL. */
static struct snapshot *take(const struct cache *c, long n)
{
    size_t ids = ((size_t)n * sizeof(int32_t) + 7) / 8 * 8;
    size_t logits = (size_t)c->vocab * sizeof(real);
    size_t bytes = sizeof(struct snapshot) + ids + c->state_bytes + logits;
    struct snapshot *e = bytes <= c->most ? malloc(bytes) : NULL;

    if (!e)
        return NULL;
    *e = (struct snapshot){.n = n, .bytes = bytes};
    e->state = (char *)e->ids + ids;
    e->logits = (real *)(e->state + c->state_bytes);
    return e;
}

void cache_put(struct cache *c, const struct session *s, int slot, const int32_t *ids,
               long n, const real *logits)
{
    struct snapshot *e = c->entries ? find(c, ids, n, false) : NULL;
    long             pos;

    if (!e) {
        e = take(c, n);
        if (!e)
            return;
        memcpy(e->ids, ids, (size_t)n * sizeof *ids);
        e->hash = hash_of(ids, n);
        session_get(s, slot, e->state, &pos);
        make_newest(c, e);
        c->held += e->bytes;
        c->entries++;
    }
    if (logits) {
        memcpy(e->logits, logits, (size_t)c->vocab * sizeof *logits);
        e->whole = true;
    }
    while (c->held > c->most)
        drop(c, c->oldest);
}
