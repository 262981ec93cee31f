/* Tables for other programs: RFC 4180's commas and quotes. */
#ifndef WEFT_CSV_H
#define WEFT_CSV_H

#include <stdbool.h>
#include <stdio.h>

void csv_text(FILE *f, const char *s);                  // in quotes, on one line
void csv_number(FILE *f, double x, int digits, bool last);  // empty when it is not finite

#endif
