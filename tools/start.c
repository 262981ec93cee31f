/* Where the program begins: the best level of it that this CPU can run, or the one that
 * WEFT_CPU names. This file alone is compiled for any x86-64, so that it can say what is
 * missing where another would die. */
#include "tools/level.h"

#include "data/base/fail.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* The Makefile's list, best last: X(v2) X(v3) ... in MODE=portable, else X(). */
#define DECLARE(name) extern const struct level weft_level##name;
LEVELS(DECLARE)

static const struct level *const levels[] = {
#define ADDRESS(name) &weft_level##name,
    LEVELS(ADDRESS)
};
enum { N_LEVELS = sizeof levels / sizeof *levels };

#ifdef __x86_64__
/* AMX, of which edx of cpuid's seventh leaf tells; Linux lends its tiles to who asks. */
static bool has_tiles(int bit)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> bit & 1 &&
           !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA);
}

static bool cpu_has(const char *name)
{
#define TRY(it)                                                                         \
    if (!strcmp(name, it))                                                              \
        return __builtin_cpu_supports(it);
    TRY("sse3") TRY("ssse3") TRY("sse4.1") TRY("sse4.2") TRY("popcnt") TRY("avx")
    TRY("avx2") TRY("fma") TRY("bmi") TRY("bmi2") TRY("avx512f") TRY("avx512bw")
    TRY("avx512cd") TRY("avx512dq") TRY("avx512vl") TRY("avx512vbmi") TRY("avx512vbmi2")
    TRY("avx512vnni") TRY("avx512bitalg") TRY("avx512vpopcntdq") TRY("gfni")
    TRY("avx512bf16")
#undef TRY
    return (!strcmp(name, "amx-bf16") && has_tiles(22)) ||
           (!strcmp(name, "amx-tile") && has_tiles(24)) ||
           (!strcmp(name, "amx-int8") && has_tiles(25));
}
#else
static bool cpu_has(const char *name)
{
    (void)name;
    return true;
}
#endif

/* The first thing this CPU lacks for a level, or NULL. */
static const char *lacks(const struct level *l)
{
    for (const char *const *it = l->needs; *it; it++)
        if (!cpu_has(*it))
            return *it;
    return NULL;
}

static int refuse_name(const char *name)
{
    fprintf(stderr, "weft: WEFT_CPU=%s: this program has", name);
    for (int i = 0; i < N_LEVELS; i++)
        fprintf(stderr, "%s %s", i ? "," : "", levels[i]->name);
    fputs(N_LEVELS > 1 ? "\n" : "; make MODE=portable builds every level\n", stderr);
    return FAIL_USAGE;
}

static int run_forced(const char *name, int argc, char **argv)
{
    for (int i = 0; i < N_LEVELS; i++)
        if (!strcmp(name, levels[i]->name)) {
            const char *missing = lacks(levels[i]);

            if (!missing)
                return levels[i]->main(argc, argv);
            fprintf(stderr, "weft: WEFT_CPU=%s: this CPU has no %s\n", name, missing);
            return FAIL_USAGE;
        }
    return refuse_name(name);
}

int main(int argc, char **argv)
{
    const char *forced = getenv("WEFT_CPU");

    if (forced && *forced)
        return run_forced(forced, argc, argv);
    for (int i = N_LEVELS - 1; i >= 0; i--)
        if (!lacks(levels[i]))
            return levels[i]->main(argc, argv);
    fprintf(stderr, "weft: this CPU has no %s, which this program was built for; build "
                    "it here, or with make MODE=portable\n", lacks(levels[0]));
    return FAIL_INPUT;
}
