/* What the files of the library share. */
#ifndef WEFT_API_H
#define WEFT_API_H

#include "data/base/fail.h"
#include "infer/asked.h"
#include "model/pass.h"
#include "tokenizer/tokenizer.h"
#include "tools/api/weft.h"

#include <stdatomic.h>

#define WEFT_EXPORT __attribute__((visibility("default")))

struct weft_model {
    struct model      model;
    struct tokenizer *tokenizer;
    char              dir[4096];        // the checkpoint
};

/* Something was computed in this process: OpenMP's threads run, and a child would not
 * have them. */
extern atomic_bool api_computed;

/* The number of threads that weft_set_threads asked for becomes this thread's: OpenMP has
 * one for each. */
void api_take_threads(void);

/* Something is about to be computed in this thread. */
void api_begin(void);

/* Leave a line for weft_error, and return err. */
int api_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The object that options are; NULL stands for {}. NULL: not JSON, and why is left. */
json_t *api_options(const char *options);

/* How to sample, from options; false: why is left. */
bool api_sampling(struct asked *a, const json_t *options, const weft_model *m);

#endif
