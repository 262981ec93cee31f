#include "data/base/version.h"

#include "data/base/version.inc"        // NUMBER, COMMIT, OF_COMMIT, FLAGS

#ifdef __clang__
#define COMPILER __VERSION__            // begins with its name
#else
#define COMPILER "gcc " __VERSION__
#endif

const char version_number[] = NUMBER;
const char version_commit[] = COMMIT;
const char version_compiler[] = COMPILER;
const char version_flags[] = FLAGS;
const char version_line[] = "weft " NUMBER OF_COMMIT ", " COMPILER " " FLAGS;
