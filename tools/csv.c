#include "tools/csv.h"

#include <math.h>

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
    if (isfinite(x))
        fprintf(f, "%.*g", digits, x);
    fputc(last ? '\n' : ',', f);
}
