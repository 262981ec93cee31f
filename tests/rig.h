/* What the suites share. */
#ifndef WEFT_RIG_H
#define WEFT_RIG_H

#include "data/rng.h"
#include "model/real.h"

#include <check.h>
#include <stddef.h>

/* Run one suite in this process (CK_NOFORK: libgomp does not survive a fork) or, with forked =
 * 1, each test in its own. Returns main's exit code. */
int rig_run(Suite *s, int forked);

/* max|a - b| / max|b|; infinite when either holds a NaN. */
double rig_error(const real *a, const double *b, size_t n);
double rig_error_real(const real *a, const real *b, size_t n);

void rig_poison(void *p, size_t bytes);                     // fill with NaN
void rig_normal(struct rng *r, real *x, size_t n);          // N(0, 1)

/* A new empty directory below $TMPDIR, removed when the program ends. */
const char *rig_tmp(void);

/* Golden tolerance of this build: 1e-9 in double, 1e-4 in float. */
double rig_tolerance(void);

#endif
