/* LD_PRELOAD: count the calls by which the main thread of a program touches files below a
 * directory, and let the nth of them go wrong. Also the nth allocation. Loaded by
 * tests/faults/faults.sh; it changes nothing where it is not told to.
 *
 *     FAULT_ROOT=DIR      calls on paths below DIR count (absolute, without links)
 *     FAULT_AT=N          the Nth goes wrong; FAULT_HOW says how:
 *                         ENOSPC EIO EINTR   it fails with that and does nothing
 *                         full               it and all later ones that need room: ENOSPC
 *                         short              half of the bytes are written or read
 *                         kill               the process is killed before it
 *     FAULT_LIST=FILE     "N call path" of every call that counted
 *     FAULT_TRACE=FILE    what changed below DIR, in order, for tests/faults/replay.c;
 *                         FILE.data has the bytes
 *     FAULT_MALLOC=N      the Nth allocation returns NULL; FAULT_MALLOCS=FILE gets
 *                         "own" or "library" for who asked for it, and at the end
 *                         how many there were
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FDS = 1024, NAME = 600 };

static struct {
    const char *root, *how;
    long        at, n;
    int         list, trace, data;      // fds, 0: none
    off_t       data_end;
    pid_t       pid;
    char        path[FDS][NAME];        // of open files below root; "": another
    long        id[FDS], ids;           // of an open, in the trace
} f;

static struct {
    long      at, n;
    int       out;                      // fd
    uintptr_t from, to;                 // its code
    bool      ready;
} m;

#define REAL(name) ((__typeof__(&name))real_##name)
#define REALS(X) X(open) X(openat) X(close) X(read) X(pread) X(write) X(pwrite) X(fsync) \
    X(fdatasync) X(rename) X(link) X(symlink) X(unlink) X(unlinkat) X(mkdir) X(rmdir) \
    X(ftruncate) X(flock) X(opendir)
#define DECLARE(name) static void *real_##name;
REALS(DECLARE)

/* ---- beginning and end ---- */

static int open_out(const char *variable, const char *suffix)
{
    char        path[PATH_MAX];
    const char *name = getenv(variable);

    if (!name)
        return 0;
    snprintf(path, sizeof path, "%s%s", name, suffix);
    return (int)syscall(SYS_openat, AT_FDCWD, path,
                        O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

static int find_program(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size, (void)user;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];

        if (p->p_type == PT_LOAD && p->p_flags & PF_X) {
            m.from = info->dlpi_addr + p->p_vaddr;
            m.to = m.from + p->p_memsz;
        }
    }
    return 1;                           // the first is the program
}

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FAULT_AT"), *fails = getenv("FAULT_MALLOC");

#define RESOLVE(name) real_##name = dlsym(RTLD_NEXT, #name);
    REALS(RESOLVE)
    dl_iterate_phdr(find_program, NULL);
    f.pid = getpid();
    f.root = getenv("FAULT_ROOT");
    f.how = getenv("FAULT_HOW");
    f.at = at ? atol(at) : 0;
    f.list = open_out("FAULT_LIST", "");
    f.trace = open_out("FAULT_TRACE", "");
    f.data = open_out("FAULT_TRACE", ".data");
    m.out = open_out("FAULT_MALLOCS", "");
    m.at = fails ? atol(fails) : 0;
    m.n = 0;
    m.ready = fails || m.out;
}

static void put(int fd, const char *format, ...)
{
    char    line[2 * NAME + 64];
    va_list args;

    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    syscall(SYS_write, fd, line, (size_t)n);
}

__attribute__((destructor)) static void end(void)
{
    if (m.out && getpid() == f.pid)
        put(m.out, "%ld\n", m.n);
}

/* ---- which calls count ---- */

/* path below root, into buf without the root; "" when it is not. */
static const char *below(int dir, const char *path, char *buf)
{
    size_t n = f.root ? strlen(f.root) : 0;
    char   whole[2 * NAME], here[NAME];

    *buf = 0;
    if (!n || getpid() != f.pid || syscall(SYS_gettid) != f.pid)
        return buf;
    if (*path == '/')
        snprintf(whole, sizeof whole, "%s", path);
    else if (dir >= 0 && dir < FDS && f.path[dir][0])
        snprintf(whole, sizeof whole, "%s/%s/%s", f.root, f.path[dir], path);
    else if (dir == AT_FDCWD && getcwd(here, sizeof here))
        snprintf(whole, sizeof whole, "%s/%s", here, path);
    else
        return buf;
    if (!strncmp(whole, f.root, n) && (whole[n] == '/' || !whole[n])) {
        const char *rest = whole + n + strspn(whole + n, "/");

        snprintf(buf, NAME, "%s", *rest ? rest : ".");
    }
    return buf;
}

static const char *of_fd(int fd)
{
    return fd >= 0 && fd < FDS && getpid() == f.pid && syscall(SYS_gettid) == f.pid
               ? f.path[fd] : "";
}

enum { OTHER, ROOM, BYTES };            // ROOM: it may need room; BYTES: it has a length

/* The call counts when path is not "". Returns 0, an error number, or -1: only half. */
static int hit(const char *call, const char *path, int kind)
{
    static bool full;

    if (!*path)
        return 0;
    if (f.list)
        put(f.list, "%ld %s %s\n", f.n + 1, call, path);
    if (full && kind >= ROOM && strcmp(call, "read") && strcmp(call, "pread"))
        return ENOSPC;
    if (++f.n != f.at || !f.how)
        return 0;
    if (!strcmp(f.how, "kill"))
        kill(f.pid, SIGKILL);
    full = !strcmp(f.how, "full");
    return !strcmp(f.how, "EIO")     ? EIO
           : !strcmp(f.how, "EINTR") ? EINTR
           : !strcmp(f.how, "short") ? (kind == BYTES ? -1 : 0)
                                     : ENOSPC;
}

#define FAIL_IF(call, path, kind)        \
    do {                                 \
        int error_ = hit(call, path, kind); \
        if (error_ > 0) {                \
            errno = error_;              \
            return -1;                   \
        }                                \
    } while (0)

/* ---- files ---- */

static int opened(int fd, const char *path, int flags, bool was)
{
    if (fd < 0 || fd >= FDS)
        return fd;
    snprintf(f.path[fd], NAME, "%s", path);
    if (f.trace && *path) {
        f.id[fd] = ++f.ids;
        if (flags & O_CREAT && !was)
            put(f.trace, "C %s\n", path);
        put(f.trace, "O %ld %s\n", f.id[fd], path);
        if (flags & O_TRUNC)
            put(f.trace, "T %ld 0\n", f.id[fd]);
    }
    return fd;
}

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
    char        buf[NAME];
    struct stat st;

    below(dir, path, buf);
    FAIL_IF(flags & O_CREAT ? "create" : "open", buf, flags & O_CREAT ? ROOM : OTHER);
    bool was = *buf && !fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW);

    return opened(REAL(openat)(dir, path, flags, mode), buf, flags, was);
}

#define MODE_OF(flags, mode)             \
    do {                                 \
        va_list args_;                   \
        va_start(args_, flags);          \
        mode = (flags) & (O_CREAT | __O_TMPFILE) ? (mode_t)va_arg(args_, int) : 0; \
        va_end(args_);                   \
    } while (0)

int open(const char *path, int flags, ...)
{
    mode_t mode;

    MODE_OF(flags, mode);
    return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int dir, const char *path, int flags, ...)
{
    mode_t mode;

    MODE_OF(flags, mode);
    return open_at(dir, path, flags, mode);
}

int __open_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0);
}

int close(int fd)
{
    int error = hit("close", of_fd(fd), OTHER);

    if (fd >= 0 && fd < FDS)
        f.path[fd][0] = 0;
    int result = REAL(close)(fd);

    if (error <= 0)
        return result;
    errno = error;
    return -1;
}

static void wrote(int fd, const void *bytes, ssize_t n, off_t at)
{
    if (n <= 0 || !f.trace || !*of_fd(fd))
        return;
    syscall(SYS_write, f.data, bytes, (size_t)n);
    put(f.trace, "W %ld %lld %zd %lld\n", f.id[fd], (long long)at, n,
        (long long)f.data_end);
    f.data_end += n;
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    int error = hit("write", of_fd(fd), BYTES);

    if (error > 0) {
        errno = error;
        return -1;
    }
    ssize_t done = REAL(write)(fd, bytes, error < 0 ? (n + 1) / 2 : n);

    if (f.trace)
        wrote(fd, bytes, done, lseek(fd, 0, SEEK_CUR) - done);
    return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    int error = hit("write", of_fd(fd), BYTES);

    if (error > 0) {
        errno = error;
        return -1;
    }
    ssize_t done = REAL(pwrite)(fd, bytes, error < 0 ? (n + 1) / 2 : n, at);

    wrote(fd, bytes, done, at);
    return done;
}

ssize_t read(int fd, void *bytes, size_t n)
{
    int error = hit("read", of_fd(fd), BYTES);

    errno = error;
    return error > 0 ? -1 : REAL(read)(fd, bytes, error < 0 ? (n + 1) / 2 : n);
}

ssize_t pread(int fd, void *bytes, size_t n, off_t at)
{
    int error = hit("read", of_fd(fd), BYTES);

    errno = error;
    return error > 0 ? -1 : REAL(pread)(fd, bytes, error < 0 ? (n + 1) / 2 : n, at);
}

static int synced(int fd, int result)
{
    if (!result && f.trace && *of_fd(fd))
        put(f.trace, "S %ld\n", f.id[fd]);
    return result;
}

int fsync(int fd)
{
    FAIL_IF("fsync", of_fd(fd), ROOM);
    return synced(fd, REAL(fsync)(fd));
}

int fdatasync(int fd)
{
    FAIL_IF("fsync", of_fd(fd), ROOM);
    return synced(fd, REAL(fdatasync)(fd));
}

int ftruncate(int fd, off_t len)
{
    FAIL_IF("ftruncate", of_fd(fd), OTHER);
    int result = REAL(ftruncate)(fd, len);

    if (!result && f.trace && *of_fd(fd))
        put(f.trace, "T %ld %lld\n", f.id[fd], (long long)len);
    return result;
}

int flock(int fd, int how)
{
    FAIL_IF("flock", of_fd(fd), OTHER);
    return REAL(flock)(fd, how);
}

/* ---- names ---- */

/* A call that gives or takes names, told as "LETTER a b". */
#define NAMES(letter, call, kind, a, b, real)               \
    do {                                                    \
        char from_[NAME], to_[NAME];                        \
        below(AT_FDCWD, a, from_);                          \
        below(AT_FDCWD, b, to_);                            \
        FAIL_IF(call, *to_ ? to_ : from_, kind);            \
        int result_ = (real);                               \
        if (!result_ && f.trace && (*to_ || *from_))        \
            put(f.trace, letter " %s %s\n", from_, to_);    \
        return result_;                                     \
    } while (0)

int rename(const char *a, const char *b)
{
    NAMES("R", "rename", ROOM, a, b, REAL(rename)(a, b));
}

int link(const char *a, const char *b)
{
    NAMES("H", "link", ROOM, a, b, REAL(link)(a, b));
}

int mkdir(const char *path, mode_t mode)
{
    NAMES("D", "mkdir", ROOM, path, path, REAL(mkdir)(path, mode));
}

int rmdir(const char *path)
{
    NAMES("U", "rmdir", OTHER, path, path, REAL(rmdir)(path));
}

int unlink(const char *path)
{
    NAMES("U", "unlink", OTHER, path, path, REAL(unlink)(path));
}

int unlinkat(int dir, const char *path, int flags)
{
    char buf[NAME];

    below(dir, path, buf);
    FAIL_IF("unlink", buf, OTHER);
    int result = REAL(unlinkat)(dir, path, flags);

    if (!result && f.trace && *buf)
        put(f.trace, "U %s %s\n", buf, buf);
    return result;
}

int symlink(const char *target, const char *path)
{
    char buf[NAME];

    below(AT_FDCWD, path, buf);
    FAIL_IF("symlink", buf, ROOM);
    int result = REAL(symlink)(target, path);

    if (!result && f.trace && *buf)
        put(f.trace, "L %s %s\n", target, buf);
    return result;
}

DIR *opendir(const char *path)
{
    char buf[NAME];
    int  error = hit("opendir", below(AT_FDCWD, path, buf), OTHER);

    if (error > 0) {
        errno = error;
        return NULL;
    }
    DIR *d = REAL(opendir)(path);

    if (d)
        opened(dirfd(d), buf, 0, true);
    return d;
}

/* ---- memory ---- */

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t each);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

/* Is this the allocation that fails? */
static bool fails(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;

    if (!m.ready || getpid() != f.pid || syscall(SYS_gettid) != f.pid || ++m.n != m.at)
        return false;
    if (m.out)
        put(m.out, at >= m.from && at < m.to ? "own\n" : "library\n");
    errno = ENOMEM;
    return true;
}

#define ALLOC(real) return fails(__builtin_return_address(0)) ? NULL : (real)

void *malloc(size_t n) { ALLOC(__libc_malloc(n)); }
void *calloc(size_t n, size_t each) { ALLOC(__libc_calloc(n, each)); }
void *realloc(void *p, size_t n) { ALLOC(__libc_realloc(p, n)); }
void *aligned_alloc(size_t align, size_t n) { ALLOC(__libc_memalign(align, n)); }

int posix_memalign(void **p, size_t align, size_t n)
{
    if (fails(__builtin_return_address(0)))
        return ENOMEM;
    *p = __libc_memalign(align, n);
    return *p ? 0 : ENOMEM;
}
