/* Matrix products of one thread, on strided rows; for use inside parallel loops.
 *
 *     c (m, n) = alpha a b + beta c
 *
 *     gemm_nt   c_ij = alpha sum_p a_ip b_jp + beta c_ij     a (m, k), b (n, k)
 *     gemm_nn   c_ij = alpha sum_p a_ip b_pj + beta c_ij     a (m, k), b (k, n)
 *     gemm_tn   c_ij = alpha sum_p a_pi b_pj + beta c_ij     a (k, m), b (k, n)
 *
 * Matrices lie in rows; lda, ldb and ldc are the reals from one row to the next. With
 * beta 0 what c held is not read. c overlaps neither a nor b. Any size may be 0: with
 * k = 0, c = beta c. Nothing is allocated (half a megabyte of stack is used), nothing
 * can fail.
 *
 * The order in which a sum is formed depends on k alone, so cutting m or n into parts,
 * for threads or for the cache, never changes a bit of the result.
 */
#ifndef WEFT_GEMM_H
#define WEFT_GEMM_H

#include "data/base/fail.h"
#include "model/kernels/packed.h"
#include "model/kernels/real.h"

#include <stdbool.h>
#include <stddef.h>

typedef void gemm_form(real *c, size_t ldc, const real *a, size_t lda, const real *b,
                       size_t ldb, int m, int n, int k, real alpha, real beta);

extern gemm_form gemm_nt, gemm_nn, gemm_tn;

/* c = a bᵀ with rows of b of bf16 or q8_0; k is a multiple of Q8_BLOCK. With `rounded` a
 * is rounded to bf16, as b is, and multiplied by gemm_pairs. That is faster where
 * gemm_rounds says so: b is of bf16, and the CPU has the instruction and no AMX. */
void gemm_nt_packed(real *c, size_t ldc, const real *a, size_t lda, enum packed type,
                    const unsigned char *b, bool rounded, int m, int n, int k);
bool gemm_rounds(enum packed type);

/* Who makes them: weft, unless gemm_use has chosen another. By OpenBLAS the order of a
 * sum may depend on m and n, so that results are the same for the same number of threads
 * only.
 *
 * A product reads b as panels of columns, which it lays out for itself, unless that was
 * done once for many: lay_nt and lay_nn lay out b, (n, k) or (k, n), in c, that is
 * gemm_whole_panels(n) k reals aligned to 64 bytes, and laid is nt and nn with such a b:
 * the same bits. Columns from j on, a multiple of `panel`, begin at j k. (They are of the
 * type of the others, of which they read b, ldb, n and k only, so that weft bench can
 * write them down, too.) */
struct gemm {
    const char *name;
    gemm_form  *nt, *nn, *tn;
    int         copy;                   // multiply-adds in the time of copying an element
    int         depth;                  // tn adds to c the sums over this much of k, each
                                        // formed apart; 0: they are not apart
    bool        foreign;                // not weft's
    gemm_form  *lay_nt, *lay_nn, *laid;
    int         panel;                  // columns; 0: it has none of these three
};
extern const struct gemm gemm_own;

/* Columns that are laid out for n of them. */
static inline size_t gemm_whole_panels(int n) { return ((size_t)n + 63) / 64 * 64; }

/* weft's, with the elements of a and b rounded to bf16 as they are copied: the bits that
 * gemm_own gives for such a and b. Sums are reals. gemm_pairs adds two products at once
 * (vdpbf16ps), which may round the sums otherwise; on a CPU without that instruction it
 * has the bits of gemm_bf16, and is slower. MODE=double has none. */
extern const struct gemm gemm_bf16, gemm_pairs;

/* The same by AMX's tiles, a sum over 32 of k at a time: four times the rate of floats.
 * NULL where this was not compiled for it, or the system does not allow it. Subnormal
 * numbers are zeros. */
const struct gemm *gemm_amx(void);

/* The fastest of them on the CPU that this was compiled for. */
const struct gemm *gemm_in_bf16(void);

/* Set outside of parallel regions. Returns who made them before. */
const struct gemm *gemm_use(const struct gemm *by);
const struct gemm *gemm_used(void);

/* weft's, of such numbers as are multiplied now: what a share of the peak is a share
 * of. */
const struct gemm *gemm_yardstick(void);

/* OpenBLAS's, loaded on the first call. FAIL_INPUT: there is none, or not of the flavour
 * that runs inside OpenMP's threads. */
enum fail gemm_openblas(const struct gemm **by, struct why *why);

#endif
