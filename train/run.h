/* A run directory:
 *
 *     config.cfg      the settings, and as further lines `input = PATH` for each input
 *                     (`weight = 2` after it), `val = PATH` for validation text,
 *                     `field = NAME`, `from = CHECKPOINT` when it began with weights of
 *                     another, `replay = RUN` when it repeats that one, `budget = tokens
 *                     1e6` while steps are unknown, `budget = for 180` for good; `for 60
 *                     after 180`, `tokens 1e6 after 180`: it got that much more when
 *                     it had trained for 180 seconds
 *     data/           the tokenized input, when the input was text
 *     log.jsonl
 *     ckpt-<step>/    see train/save.h
 *     latest          link to the newest of them
 *     lock            held with flock while a process trains here
 */
#ifndef WEFT_RUN_H
#define WEFT_RUN_H

#include "model/config.h"

enum budget { BUDGET_STEPS, BUDGET_FOR, BUDGET_TOKENS, BUDGET_FLOPS };

struct run {
    char          dir[1024];        // as the user named it
    struct config cfg;
    char        **input;            // absolute paths (or "-"), owned
    double       *weight;           // (n_input) of each, 1 when it was added; owned
    int           n_input;
    char          val[1024];        // absolute path of the validation text; "": none
    char          field[128];       // "": the reader's default
    char          from[1024];       // the checkpoint it began with; "": none
    enum budget   budget;           // BUDGET_STEPS: cfg.steps holds
    double        amount;           // seconds, tokens or FLOPs of the other kinds
    double        before;           // seconds of training when this budget began; above
                                    // 0: it extends the run
    char          replay[1024];     // the run it repeats; "": none
    int           lock;             // descriptor
};

/* runs/<name of the input without its extensions>. */
void run_name(char *buf, size_t cap, const char *input);

/* Add an input, made absolute. FAIL_INPUT: there is none. */
enum fail run_add_input(struct run *r, const char *path, struct why *why);

/* Take the text at path for validation. FAIL_INPUT: there is none. */
enum fail run_validate_on(struct run *r, const char *path, struct why *why);

/* Make and lock dir and write config.cfg; dir, cfg, inputs, field and budget are set.
 * FAIL_USAGE: dir is a run already, or something else that is not empty; the line says
 * how to go on. */
enum fail run_create(struct run *r, struct why *why);

/* Lock dir, remove what a killed process left half-written, and read config.cfg.
 * FAIL_INPUT: not a run. FAIL_WRITE: in use. */
enum fail run_open(struct run *r, const char *dir, struct why *why);

/* Read config.cfg of the run at dir, which may be in use: nothing is locked. FAIL_INPUT.
 * On failure nothing needs closing. */
enum fail run_read(struct run *r, const char *dir, struct why *why);

/* The settings of the run at dir, which may be in use. FAIL_INPUT. */
enum fail run_settings(const char *dir, struct config *c, struct why *why);

/* Replace config.cfg, atomically. FAIL_WRITE. */
enum fail run_write_config(const struct run *r, struct why *why);

/* Remove a run that was created but never came to train: what it made, nothing else. */
void run_discard(struct run *r);

/* All ranks together (train/ranks.h): rank 0's run to all, whose lock it alone has.
 * FAIL_MEMORY. */
enum fail run_share(struct run *r, struct why *why);

/* Did its text come from stdin and never arrive whole? */
bool run_lacks_stdin(const struct run *r);

void run_close(struct run *r);     // gives up the lock; a zeroed one with lock -1 is fine

#endif
