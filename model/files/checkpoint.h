/* What inference needs, as files in one directory under Hugging Face's names:
 *
 *     config.json           the settings of the model part, "model_type": "weft",
 *                           "version": 1
 *     model.safetensors     every parameter, float32
 *     tokenizer.model
 *     manifest.json         size and xxh3 of every file; the trainer's commit writes it
 */
#ifndef WEFT_CHECKPOINT_H
#define WEFT_CHECKPOINT_H

#include "model/model.h"
#include "tokenizer/tokenizer.h"

enum { CHECKPOINT_VERSION = 1 };

/* Write the three files into dir (an uncommitted directory). FAIL_WRITE. */
enum fail checkpoint_write(const char *dir, const struct model *m,
                           const struct tokenizer *t, struct why *why);

/* The same with their manifest, as a directory that appears whole. FAIL_WRITE. */
enum fail checkpoint_save(const char *path, const struct model *m,
                          const struct tokenizer *t, struct why *why);

/* Check the manifest, then load model and tokenizer. path is what checkpoint_find
 * takes; the directory used is left in dir
 * (cap bytes, may be NULL). FAIL_INPUT; a damaged `latest` names the newest intact one.
 * The run may train on and prune meanwhile. On failure nothing needs closing. */
enum fail checkpoint_load(const char *path, struct model *m, struct tokenizer **t,
                          char *dir, size_t cap, struct why *why);

/* The same, with the weights left where the file system holds them: the first token
 * comes sooner. For what does not live long: a file that another program makes shorter
 * meanwhile is a SIGBUS. */
enum fail checkpoint_map(const char *path, struct model *m, struct tokenizer **t,
                         char *dir, size_t cap, struct why *why);

/* The checkpoint directory that path means:
 *
 *     DIR         a checkpoint itself, or a run: its `latest`
 *     RUN@best    of its checkpoints the one with the lowest validation loss, the newer
 *                 of equals
 *     RUN@STEP    the one of this step
 *
 * A path that is there is taken as it is, whatever its name. FAIL_INPUT: no such path or
 * checkpoint, or a run without one yet. */
enum fail checkpoint_find(const char *path, char *dir, size_t cap, struct why *why);

/* Steps of the checkpoints in run, newest first, into a malloc'ed array; -1: errno says
 * why not. Their names, and their paths; the result is buf. */
long  checkpoint_list(const char *run, long **steps);
char *checkpoint_name(char *buf, size_t cap, long step);
char *checkpoint_path(char *buf, size_t cap, const char *run, long step);

/* The step in the name of a checkpoint's directory; -1: it is not such a name. */
long checkpoint_step(const char *name);

/* The newest checkpoint of run whose manifest holds, into dir; false when
 * there is none. */
bool checkpoint_intact(const char *run, char *dir, size_t cap);

#endif
