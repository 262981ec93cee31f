/* What all layers share: the number type, float, or double in the test build
 * (make MODE=double), and when threads pay. */
#ifndef WEFT_REAL_H
#define WEFT_REAL_H

#ifdef WEFT_DOUBLE
typedef double real;
#else
typedef float real;
#endif

/* Rows up to which a loop over their elements stays on one thread: it is done before
 * another has woken up. */
enum { FEW_ROWS = 32 };

#endif
