#include "data/base/claim.h"

#include "data/base/clock.h"
#include "data/base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct claim {
    char            path[PATH_MAX];     // without the number
    int             number, fd;
    pthread_t       thread;
    pthread_mutex_t mutex;
    pthread_cond_t  changed;
    bool            over;
};

/* What this process has seen of others' claims, to know how long they were not touched by
 * its own clock: machines need not agree on the time. */
static struct seen {
    char            path[PATH_MAX + 32];
    struct timespec touched;
    double          since;
    struct seen    *next;
} *all_seen;

void (*claim_lost)(const char *path);

static const char released[] = "released\n";

/* ---- files ---- */

static char *claim_path(char *buf, size_t cap, const char *path, int number)
{
    snprintf(buf, cap, "%s.claim-%d", path, number);
    return buf;
}

/* The number of the newest claim, -1: none. */
static int newest(const char *path)
{
    char        file[PATH_MAX + 32];
    struct stat st;
    int         n = 0;

    while (!stat(claim_path(file, sizeof file, path, n), &st))
        n++;
    return n - 1;
}

/* Which machine this is, since when: a reboot makes it another. */
static void machine(char *buf, size_t cap)
{
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

    if (!f || !fgets(buf, (int)cap, f))
        snprintf(buf, cap, "unknown\n");
    if (f)
        fclose(f);
}

/* ---- is another dead? ---- */

static struct seen *seen_at(const char *file)
{
    struct seen *s = all_seen;

    while (s && strcmp(s->path, file))
        s = s->next;
    if (s || !(s = calloc(1, sizeof *s)))
        return s;
    snprintf(s->path, sizeof s->path, "%s", file);
    s->next = all_seen;
    all_seen = s;
    return s;
}

static bool untouched(const char *file)
{
    struct seen *s = seen_at(file);
    struct stat  st;

    if (!s || stat(file, &st))
        return false;
    if (s->since == 0 || memcmp(&s->touched, &st.st_mtim, sizeof s->touched)) {
        s->touched = st.st_mtim;
        s->since = wall_seconds();
    }
    return wall_seconds() - s->since > CLAIM_STALE;
}

/* An owner that releases unlinks its file before it lets go of the lock: what was opened
 * just before is nobody's claim any more. */
static bool still_there(int fd, const char *file)
{
    struct stat opened, named;

    return !fstat(fd, &opened) && !stat(file, &named) &&
           opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

/* On its own machine, an owner that lives holds its file with flock. */
static bool is_dead(int fd, const char *file)
{
    char here[64], there[64] = "";

    machine(here, sizeof here);
    if (pread(fd, there, sizeof there - 1, 0) <= 0 ||
        (strcmp(there, released) &&
         (strcmp(here, there) || !strncmp(here, "unknown", 7))))
        return untouched(file);
    return !flock(fd, LOCK_EX | LOCK_NB) && still_there(fd, file);
}

/* The file of an owner that is dead, held so that one process alone takes over; -1: the
 * owner lives. */
static int open_dead(const char *file)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && !is_dead(fd, file)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* ---- the heart ---- */

/* Another has taken over: nothing more may be written. */
static void end_if_lost(const struct claim *c)
{
    if (newest(c->path) <= c->number)
        return;
    if (claim_lost)
        claim_lost(c->path);
    _exit(FAIL_WRITE);
}

static void *beat(void *user)
{
    struct claim   *c = user;
    struct timespec until;

    pthread_mutex_lock(&c->mutex);
    while (!c->over) {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += CLAIM_BEAT;
        pthread_cond_timedwait(&c->changed, &c->mutex, &until);
        if (!c->over) {
            end_if_lost(c);
            futimens(c->fd, NULL);
        }
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

static bool start(struct claim *c)
{
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    return thread_start(&c->thread, beat, c);
}

/* ---- claiming ---- */

/* Create the claim of this number, locked before anybody can see it; -1 with EEXIST:
 * another was first, or swept it away before it was locked. */
static int create(const char *path, int number)
{
    char file[PATH_MAX + 32], mine[PATH_MAX + 64], name[64];
    int  fd, error = 0;

    claim_path(file, sizeof file, path, number);
    snprintf(mine, sizeof mine, "%s.%ld-%08lx.new", file, (long)getpid(),
             (unsigned long)pthread_self() & 0xffffffff);
    fd = open(mine, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return -1;
    machine(name, sizeof name);
    if (flock(fd, LOCK_EX | LOCK_NB) || write(fd, name, strlen(name)) < 0 ||
        link(mine, file))
        error = errno;
    unlink(mine);
    if (error)
        close(fd);
    errno = error == ENOENT ? EEXIST : error;
    return error ? -1 : fd;
}

enum fail claim_try(const char *path, struct claim **mine, struct why *why)
{
    char          file[PATH_MAX + 32];
    int           last = newest(path), dead = -1, fd, error;
    struct claim *c;

    *mine = NULL;
    if (last >= 0 &&
        (dead = open_dead(claim_path(file, sizeof file, path, last))) < 0)
        return FAIL_NONE;
    fd = create(path, last + 1);
    error = errno;
    if (dead >= 0)
        close(dead);
    if (fd < 0)
        return error == EEXIST ? FAIL_NONE
                               : fail(why, FAIL_WRITE, "%s: cannot claim: %s", path,
                                      strerror(error));
    c = calloc(1, sizeof *c);
    if (c) {
        snprintf(c->path, sizeof c->path, "%s", path);
        c->number = last + 1;
        c->fd = fd;
    }
    if (!c || !start(c)) {
        free(c);
        close(fd);
        return fail(why, FAIL_MEMORY, "%s: out of memory to claim it", path);
    }
    *mine = c;
    return FAIL_NONE;
}

enum fail claim_wait(const char *path, struct claim **mine, struct why *why)
{
    enum fail err = claim_try(path, mine, why);

    while (!err && !*mine && !interrupted) {
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        err = claim_try(path, mine, why);
    }
    return err || *mine ? err : FAIL_INTERRUPTED;
}

/* Stop the heart; the claim is still held. */
static void stop(struct claim *c)
{
    pthread_mutex_lock(&c->mutex);
    c->over = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    pthread_join(c->thread, NULL);
    end_if_lost(c);
}

static void drop(struct claim *c)
{
    close(c->fd);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}

/* A claim that took over stays as a file: without it those before would count again. */
void claim_release(struct claim *c)
{
    char file[PATH_MAX + 32];

    if (!c)
        return;
    stop(c);
    if (c->number == 0)
        unlink(claim_path(file, sizeof file, c->path, 0));
    else if (ftruncate(c->fd, 0) || pwrite(c->fd, released, strlen(released), 0) < 0)
        futimens(c->fd, (struct timespec[2]){{0}, {0}});
    drop(c);
}

void claim_finish(struct claim *c)
{
    char file[PATH_MAX + 32];

    if (!c)
        return;
    stop(c);
    for (int i = c->number; i >= 0; i--)
        unlink(claim_path(file, sizeof file, c->path, i));
    drop(c);
}

/* ---- what the dead leave ---- */

/* A claim that was not yet one when its owner died. */
static void sweep_new(const char *file)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);

    if (fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB))
        unlink(file);
    if (fd >= 0)
        close(fd);
}

void claim_sweep(const char *dir)
{
    char           path[PATH_MAX];
    DIR           *d = opendir(dir);
    struct claim  *dead;
    struct dirent *e;
    struct why     why;

    while (d && (e = readdir(d))) {
        char  *dot = strstr(e->d_name, ".claim-");
        size_t n = strlen(e->d_name);

        if (!dot || snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= PATH_MAX)
            continue;
        if (n > 4 && !strcmp(e->d_name + n - 4, ".new")) {
            sweep_new(path);
            continue;
        }
        path[strlen(path) - n + (size_t)(dot - e->d_name)] = '\0';
        if (newest(path) >= 0 && !claim_try(path, &dead, &why))
            claim_finish(dead);
    }
    if (d)
        closedir(d);
}
