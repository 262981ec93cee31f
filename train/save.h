/* The checkpoints of a run: RUN/ckpt-<step>, each holding what inference needs (see
 * model/files/checkpoint.h) and
 *
 *     trainer.safetensors     m.<parameter>, v.<parameter>: AdamW's moments; m of Muon's
 *                             matrices is its momentum, v of them zero
 *     trainer.json            the tally, the seed, the hash of the data's dataset.json,
 *                             and what a clock decided: [[step, "end", 1377], ...]
 *     manifest.json           written last
 *
 * trainer.json has a version of its own. Version 1 added the gradients of micro-batches
 * one after the other: what it wrote goes on bit for bit with accumulate=1, and is
 * refused with more.
 *
 * A checkpoint appears whole. Then `latest` is turned to it, and then older ones go: the
 * `keep` newest stay, the one with the lowest validation loss, and the last one that is
 * known to be good: a step that was finite went on from it, or it was validated.
 */
#ifndef WEFT_SAVE_H
#define WEFT_SAVE_H

#include "model/files/checkpoint.h"
#include "train/trainer.h"

#include <stdbool.h>

enum { TRAINER_VERSION = 2 };       // of trainer.json

/* Write the checkpoint of t's step and prune; the one of step `good` (-1: none) stays.
 * data: see save_fingerprint. All ranks together; rank 0 writes, the same for any number
 * of them. FAIL_WRITE: the earlier checkpoints are as they were.
 * FAIL_DIVERGED, and nothing is written: a weight or a moment is not finite. */
enum fail save_write(const char *run, struct trainer *t, const struct tokenizer *k,
                     uint64_t data, long good, struct why *why);

/* Write only what inference needs of it, as RUN/weights-<step>, whose path is left in
 * dir: a third of a checkpoint, where there is no room for one. FAIL_WRITE. */
enum fail save_weights(const char *run, const struct trainer *t,
                       const struct tokenizer *k, char *dir, size_t cap, struct why *why);

/* Has the disk room for n checkpoints of m, counting those that are there? FAIL_WRITE. */
enum fail save_check_room(const char *run, const struct model *m, long n,
                          struct why *why);

/* The newest checkpoint whose manifest holds, into dir; "" when the run has none. Newer
 * ones that are damaged are renamed to damaged-ckpt-<step> (-2, ... when that exists),
 * and note says so (else it is ""). `latest` is turned to it. FAIL_INPUT, and all stay
 * where they are: all are damaged, or gone; or one cannot be read. */
enum fail save_newest(const char *run, char *dir, size_t cap, struct why *note,
                      struct why *why);

/* Load a checkpoint's model. FAIL_INPUT: damaged, its shape is not cfg's, or its
 * tokenizer is not the data's. On failure nothing needs closing. */
enum fail save_load_model(const char *dir, const struct config *cfg,
                          const struct tokenizer *k, struct model *m, struct why *why);

/* Load the moments, the tally and the decisions into t, which was opened with that model:
 * all ranks together, and rank 0 reads.
 * FAIL_INPUT: damaged, of a version that summed gradients otherwise, or the data or the
 * seed are not those it was trained with. */
enum fail save_load_state(const char *dir, struct trainer *t, uint64_t data,
                          struct why *why);

/* What a trainer would read of a checkpoint with the model m, if it has that: are all
 * numbers finite and in their range? FAIL_INPUT. */
enum fail save_check(const char *dir, const struct model *m, struct why *why);

/* Only the tally and the decisions (freed by the caller) of a checkpoint. FAIL_INPUT. */
enum fail save_load_tally(const char *dir, struct tally *y, struct decisions *d,
                          struct why *why);

/* Which of n checkpoints, newest first, stay: the `keep` first and the lowest finite
 * loss. */
void save_choose(const double *val_loss, long n, int keep, bool *stay);

/* Identity of a dataset directory: the hash of its dataset.json, which holds all the
 * others, without the lines that say what wrote it and its own hash. */
enum fail save_fingerprint(const char *dataset, uint64_t *hash, struct why *why);

#endif
