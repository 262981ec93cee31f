/* data/base/file.h: files that are whole or absent, directories, manifests, locks; and
 * data/base/memory.h. */
#include "data/base/file.h"
#include "data/base/memory.h"
#include "tests/support/rig.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- a disk that fails ------------------------------------------------------------- */

static struct {
    int  write_error, fsync_error, read_error;  // errno to give; 0: none
    int  fsyncs;                        // that still succeed before fsync_error
    long room;                          // bytes that still fit before write_error
    bool trickle;                       // a byte at a time, and a signal before each
} disk;

/* These stand before libc's own in this program. */
ssize_t write(int fd, const void *bytes, size_t n)
{
    static bool interrupted;

    if (disk.trickle) {
        interrupted = !interrupted;
        errno = EINTR;
        if (interrupted)
            return -1;
        n = n > 0;
    }
    if (disk.write_error) {
        errno = disk.write_error;
        if (disk.room == 0)
            return -1;
        n = n < (size_t)disk.room ? n : (size_t)disk.room;
        disk.room -= (long)n;
    }
    return syscall(SYS_write, fd, bytes, n);
}

ssize_t read(int fd, void *bytes, size_t n)
{
    static bool interrupted;

    interrupted = disk.trickle && !interrupted;
    errno = interrupted ? EINTR : disk.read_error;
    if (errno)
        return -1;
    return syscall(SYS_read, fd, bytes, disk.trickle ? n > 0 : n);
}

int fsync(int fd)
{
    if (!disk.fsync_error || disk.fsyncs-- > 0)
        return (int)syscall(SYS_fsync, fd);
    errno = disk.fsync_error;
    return -1;
}

static void disk_well(void)
{
    memset(&disk, 0, sizeof disk);
}

/* ---- helpers ----------------------------------------------------------------------- */

static struct why why;

/* Two paths at a time may be in use. */
static char *in(const char *dir, const char *name)
{
    static char path[2][PATH_MAX];
    static int  turn;

    return path_join(path[turn ^= 1], PATH_MAX, dir, name);
}

static void put(const char *dir, const char *name, const char *text)
{
    FILE *f = fopen(in(dir, name), "wb");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

static void assert_holds(const char *path, const char *want)
{
    char  *got;
    size_t len;

    ck_assert_msg(file_read(path, 1 << 20, &got, &len, &why) == 0, "%s", why.line);
    ck_assert_uint_eq(len, strlen(want));
    ck_assert_str_eq(got, want);
    free(got);
}

static void assert_line(int got, int want, const char *part)
{
    ck_assert_msg(got == want, "code %d, wanted %d: %s", got, want, why.line);
    ck_assert_msg(strstr(why.line, part) != NULL, "'%s' is not in: %s", part, why.line);
}

/* ---- names ------------------------------------------------------------------------- */

/* dir/././ ... /a, of n bytes or one more. */
static const char *long_path(const char *dir, size_t n)
{
    static char path[2][2 * PATH_MAX];
    static int  turn;
    char       *to = path[turn ^= 1];
    size_t      len = strlen(dir);

    memcpy(to, dir, len);
    for (; len + 2 < n; len += 2)
        memcpy(to + len, "/.", 2);
    strcpy(to + len, "/a");
    return to;
}

START_TEST(a_name_that_is_too_long_is_refused_and_not_cut)
{
    static const size_t lengths[] = {PATH_MAX - 6, PATH_MAX + 6};   // tmp, or all of it
    const char         *dir = rig_tmp(), *path = long_path(dir, lengths[_i]);
    struct file         f;
    struct dir          d;

    ck_assert_int_eq(file_write(path, "x", 1, &why), FAIL_WRITE);
    ck_assert_int_eq(file_begin(&f, path, &why), FAIL_WRITE);
    ck_assert_int_eq(dir_begin(&d, path, &why), FAIL_WRITE);
    ck_assert_int_eq(dir_continue(&d, long_path(dir, lengths[_i] + 4), "mark", &why),
                     FAIL_WRITE);
    ck_assert_int_eq(rig_entries(dir), 0);
}
END_TEST

START_TEST(a_name_alone_is_one_of_this_directory)
{
    const char *dir = rig_tmp();
    struct dir  d;

    ck_assert_int_eq(chdir(dir), 0);
    ck_assert_int_eq(file_write("a", "x", 1, &why), 0);
    ck_assert_int_eq(dir_make("b/", &why), 0);
    ck_assert_int_eq(dir_begin(&d, "c", &why), 0);
    ck_assert_int_eq(dir_commit(&d, &why), 0);
    assert_holds(in(dir, "a"), "x");
    ck_assert(path_is_dir(in(dir, "b")) && path_is_dir(in(dir, "c")));
    ck_assert_int_eq(rig_entries(dir), 3);
}
END_TEST

/* ---- files ------------------------------------------------------------------------- */

START_TEST(a_file_is_replaced_whole_and_leaves_nothing_beside_it)
{
    const char *dir = rig_tmp();

    ck_assert_int_eq(file_write(in(dir, "a"), "first", 5, &why), 0);
    ck_assert_int_eq(file_write(in(dir, "a"), "2nd", 3, &why), 0);
    assert_holds(in(dir, "a"), "2nd");
    ck_assert_int_eq(file_write(in(dir, "a"), "", 0, &why), 0);
    assert_holds(in(dir, "a"), "");
    ck_assert_int_eq(rig_entries(dir), 1);
}
END_TEST

START_TEST(writing_leaves_no_file_open)
{
    const char *dir = rig_tmp();
    int         before = rig_open_files();

    ck_assert(!file_write(in(dir, "a"), "x", 1, &why));
    ck_assert_int_eq(rig_open_files(), before);
}
END_TEST

START_TEST(a_new_file_has_the_permissions_the_umask_leaves)
{
    mode_t      old = umask(027);
    const char *path = in(rig_tmp(), "a");
    struct stat st;

    ck_assert_int_eq(file_write(path, "x", 1, &why), 0);
    umask(old);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0640);
}
END_TEST

START_TEST(writing_survives_signals_and_short_writes)
{
    const char *path = in(rig_tmp(), "a");

    disk.trickle = true;
    int rc = file_write(path, "one byte at a time", 18, &why);

    disk_well();
    ck_assert_int_eq(rc, 0);
    assert_holds(path, "one byte at a time");
}
END_TEST

START_TEST(reading_survives_signals_and_short_reads)
{
    const char *path = in(rig_tmp(), "a");
    char       *bytes;
    size_t      len;
    uint64_t    hash, size;
    int         rc[4];

    ck_assert_int_eq(file_write(path, "one by one", 10, &why), 0);
    disk.trickle = true;
    rc[0] = file_read(path, 99, &bytes, &len, &why);
    rc[1] = file_hash(path, &hash, &size, &why);
    disk_well();
    ck_assert(!rc[0] && !rc[1] && len == 10 && size == 10);
    ck_assert_str_eq(bytes, "one by one");
    ck_assert_uint_eq(hash, XXH3_64bits("one by one", 10));
    free(bytes);
    disk.read_error = EIO;
    rc[2] = file_read(path, 99, &bytes, &len, &why);
    rc[3] = file_hash(path, &hash, &size, &why);
    disk_well();
    ck_assert_int_eq(rc[2], FAIL_INPUT);
    assert_line(rc[3], FAIL_INPUT, "cannot read: Input/output error");
    ck_assert_ptr_null(bytes);
}
END_TEST

/* What follows from errno. */
static const struct {
    int         error;
    enum fail   code;
    const char *says;
} errors[] = {
    {ENOSPC, FAIL_WRITE,  "No space left on device; the disk is full, free some space"},
    {EDQUOT, FAIL_WRITE,  "; the disk is full, free some space"},
    {EACCES, FAIL_WRITE,  "Permission denied; choose a directory you may write to"},
    {EPERM,  FAIL_WRITE,  "; choose a directory you may write to"},
    {EROFS,  FAIL_WRITE,  "; choose a directory you may write to"},
    {EIO,    FAIL_WRITE,  "Input/output error; nothing was replaced"},
    {ENOMEM, FAIL_MEMORY, "Cannot allocate memory; nothing was replaced"},
};

START_TEST(a_failure_says_what_to_do_about_it)
{
    errno = errors[_i].error;
    int rc = fail_write(&why, "some/file");

    assert_line(rc, errors[_i].code, errors[_i].says);
    ck_assert(!strncmp(why.line, "some/file: cannot write: ", 25));
}
END_TEST

/* A network's, say: no fsync of directories. The file's own has succeeded. */
START_TEST(a_directory_that_cannot_be_synced_is_passed_over)
{
    static const int errnos[] = {EINVAL, EACCES};
    const char      *path = in(rig_tmp(), "a");
    int              rc;

    disk.fsync_error = errnos[_i];
    disk.fsyncs = 1;
    rc = file_write(path, "x", 1, &why);
    disk_well();
    ck_assert_msg(rc == 0, "%s", why.line);
    assert_holds(path, "x");
}
END_TEST

/* The temporary name of f, without its directory. */
static const char *tmp_of(const struct file *f)
{
    return strrchr(f->tmp, '/') + 1;
}

START_TEST(a_file_is_gone_on_with_where_its_writer_died)
{
    const char *dir = rig_tmp(), *path = in(dir, "a");
    struct file f, again;

    ck_assert(!file_begin(&f, path, &why) && !file_put(&f, "one two three", 13, &why));
    assert_line(file_resume(&again, path, tmp_of(&f), 4, &why), FAIL_INPUT, "is gone");
    close(f.fd);                            // it lives no longer
    assert_line(file_resume(&again, path, tmp_of(&f), 14, &why), FAIL_INPUT, "is gone");
    assert_line(file_resume(&again, path, "a", 4, &why), FAIL_INPUT, "is gone");
    assert_line(file_resume(&again, path, "x/a.tmp-01234567", 4, &why), FAIL_INPUT,
                "is gone");
    ck_assert_int_eq(again.fd, -1);
    ck_assert_msg(!file_resume(&again, path, tmp_of(&f), 4, &why), "%s", why.line);
    ck_assert(!file_put(&again, "ten", 3, &why) && !file_commit(&again, &why));
    assert_holds(path, "one ten");
    ck_assert_msg(!file_resume(&again, path, tmp_of(&f), 3, &why), "%s", why.line);
    ck_assert(!path_exists(path) && !file_put(&again, "!", 1, &why) &&
              !file_commit(&again, &why));
    assert_holds(path, "one!");
    ck_assert_int_eq(rig_entries(dir), 1);
}
END_TEST

static const struct {
    int         write_error, fsync_error;
    long        room;
    const char *says;
} failing[] = {
    {ENOSPC, 0,      0, "No space left on device; the disk is full"},
    {ENOSPC, 0,      3, "the disk is full"},
    {EDQUOT, 0,      4, "the disk is full"},
    {EIO,    0,      2, "Input/output error"},
    {0,      ENOSPC, 0, "the disk is full"},
    {0,      EIO,    0, "Input/output error"},
};

START_TEST(a_failed_write_keeps_the_old_file)
{
    const char *dir = rig_tmp(), *path = in(dir, "a");
    int         rc;

    ck_assert_int_eq(file_write(path, "old", 3, &why), 0);
    disk.write_error = failing[_i].write_error;
    disk.fsync_error = failing[_i].fsync_error;
    disk.room = failing[_i].room;
    rc = file_write(path, "the new bytes", 13, &why);
    disk_well();
    assert_line(rc, FAIL_WRITE, failing[_i].says);
    ck_assert_ptr_nonnull(strstr(why.line, path));
    assert_holds(path, "old");
    ck_assert_int_eq(rig_entries(dir), 1);
}
END_TEST

START_TEST(what_is_no_file_is_not_replaced)
{
    const char *dir = rig_tmp();
    struct stat st;

    ck_assert(!mkfifo(in(dir, "pipe"), 0666) && !symlink("pipe", in(dir, "link")));
    assert_line(file_write(in(dir, "pipe"), "x", 1, &why), FAIL_WRITE, "a pipe, not a");
    assert_line(file_write(in(dir, "link"), "x", 1, &why), FAIL_WRITE, "a pipe, not a");
    ck_assert(!stat(in(dir, "link"), &st) && S_ISFIFO(st.st_mode));
    ck_assert_int_eq(rig_entries(dir), 2);
}
END_TEST

START_TEST(a_file_in_pieces_appears_when_it_is_committed)
{
    const char *dir = rig_tmp(), *path = in(dir, "a");
    struct file f;

    ck_assert(!file_begin(&f, path, &why) && !file_put(&f, "one ", 4, &why));
    ck_assert(!path_exists(path) && path_is_temporary(f.tmp));
    ck_assert(!file_put(&f, "", 0, &why) && !file_put(&f, "two", 3, &why));
    ck_assert(!file_commit(&f, &why));
    assert_holds(path, "one two");
    ck_assert(!file_begin(&f, path, &why) && !file_put(&f, "three", 5, &why));
    file_abort(&f);
    assert_holds(path, "one two");
    ck_assert_int_eq(rig_entries(dir), 1);
}
END_TEST

START_TEST(the_next_writer_removes_what_a_killed_one_left)
{
    const char *dir = rig_tmp();
    struct file f;
    pid_t       pid = fork();

    if (pid == 0) {
        if (!file_begin(&f, in(dir, "a"), &why) && !file_put(&f, "half", 4, &why))
            raise(SIGKILL);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_int_eq(rig_entries(dir), 1);
    put(dir, "ab.tmp-01234567", "another file's");
    put(dir, "a.tmp-0123456", "not a temporary name");
    ck_assert_int_eq(file_write(in(dir, "a"), "whole", 5, &why), 0);
    assert_holds(in(dir, "a"), "whole");
    ck_assert_int_eq(rig_entries(dir), 3);
}
END_TEST

START_TEST(a_living_writers_file_is_kept)
{
    const char *dir = rig_tmp(), *path = in(dir, "a");
    struct file f;

    ck_assert(!file_begin(&f, path, &why) && !file_put(&f, "slow", 4, &why));
    ck_assert_int_eq(file_write(path, "fast", 4, &why), 0);
    ck_assert_int_eq(rig_entries(dir), 2);
    ck_assert_int_eq(file_commit(&f, &why), 0);
    assert_holds(path, "slow");
    ck_assert_int_eq(rig_entries(dir), 1);
}
END_TEST

static const struct {
    const char *name, *says;
} unwritable[] = {
    {"missing/a", "No such file or directory"},
    {"file/a", "Not a directory"},
    {"dir", "a directory, not a file"},
    {"", "a directory, not a file"},
    {"file/", "Not a directory"},
};

START_TEST(an_unwritable_place_is_said)
{
    const char *dir = rig_tmp();

    put(dir, "file", "text");
    ck_assert_int_eq(mkdir(in(dir, "dir"), 0777), 0);
    assert_line(file_write(in(dir, unwritable[_i].name), "x", 1, &why), FAIL_WRITE,
                unwritable[_i].says);
    assert_holds(in(dir, "file"), "text");
    ck_assert_int_eq(rig_entries(dir), 2);
}
END_TEST

static const struct {
    const char *name;
    size_t      max;
    const char *says;
} unreadable[] = {
    {"missing",  99, "no such file"},
    {"file/a",   99, "Not a directory"},
    {"dir",      99, "a directory, not a file"},
    {"pipe",     99, "a pipe, not a file"},
    {"dangling", 99, "no such file"},
    {"file",     3,  "4 bytes, more than the 3"},
};

START_TEST(what_cannot_be_read_is_said_without_waiting)
{
    const char *dir = rig_tmp();
    char       *bytes;
    size_t      len;

    put(dir, "file", "text");
    ck_assert_int_eq(mkdir(in(dir, "dir"), 0777), 0);
    ck_assert_int_eq(mkfifo(in(dir, "pipe"), 0666), 0);
    ck_assert_int_eq(symlink("nowhere", in(dir, "dangling")), 0);
    assert_line(file_read(in(dir, unreadable[_i].name), unreadable[_i].max, &bytes, &len,
                          &why), FAIL_INPUT, unreadable[_i].says);
    ck_assert_ptr_null(bytes);
}
END_TEST

START_TEST(a_hash_is_xxh3_of_all_the_bytes)
{
    enum { N = 200001 };
    const char *path = in(rig_tmp(), "a");
    char       *bytes = malloc(N);
    uint64_t    hash, size;

    ck_assert_int_eq(file_write(path, "", 0, &why), 0);
    ck_assert_int_eq(file_hash(path, &hash, &size, &why), 0);
    ck_assert_uint_eq(size, 0);
    ck_assert_uint_eq(hash, 0x2d06800538d394c2u);   // published: XXH3 of nothing
    for (int i = 0; i < N; i++)
        bytes[i] = (char)(i * 7 + i / 251);
    ck_assert_int_eq(file_write(path, bytes, N, &why), 0);
    ck_assert_int_eq(file_hash(path, &hash, &size, &why), 0);
    ck_assert_uint_eq(size, N);
    ck_assert_uint_eq(hash, XXH3_64bits(bytes, N));
    assert_line(file_hash("/nowhere/a", &hash, &size, &why), FAIL_INPUT, "no such file");
    free(bytes);
}
END_TEST

/* ---- directories ------------------------------------------------------------------- */

START_TEST(directories_are_made_with_their_parents)
{
    const char *dir = rig_tmp();

    ck_assert_int_eq(dir_make(in(dir, "a/b/c"), &why), 0);
    ck_assert_int_eq(dir_make(in(dir, "a//b/d/"), &why), 0);
    ck_assert_int_eq(dir_make(in(dir, "a"), &why), 0);
    ck_assert(path_is_dir(in(dir, "a/b/c")));
    ck_assert(path_is_dir(in(dir, "a/b/d")));
    put(dir, "file", "x");
    assert_line(dir_make(in(dir, "file"), &why), FAIL_WRITE, "a file where a");
    assert_line(dir_make(in(dir, "file/a"), &why), FAIL_WRITE, "Not a directory");
    assert_line(dir_make("", &why), FAIL_WRITE, "No such file");
}
END_TEST

START_TEST(a_directory_appears_whole_or_not_at_all)
{
    const char *dir = rig_tmp();
    struct dir  d;

    ck_assert_int_eq(dir_begin(&d, in(dir, "new/ckpt/"), &why), 0);
    put(d.tmp, "a", "x");
    ck_assert_int_eq(symlink("nowhere", in(d.tmp, "link")), 0);
    ck_assert(!path_exists(in(dir, "new/ckpt")));
    ck_assert(path_is_temporary(strrchr(d.tmp, '/') + 1));
    ck_assert_int_eq(dir_commit(&d, &why), 0);
    assert_holds(in(dir, "new/ckpt/a"), "x");
    ck_assert_int_eq(rig_entries(in(dir, "new")), 1);

    ck_assert_int_eq(dir_begin(&d, in(dir, "new/other"), &why), 0);
    put(d.tmp, "a", "x");
    dir_abort(&d);
    ck_assert_int_eq(rig_entries(in(dir, "new")), 1);
}
END_TEST

START_TEST(committing_never_replaces_what_is_there)
{
    static const char *const names[] = {"full", "file"};
    const char *dir = rig_tmp();
    struct dir  d;

    ck_assert_int_eq(mkdir(in(dir, "full"), 0777), 0);
    put(dir, "full/a", "old");
    put(dir, "file", "old");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(dir_begin(&d, in(dir, names[i]), &why), 0);
        put(d.tmp, "a", "new");
        assert_line(dir_commit(&d, &why), FAIL_WRITE, "exists already");
        assert_holds(in(d.tmp, "a"), "new");
        dir_abort(&d);
    }
    assert_holds(in(dir, "full/a"), "old");
    assert_holds(in(dir, "file"), "old");
    ck_assert_int_eq(rig_entries(dir), 2);
}
END_TEST

START_TEST(a_commit_that_cannot_reach_the_disk_does_not_happen)
{
    const char *dir = rig_tmp();
    struct dir  d;
    int         rc;

    ck_assert_int_eq(dir_begin(&d, in(dir, "a"), &why), 0);
    put(d.tmp, "x", "x");
    disk.fsync_error = ENOSPC;
    disk.fsyncs = _i;                       // that of the file, that of the directory
    rc = dir_commit(&d, &why);
    disk_well();
    dir_abort(&d);
    assert_line(rc, FAIL_WRITE, "the disk is full");
    ck_assert_int_eq(rig_entries(dir), 0);
}
END_TEST

/* The directory is fsynced after the rename: by then it is too late to say that nothing
 * was replaced. */
START_TEST(a_commit_that_only_its_parent_misses_says_that_it_is_there)
{
    const char *dir = rig_tmp();
    struct dir  d;
    int         rc;

    ck_assert_int_eq(dir_begin(&d, in(dir, "a"), &why), 0);
    disk.fsync_error = EIO;
    disk.fsyncs = 1;                        // that of the empty directory itself
    rc = dir_commit(&d, &why);
    disk_well();
    dir_abort(&d);
    assert_line(rc, FAIL_WRITE, "it is there");
    ck_assert(path_exists(in(dir, "a")) && !strstr(why.line, "nothing was replaced"));
    put(dir, "b", "old");
    disk.fsync_error = EIO;
    disk.fsyncs = 1;
    rc = file_write(in(dir, "b"), "new", 3, &why);
    disk_well();
    assert_line(rc, FAIL_WRITE, "it is there");
    assert_holds(in(dir, "b"), "new");
}
END_TEST

/* A child that begins a directory and lives until it is killed. */
START_TEST(what_a_killed_writer_left_is_swept_by_the_next_and_a_living_one_is_left_alone)
{
    const char *dir = rig_tmp();
    int         ready[2];
    char        byte;
    struct dir  d;

    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();

    if (pid == 0) {
        if (dir_begin(&d, in(dir, "data/"), &why) == 0 && mkdir(in(dir, "x"), 0777) == 0)
            put(d.tmp, "-", "half of it");
        if (write(ready[1], "x", 1) == 1)
            pause();
        _exit(0);
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    ck_assert_int_eq(dir_begin(&d, in(dir, "data"), &why), 0);
    ck_assert_int_eq(rig_entries(dir), 3);                  // x, and two of them
    dir_abort(&d);
    ck_assert_int_eq(rig_entries(dir), 2);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    ck_assert_int_eq(dir_begin(&d, in(dir, "data"), &why), 0);
    ck_assert_int_eq(rig_entries(dir), 2);
    ck_assert_int_eq(dir_commit(&d, &why), 0);
}
END_TEST

START_TEST(a_directory_is_gone_on_with_by_one_at_a_time)
{
    const char *dir = rig_tmp();
    struct dir  d, other;

    ck_assert_msg(!dir_continue(&d, in(dir, "new/set/"), "mark", &why), "%s", why.line);
    ck_assert_str_eq(strrchr(d.tmp, '/'), "/set.part");
    put(d.tmp, "a", "half of it");
    assert_line(dir_continue(&other, in(dir, "new/set"), "mark", &why), FAIL_WRITE,
                "another process is writing it");
    dir_leave(&d);
    ck_assert_int_eq(dir_continue(&d, in(dir, "new/set"), "mark", &why), 0);
    assert_holds(in(d.tmp, "a"), "half of it");
    dir_restart(&d, "mark");
    ck_assert(!path_exists(in(d.tmp, "a")) && path_exists(in(d.tmp, "mark")));
    put(d.tmp, "b", "all of it");
    ck_assert_int_eq(dir_commit(&d, &why), 0);
    assert_holds(in(dir, "new/set/b"), "all of it");
    ck_assert_int_eq(rig_entries(in(dir, "new")), 1);
    ck_assert_int_eq(dir_make(in(dir, "mine.part"), &why), 0);
    put(dir, "mine.part/letter", "Dear");
    assert_line(dir_continue(&d, in(dir, "mine"), "mark", &why), FAIL_WRITE,
                "in the way of writing");
    assert_holds(in(dir, "mine.part/letter"), "Dear");
}
END_TEST

START_TEST(what_fails_and_what_is_given_up_leaves_no_file_open)
{
    const char *dir = rig_tmp();
    int         before = rig_open_files(), fd;
    char       *bytes;
    size_t      len;
    struct file f;
    struct dir  d;

    put(dir, "file", "text");
    put(dir, "a.tmp-01234567", "dead");
    ck_assert(!link(in(dir, "file"), in(dir, "twice")));
    ck_assert(file_read(dir, 9, &bytes, &len, &why));
    ck_assert(file_read(in(dir, "file"), 3, &bytes, &len, &why));
    ck_assert(file_own(in(dir, "twice"), 0, &fd, &why) && fd == -1);
    ck_assert(file_resume(&f, in(dir, "b"), "a.tmp-01234567", 9, &why));
    ck_assert(!file_begin(&f, in(dir, "a"), &why));     // which sweeps
    file_abort(&f);
    ck_assert(!dir_begin(&d, in(dir, "d"), &why));
    dir_abort(&d);
    ck_assert(!dir_continue(&d, in(dir, "d"), "mark", &why));
    dir_restart(&d, "mark");
    dir_leave(&d);
    ck_assert(!dir_continue(&d, in(dir, "d"), "mark", &why) && !dir_commit(&d, &why));
    dir_sweep(dir);
    ck_assert_int_eq(rig_open_files(), before);
    ck_assert_int_eq(rig_entries(dir), 3);
}
END_TEST

START_TEST(a_file_that_became_shorter_is_an_error_and_not_a_signal)
{
    const char *dir = rig_tmp();
    char        bytes[8];
    uint64_t    size;
    int         fd;

    put(dir, "a", "12345678");
    ck_assert_int_eq(file_open(in(dir, "a"), &fd, &size, &why), 0);
    ck_assert_int_eq(truncate(in(dir, "a"), 3), 0);
    assert_line(file_fill(fd, bytes, size, "a", &why), FAIL_INPUT, "became shorter");
    close(fd);
}
END_TEST

START_TEST(a_link_is_replaced_and_stays_relative)
{
    const char *dir = rig_tmp();
    char        target[64] = "";

    ck_assert_int_eq(link_replace(dir, "latest", "ckpt-1", &why), 0);
    ck_assert_int_eq(link_replace(dir, "latest", "ckpt-2", &why), 0);
    ck_assert_int_eq(readlink(in(dir, "latest"), target, sizeof target - 1), 6);
    ck_assert_str_eq(target, "ckpt-2");
    ck_assert_int_eq(rig_entries(dir), 1);
    assert_line(link_replace(in(dir, "none"), "latest", "ckpt-1", &why), FAIL_WRITE,
                "No such");
}
END_TEST

START_TEST(sweeping_takes_leftovers_and_nothing_else)
{
    const char *dir = rig_tmp();
    struct dir  d;

    ck_assert_int_eq(dir_begin(&d, in(dir, "ckpt-1"), &why), 0);
    put(d.tmp, "a", "x");
    put(dir, "log.tmp-0123abcd", "x");
    put(dir, "notes.tmp-mine", "x");
    put(dir, "a.tmp-0123abcde", "x");
    dir_sweep(dir);
    ck_assert(!path_exists(d.tmp));
    ck_assert(path_exists(in(dir, "notes.tmp-mine")));
    ck_assert(path_exists(in(dir, "a.tmp-0123abcde")));
    ck_assert_int_eq(rig_entries(dir), 2);
}
END_TEST

/* ---- manifests --------------------------------------------------------------------- */

static const char *sealed(void)
{
    const char *dir = rig_tmp();

    put(dir, "a.json", "{}");
    put(dir, "b.bin", "some bytes");
    put(dir, "lock", "1");
    put(dir, "c.tmp-01234567", "left behind");
    ck_assert_msg(manifest_write(dir, &why) == 0, "%s", why.line);
    return dir;
}

START_TEST(a_manifest_accepts_what_it_was_written_for)
{
    const char *dir = sealed();
    char       *text;
    size_t      len;

    ck_assert_msg(manifest_check(dir, &why) == 0, "%s", why.line);
    ck_assert_int_eq(unlink(in(dir, "lock")), 0);
    ck_assert_int_eq(unlink(in(dir, "c.tmp-01234567")), 0);
    ck_assert_int_eq(manifest_check(dir, &why), 0);
    ck_assert_int_eq(file_read(in(dir, "manifest.json"), 4096, &text, &len, &why), 0);
    ck_assert_ptr_nonnull(strstr(text, "\"a.json\""));
    ck_assert_ptr_null(strstr(text, "lock"));
    ck_assert_ptr_null(strstr(text, "tmp"));
    free(text);
}
END_TEST

/* Write `text` into `name` (NULL: remove it) and check. */
static const struct {
    const char *name, *text, *says;
} tampered[] = {
    {"manifest.json", NULL,                         "no such file"},
    {"manifest.json", "",                           "not JSON"},
    {"manifest.json", "{\"files\": {",              "not JSON"},
    {"manifest.json", "{\"files\": {}} x",          "not JSON"},
    {"manifest.json", "{\"files\":{},\"files\":{}}", "duplicate"},
    {"manifest.json", "[]",                         "not a manifest"},
    {"manifest.json", "{}",                         "not a manifest"},
    {"manifest.json", "{\"files\": []}",            "not an object"},
    {"manifest.json", "{\"files\": {}, \"x\": 1}",  "left unpacked"},
    {"manifest.json", "{\"files\": {}}",            "not listed"},
    {"b.bin",         NULL,                         "missing"},
    {"b.bin",         "some byte",                  "9 bytes where manifest.json says"},
    {"b.bin",         "",                           "0 bytes where"},
    {"b.bin",         "some Bytes",                 "its bytes have changed"},
    {"a.json",        "[]",                         "its bytes have changed"},
    {"extra",         "x",                          "extra: not listed"},
};

START_TEST(a_tampered_directory_is_refused)
{
    const char *dir = sealed();

    if (tampered[_i].text)
        put(dir, tampered[_i].name, tampered[_i].text);
    else
        ck_assert_int_eq(unlink(in(dir, tampered[_i].name)), 0);
    assert_line(manifest_check(dir, &why), FAIL_INPUT, tampered[_i].says);
    ck_assert_ptr_nonnull(strstr(why.line, dir));
}
END_TEST

/* Entries in the place of the one for "a", a file that holds "x". */
#define GOOD "\"size\": 1, \"xxh3\": \"eaf06c6480b2cd11\""
static const struct {
    const char *entry, *says;
} entry_table[] = {
    {"\"a\": {" GOOD "}",                                        NULL},
    {"\"a\": {\"size\": 1}",                                     "entry 'a'"},
    {"\"a\": {" GOOD ", \"mode\": 1}",                           "left unpacked"},
    {"\"a\": {\"size\": \"1\", \"xxh3\": \"\"}",                 "entry 'a'"},
    {"\"a\": {\"size\": 1.0, \"xxh3\": \"\"}",                   "entry 'a'"},
    {"\"a\": {\"size\": -1, \"xxh3\": \"\"}",                    "says -1"},
    {"\"a\": {\"size\": 99999999999999999999, \"xxh3\": \"\"}",  "not JSON"},
    {"\"a\": {\"size\": 1, \"xxh3\": 5}",                        "entry 'a'"},
    {"\"a\": {\"size\": 1, \"xxh3\": \"EAF06C6480B2CD11\"}",     "have changed"},
    {"\"a\": 1",                                                 "entry 'a'"},
    {"\"a\": {" GOOD "}, \"../a\": {" GOOD "}",                  "no file of its own"},
    {"\"a\": {" GOOD "}, \"/etc/passwd\": {" GOOD "}",           "no file of its own"},
    {"\"a\": {" GOOD "}, \"..\": {" GOOD "}",                    "no file of its own"},
    {"\"a\": {" GOOD "}, \"\": {" GOOD "}",                      "no file of its own"},
    {"\"a\": {" GOOD "}, \"manifest.json\": {" GOOD "}",         "no file of its own"},
    {"\"a\": {" GOOD "}, \"lock\": {" GOOD "}",                  "no file of its own"},
    {"\"a\": {" GOOD "}, \"b\": {" GOOD "}",                     "missing"},
    {"\"a\": {" GOOD "}, \"a\": {" GOOD "}",                     "duplicate"},
};

START_TEST(every_entry_of_a_manifest_is_read_strictly)
{
    const char *dir = rig_tmp();
    char        text[512];

    put(dir, "a", "x");
    snprintf(text, sizeof text, "{\"files\": {%s}}", entry_table[_i].entry);
    put(dir, "manifest.json", text);
    if (entry_table[_i].says)
        assert_line(manifest_check(dir, &why), FAIL_INPUT, entry_table[_i].says);
    else
        ck_assert_msg(manifest_check(dir, &why) == 0, "%s", why.line);
}
END_TEST

START_TEST(a_pipe_under_a_listed_name_is_refused_without_waiting)
{
    const char *dir = sealed();

    ck_assert_int_eq(unlink(in(dir, "b.bin")), 0);
    ck_assert_int_eq(mkfifo(in(dir, "b.bin"), 0666), 0);
    assert_line(manifest_check(dir, &why), FAIL_INPUT, "a pipe");
    assert_line(manifest_write(dir, &why), FAIL_WRITE, "a pipe");
}
END_TEST

/* ---- locks ------------------------------------------------------------------------- */

START_TEST(a_lock_that_is_another_files_name_is_not_written_through)
{
    const char *dir = rig_tmp();
    int         fd;

    put(dir, "mine", "letters");
    ck_assert_int_eq(link(in(dir, "mine"), in(dir, "lock")), 0);
    assert_line(dir_lock(dir, &fd, &why), FAIL_WRITE, "hard link");
    assert_holds(in(dir, "mine"), "letters");
    ck_assert_int_eq(unlink(in(dir, "lock")), 0);
    ck_assert_int_eq(symlink("mine", in(dir, "lock")), 0);
    assert_line(dir_lock(dir, &fd, &why), FAIL_WRITE, "a link");
    assert_holds(in(dir, "mine"), "letters");
    ck_assert_int_eq(unlink(in(dir, "lock")), 0);
    ck_assert_int_eq(mkfifo(in(dir, "lock"), 0600), 0);
    assert_line(dir_lock(dir, &fd, &why), FAIL_WRITE, "a pipe");
}
END_TEST

/* A child that holds the lock of dir until it is killed. */
static pid_t holder(const char *dir)
{
    int   ready[2], fd;
    char  c;
    pid_t pid;

    ck_assert_int_eq(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        if (dir_lock(dir, &fd, &why) == 0 && write(ready[1], "x", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &c, 1), 1);
    close(ready[0]);
    return pid;
}

START_TEST(a_lock_held_by_another_process_is_refused_until_it_is_killed)
{
    const char *dir = rig_tmp();
    pid_t       pid = holder(dir);
    char        number[32];
    int         fd, status;

    assert_line(dir_lock(dir, &fd, &why), FAIL_WRITE, "in use by another process");
    snprintf(number, sizeof number, "(%ld)", (long)pid);
    ck_assert_ptr_nonnull(strstr(why.line, number));
    ck_assert_int_eq(fd, -1);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(dir_lock(dir, &fd, &why) == 0, "%s", why.line);
    close(fd);
    ck_assert_int_eq(dir_lock(dir, &fd, &why), 0);
    close(fd);
    assert_line(dir_lock(in(dir, "none"), &fd, &why), FAIL_WRITE, "No such file");
}
END_TEST

START_TEST(a_shared_lock_lets_in_who_shares_it)
{
    const char *dir = rig_tmp();
    int         one, two, whole, before = rig_open_files();

    ck_assert_int_eq(dir_lock_shared(dir, &one, &why), 0);
    ck_assert_int_eq(dir_lock_shared(dir, &two, &why), 0);
    assert_line(dir_lock(dir, &whole, &why), FAIL_WRITE, "in use by another process");
    close(one), close(two);
    ck_assert_int_eq(dir_lock(dir, &whole, &why), 0);
    assert_line(dir_lock_shared(dir, &one, &why), FAIL_WRITE, "in use by another");
    close(whole);
    ck_assert_int_eq(rig_open_files(), before);
}
END_TEST

#define COUNT(table) ((int)(sizeof table / sizeof *table))

/* ---- a stream into memory ---- */

START_TEST(a_stream_into_memory_holds_what_was_written)
{
    char  *bytes;
    size_t len, want = 0;
    FILE  *f = memory_stream(&bytes, &len);

    ck_assert(f && len == 0 && *bytes == 0 && ftell(f) == 0);
    for (int i = 0; i < 20000; i++)
        want += (size_t)fprintf(f, "%d ", i);
    ck_assert_int_eq(ftell(f), (long)want);
    ck_assert(!fflush(f) && len == want && strlen(bytes) == want);
    fputc('x', f);
    ck_assert(!fclose(f) && len == want + 1);
    ck_assert(!strncmp(bytes, "0 1 2 3 ", 8) && !strcmp(bytes + want - 6, "19999 x"));
    free(bytes);
}
END_TEST

#ifndef __SANITIZE_ADDRESS__
/* The C library's own says nothing, and has half of it. */
START_TEST(what_there_is_no_memory_for_is_told_when_it_is_closed)
{
    static char         much[1 << 20];
    const struct rlimit few = {256 << 20, 256 << 20};
    char               *bytes;
    size_t              len;
    FILE               *f = memory_stream(&bytes, &len);

    ck_assert(f && !setrlimit(RLIMIT_AS, &few));
    memset(much, 'x', sizeof much);
    for (int i = 0; i < 512; i++)
        fwrite(much, 1, sizeof much, f);
    fputs("the end", f);
    ck_assert_int_ne(fclose(f), 0);
    free(bytes);
}
END_TEST
#endif

static Suite *suite(void)
{
    Suite *s = suite_create("files");
    TCase *tc = tcase_create("files");

    tcase_add_loop_test(tc, a_name_that_is_too_long_is_refused_and_not_cut, 0, 2);
    tcase_add_test(tc, a_name_alone_is_one_of_this_directory);
    tcase_add_test(tc, a_file_is_replaced_whole_and_leaves_nothing_beside_it);
    tcase_add_test(tc, writing_leaves_no_file_open);
    tcase_add_test(tc, a_new_file_has_the_permissions_the_umask_leaves);
    tcase_add_test(tc, writing_survives_signals_and_short_writes);
    tcase_add_test(tc, reading_survives_signals_and_short_reads);
    tcase_add_loop_test(tc, a_failure_says_what_to_do_about_it, 0, COUNT(errors));
    tcase_add_loop_test(tc, a_directory_that_cannot_be_synced_is_passed_over, 0, 2);
    tcase_add_test(tc, a_file_is_gone_on_with_where_its_writer_died);
    tcase_add_loop_test(tc, a_failed_write_keeps_the_old_file, 0, COUNT(failing));
    tcase_add_test(tc, what_is_no_file_is_not_replaced);
    tcase_add_test(tc, a_file_in_pieces_appears_when_it_is_committed);
    tcase_add_test(tc, the_next_writer_removes_what_a_killed_one_left);
    tcase_add_test(tc, a_living_writers_file_is_kept);
    tcase_add_loop_test(tc, an_unwritable_place_is_said, 0, COUNT(unwritable));
    tcase_add_loop_test(tc, what_cannot_be_read_is_said_without_waiting, 0,
                        COUNT(unreadable));
    tcase_add_test(tc, a_hash_is_xxh3_of_all_the_bytes);
    tcase_add_test(tc, directories_are_made_with_their_parents);
    tcase_add_test(tc, a_directory_appears_whole_or_not_at_all);
    tcase_add_test(tc, committing_never_replaces_what_is_there);
    tcase_add_loop_test(tc, a_commit_that_cannot_reach_the_disk_does_not_happen, 0, 2);
    tcase_add_test(tc, a_commit_that_only_its_parent_misses_says_that_it_is_there);
    tcase_add_test(tc,
        what_a_killed_writer_left_is_swept_by_the_next_and_a_living_one_is_left_alone);
    tcase_add_test(tc, a_directory_is_gone_on_with_by_one_at_a_time);
    tcase_add_test(tc, what_fails_and_what_is_given_up_leaves_no_file_open);
    tcase_add_test(tc, a_file_that_became_shorter_is_an_error_and_not_a_signal);
    tcase_add_test(tc, a_link_is_replaced_and_stays_relative);
    tcase_add_test(tc, sweeping_takes_leftovers_and_nothing_else);
    tcase_add_test(tc, a_manifest_accepts_what_it_was_written_for);
    tcase_add_loop_test(tc, a_tampered_directory_is_refused, 0, COUNT(tampered));
    tcase_add_loop_test(tc, every_entry_of_a_manifest_is_read_strictly, 0,
                        COUNT(entry_table));
    tcase_add_test(tc, a_pipe_under_a_listed_name_is_refused_without_waiting);
    tcase_add_test(tc, a_lock_held_by_another_process_is_refused_until_it_is_killed);
    tcase_add_test(tc, a_shared_lock_lets_in_who_shares_it);
    tcase_add_test(tc, a_lock_that_is_another_files_name_is_not_written_through);
    tcase_add_test(tc, a_stream_into_memory_holds_what_was_written);
#ifndef __SANITIZE_ADDRESS__
    tcase_add_test(tc, what_there_is_no_memory_for_is_told_when_it_is_closed);
#endif
    suite_add_tcase(s, tc);
    return s;
}

int main(void)
{
    return rig_run(suite(), 1);
}
