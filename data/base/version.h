/* What this program was built from and how: it stands in everything that it writes.
 *
 * The texts hold neither quotes nor backslashes, so that they may stand in JSON as they
 * are. */
#ifndef WEFT_VERSION_H
#define WEFT_VERSION_H

extern const char version_number[];     // "0.2.0"
extern const char version_commit[];     // "b238261", "b238261-dirty"; "" outside git
extern const char version_compiler[];   // "gcc 12.2.0"
extern const char version_flags[];      // "-std=c11 -g -O3 -march=native ..."
extern const char version_level[];      // v1 v2 v3 v4 v4-bf16 v4-amx of x86-64, "other"
extern const char version_line[];       // "weft 0.2.0 (b238261), v4, gcc 12.2.0 -std..."

#endif
