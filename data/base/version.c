#include "data/base/version.h"

#include "data/base/version.inc"        // NUMBER, COMMIT, OF_COMMIT, FLAGS

#ifdef __clang__
#define COMPILER __VERSION__            // begins with its name
#else
#define COMPILER "gcc " __VERSION__
#endif

#if defined __AVX512F__ && defined __AVX512BW__ && defined __AVX512CD__ && \
    defined __AVX512DQ__ && defined __AVX512VL__
#if defined __AVX512BF16__ && defined __AMX_BF16__
#define LEVEL "v4-amx"
#elif defined __AVX512BF16__
#define LEVEL "v4-bf16"
#else
#define LEVEL "v4"
#endif
#elif defined __AVX2__ && defined __FMA__ && defined __BMI2__
#define LEVEL "v3"
#elif defined __SSE4_2__ && defined __POPCNT__
#define LEVEL "v2"
#elif defined __x86_64__
#define LEVEL "v1"
#else
#define LEVEL "other"
#endif

const char version_number[] = NUMBER;
const char version_commit[] = COMMIT;
const char version_compiler[] = COMPILER;
const char version_flags[] = FLAGS;
const char version_level[] = LEVEL;
const char version_line[] = "weft " NUMBER OF_COMMIT ", " LEVEL ", " COMPILER " " FLAGS;
