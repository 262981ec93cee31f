/* What every file of the model shares: the number type and the build's two variants.
 *
 *     MODE=double    real is a double: for golden vectors and finite differences
 *     MODE=tiny      chunks and tiles are as small as they can be: nine tokens cross all
 *                    boundaries that a long sequence crosses in the usual build
 */
#ifndef WEFT_REAL_H
#define WEFT_REAL_H

#if defined __FAST_MATH__ || __FINITE_MATH_ONLY__
#error "-ffast-math is not supported: masks are -INFINITY, and NaN must stay NaN"
#endif

#ifdef WEFT_DOUBLE
typedef double real;
#else
typedef float real;
#endif

/* The value of a constant that only says how work is cut up: usual, or that of the
 * tiny build. */
#ifdef WEFT_TINY
#define TINY(usual, tiny) (tiny)
#else
#define TINY(usual, tiny) (usual)
#endif

/* Rows up to which a loop over their elements stays on one thread: it is done before
 * another has woken up. */
enum { FEW_ROWS = TINY(32, 1) };

#endif
