#include "data/base/clock.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

double wall_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

size_t memory_held(void)
{
    char text[128] = "";
    long size, pages = 0;
    int  fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        if (read(fd, text, sizeof text - 1) < 0 ||
            sscanf(text, "%ld %ld", &size, &pages) != 2)
            pages = 0;
        close(fd);
    }
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

volatile int interrupted;

static void on_signal(int sig)
{
    (void)sig;
    interrupted = 1;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);       // SIGHUP stays: a closed terminal may send two
}

void catch_interrupts(void)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, old;

    interrupted = 0;
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    if (!sigaction(SIGHUP, NULL, &old) && old.sa_handler != SIG_IGN)    // nohup
        sigaction(SIGHUP, &act, NULL);
}
