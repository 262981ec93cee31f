/* Files that are whole or absent, and their hashes.
 *
 * Everything weft writes appears at once: bytes go to a temporary name beside the target,
 * are fsynced, renamed, and the directory is fsynced. A crash leaves the old file or the
 * new, and perhaps a temporary name (NAME.tmp-xxxxxxxx), which the next writer of NAME
 * removes, and dir_sweep.
 */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include "data/base/fail.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Open a regular file for reading (close-on-exec); size may be NULL. Never waits: a pipe,
 * device, socket or directory is refused. FAIL_INPUT. */
enum fail file_open(const char *path, int *fd, uint64_t *size, struct why *why);

/* The same as a stream, to be read by lines; NULL: it cannot be opened. */
FILE *file_stream(const char *path);

/* Exactly the next len bytes of an open file; path is for the line. FAIL_INPUT: it cannot
 * be read, or has become shorter. */
enum fail file_fill(int fd, char *bytes, size_t len, const char *path, struct why *why);

/* Read a whole regular file (malloc'ed, with a NUL after its last byte). Refuses files
 * above max bytes. FAIL_INPUT. */
enum fail file_read(const char *path, size_t max, char **bytes, size_t *len,
                    struct why *why);

/* A file that is written piece by piece and appears whole: file_begin opens a temporary
 * name beside path, file_commit gives it the name path, replacing what had it, file_abort
 * removes it. After a failed file_put there is file_abort; a failed file_commit has done
 * that. The temporary name is locked (flock) while its writer lives; file_begin removes
 * those of path whose writers do not. What is there and no regular file (a device, a
 * pipe, a directory) is refused, not replaced. Nothing is buffered. FAIL_WRITE. */
struct file {
    int  fd;
    char path[PATH_MAX], tmp[PATH_MAX];
};
enum fail file_begin(struct file *f, const char *path, struct why *why);
enum fail file_put(struct file *f, const void *bytes, size_t len, struct why *why);
enum fail file_sync(struct file *f, struct why *why);   // what was put is on the disk

/* Go on with a file that a killed writer left under the temporary name tmp (the last
 * component of its path), or had given its name just before, after its first len bytes.
 * FAIL_INPUT: it is not there, or is shorter, or its writer lives. */
enum fail file_resume(struct file *f, const char *path, const char *tmp, uint64_t len,
                      struct why *why);
enum fail file_commit(struct file *f, struct why *why);
void      file_abort(struct file *f);

/* All of it at once: replace path by these bytes. */
enum fail file_write(const char *path, const void *bytes, size_t len, struct why *why);

/* The FAIL_WRITE line for a failed system call on path, made from errno: a full disk, a
 * lack of permission, and what to do about it; FAIL_MEMORY for a lack of that. */
enum fail fail_write(struct why *why, const char *path);

/* Open a file of weft's own for writing in place, made when it is not there; flags as of
 * open(2). What would write elsewhere is refused: a link, another name of a file (a hard
 * link), a pipe, a device. FAIL_WRITE, and *fd is -1. */
enum fail file_own(const char *path, int flags, int *fd, struct why *why);

/* Make path and its missing parents. FAIL_WRITE. */
enum fail dir_make(const char *path, struct why *why);

/* A directory that appears whole: dir_begin makes a temporary one, tmp, beside path (and
 * path's missing parents); dir_commit fsyncs every file in it, renames it to path and
 * fsyncs the parent; dir_abort gives it up, also after a failed dir_commit. An existing
 * path that is not an empty directory is never replaced: dir_commit fails. As with files,
 * the temporary name is locked while its writer lives, and dir_begin removes those of
 * path whose writers do not. FAIL_WRITE. */
struct dir {
    int  lock;
    char path[PATH_MAX], tmp[PATH_MAX];
};
enum fail dir_begin(struct dir *d, const char *path, struct why *why);
enum fail dir_commit(struct dir *d, struct why *why);
void      dir_abort(struct dir *d);

/* As dir_begin, for a directory that is worth going on with when its writer is killed:
 * its name until it is committed is PATH.part, nothing sweeps it, and it holds the file
 * `mark`, empty at first. What a dead writer left there is as that left it. dir_restart
 * begins anew: it removes all files but the mark; dir_leave leaves it for later.
 * FAIL_WRITE: its writer lives, or PATH.part is not such a directory. */
enum fail dir_continue(struct dir *d, const char *path, const char *mark,
                       struct why *why);
void      dir_restart(struct dir *d, const char *mark);
void      dir_leave(struct dir *d);

/* Remove a directory and the files in it (one level). */
void dir_remove(const char *path);

/* Remove the temporary names a killed process left in dir; the caller holds its lock. */
void dir_sweep(const char *dir);

/* Make link (a name in dir) point at target, atomically. FAIL_WRITE. */
enum fail link_replace(const char *dir, const char *link, const char *target,
                       struct why *why);

/* xxh3-64 of a file's bytes, and its size. FAIL_INPUT. */
enum fail file_hash(const char *path, uint64_t *hash, uint64_t *size, struct why *why);

/* manifest.json in dir: {"files": {"name": {"size": n, "xxh3": "16 hex digits"}, ...}}
 * for every other file there but `lock` and temporary names. manifest_check reads it back
 * and checks every size and hash; a file that is not listed, or listed and missing, is an
 * error. manifest_check_listed passes over files that are not listed.
 * FAIL_WRITE / FAIL_INPUT. */
enum fail manifest_write(const char *dir, struct why *why);
enum fail manifest_check(const char *dir, struct why *why);
enum fail manifest_check_listed(const char *dir, struct why *why);

/* Take the exclusive lock of a directory (flock on dir/lock, close-on-exec). FAIL_WRITE
 * when another process holds it. *fd stays open while the lock is held; it dies with the
 * process. */
enum fail dir_lock(const char *dir, int *fd, struct why *why);

/* The same lock shared: any number of processes have it, and none has it alone. */
enum fail dir_lock_shared(const char *dir, int *fd, struct why *why);

/* dir/name into a buffer of cap bytes; the result is buf. Too long a path is cut. */
char *path_join(char *buf, size_t cap, const char *dir, const char *name);

/* The path as a shell takes it, quoted where it must be; the result is buf. */
char *path_quote(char *buf, size_t cap, const char *path);

bool  path_is_dir(const char *path);
bool  path_exists(const char *path);
bool  path_is_temporary(const char *name);      // left by a write that was cut short

#endif
