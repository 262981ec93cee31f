/* The bias of a linear map, over n rows without gaps: y, dy (n, cols), b, db (cols). */
#ifndef WEFT_BIAS_H
#define WEFT_BIAS_H

#include "model/kernels/real.h"

void bias_forward(real *y, const real *b, long n, int cols);     // y += b
void bias_backward(real *db, const real *dy, long n, int cols);  // db += sums of columns

#endif
