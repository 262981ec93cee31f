/* OpenMP's threads: how many, and each on a core of its own.
 *
 * The number is --threads N (or threads=N), else OMP_NUM_THREADS, else one per core
 * that the process may use. libgomp reads OMP_PROC_BIND only when it is loaded, so
 * weft sets it and executes itself again. It binds only when it has all the cores: two
 * programs with one thread each would otherwise share core 0. Whoever sets OMP_PROC_BIND
 * is left alone. Ranks of MPI on one machine share its cores out, unless their launcher
 * gave each its own, and none of them binds.
 */
#include "data/base/fail.h"
#include "tools/verbs.h"

#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BOUND "WEFT_BOUND"              // set across the re-execution

/* Rounds an idle thread spins before it sleeps: some 0.2 ms, a few times what waking it
 * costs. With libgomp's own 300000 a small model trains several times slower when other
 * programs share the cores, because they wait for threads that only spin. */
#define SPIN "4000"

/* The number after --threads, --threads= or threads=; 0 when there is none. Values that
 * make no sense are left for the verb to refuse. */
static int threads_asked(int argc, char **argv)
{
    long n = 0;

    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        const char *word = argv[i], *value = NULL;
        char       *end;

        if (!strcmp(word, "--threads") && i + 1 < argc)
            value = argv[++i];
        else if (!strncmp(word += strncmp(word, "--", 2) ? 0 : 2, "threads=", 8))
            value = word + 8;
        if (value) {
            n = strtol(value, &end, 10);
            if (*end || n < 1 || n > 1024)
                n = 0;
        }
    }
    return (int)n;
}

/* The first of the hardware threads that share this one's core. */
static int first_sibling(int cpu)
{
    char  path[96];
    int   first = cpu;
    FILE *f;

    snprintf(path, sizeof path,
             "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    f = fopen(path, "re");
    if (f) {
        if (fscanf(f, "%d", &first) != 1)
            first = cpu;
        fclose(f);
    }
    return first;
}

/* Cores this process may use, and hardware threads. */
static int count_cores(int *cpus)
{
    cpu_set_t mask;
    int       cores = 0;

    *cpus = omp_get_num_procs();
    if (sched_getaffinity(0, sizeof mask, &mask))
        return *cpus;
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &mask)) {
            int first = first_sibling(i);

            cores += first == i || first < 0 || first >= CPU_SETSIZE ||
                     !CPU_ISSET(first, &mask);
        }
    return cores;
}

/* Processors' worth of time that the container grants, rounded up; a large number:
 * no limit. */
static int cpu_quota(void)
{
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    long  quota = 0, period = 0;

    if (f) {
        if (fscanf(f, "%ld %ld", &quota, &period) != 2)
            quota = 0;
        fclose(f);
    }
    return quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : CPU_SETSIZE;
}

/* Ranks that a launcher of MPI, Open MPI's or MPICH's, started on this machine. */
static int ranks_here(void)
{
    const char *n = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");

    if (!n)
        n = getenv("MPI_LOCALNRANKS");
    return n && atoi(n) > 1 ? atoi(n) : 1;
}

/* Let this thread run anywhere again: the threads and processes that it
 * starts (the loader, the tokenizer's trainer) inherit its cores. OpenMP's other
 * threads stay bound. */
static void loosen_first(void)
{
    cpu_set_t all;

    CPU_ZERO(&all);
    for (int p = 0; p < omp_get_num_places(); p++) {
        int n = omp_get_place_num_procs(p), *ids = calloc((size_t)n + 1, sizeof *ids);

        if (ids)
            omp_get_place_proc_ids(p, ids);
        for (int i = 0; ids && i < n; i++)
            if (ids[i] < CPU_SETSIZE)
                CPU_SET(ids[i], &all);
        free(ids);
    }
    if (CPU_COUNT(&all))
        sched_setaffinity(0, sizeof all, &all);
}

/* Execute this program again with its threads bound; returns when that cannot be done. */
static void execute_bound(int n, char **argv)
{
    char    self[4096], number[16];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);

    if (len < 0)
        return;
    self[len] = '\0';
    snprintf(number, sizeof number, "%d", n);
    setenv("OMP_NUM_THREADS", number, 1);
    setenv("OMP_PLACES", "cores", 0);
    setenv("OMP_PROC_BIND", "close", 1);
    setenv("OMP_DYNAMIC", "false", 1);
    if (!getenv("OMP_WAIT_POLICY"))
        setenv("GOMP_SPINCOUNT", SPIN, 0);
    setenv(BOUND, "1", 1);
    execv(self, argv);
    unsetenv(BOUND);
}

void threads_start(int argc, char **argv)
{
    int n = threads_asked(argc, argv), ranks = ranks_here(), cores, cpus;

    if (n > sysconf(_SC_NPROCESSORS_ONLN) && !getenv(BOUND)) {
        fprintf(stderr, "weft: --threads %d: this machine has %ld core%s; give at most "
                "that, or leave it out\n", n, sysconf(_SC_NPROCESSORS_ONLN),
                sysconf(_SC_NPROCESSORS_ONLN) == 1 ? "" : "s");
        exit(FAIL_USAGE);
    }
    if (getenv(BOUND)) {
        unsetenv(BOUND);
        loosen_first();
        return;
    }
    if (getenv("OMP_PROC_BIND")) {
        if (n)
            omp_set_num_threads(n);
        return;
    }
    cores = count_cores(&cpus);
    if (!n && getenv("OMP_NUM_THREADS"))
        n = omp_get_max_threads();
    if (!n && ranks > 1 && cpus == sysconf(_SC_NPROCESSORS_ONLN))
        n = cores > ranks ? cores / ranks : 1;
    if (!n)
        n = cores < cpu_quota() ? cores : cpu_quota();
    if (n > cpus)
        fprintf(stderr, "weft: %d threads on %d core%s: fewer would be faster\n", n, cpus,
                cpus > 1 ? "s" : "");
    if (n > 1 && n == cores && ranks == 1)
        execute_bound(n, argv);
    omp_set_num_threads(n);
}
