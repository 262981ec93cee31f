#include "data/base/fail.h"

#include "data/base/utf8.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

/* A ? for each character that a terminal might obey, but those in `but`, and for bytes
 * that are no character. */
static char *clean(char *text, const char *but)
{
    char  *to = text, *from = text;
    size_t left = strlen(text);

    while (left) {
        int  len = utf8_length(from, left);
        bool bad = len == 0 || (utf8_is_control(utf8_code(from, len)) &&
                                !(len == 1 && strchr(but, *from)));

        len = len ? len : 1;
        if (bad)
            *to++ = '?';
        else
            memmove(to, from, (size_t)len), to += len;
        from += len;
        left -= (size_t)len;
    }
    *to = 0;
    return text;
}

char *one_line(char *text)
{
    return clean(text, "");
}

void say(FILE *to, const char *format, ...)
{
    char    text[8192];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fputs(clean(text, "\n\t"), to);
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
