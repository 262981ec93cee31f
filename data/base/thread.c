#include "data/base/thread.h"

#include <signal.h>

bool thread_start(pthread_t *thread, void *(*work)(void *user), void *user)
{
    sigset_t all, old;
    int      failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(thread, NULL, work, user);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return !failed;
}
