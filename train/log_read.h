/* RUN/log.jsonl read back as a table of numbers; log.h says how it is written. */
#ifndef WEFT_LOG_READ_H
#define WEFT_LOG_READ_H

#include "data/base/fail.h"

#include <stdbool.h>

enum log_column {
    LOG_STEP, LOG_TOKENS, LOG_FLOPS, LOG_LOSS, LOG_VAL_LOSS, LOG_VAL_BPB, LOG_LR,
    LOG_GRAD_NORM, LOG_WINDOW, LOG_TOK_S, LOG_MFU, LOG_MS, LOG_SKIPPED, LOG_RSS,
    LOG_SECONDS,                    // of steps so far: not written, the sum of ms
    LOG_COLUMNS
};

extern const char *const log_column_name[LOG_COLUMNS];

struct log_table {
    long    n;                      // steps
    double *column[LOG_COLUMNS];    // n each, owned; NAN: null
    double  parameters;             // NAN: the log has no first line
    char    mixers[512];            // ""
};

/* Read path, which may be growing: a torn last line and what is no step are passed over.
 * FAIL_INPUT, FAIL_MEMORY; on failure nothing needs freeing. */
enum fail log_read(struct log_table *t, const char *path, struct why *why);
void      log_table_free(struct log_table *t);

#endif
