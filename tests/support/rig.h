/* What the suites share.
 *
 * Check writes a record for each assertion it passes, so loops over many elements test
 * with an if and call ck_abort_msg. */
#ifndef WEFT_RIG_H
#define WEFT_RIG_H

#include "data/base/rng.h"
#include "model/kernels/real.h"

#include <check.h>
#include <stddef.h>

#undef fail             // Check's old macro; data/base/fail.h has a function of this name

/* Run one suite in this process (CK_NOFORK: libgomp does not survive a fork) or, with
 * forked = 1, each test in its own. Returns main's exit code. */
int rig_run(Suite *s, int forked);

/* max|a - b| / max|b|; infinite when either holds a NaN. */
double rig_error(const real *a, const double *b, size_t n);
double rig_error_real(const real *a, const real *b, size_t n);

/* Fail the running test unless the error is within rig_tolerance(). */
void rig_assert_error(const char *what, const real *a, const double *b, size_t n);

void rig_poison(void *p, size_t bytes);                     // fill with NaN
real *rig_reals(size_t n);                                  // poisoned; the caller frees
void rig_normal(struct rng *r, real *x, size_t n);          // N(0, 1)

/* One stream of draws for a suite that wants no more. */
extern struct rng rig_stream;
void    rig_seed(uint64_t seed);
real   *rig_normals(size_t n);                              // the caller frees
double *rig_zeros(size_t n);

/* A new empty directory below $TMPDIR, removed when the program ends. */
const char *rig_tmp(void);

/* How many entries a directory has. */
int rig_entries(const char *dir);

/* How many files are open: what a call leaves open shows. */
int rig_open_files(void);

/* Golden tolerance of this build: 1e-9 in double, 1e-4 in float. */
double rig_tolerance(void);

#endif
