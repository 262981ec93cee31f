#include "data/base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

char *one_line(char *text)
{
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            *p = '?';
    return text;
}

enum fail fail(struct why *why, enum fail err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why->line, sizeof why->line, format, args);
    va_end(args);
    one_line(why->line);
    return err;
}

/* Levenshtein distance of two short words, over one rolling row. */
static int distance(const char *a, const char *b)
{
    enum { MAX = 48 };
    int row[MAX + 1], n = (int)strnlen(b, MAX);

    for (int j = 0; j <= n; j++)
        row[j] = j;
    for (int i = 0; a[i]; i++) {
        int diagonal = row[0];

        row[0] = i + 1;
        for (int j = 0; j < n; j++) {
            int best = diagonal + (a[i] != b[j]);

            diagonal = row[j + 1];
            if (best > diagonal + 1)
                best = diagonal + 1;
            if (best > row[j] + 1)
                best = row[j] + 1;
            row[j + 1] = best;
        }
    }
    return row[n];
}

const char *nearest_name(const char *word, const char *const *names, int count)
{
    int         len = (int)strlen(word), best = len / 3 + 2;
    const char *found = NULL;

    for (int i = 0; i < count; i++) {
        int d = distance(word, names[i]);

        if (d < best)
            best = d, found = names[i];
    }
    return found;
}
