/* The number type of all layers: float, or double in the test build
 * (make MODE=double). */
#ifndef WEFT_REAL_H
#define WEFT_REAL_H

#ifdef WEFT_DOUBLE
typedef double real;
#else
typedef float real;
#endif

#endif
