#include "tokenizer/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int child_write(int out, const void *bytes, size_t len)
{
    for (const char *p = bytes; len;) {
        ssize_t n = write(out, p, len);

        if (n < 0 && errno != EINTR)
            return -1;
        if (n > 0)
            p += n, len -= (size_t)n;
    }
    return 0;
}

/* Everything from `in` up to its end, malloc'ed. Reading a pipe fails only for memory:
 * then *bytes is NULL. */
static char *read_all(int in, size_t *len)
{
    size_t cap = 1 << 16;
    char  *bytes = malloc(cap);

    for (*len = 0; bytes;) {
        ssize_t n = read(in, bytes + *len, cap - *len);

        if (n == 0)
            return bytes;
        if (n < 0 && errno != EINTR)
            break;
        if (n > 0 && (*len += (size_t)n) == cap) {
            char *grown = realloc(bytes, cap *= 2);

            if (!grown)
                break;
            bytes = grown;
        }
    }
    free(bytes);
    return NULL;
}

static _Noreturn void be_child(enum fail (*work)(void *, int), void *user, int close_fd,
                               pid_t parent, int out, int words)
{
    int null = open("/dev/null", O_RDWR);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    if (close_fd >= 0)
        close(close_fd);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(words, STDERR_FILENO);
    _exit(work(user, out));
}

/* Why there is no result: the first line in the file, or how the child ended. */
static enum fail judge(int file, int status, struct why *why)
{
    char    head[512];
    ssize_t n = pread(file, head, sizeof head - 1, 0);
    int     sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

    if (sig == SIGINT || sig == SIGTERM)
        return FAIL_INTERRUPTED;
    if (WIFEXITED(status) && WEXITSTATUS(status) == FAIL_MEMORY)
        return fail(why, FAIL_MEMORY, "out of memory");
    head[n > 0 ? n : 0] = 0;
    head[strcspn(head, "\n")] = 0;
    if (strstr(head, "std::bad_alloc"))     // in a thread of the library's
        return fail(why, FAIL_MEMORY, "out of memory");
    if (head[0])
        return fail(why, FAIL_INPUT, "%s", head);
    if (sig)
        return fail(why, FAIL_INPUT, "stopped by signal %d (%s)", sig, strsignal(sig));
    return fail(why, FAIL_INPUT, "ended without a result");
}

static int wait_for(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

/* Wait for the child's result and its end. */
static enum fail collect(pid_t pid, int in, int file, char **bytes, size_t *len,
                         struct why *why)
{
    int status;

    *bytes = read_all(in, len);
    close(in); // a child that still writes must not wait for us
    status = wait_for(pid);
    if (!*bytes)
        return fail(why, FAIL_MEMORY, "out of memory");
    if (status == 0)
        return 0;
    free(*bytes);
    *bytes = NULL;
    return judge(file, status, why);
}

enum fail child_run(enum fail (*work)(void *user, int out), void *user, int close_fd,
                    char **bytes, size_t *len, struct why *why)
{
    int       ends[2] = {-1, -1}, file = memfd_create("stderr", MFD_CLOEXEC);
    pid_t     parent = getpid(), pid = -1;
    enum fail err = 0;

    *bytes = NULL;
    if (file >= 0 && pipe2(ends, O_CLOEXEC) == 0)
        pid = fork();
    if (pid == 0)
        be_child(work, user, close_fd, parent, ends[1], file);
    if (pid < 0)
        err = fail(why, errno == ENOMEM ? FAIL_MEMORY : FAIL_INPUT,
                   "cannot start a process: %s", strerror(errno));
    if (ends[1] >= 0)
        close(ends[1]);
    if (pid > 0)
        err = collect(pid, ends[0], file, bytes, len, why);
    else if (ends[0] >= 0)
        close(ends[0]);
    if (file >= 0)
        close(file);
    return err;
}
