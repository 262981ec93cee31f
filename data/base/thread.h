/* A thread beside the main one, which alone takes signals. */
#ifndef WEFT_THREAD_H
#define WEFT_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Run work(user) in a new thread; false when there can be none. */
bool thread_start(pthread_t *thread, void *(*work)(void *user), void *user);

#endif
