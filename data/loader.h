/* (B, T) training windows, shuffled, from (seed, index) alone.
 *
 * Windows of T tokens do not overlap. In epoch e the grid is shifted by an offset drawn
 * from (seed, e) and its windows are permuted by (seed, e). Window i of the run belongs
 * to epoch i / windows; batch k holds windows k B .. k B + B - 1. Nothing is kept between
 * batches but a cache of decompressed frames (bounded, LOADER_CACHE bytes), so any batch
 * can be asked for at any time; a thread of its own prepares the next one.
 *
 * A shard with a mix has a grid of n windows in each of its stretches. An epoch draws
 * weight n of them (rounded, at least one): the grid again and again, each time with
 * another offset and order, and of the last time as many as are left. The draws of all
 * stretches are permuted together. A stretch shorter than a window gives the one that
 * begins with it.
 */
#ifndef WEFT_LOADER_H
#define WEFT_LOADER_H

#include "data/shard.h"

enum { LOADER_CACHE = 64 << 20 };

struct loader;

/* FAIL_INPUT when the shard is shorter than one window and its last target;
 * FAIL_MEMORY. The shard must outlive the loader. */
enum fail loader_open(struct loader **l, const struct shard *s, uint64_t seed, int B,
                      int T, struct why *why);

/* Batch k: tokens (B, T) and targets (B, T), targets[b][t] = the token after
 * tokens[b][t]. The pointers are valid until the next call. Starts preparing
 * batch k + 1. FAIL_INPUT: the shard cannot be read, or is damaged. */
enum fail loader_batch(struct loader *l, uint64_t k, const int32_t **tokens,
                       const int32_t **targets, struct why *why);

uint64_t loader_windows(const struct loader *l);        // windows per epoch
void     loader_close(struct loader *l);                // NULL is fine

#endif
