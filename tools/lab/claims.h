/* Claims before they are measured: their hashes stand in tools/lab/claims.txt, a line
 * "HASH EXPERIMENT.CLAIM" each, committed before the first reported run. A record names
 * the claims of the program that made it, so that one changed afterwards shows. */
#ifndef WEFT_LAB_CLAIMS_H
#define WEFT_LAB_CLAIMS_H

#include "tools/lab/lab.h"

enum { CLAIM_LINE = 128 };

/* Its line; the result is line. The hash is over every field of the claim and over the
 * experiment's numbers of seeds. */
const char *claim_line(const struct experiment *e, const struct lab_claim *c,
                       char line[CLAIM_LINE]);

/* All of them, a line each. */
void claims_print(FILE *f);

/* Every claim named by a record in dir, or in a directory of it, stands in the file, and
 * no record is without: how many records and claims there were. FAIL_INPUT says which is
 * not. */
struct checked {
    int records, claims;
};
enum fail claims_check(const char *dir, const char *file, struct checked *out,
                       struct why *why);

#endif
