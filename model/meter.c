#include "model/meter.h"

#include <string.h>
#include <time.h>

static _Thread_local struct {
    enum meter part;
    double     since, seconds[METER_PARTS];
} watch;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

_Thread_local bool meter_runs;

enum meter meter_go(enum meter to)
{
    enum meter was = watch.part;
    double     t = now();

    watch.seconds[was] += t - watch.since;
    watch.since = t;
    watch.part = to;
    return was;
}

void meter_start(void)
{
    memset(&watch, 0, sizeof watch);
    watch.since = now();
    meter_runs = true;
}

double meter_seconds(enum meter part)
{
    meter_switch(watch.part);
    return watch.seconds[part];
}

void meter_stop(void)
{
    meter_runs = false;
}
