#include "data/loader.h"

#include "data/base/rng.h"
#include "data/base/thread.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Who owns the back buffer and what is in it. The caller moves EMPTY and READY to WANTED,
 * the thread WANTED to READY. While it is WANTED, the back buffer, the cache, err and why
 * are the thread's; otherwise all is the caller's. */
enum state { EMPTY, WANTED, READY, QUIT };

/* Where windows are taken from: the shard, or a stretch of it. */
struct window_grid {
    uint64_t first;                     // token
    uint64_t windows, shifts;           // of its grid; offsets that one draws from
    uint64_t draws;                     // of its windows in an epoch
};

struct loader {
    const struct shard *shard;
    struct window_grid *grid;           // (n_grid)
    int      n_grid;
    uint64_t seed, windows;             // windows per epoch
    int      B, T;

    uint64_t  slots;                    // frame f is kept in slot f % slots
    uint64_t *held;                     // (slots) the frame in it + 1, 0 for none
    uint32_t *cache;                    // (slots, SHARD_FRAME)

    int32_t *batch[2];                  // (2, B, T): tokens, targets
    int      back;                      // the one being prepared; the caller reads
                                        // the other

    pthread_t       thread;
    pthread_mutex_t mutex;
    pthread_cond_t  changed;            // state has changed
    enum state      state;
    uint64_t        k;                  // the batch in the back buffer
    enum fail       err;                // how preparing it ended
    struct why      why;
};

/* The frame's ids, decompressed into its slot unless they are there. */
static enum fail frame_ids(struct loader *l, uint64_t frame, const uint32_t **ids)
{
    uint64_t  slot = frame % l->slots;
    uint32_t *into = l->cache + slot * SHARD_FRAME, n;
    enum fail err;

    *ids = into;
    if (l->held[slot] == frame + 1)
        return 0;
    l->held[slot] = 0;
    if ((err = shard_frame(l->shard, frame, into, &n, &l->why)))
        return err;
    l->held[slot] = frame + 1;
    return 0;
}

/* T + 1 ids from `start`: tokens get all but the last, targets all but the first. */
static enum fail copy_window(struct loader *l, uint64_t start, int32_t *tokens,
                             int32_t *targets)
{
    uint64_t  need = (uint64_t)l->T + 1, done = 0;
    enum fail err;

    while (done < need) {
        uint64_t        at = (start + done) % SHARD_FRAME, left = need - done;
        uint64_t        n = SHARD_FRAME - at < left ? SHARD_FRAME - at : left;
        const uint32_t *ids;

        if ((err = frame_ids(l, (start + done) / SHARD_FRAME, &ids)))
            return err;
        for (uint64_t i = 0; i < n; i++, done++) {
            if (done + 1 < need)
                tokens[done] = (int32_t)ids[at + i];
            if (done)
                targets[done - 1] = (int32_t)ids[at + i];
        }
    }
    return 0;
}

/* Draw d of this epoch's from grid g. An epoch may read a grid several times, each time
 * with another offset and order: `reading` counts these times through the run. Sets
 * *place, the window in the grid, and returns the index of the reading's random numbers,
 * which no other has. */
static uint64_t reading_of(const struct loader *l, const struct window_grid *g,
                           uint64_t epoch, uint64_t d, uint64_t *place)
{
    uint64_t   readings = (g->draws + g->windows - 1) / g->windows;
    uint64_t   reading = epoch * readings + d / g->windows;
    uint64_t   index = ((uint64_t)(g - l->grid) + 1) << 40 | reading;
    struct rng order = rng_open(l->seed, RNG_SHUFFLE, index);

    *place = rng_permute(&order, d % g->windows, g->windows);
    return index;
}

/* Where window i of the run starts in the shard: its place in the epoch's order, the grid
 * that this place falls in, and that grid's offset. */
static uint64_t window_start(const struct loader *l, uint64_t i)
{
    uint64_t   epoch = i / l->windows, index = epoch;
    struct rng order = rng_open(l->seed, RNG_SHUFFLE, epoch), shift;
    uint64_t   place = rng_permute(&order, i % l->windows, l->windows);
    const struct window_grid *g = l->grid;

    for (; place >= g->draws; g++)
        place -= g->draws;
    if (l->n_grid > 1)
        index = reading_of(l, g, epoch, place, &place);
    shift = rng_open(l->seed, RNG_OFFSET, index);
    return g->first + rng_below(&shift, g->shifts) + place * (uint64_t)l->T;
}

/* Fill the back buffer with batch k, windows k B .. k B + B - 1 of the run. */
static enum fail prepare(struct loader *l, uint64_t k)
{
    size_t   T = (size_t)l->T, size = (size_t)l->B * T;
    int32_t *tokens = l->batch[l->back], *targets = tokens + size;

    for (size_t b = 0; b < (size_t)l->B; b++) {
        uint64_t  start = window_start(l, k * (uint64_t)l->B + b);
        enum fail err = copy_window(l, start, tokens + b * T, targets + b * T);

        if (err)
            return err;
    }
    return 0;
}

/* The loader's thread: prepares each batch that is wanted, until it is told to quit. */
static void *work(void *user)
{
    struct loader *l = user;

    pthread_mutex_lock(&l->mutex);
    for (;;) {
        while (l->state != WANTED && l->state != QUIT)
            pthread_cond_wait(&l->changed, &l->mutex);
        if (l->state == QUIT)
            break;
        pthread_mutex_unlock(&l->mutex);
        l->err = prepare(l, l->k);
        pthread_mutex_lock(&l->mutex);
        l->state = READY;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

/* Both with the mutex held. */
static void set_state(struct loader *l, enum state state)
{
    l->state = state;
    pthread_cond_broadcast(&l->changed);
}

static void await(struct loader *l)
{
    while (l->state == WANTED)
        pthread_cond_wait(&l->changed, &l->mutex);
}

enum fail loader_batch(struct loader *l, uint64_t k, const int32_t **tokens,
                       const int32_t **targets, struct why *why)
{
    enum fail err;

    pthread_mutex_lock(&l->mutex);
    await(l);
    if (l->state != READY || l->k != k) {
        l->k = k;
        set_state(l, WANTED);
        await(l);
    }
    if ((err = l->err)) {
        *why = l->why;
        set_state(l, EMPTY);
    } else {
        *tokens = l->batch[l->back];
        *targets = *tokens + (size_t)l->B * (size_t)l->T;
        l->back = !l->back;
        l->k = k + 1;
        set_state(l, WANTED);
    }
    pthread_mutex_unlock(&l->mutex);
    return err;
}

static void release(struct loader *l)
{
    free(l->grid);
    free(l->held);
    free(l->cache);
    free(l->batch[0]);
    free(l->batch[1]);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

static bool allocate(struct loader *l)
{
    uint64_t most = LOADER_CACHE / (SHARD_FRAME * sizeof *l->cache);
    size_t   size = 2 * (size_t)l->B * (size_t)l->T;

    l->slots = l->shard->frames < most ? l->shard->frames : most;
    l->held = calloc(l->slots, sizeof *l->held);
    l->cache = malloc(l->slots * SHARD_FRAME * sizeof *l->cache);
    for (int i = 0; i < 2; i++)
        l->batch[i] = malloc(size * sizeof(int32_t));
    return l->held && l->cache && l->batch[0] && l->batch[1];
}

/* The grid of n tokens from `first` on. The last target of the last window must be
 * inside: offset + windows T + 1 <= n for every offset < shifts. That leaves T offsets,
 * or n - T when n < 2 T. */
static struct window_grid grid_of(uint64_t first, uint64_t n, uint64_t T, uint64_t all)
{
    struct window_grid g = {.first = first, .windows = 1, .shifts = 1};

    if (n <= T) {
        g.first = first < all - T - 1 ? first : all - T - 1;
        return g;
    }
    g.windows = n < 2 * T ? 1 : (n - T) / T;
    g.shifts = n - g.windows * T < T ? n - g.windows * T : T;
    return g;
}

/* A grid over the shard, or over each stretch of its mix; false when out of memory. */
static bool lay_grids(struct loader *l)
{
    const struct shard *s = l->shard;
    uint64_t            first = 0;

    l->n_grid = s->n_mix ? s->n_mix : 1;
    l->grid = calloc((size_t)l->n_grid, sizeof *l->grid);
    for (int i = 0; l->grid && i < l->n_grid; i++) {
        struct window_grid *g = &l->grid[i];
        uint64_t            n = s->n_mix ? s->mix[i].tokens : s->n;
        double              weight = s->n_mix ? s->mix[i].weight : 1;

        *g = grid_of(first, n, (uint64_t)l->T, s->n);
        g->draws = (uint64_t)fmax(1, round(weight * (double)g->windows));
        l->windows += g->draws;
        first += n;
    }
    return l->grid != NULL;
}

enum fail loader_open(struct loader **out, const struct shard *s, uint64_t seed, int B,
                      int T, struct why *why)
{
    uint64_t t = (uint64_t)T;

    *out = NULL;
    if (s->n <= t)
        return fail(why, FAIL_INPUT,
                    "%s: %llu tokens, but a window of context %d needs %d; "
                    "give more text or a smaller context", s->path,
                    (unsigned long long)s->n, T, T + 1);

    struct loader *l = calloc(1, sizeof *l);

    if (!l)
        return fail(why, FAIL_MEMORY, "out of memory for batches");
    l->shard = s;
    l->seed = seed;
    l->B = B;
    l->T = T;
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (!lay_grids(l) || !allocate(l) || !thread_start(&l->thread, work, l)) {
        release(l);
        return fail(why, FAIL_MEMORY, "out of memory for batches of %d x %d tokens", B,
                    T);
    }
    *out = l;
    return 0;
}

uint64_t loader_windows(const struct loader *l)
{
    return l->windows;
}

void loader_close(struct loader *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&l->mutex);
    await(l);
    set_state(l, QUIT);
    pthread_mutex_unlock(&l->mutex);
    pthread_join(l->thread, NULL);
    release(l);
}
