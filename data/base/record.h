/* What a long work has come to, kept in a file so that it can go on after a kill. One
 * walk over the work's variables saves them, or restores them:
 *
 *     record_bytes(r, &w->pos, sizeof w->pos);
 *     record_bytes(r, w->table, w->n * sizeof *w->table);
 *
 * The file (zstd, with a checksum) is for the program that wrote it: raw bytes. */
#ifndef WEFT_RECORD_H
#define WEFT_RECORD_H

#include "data/base/fail.h"

#include <stdbool.h>
#include <stddef.h>

struct record;

/* saving: begin a new file, which takes the name path when it is closed. Else open it.
 * FAIL_WRITE; FAIL_INPUT; FAIL_MEMORY. On failure nothing needs closing. */
enum fail record_open(struct record **r, const char *path, bool saving, struct why *why);

bool record_saves(const struct record *r);

/* The next n bytes, out of p or into it. After a failure, which record_close tells, it
 * restores zeros. */
void record_bytes(struct record *r, void *p, size_t n);

/* As FAIL_INPUT of a file that is damaged, for what the walk itself finds wrong. */
void record_refuse(struct record *r);

/* As another failure of the walk's own. */
void record_fail(struct record *r, enum fail err, const struct why *why);
bool record_failed(const struct record *r);

/* FAIL_WRITE; FAIL_MEMORY; FAIL_INPUT: cut short, damaged or refused; what record_fail
 * gave. */
enum fail record_close(struct record *r, struct why *why);

#endif
