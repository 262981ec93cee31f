#include "train/ranks.h"

#include "data/base/version.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* The number that a launcher left for the process: Open MPI's, MPICH's, or -1. */
static long from_launcher(const char *openmpi, const char *mpich)
{
    const char *value = getenv(openmpi);

    if (!value)
        value = getenv(mpich);
    return value ? atol(value) : -1;
}

/* Only rank 0 is heard. */
static void silence(void)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

enum fail ranks_check(int accumulate, struct why *why)
{
    int n = ranks_n();

    if ((n & (n - 1)) == 0 && accumulate % n == 0)
        return FAIL_NONE;
    return fail(why, FAIL_USAGE,
                "%d ranks cannot share the accumulate=%d passes of a step; give a number "
                "of ranks that is a power of two and divides accumulate",
                n, accumulate);
}

/* The share of a rank: its number with its bits in reverse order, since the lowest bit
 * decides which half it keeps first. */
int ranks_share_of(int rank)
{
    int share = 0;

    for (int bit = 1; bit < ranks_n(); bit *= 2)
        share = 2 * share + !!(rank & bit);
    return share;
}

#ifndef WEFT_MPI

enum fail ranks_open(struct why *why)
{
    if (from_launcher("OMPI_COMM_WORLD_SIZE", "PMI_SIZE") <= 1)
        return FAIL_NONE;
    if (from_launcher("OMPI_COMM_WORLD_RANK", "PMI_RANK") > 0)
        silence();
    return fail(why, FAIL_USAGE,
                "started as one of several ranks, but this weft was built without MPI; "
                "build it with: make MPI=1");
}

int  ranks_n(void) { return 1; }
int  ranks_me(void) { return 0; }
int  ranks_beside(void) { return 1; }
bool ranks_any(bool here) { return here; }
double ranks_sent(void) { return 0; }

enum fail ranks_agree(enum fail err, struct why *why)
{
    (void)why;
    return err;
}

void ranks_share(void *p, size_t bytes) { (void)p, (void)bytes; }
void ranks_sum(real *x, const size_t *cut) { (void)x, (void)cut; }
void ranks_spread(real *x, const size_t *cut) { (void)x, (void)cut; }
void ranks_spread_doubles(double *x, const size_t *cut) { (void)x, (void)cut; }
void ranks_gather(double *x, int each) { (void)x, (void)each; }
void ranks_merge(double *x, size_t n) { (void)x, (void)n; }
void ranks_sum_ready(size_t from) { (void)from; }
void ranks_sum_end(void) { }

bool ranks_overlap(bool on)
{
    (void)on;
    return false;
}

void ranks_sum_begin(real *x, const size_t *cut, int buckets)
{
    (void)x, (void)cut, (void)buckets;
}

void ranks_collect(real *whole, const real *x, const size_t *cut)
{
    (void)whole, (void)x, (void)cut;
}

void ranks_deal(const real *whole, real *x, const size_t *cut)
{
    (void)whole, (void)x, (void)cut;
}

#else

#include "data/base/thread.h"

#include <gnu/libc-version.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    CHUNK = 1 << 18,            // reals in one message of ranks_sum
    MOST = 1 << 28,             // bytes in one message at all
    TRIES = 2000,               // to see the end of a message before sleeping: some 1 ms
};

static struct {
    int    n, me, beside;
    bool   over;                // all know that they end
    bool   threads;             // another thread than the first may call MPI, in turn
    real  *chunk[2];            // (CHUNK)
    int   *count, *at;          // (n) of ranks_spread_doubles
    double sent;
} all = {.n = 1, .beside = 1};

/* The thread that sums buckets while the others go backward. */
static struct {
    bool            started, on, quit;
    atomic_bool     alone;      // nobody else has work for the processor
    pthread_t       thread;
    pthread_mutex_t mutex;
    pthread_cond_t  changed;
    real           *x;
    const size_t   *cut;        // (left, n + 1) of the buckets that are not summed
    int             left;
    size_t          ready;      // x stands from here on
} adder = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void stop_adder(void);

int    ranks_n(void) { return all.n; }
int    ranks_me(void) { return all.me; }
int    ranks_beside(void) { return all.beside; }
double ranks_sent(void) { return all.sent; }

/* ---- agreeing ---- */

/* Wait without holding the processor: what the others wait for may take minutes. */
static void wait_gently(MPI_Request *r, int n, int tries)
{
    int done = 0;

    for (int i = 0; !done; i++) {
        MPI_Testall(n, r, &done, MPI_STATUSES_IGNORE);
        if (!done && i > tries)
            nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

static int largest_of_all(int x)
{
    MPI_Request r;
    int         most;

    MPI_Iallreduce(&x, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &r);
    wait_gently(&r, 1, TRIES);
    return most;
}

/* The first rank that failed tells the others. */
static enum fail tell_failure(enum fail err, struct why *why)
{
    int  first = all.n - 1 - largest_of_all(err ? all.n - 1 - all.me : -1), code = err;
    char line[sizeof why->line];

    all.over = true;
    MPI_Bcast(&code, 1, MPI_INT, first, MPI_COMM_WORLD);
    memcpy(line, why->line, sizeof line);
    MPI_Bcast(line, sizeof line, MPI_CHAR, first, MPI_COMM_WORLD);
    if (first > 0 && code != FAIL_INTERRUPTED)
        return fail(why, (enum fail)code, "rank %d: %.1000s", first, line);
    memcpy(why->line, line, sizeof line);
    return (enum fail)code;
}

enum fail ranks_agree(enum fail err, struct why *why)
{
    if (all.n == 1 || !largest_of_all((int)err))
        return err;
    return tell_failure(err, why);
}

bool ranks_any(bool here)
{
    return all.n == 1 ? here : largest_of_all(here);
}

void ranks_share(void *p, size_t bytes)
{
    for (size_t at = 0; all.n > 1 && at < bytes; at += MOST) {
        size_t n = bytes - at < MOST ? bytes - at : MOST;

        MPI_Bcast((char *)p + at, (int)n, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
}

/* ---- opening ---- */

/* At exit, whoever called it: a failure that the others do not know of they are told. */
static void leave(int status, void *user)
{
    struct why none = {""};

    (void)user;
    stop_adder();
    if (!all.over)
        (void)ranks_agree((enum fail)status, &none);
    MPI_Finalize();
    free(all.chunk[0]);
    free(all.chunk[1]);
    free(all.count);
    free(all.at);
}

/* What decides the bits that this process computes: how it was built, and the functions
 * of the C library, which choose by the processor. */
static void describe(char *line, size_t cap)
{
#ifdef __x86_64__
    bool fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    bool fused = true;
#endif
    snprintf(line, cap, "%s, glibc %s %s", version_line, gnu_get_libc_version(),
             fused ? "fused" : "plain");
}

/* Does every rank compute with the same instructions? */
static enum fail compare_levels(struct why *why)
{
    char      first[16];
    enum fail err = FAIL_NONE;

    snprintf(first, sizeof first, "%s", version_level);
    ranks_share(first, sizeof first);
    if (strcmp(version_level, first))
        err = fail(why, FAIL_INPUT,
                   "it computes at the processor's level %s and rank 0 at %s, whose "
                   "results would differ; build with MODE=portable, and set WEFT_CPU to "
                   "the lower of them",
                   version_level, first);
    return ranks_agree(err, why);
}

/* Is every rank built alike, on alike processors? */
static enum fail compare_builds(struct why *why)
{
    char      mine[1024] = "", first[1024];
    size_t    same = 0;
    enum fail err = FAIL_NONE;

    describe(mine, sizeof mine);
    memcpy(first, mine, sizeof first);
    ranks_share(first, sizeof first);
    while (mine[same] && mine[same] == first[same])
        same++;
    while (same > 0 && mine[same] != ' ')
        same--;
    if (strcmp(mine, first))
        err = fail(why, FAIL_INPUT,
                   "another build or processor than rank 0, whose results would differ: "
                   "'%.120s' here, '%.120s' there",
                   mine + same, first + same);
    return ranks_agree(err, why);
}

/* By itself Open MPI's TCP lets the receiver of a large message ask for its parts (put).
 * Where two ranks exchange, what they ask for waits behind what they send, and a network
 * gives half its rate each way: at 1 Gb/s 0.06 GB/s instead of 0.12. So it is told to
 * send, unless --mca btl_tcp_flags says otherwise. */
enum fail ranks_open(struct why *why)
{
    const char *overlap = getenv("WEFT_OVERLAP");
    int         level;
    MPI_Comm    near;

    if (from_launcher("OMPI_COMM_WORLD_SIZE", "PMI_SIZE") < 1)
        return FAIL_NONE;
    setenv("OMPI_MCA_btl_tcp_flags", "send", 0);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_size(MPI_COMM_WORLD, &all.n);
    MPI_Comm_rank(MPI_COMM_WORLD, &all.me);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
    MPI_Comm_size(near, &all.beside);
    MPI_Comm_free(&near);
    on_exit(leave, NULL);
    if (all.me > 0)
        silence();
    all.threads = level >= MPI_THREAD_SERIALIZED;
    ranks_overlap(!overlap || strcmp(overlap, "0"));
    all.chunk[0] = malloc(CHUNK * sizeof **all.chunk);
    all.chunk[1] = malloc(CHUNK * sizeof **all.chunk);
    all.count = calloc((size_t)all.n, sizeof *all.count);
    all.at = calloc((size_t)all.n, sizeof *all.at);
    if (ranks_any(!all.chunk[0] || !all.chunk[1] || !all.count || !all.at))
        return fail(why, FAIL_MEMORY, "out of memory for messages between ranks");
    enum fail err = compare_levels(why);

    return err ? err : compare_builds(why);
}

/* ---- shares ---- */

/* The shares [*from, *to) that a rank still works on when it has halved with the
 * neighbours at distances below `distance`. */
static void range_at(int rank, int distance, int *from, int *to)
{
    *from = 0, *to = all.n;
    for (int bit = 1; bit < distance; bit *= 2) {
        int middle = (*from + *to) / 2;

        if (rank & bit)
            *from = middle;
        else
            *to = middle;
    }
}

/* Send n reals to a neighbour, and get m of its into `into`. */
static void exchange(const real *out, size_t n, real *into, size_t m, int with)
{
    MPI_Sendrecv(out, (int)(n * sizeof *out), MPI_BYTE, with, 0, into,
                 (int)(m * sizeof *into), MPI_BYTE, with, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    all.sent += (double)(n * sizeof *out);
}

static size_t part_of(size_t n, size_t at, size_t most)
{
    return at >= n ? 0 : n - at < most ? n - at : most;
}

/* Two halves that are exchanged chunk by chunk: `give` (n) for the neighbour's part of
 * `keep` (m). */
struct halves {
    const real *give;
    size_t      n;
    real       *keep;
    size_t      m;
    int         with;
};

/* Chunk i on its way, in both directions. */
static void post(const struct halves *h, size_t i, MPI_Request r[2])
{
    size_t at = i * CHUNK, out = part_of(h->n, at, CHUNK), in = part_of(h->m, at, CHUNK);

    r[0] = r[1] = MPI_REQUEST_NULL;
    if (in)
        MPI_Irecv(all.chunk[i % 2], (int)(in * sizeof(real)), MPI_BYTE, h->with, 0,
                  MPI_COMM_WORLD, &r[0]);
    if (out)
        MPI_Isend(h->give + at, (int)(out * sizeof(real)), MPI_BYTE, h->with, 0,
                  MPI_COMM_WORLD, &r[1]);
    all.sent += (double)(out * sizeof(real));
}

/* A sum of two is the same whichever is on the left. */
static void add(real *restrict x, const real *restrict other, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += other[i];
}

/* Add the neighbour's part to what is kept: a chunk while the next is on its way. */
static void halve(const struct halves *h)
{
    size_t      most = h->n > h->m ? h->n : h->m, chunks = (most + CHUNK - 1) / CHUNK;
    MPI_Request r[2][2];

    if (chunks)
        post(h, 0, r[0]);
    for (size_t i = 0; i < chunks; i++) {
        if (i + 1 < chunks)
            post(h, i + 1, r[(i + 1) % 2]);
        wait_gently(r[i % 2], 2, adder.alone ? TRIES : 0);
        add(h->keep + i * CHUNK, all.chunk[i % 2], part_of(h->m, i * CHUNK, CHUNK));
    }
}

static void sum(real *x, const size_t *cut)
{
    for (int d = 1; d < all.n; d *= 2) {
        int from, to, keep, end, with = all.me ^ d, other, others_end;

        range_at(all.me, d, &from, &to);
        range_at(all.me, 2 * d, &keep, &end);
        other = keep == from ? end : from;
        others_end = keep == from ? to : keep;
        halve(&(struct halves){x + cut[other], cut[others_end] - cut[other],
                               x + cut[keep], cut[end] - cut[keep], with});
    }
}

void ranks_sum(real *x, const size_t *cut)
{
    adder.alone = true;
    sum(x, cut);
}

/* ---- sums beside the backward pass ---- */

/* Sum the buckets that stand. With adder.mutex held. */
static void sum_ready(void)
{
    while (adder.left > 0) {
        const size_t *cut = adder.cut + (adder.left - 1) * (all.n + 1);

        if (cut[0] < adder.ready)
            return;
        pthread_mutex_unlock(&adder.mutex);
        sum(adder.x, cut);
        pthread_mutex_lock(&adder.mutex);
        adder.left--;
    }
}

static void *work(void *user)
{
    pthread_mutex_lock(&adder.mutex);
    while (!adder.quit) {
        if (adder.on)
            sum_ready();
        pthread_cond_broadcast(&adder.changed);
        pthread_cond_wait(&adder.changed, &adder.mutex);
    }
    pthread_mutex_unlock(&adder.mutex);
    return user;
}

bool ranks_overlap(bool on)
{
    if (on && all.threads && all.n > 1 && !adder.started)
        adder.started = thread_start(&adder.thread, work, NULL);
    adder.on = on && adder.started;
    return adder.started;
}

void ranks_sum_begin(real *x, const size_t *cut, int buckets)
{
    if (all.n == 1)
        return;
    pthread_mutex_lock(&adder.mutex);
    adder.x = x;
    adder.cut = cut;
    adder.left = buckets;
    adder.ready = SIZE_MAX;
    adder.alone = false;
    pthread_mutex_unlock(&adder.mutex);
}

void ranks_sum_ready(size_t from)
{
    if (all.n == 1 || !adder.on)
        return;
    pthread_mutex_lock(&adder.mutex);
    adder.ready = from;
    pthread_cond_broadcast(&adder.changed);
    pthread_mutex_unlock(&adder.mutex);
}

void ranks_sum_end(void)
{
    if (all.n == 1)
        return;
    pthread_mutex_lock(&adder.mutex);
    adder.ready = 0;
    adder.alone = true;
    if (!adder.on)
        sum_ready();
    pthread_cond_broadcast(&adder.changed);
    while (adder.left > 0)
        pthread_cond_wait(&adder.changed, &adder.mutex);
    pthread_mutex_unlock(&adder.mutex);
}

static void stop_adder(void)
{
    if (!adder.started)
        return;
    pthread_mutex_lock(&adder.mutex);
    adder.quit = true;
    pthread_cond_broadcast(&adder.changed);
    pthread_mutex_unlock(&adder.mutex);
    pthread_join(adder.thread, NULL);
}

void ranks_spread(real *x, const size_t *cut)
{
    const size_t most = MOST / sizeof *x;

    for (int d = all.n / 2; d >= 1; d /= 2) {
        int    from, to, other, others_end, with = all.me ^ d;
        size_t n, m;

        range_at(all.me, 2 * d, &from, &to);
        range_at(with, 2 * d, &other, &others_end);
        n = cut[to] - cut[from];
        m = cut[others_end] - cut[other];
        for (size_t at = 0; at < n || at < m; at += most)
            exchange(x + cut[from] + at, part_of(n, at, most), x + cut[other] + at,
                     part_of(m, at, most), with);
    }
}

void ranks_merge(double *x, size_t n)
{
    if (all.n > 1)
        MPI_Allreduce(MPI_IN_PLACE, x, (int)n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

void ranks_gather(double *x, int each)
{
    if (all.n > 1)
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x, each, MPI_DOUBLE,
                      MPI_COMM_WORLD);
}

void ranks_spread_doubles(double *x, const size_t *cut)
{
    if (all.n == 1)
        return;
    for (int r = 0; r < all.n; r++) {
        int share = ranks_share_of(r);

        all.at[r] = (int)cut[share];
        all.count[r] = (int)(cut[share + 1] - cut[share]);
    }
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, x, all.count, all.at, MPI_DOUBLE,
                   MPI_COMM_WORLD);
}

/* One rank's share between rank 0 and it. */
static void carry(real *p, size_t n, int from, int to)
{
    for (size_t at = 0; at < n; at += MOST / sizeof *p) {
        int bytes = (int)(part_of(n, at, MOST / sizeof *p) * sizeof *p);

        if (all.me == from)
            MPI_Send(p + at, bytes, MPI_BYTE, to, 1, MPI_COMM_WORLD);
        else if (all.me == to)
            MPI_Recv(p + at, bytes, MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

void ranks_collect(real *whole, const real *x, const size_t *cut)
{
    for (int r = 0; r < all.n; r++) {
        int    share = ranks_share_of(r);
        size_t at = cut[share], n = cut[share + 1] - at;

        if (r > 0)
            carry(all.me ? (real *)x + at : whole + at, n, r, 0);
        else if (all.me == 0)
            memcpy(whole + at, x + at, n * sizeof *x);
    }
}

void ranks_deal(const real *whole, real *x, const size_t *cut)
{
    for (int r = 0; r < all.n; r++) {
        int    share = ranks_share_of(r);
        size_t at = cut[share], n = cut[share + 1] - at;

        if (r > 0)
            carry(all.me ? x + at : (real *)whole + at, n, 0, r);
        else if (all.me == 0)
            memcpy(x + at, whole + at, n * sizeof *x);
    }
}

#endif
