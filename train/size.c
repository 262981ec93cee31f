#include "train/size.h"

#include "data/dataset.h"
#include "data/inputs.h"

#include <omp.h>
#include <string.h>
#include <unistd.h>

/* In `seconds` two cores train on about five tokens for each parameter, and `bytes` of
 * text come by some tens of times at most. Of pico and nano the former learns more in
 * minutes (docs/recipe.md, "What a minute buys"). */
static const struct {
    const char *name;
    double      bytes, seconds;
} sizes[] = {
    {"pico", 0, 0},
    {"nano", 0, 10 * 60},
    {"mini", 1e6, 20 * 60},
    {"small", 1e7, 4 * 3600},
    {"base", 2e8, 7 * 86400},
};
enum { N_SIZES = sizeof sizes / sizeof *sizes, ZSTD_RATIO = 3 };

static double dataset_text(const char *dir)
{
    struct dataset d;
    struct why     why;
    double         bytes = 0;

    if (!dataset_open(&d, dir, &why)) {
        bytes = (double)(d.train.bytes + d.val.bytes);
        dataset_close(&d);
    }
    return bytes;
}

double choose_text(const char *const *paths, int n)
{
    struct inputs in;
    struct why    why;
    double        bytes = 0;

    if (n == 1 && dataset_is(paths[0]))
        return dataset_text(paths[0]);
    if (inputs_list(&in, paths, n, &why))
        return 0;
    for (size_t i = 0; i < in.n; i++)
        bytes += (double)in.file[i].size * (in.file[i].zst ? ZSTD_RATIO : 1);
    inputs_free(&in);
    return bytes;
}

const char *choose_size(double bytes, double seconds, int cores)
{
    int i = N_SIZES - 1;

    while (bytes < sizes[i].bytes || seconds * cores < sizes[i].seconds * 2)
        i--;
    return sizes[i].name;
}

/* A head that copies is behind after three minutes of a core on texts that say little
 * again, ahead or level after five (docs/recipe.md, "And a head that copies"). */
const char *choose_arch(const char *size, double seconds, int cores)
{
    static const double enough = 5 * 60;
    bool                tried = !strcmp(size, "pico") || !strcmp(size, "nano");

    return tried && seconds * cores >= enough ? "copying" : NULL;
}

int choose_threads(int asked)
{
    return asked == 0 || asked > sysconf(_SC_NPROCESSORS_ONLN) ? omp_get_max_threads()
                                                               : asked;
}
