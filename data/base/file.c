#include "data/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- names ------------------------------------------------------------------------- */

#define TEMPORARY ".tmp-"

char *path_join(char *buf, size_t cap, const char *dir, const char *name)
{
    size_t n = strlen(dir);

    snprintf(buf, cap, "%s%s%s", dir, n && dir[n - 1] == '/' ? "" : "/", name);
    return buf;
}

/* In the form $'...' of shells: every byte but plain ASCII by its octal number. */
static char *quote_bytes(char *buf, size_t cap, const char *path)
{
    size_t n = (size_t)snprintf(buf, cap, "$'");

    for (; *path && n + 6 < cap; path++) {
        unsigned char c = (unsigned char)*path;
        bool          plain = c >= ' ' && c < 0x7f && c != '\'' && c != '\\';

        n += (size_t)snprintf(buf + n, cap - n, plain ? "%c" : "\\%03o", c);
    }
    snprintf(buf + n, cap - n, "'");
    return buf;
}

char *path_quote(char *buf, size_t cap, const char *path)
{
    char   shown[PATH_MAX];
    size_t n = 0;
    bool   plain = *path && *path != '-' &&
                 !path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_-./+,:@%")];

    if (plain) {
        snprintf(buf, cap, "%s", path);
        return buf;
    }
    snprintf(shown, sizeof shown, "%s", path);
    if (strcmp(one_line(shown), path) && strlen(path) < sizeof shown)
        return quote_bytes(buf, cap, path);
    if (n + 1 < cap)
        buf[n++] = '\'';
    for (; *path && n + 6 < cap; path++)
        if (*path == '\'')
            n += (size_t)snprintf(buf + n, cap - n, "'\\''");
        else
            buf[n++] = *path;
    snprintf(buf + n, cap - n, "'");
    return buf;
}

bool path_is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool path_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool path_is_temporary(const char *name)
{
    const char *at = strstr(name, TEMPORARY);

    return at && strspn(at + strlen(TEMPORARY), "0123456789abcdef") == 8
        && !at[strlen(TEMPORARY) + 8];
}

/* path without trailing slashes into buf (PATH_MAX bytes), or false with errno set. */
static bool trim(char *buf, const char *path)
{
    size_t n = strlen(path);

    while (n > 1 && path[n - 1] == '/')
        n--;
    errno = n ? ENAMETOOLONG : ENOENT;
    if (n == 0 || n >= PATH_MAX)
        return false;
    memcpy(buf, path, n);
    buf[n] = 0;
    return true;
}

/* A name beside path that nobody uses, or false with errno set. */
static bool temporary(char *buf, size_t cap, const char *path)
{
    char     target[PATH_MAX];
    uint32_t word;

    if (!trim(target, path) || getrandom(&word, sizeof word, 0) != sizeof word)
        return false;
    errno = ENAMETOOLONG;
    return (size_t)snprintf(buf, cap, "%s" TEMPORARY "%08x", target, word) < cap;
}

/* The directory that holds path, into buf (PATH_MAX bytes), or false with errno set. */
static bool parent(char *buf, const char *path)
{
    if (!trim(buf, path))
        return false;
    char *slash = strrchr(buf, '/');

    if (!slash)
        strcpy(buf, ".");
    else
        slash[slash == buf] = 0;
    return true;
}

/* ---- reading ----------------------------------------------------------------------- */

static const char *kind_of(mode_t mode)
{
    return S_ISDIR(mode) ? "a directory" : S_ISFIFO(mode) ? "a pipe"
         : S_ISSOCK(mode) ? "a socket" : "a device";
}

enum fail file_open(const char *path, int *fd, uint64_t *size, struct why *why)
{
    struct stat st;

    *fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT)
        return fail(why, FAIL_INPUT, "%s: no such file; check the path", path);
    if (*fd < 0 && errno != ENXIO)      // ENXIO: a socket, or a device without its driver
        return fail(why, FAIL_INPUT, "%s: cannot open: %s", path, strerror(errno));
    if (*fd < 0 ? stat(path, &st) : fstat(*fd, &st))
        st.st_mode = 0;
    if (!S_ISREG(st.st_mode)) {
        if (*fd >= 0)
            close(*fd);
        *fd = -1;
        return fail(why, FAIL_INPUT,
                    "%s: %s, not a file; copy its content into a file first", path,
                    kind_of(st.st_mode));
    }
    if (size)
        *size = (uint64_t)st.st_size;
    return 0;
}

FILE *file_stream(const char *path)
{
    struct why unread;
    int        fd;
    FILE      *f = file_open(path, &fd, NULL, &unread) ? NULL : fdopen(fd, "r");

    if (!f && fd >= 0)
        close(fd);
    return f;
}

/* read(2), again after a signal. */
static ssize_t read_some(int fd, void *buf, size_t cap)
{
    ssize_t n;

    do
        n = read(fd, buf, cap);
    while (n < 0 && errno == EINTR);
    return n;
}

static enum fail fail_read(struct why *why, const char *path)
{
    return fail(why, FAIL_INPUT, "%s: cannot read: %s", path, strerror(errno));
}

enum fail file_fill(int fd, char *bytes, size_t len, const char *path, struct why *why)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = read_some(fd, bytes + at, len - at);

        if (n < 0)
            return fail_read(why, path);
        if (n == 0)
            return fail(why, FAIL_INPUT,
                        "%s: became shorter while it was read; try again", path);
        at += (size_t)n;
    }
    return 0;
}

enum fail file_read(const char *path, size_t max, char **bytes, size_t *len,
                    struct why *why)
{
    int       fd;
    enum fail err;
    uint64_t  size = 0;

    *bytes = NULL;
    *len = 0;
    err = file_open(path, &fd, &size, why);
    if (err)
        return err;
    if (size > max)
        err = fail(why, FAIL_INPUT,
                   "%s: %llu bytes, more than the %zu such a file may have", path,
                   (unsigned long long)size, max);
    else if (!(*bytes = malloc(size + 1)))
        err = fail(why, FAIL_MEMORY, "%s: no memory for its %llu bytes", path,
                   (unsigned long long)size);
    else
        err = file_fill(fd, *bytes, size, path, why);
    close(fd);
    if (err) {
        free(*bytes);
        *bytes = NULL;
        return err;
    }
    (*bytes)[size] = 0;
    *len = size;
    return 0;
}

enum fail file_hash(const char *path, uint64_t *hash, uint64_t *size, struct why *why)
{
    char          buf[1 << 16];
    ssize_t       n;
    int           fd;
    enum fail     err = file_open(path, &fd, NULL, why);
    XXH3_state_t *state;

    if (err)
        return err;
    state = XXH3_createState();
    if (!state) {
        close(fd);
        return fail(why, FAIL_MEMORY, "%s: no memory to hash it", path);
    }
    XXH3_64bits_reset(state);
    *size = 0;
    while ((n = read_some(fd, buf, sizeof buf)) > 0) {
        XXH3_64bits_update(state, buf, (size_t)n);
        *size += (uint64_t)n;
    }
    if (n < 0)
        err = fail_read(why, path);
    *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    close(fd);
    return err;
}

/* ---- writing ----------------------------------------------------------------------- */

enum fail fail_write(struct why *why, const char *path)
{
    bool        full = errno == ENOSPC || errno == EDQUOT;
    bool        barred = errno == EACCES || errno == EPERM || errno == EROFS;
    const char *next = full ? "the disk is full, free some space"
                     : barred ? "choose a directory you may write to"
                     : "nothing was replaced";

    return fail(why, errno == ENOMEM ? FAIL_MEMORY : FAIL_WRITE,
                "%s: cannot write: %s; %s", path, strerror(errno), next);
}

static bool write_all(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t n = write(fd, bytes, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* fsync a directory; one that cannot be opened for reading, or a file system without such
 * an fsync, is passed over. */
static enum fail sync_dir(const char *dir, struct why *why)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = 0;

    if (fd < 0 || fsync(fd))
        error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return error && error != EINVAL && error != EACCES ? fail_write(why, dir) : 0;
}

static enum fail sync_parent(const char *path, struct why *why)
{
    char dir[PATH_MAX];

    return parent(dir, path) ? sync_dir(dir, why) : fail_write(why, path);
}

/* After path got its name: what was there before is replaced already. */
static enum fail sync_name(const char *path, struct why *why)
{
    struct why inner;
    enum fail  err = sync_parent(path, &inner);

    return err ? fail(why, err, "%s: it is there, but may be gone after a power cut: the "
                      "directory cannot be synced: %s", path, strerror(errno))
               : 0;
}

/* Rename tmp to path; on failure unlink tmp. error: errno of an earlier step, or 0. */
static enum fail settle(const char *tmp, const char *path, int error, struct why *why)
{
    if (!error && rename(tmp, path))
        error = errno;
    if (!error)
        return sync_name(path, why);
    unlink(tmp);
    errno = error;
    return fail_write(why, path);
}

/* Remove a temporary file, or directory, whose writer is dead: its lock died with it. */
static void remove_dead(int dir, const char *parent_path, const char *name)
{
    char path[PATH_MAX + NAME_MAX + 2];
    int  fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && unlinkat(dir, name, 0))
        dir_remove(path_join(path, sizeof path, parent_path, name));
    if (fd >= 0)
        close(fd);
}

/* Remove what killed writers of path left beside it. */
static void sweep_beside(const char *path)
{
    char           dir[PATH_MAX], whole[PATH_MAX];
    const char    *slash, *name;
    size_t         n;
    DIR           *d = parent(dir, path) && trim(whole, path) ? opendir(dir) : NULL;
    struct dirent *e;

    if (!d)
        return;
    slash = strrchr(whole, '/');
    name = slash ? slash + 1 : whole;
    n = strlen(name);
    while ((e = readdir(d)))
        if (!strncmp(e->d_name, name, n) &&
            strlen(e->d_name) == n + strlen(TEMPORARY) + 8 &&
            path_is_temporary(e->d_name + n))
            remove_dead(dirfd(d), dir, e->d_name);
    closedir(d);
}

/* A new temporary name beside path; or -1 with errno set. */
static int create_file(char *tmp, size_t cap, const char *path)
{
    return temporary(tmp, cap, path)
               ? open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)
               : -1;
}

static int create_dir(char *tmp, size_t cap, const char *path)
{
    return temporary(tmp, cap, path) && mkdir(tmp, 0777) == 0
               ? open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
               : -1;
}

/* What `create` makes, locked; or -1 with errno set. Whoever swept it before it was
 * locked has unlinked it: then there is another. */
static int create_locked(int (*create)(char *, size_t, const char *), char *tmp,
                         size_t cap, const char *path)
{
    for (;;) {
        struct stat st;
        int         fd = create(tmp, cap, path);

        if (fd < 0)
            return -1;
        flock(fd, LOCK_EX);
        if (fstat(fd, &st) || st.st_nlink > 0)
            return fd;
        close(fd);
    }
}

enum fail file_begin(struct file *f, const char *path, struct why *why)
{
    struct stat st;

    errno = ENAMETOOLONG;
    if ((size_t)snprintf(f->path, sizeof f->path, "%s", path) >= sizeof f->path)
        return fail_write(why, path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return fail(why, FAIL_WRITE, "%s: %s, not a file; choose another name", path,
                    kind_of(st.st_mode));
    sweep_beside(path);
    f->fd = create_locked(create_file, f->tmp, sizeof f->tmp, path);
    return f->fd < 0 ? fail_write(why, path) : 0;
}

enum fail file_put(struct file *f, const void *bytes, size_t len, struct why *why)
{
    return write_all(f->fd, bytes, len) ? 0 : fail_write(why, f->path);
}

enum fail file_sync(struct file *f, struct why *why)
{
    return fsync(f->fd) ? fail_write(why, f->path) : 0;
}

/* A temporary file that is written on; also when it got its name meanwhile. */
static int reopen(const char *tmp, const char *path)
{
    if (access(tmp, F_OK) && rename(path, tmp))
        return -1;
    return open(tmp, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

enum fail file_resume(struct file *f, const char *path, const char *tmp, uint64_t len,
                      struct why *why)
{
    char        dir[PATH_MAX];
    struct stat st;

    f->fd = -1;
    snprintf(f->path, sizeof f->path, "%s", path);
    if (path_is_temporary(tmp) && !strchr(tmp, '/') && parent(dir, path) &&
        (size_t)snprintf(f->tmp, sizeof f->tmp, "%s/%s", dir, tmp) < sizeof f->tmp)
        f->fd = reopen(f->tmp, path);
    if (f->fd >= 0 && flock(f->fd, LOCK_EX | LOCK_NB) == 0 && fstat(f->fd, &st) == 0 &&
        S_ISREG(st.st_mode) && (uint64_t)st.st_size >= len &&
        ftruncate(f->fd, (off_t)len) == 0 && lseek(f->fd, 0, SEEK_END) == (off_t)len)
        return 0;
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    return fail(why, FAIL_INPUT, "%s: what was written of it is gone", path);
}

/* The lock is let go after the rename, or a sweep might come between. */
enum fail file_commit(struct file *f, struct why *why)
{
    int       error = fsync(f->fd) ? errno : 0;
    enum fail err = settle(f->tmp, f->path, error, why);

    close(f->fd);
    return err;
}

void file_abort(struct file *f)
{
    unlink(f->tmp);
    close(f->fd);
}

enum fail file_write(const char *path, const void *bytes, size_t len, struct why *why)
{
    struct file f;
    enum fail   err = file_begin(&f, path, why);

    if (err)
        return err;
    err = file_put(&f, bytes, len, why);
    if (!err)
        return file_commit(&f, why);
    file_abort(&f);
    return err;
}

enum fail file_own(const char *path, int flags, int *fd, struct why *why)
{
    struct stat st;

    *fd = open(path, flags | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
               0666);
    if (*fd < 0 && errno != ENXIO && errno != ELOOP)
        return fail_write(why, path);
    if (lstat(path, &st) || (*fd >= 0 && fstat(*fd, &st)))
        st = (struct stat){.st_nlink = 1};
    if (*fd >= 0 && S_ISREG(st.st_mode) && st.st_nlink < 2)
        return 0;
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
    return fail(why, FAIL_WRITE, "%s: %s; remove it, or copy the directory", path,
                S_ISLNK(st.st_mode)   ? "a link, which may lead elsewhere"
                : S_ISREG(st.st_mode) ? "another name of a file elsewhere (a hard link)"
                                      : kind_of(st.st_mode));
}

enum fail link_replace(const char *dir, const char *link, const char *target,
                       struct why *why)
{
    char path[PATH_MAX], tmp[PATH_MAX];

    path_join(path, sizeof path, dir, link);
    if (!temporary(tmp, sizeof tmp, path) || symlink(target, tmp))
        return fail_write(why, path);
    return settle(tmp, path, 0, why);
}

/* ---- directories ------------------------------------------------------------------- */

enum fail dir_make(const char *path, struct why *why)
{
    char buf[PATH_MAX];
    enum fail err = 0;

    if (!trim(buf, path))
        return fail_write(why, path);
    for (char *p = buf + 1, *end = buf + strlen(buf); p <= end && !err; p++) {
        if (*p && *p != '/')
            continue;
        *p = 0;
        if (mkdir(buf, 0777) == 0)
            err = sync_parent(buf, why);
        else if (errno != EEXIST)
            err = fail_write(why, buf);
        if (p < end)
            *p = '/';
    }
    if (!err && !path_is_dir(buf))
        err = fail(why, FAIL_WRITE,
                   "%s: a file where a directory is needed; choose another name", buf);
    return err;
}

enum fail dir_begin(struct dir *d, const char *path, struct why *why)
{
    char      dir[PATH_MAX];
    enum fail err;

    errno = ENAMETOOLONG;
    if ((size_t)snprintf(d->path, sizeof d->path, "%s", path) >= sizeof d->path ||
        !parent(dir, path))
        return fail_write(why, path);
    err = dir_make(dir, why);
    if (err)
        return err;
    sweep_beside(path);
    d->lock = create_locked(create_dir, d->tmp, sizeof d->tmp, path);
    return d->lock < 0 ? fail_write(why, path) : 0;
}

/* The mark is there, or nothing is and it is made. */
static bool is_marked(const char *dir, const char *mark)
{
    char path[PATH_MAX + NAME_MAX + 2];
    int  fd;

    path_join(path, sizeof path, dir, mark);
    if (path_exists(path))
        return true;
    if (rmdir(dir) || mkdir(dir, 0777))     // fails where something is in it
        return false;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Open and lock a directory; -1 with errno: EWOULDBLOCK when another has the lock. */
static int lock_dir(const char *path)
{
    struct stat st, now;
    int         fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int         error = fd < 0 ? errno : 0;

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB))
        error = errno;
    else if (fd >= 0 && (fstat(fd, &st) || stat(path, &now) || st.st_ino != now.st_ino))
        error = EWOULDBLOCK;                // renamed by its writer, just now
    if (error && fd >= 0)
        close(fd);
    errno = error;
    return error ? -1 : fd;
}

enum fail dir_continue(struct dir *d, const char *path, const char *mark,
                       struct why *why)
{
    char      dir[PATH_MAX], whole[PATH_MAX];
    enum fail err;

    errno = ENAMETOOLONG;
    *d = (struct dir){.lock = -1};
    if (!trim(whole, path) || !parent(dir, path) ||
        (size_t)snprintf(d->path, sizeof d->path, "%s", whole) >= sizeof d->path ||
        (size_t)snprintf(d->tmp, sizeof d->tmp, "%s.part", whole) >= sizeof d->tmp)
        return fail_write(why, path);
    if ((err = dir_make(dir, why)))
        return err;
    if (mkdir(d->tmp, 0777) && errno != EEXIST)
        return fail_write(why, d->tmp);
    if (!is_marked(d->tmp, mark))
        return fail(why, FAIL_WRITE, "%s: in the way of writing %s, and not weft's; "
                    "choose another name", d->tmp, d->path);
    d->lock = lock_dir(d->tmp);
    if (d->lock < 0 && errno == EWOULDBLOCK)
        return fail(why, FAIL_WRITE, "%s: another process is writing it; wait for it or "
                    "stop it", d->path);
    return d->lock < 0 ? fail_write(why, d->tmp) : 0;
}

void dir_restart(struct dir *d, const char *mark)
{
    DIR           *files = opendir(d->tmp);
    struct dirent *e;

    while (files && (e = readdir(files)))
        if (strcmp(e->d_name, mark) && strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            unlinkat(dirfd(files), e->d_name, 0);
    if (files)
        closedir(files);
}

void dir_leave(struct dir *d)
{
    close(d->lock);
    d->lock = -1;
}

/* fsync one file of an open directory; a link has nothing to sync. */
static bool sync_entry(int dir, const char *name)
{
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int error = 0;

    if (fd < 0)
        return errno == ELOOP;
    if (fsync(fd))
        error = errno;
    close(fd);
    errno = error;
    return !error;
}

static bool is_dots(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..");
}

static enum fail sync_entries(const char *path, struct why *why)
{
    DIR           *d = opendir(path);
    struct dirent *e;
    enum fail      err = 0;

    if (!d)
        return fail_write(why, path);
    while (!err && (errno = 0, e = readdir(d)))
        if (!is_dots(e->d_name) && !sync_entry(dirfd(d), e->d_name))
            err = fail_write(why, path);
    if (!err && errno)
        err = fail_write(why, path);
    closedir(d);
    return err ? err : sync_dir(path, why);
}

enum fail dir_commit(struct dir *d, struct why *why)
{
    enum fail err = sync_entries(d->tmp, why);

    if (err)
        return err;
    if (rename(d->tmp, d->path)) {
        if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR)
            return fail(why, FAIL_WRITE,
                        "%s: exists already; remove it or choose another name", d->path);
        return fail_write(why, d->path);
    }
    close(d->lock);
    d->lock = -1;
    d->tmp[0] = 0;
    return sync_name(d->path, why);
}

void dir_abort(struct dir *d)
{
    if (d->tmp[0])
        dir_remove(d->tmp);
    if (d->lock >= 0)
        close(d->lock);
    d->lock = -1;
}

void dir_remove(const char *path)
{
    DIR           *d = opendir(path);
    struct dirent *e;

    if (!d)
        return;
    while ((e = readdir(d)))
        if (!is_dots(e->d_name))
            unlinkat(dirfd(d), e->d_name, 0);
    closedir(d);
    rmdir(path);
}

void dir_sweep(const char *dir)
{
    char           path[PATH_MAX];
    DIR           *d = opendir(dir);
    struct dirent *e;

    if (!d)
        return;
    while ((e = readdir(d)))
        if (path_is_temporary(e->d_name) && unlinkat(dirfd(d), e->d_name, 0))
            dir_remove(path_join(path, sizeof path, dir, e->d_name));
    closedir(d);
}

static enum fail lock(const char *dir, int how, int *fd, struct why *why)
{
    char path[PATH_MAX], pid[16] = "";
    int  error;

    path_join(path, sizeof path, dir, "lock");
    enum fail err = file_own(path, O_RDWR, fd, why);

    if (err)
        return err;
    if (flock(*fd, how | LOCK_NB) == 0) {
        if (ftruncate(*fd, 0) == 0)
            dprintf(*fd, "%ld\n", (long)getpid());      // only for the line below
        return 0;
    }
    error = errno;
    if (pread(*fd, pid, sizeof pid - 1, 0) < 0)
        pid[0] = 0;
    close(*fd);
    *fd = -1;
    errno = error;
    if (error != EWOULDBLOCK)
        return fail(why, FAIL_WRITE, "%s: cannot lock: %s", path, strerror(error));
    return fail(why, FAIL_WRITE,
                "%s: in use by another process (%ld); wait for it or stop it", dir,
                atol(pid));
}

enum fail dir_lock(const char *dir, int *fd, struct why *why)
{
    return lock(dir, LOCK_EX, fd, why);
}

enum fail dir_lock_shared(const char *dir, int *fd, struct why *why)
{
    return lock(dir, LOCK_SH, fd, why);
}
