#include "tools/csv.h"

#include <math.h>
#include <stdlib.h>

void csv_text(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '"')
            fputc('"', f);
        fputc(*s == '\n' ? ' ' : *s, f);
    }
    fputc('"', f);
}

void csv_number(FILE *f, double x, int digits, bool last)
{
    char text[40];
    int  few = digits < 15 ? digits : 15;

    do
        snprintf(text, sizeof text, "%.*g", few, x);
    while (few++ < digits && strtod(text, NULL) != x);
    if (isfinite(x))
        fputs(text, f);
    fputc(last ? '\n' : ',', f);
}
