#include "tools/jobs.h"

#include "data/base/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Is word --name or --name=...? *alone: its value is the next word. */
static bool is_flag(const char *word, const char *name, bool *alone)
{
    size_t n = strlen(name);

    if (strncmp(word, "--", 2) || strncmp(word + 2, name, n))
        return false;
    *alone = word[2 + n] == 0;
    return *alone || word[2 + n] == '=';
}

/* The command line of a worker: NULL-terminated, malloc'ed; words are the caller's. */
static char **worker_words(int argc, char **argv, const char *dir)
{
    char **words = calloc((size_t)argc + 5, sizeof *words);
    int    n = 0;
    bool   alone;

    if (!words)
        return NULL;
    words[n++] = (char *)"weft";
    words[n++] = argv[0];
    words[n++] = (char *)"--join";              // before a --, which ends the flags
    words[n++] = (char *)dir;
    words[n++] = (char *)"--worker";
    for (int i = 1; i < argc; i++) {
        if (is_flag(argv[i], "jobs", &alone) || is_flag(argv[i], "out", &alone) ||
            is_flag(argv[i], "join", &alone))
            i += alone;
        else
            words[n++] = argv[i];
    }
    return words;
}

/* In the child: become a worker, alone on whichever core is free; end with the parent. */
static void become_worker(char **words, bool heard)
{
    char    self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    int     null = open("/dev/null", O_RDWR);

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    if (!heard)
        dup2(null, STDERR_FILENO);
    setenv("OMP_NUM_THREADS", "1", 1);
    unsetenv("OMP_PROC_BIND");
    unsetenv("OMP_PLACES");
    if (len > 0) {
        self[len] = 0;
        execv(self, words);
    }
    _exit(FAIL_MEMORY);
}

/* How many of the n still run; those that ended become 0. */
static int count_running(pid_t *pid, int n)
{
    int running = 0;

    for (int i = 0; i < n; i++) {
        if (pid[i] > 0 && waitpid(pid[i], NULL, WNOHANG) == pid[i])
            pid[i] = 0;
        running += pid[i] > 0;
    }
    return running;
}

static void wait_all(pid_t *pid, int n)
{
    bool told = false;

    while (count_running(pid, n)) {
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        for (int i = 0; interrupted && !told && i < n; i++)
            if (pid[i] > 0)
                kill(pid[i], SIGTERM);
        told = interrupted;
    }
}

enum fail jobs_run(int n, int argc, char **argv, const char *dir, struct why *why)
{
    char **words = worker_words(argc, argv, dir);
    pid_t *pid = calloc((size_t)n, sizeof *pid);
    int    started = 0;

    for (int i = 0; words && pid && i < n; i++) {
        pid[i] = fork();
        if (pid[i] == 0)
            become_worker(words, i == 0);
        started += pid[i] > 0;
    }
    if (started)
        wait_all(pid, n);
    free(words);
    free(pid);
    if (!started)
        return fail(why, FAIL_MEMORY, "out of memory to start %d workers", n);
    return interrupted ? FAIL_INTERRUPTED : FAIL_NONE;
}
