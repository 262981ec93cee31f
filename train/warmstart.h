/* A run that begins with the weights of another: its shape and tokenizer, and every
 * parameter that the new mixers have under the same name and in the same shape. */
#ifndef WEFT_WARMSTART_H
#define WEFT_WARMSTART_H

#include "train/setup.h"

/* Load the checkpoint that path means into s->start and s->tokenizer, note it in
 * s->run.from, and leave in cfg the settings of its run (nano's where it is in none) with
 * its shape; how long to train is left open. FAIL_INPUT. */
enum fail start_open(struct setup *s, const char *path, struct config *cfg,
                     struct why *why);

/* Load s->run.from, unless that was done. */
enum fail start_load(struct setup *s, struct why *why);

/* The same, unless there is none or the run has a checkpoint of its own. */
enum fail start_reload(struct setup *s, struct why *why);

/* Is s->data tokenized for it? FAIL_INPUT. */
enum fail start_check(const struct setup *s, struct why *why);

void start_drop(struct setup *s);       // it is needed no more; without one is fine

/* runs/NAME-ARCH; arch may be NULL. */
void start_name(char *dir, size_t cap, const char *input, const char *arch);

#endif
