#include "tests/support/rig.h"

#include <dirent.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Directories handed out by rig_tmp lie in one root. The process that made the root
 * removes it, so that a forked test which crashes leaves nothing behind. */
struct dir {
    struct dir *next;
    char        path[256];
};

static struct dir *dirs;
static char        root[128];
static pid_t       owner;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void cleanup(void)
{
    while (dirs) {
        struct dir *d = dirs;

        dirs = d->next;
        free(d);
    }
    if (getpid() == owner)
        nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_root(void)
{
    const char *base = getenv("TMPDIR");

    snprintf(root, sizeof root, "%s/weft-test-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(root)) {
        perror(root);
        exit(1);
    }
    owner = getpid();
    atexit(cleanup);
}

int rig_entries(const char *dir)
{
    DIR *d = opendir(dir);
    int  n = -2;                // without . and ..

    ck_assert_msg(d != NULL, "%s: cannot be listed", dir);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

int rig_open_files(void)
{
    const char *all = "/proc/self/fd";

    return access(all, F_OK) ? 0 : rig_entries(all);    // no such place: nothing shows
}

const char *rig_tmp(void)
{
    struct dir *d = malloc(sizeof *d);

    if (!owner)
        make_root();
    snprintf(d->path, sizeof d->path, "%s/XXXXXX", root);
    ck_assert_msg(mkdtemp(d->path) != NULL, "%s: cannot create", d->path);
    d->next = dirs;
    dirs = d;
    return d->path;
}

int rig_run(Suite *s, int forked)
{
    SRunner *r = srunner_create(s);
    int      failed;

    make_root();
    srunner_set_fork_status(r, forked ? CK_FORK_GETENV : CK_NOFORK);
    srunner_run_all(r, CK_ENV);
    failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

/* The running maxima of |a - b| and |b|; a NaN on either side makes diff infinite. */
struct measure {
    double diff, size;
};

static void measure_add(struct measure *m, double a, double b)
{
    double d = fabs(a - b);

    m->diff = isnan(d) ? INFINITY : fmax(m->diff, d);
    m->size = fmax(m->size, fabs(b));
}

static double measure_error(const struct measure *m)
{
    if (m->diff == 0 || isinf(m->diff))
        return m->diff;
    return m->diff / m->size;
}

double rig_error(const real *a, const double *b, size_t n)
{
    struct measure m = {0, 0};

    for (size_t i = 0; i < n; i++)
        measure_add(&m, a[i], b[i]);
    return measure_error(&m);
}

double rig_error_real(const real *a, const real *b, size_t n)
{
    struct measure m = {0, 0};

    for (size_t i = 0; i < n; i++)
        measure_add(&m, a[i], b[i]);
    return measure_error(&m);
}

void rig_assert_error(const char *what, const real *a, const double *b, size_t n)
{
    double error = rig_error(a, b, n);

    ck_assert_msg(error <= rig_tolerance(), "%s: error %.3g, limit %.1g", what, error,
                  rig_tolerance());
}

void rig_poison(void *p, size_t bytes)
{
    memset(p, 0xff, bytes);         // a NaN for float and double alike
}

real *rig_reals(size_t n)
{
    real *a = malloc(n * sizeof *a);

    rig_poison(a, n * sizeof *a);
    return a;
}

void rig_normal(struct rng *r, real *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (real)rng_normal(r);
}

struct rng rig_stream;

void rig_seed(uint64_t seed) { rig_stream = rng_open(seed, RNG_TEST, 1); }

real *rig_normals(size_t n)
{
    real *a = malloc(n * sizeof *a);

    rig_normal(&rig_stream, a, n);
    return a;
}

double *rig_zeros(size_t n) { return calloc(n, sizeof(double)); }

double rig_tolerance(void)
{
    return sizeof(real) == sizeof(double) ? 1e-9 : 1e-4;
}
