#include "data/spool.h"

#include "data/base/clock.h"
#include "data/base/file.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_UP = 200 };     // milliseconds

/* The next bytes of stdin: how many, 0 at its end, or -1 with errno; EINTR once *stop is
 * set. It looks up at times: a signal that comes just before poll does not wake it, nor
 * does one that another thread takes. */
static ssize_t next_bytes(char *buf, size_t cap, const volatile int *stop)
{
    struct pollfd in = {STDIN_FILENO, POLLIN, 0};
    int           ready = 0;

    while (ready == 0 || (ready < 0 && errno == EINTR)) {
        if (stop && *stop) {
            errno = EINTR;
            return -1;
        }
        ready = poll(&in, 1, LOOK_UP);
    }
    return ready < 0 ? -1 : read(STDIN_FILENO, buf, cap);
}

static enum fail copy(FILE *f, const char *path, const volatile int *stop,
                      struct why *why)
{
    char     buf[1 << 16];
    uint64_t all = 0;
    ssize_t  n;

    while ((n = next_bytes(buf, sizeof buf, stop))) {
        if (stop && *stop)
            return FAIL_INTERRUPTED;
        if (n < 0 && errno != EINTR)
            return fail(why, FAIL_INPUT, "stdin: %s", strerror(errno));
        if (n > 0 && fwrite(buf, 1, (size_t)n, f) != (size_t)n)
            return fail_write(why, path);
        all += n > 0 ? (uint64_t)n : 0;
    }
    return all ? 0 : fail(why, FAIL_INPUT, "stdin: no text in it");
}

enum fail spool_stdin(const char *path, const volatile int *stop, struct why *why)
{
    FILE *f = fopen(path, "wbe");
    enum fail err;

    if (!f)
        return fail_write(why, path);
    err = copy(f, path, stop, why);
    if (fclose(f) && !err)
        err = fail_write(why, path);
    return err;
}
