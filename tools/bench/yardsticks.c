#include "tools/bench/bench.h"

#include "data/base/clock.h"
#include "model/kernels/arena.h"
#include "model/kernels/vec.h"

#include <stdio.h>

/* The sum of n reals, a multiple of eight vectors; the next are on their way. */
static real read_all(const real *x, size_t n)
{
    enum { AHEAD = 2048 };
    vec sum[8] = {0};

    for (size_t i = 0; i < n; i += 8 * LANES)
        for (int j = 0; j < 8; j++) {
            __builtin_prefetch(x + i + j * LANES + AHEAD);
            sum[j] += *(const loose *)(x + i + j * LANES);
        }
    for (int j = 1; j < 8; j++)
        sum[0] += sum[j];
    return vec_sum(sum[0]);
}

double read_bandwidth(void)
{
    enum { CHUNK = 1 << 16, TRIES = 5 };
    size_t bytes = (size_t)512 << 20, n = bytes / sizeof(real);
    real  *x = pages_alloc(bytes), sink = 0;
    double best = 0;

    if (!x)
        return 0;
    #pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i += 1024)
        x[i] = 1;
    for (int k = 0; k < TRIES; k++) {
        double start = wall_seconds(), rate;

        #pragma omp parallel for schedule(static)
        for (size_t at = 0; at < n; at += CHUNK) {
            real sum = read_all(x + at, CHUNK);

            #pragma omp atomic
            sink += sum;
        }
        rate = (double)bytes / (wall_seconds() - start) / 1e9;
        best = rate > best ? rate : best;
    }
    pages_free(x, bytes);
    return sink < 0 ? 0 : best;         // the sum is used, so the loop cannot be left out
}

void peak_reset(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");

    if (f) {
        fputs("5", f);
        fclose(f);
    }
}

double peak_mib(void)
{
    char   line[128];
    double kib = 0;
    FILE  *f = fopen("/proc/self/status", "r");

    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmHWM: %lf", &kib) == 1)
            break;
    fclose(f);
    return kib / 1024;
}
