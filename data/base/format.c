#include "data/base/format.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Three digits of n divided by base until it is below about 1000; returns how often. */
static int scale(char *digits, size_t cap, double n, double base, int most)
{
    int times = 0;

    while (fabs(n) >= 999.5 && times < most)
        n /= base, times++;
    double size = fabs(n);
    int    after = n == rint(n) && !times ? 0 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0;

    snprintf(digits, cap, "%.*f", after, n);
    return times;
}

void format_count(char *buf, size_t cap, double n)
{
    static const char *const unit[] = {"", "k", "M", "B", "T"};
    char digits[32];

    if (!(fabs(n) < 999.5e12)) {
        snprintf(buf, cap, "%.3g", n);
        return;
    }
    int times = scale(digits, sizeof digits, n, 1000, 4);

    snprintf(buf, cap, "%s%s", digits, unit[times]);
}

void format_bytes(char *buf, size_t cap, double n)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    char digits[400];
    int  times = scale(digits, sizeof digits, n, 1024, 4);

    snprintf(buf, cap, "%s %s", digits, unit[times]);
}

void format_time(char *buf, size_t cap, double seconds)
{
    if (!(seconds < 8.64e8)) {
        snprintf(buf, cap, "a long time");
        return;
    }
    long s = lrint(fmax(seconds, 0));

    if (seconds < 9.95)
        snprintf(buf, cap, "%.1fs", fmax(seconds, 0));
    else if (s < 60)
        snprintf(buf, cap, "%lds", s);
    else if (s < 3600)
        snprintf(buf, cap, "%ldm%02lds", s / 60, s % 60);
    else if (s < 86400)
        snprintf(buf, cap, "%ldh%02ldm", s / 3600, s / 60 % 60);
    else
        snprintf(buf, cap, "%ldd%02ldh", s / 86400, s / 3600 % 24);
}

/* A decimal number at the start of text, without sign, hex, inf or nan; returns what
 * follows, or NULL. */
static const char *decimal(const char *text, double *n)
{
    char *end;

    if (!isdigit((unsigned char)*text) && *text != '.')
        return NULL;
    if (text[0] == '0' && tolower((unsigned char)text[1]) == 'x')
        return NULL;
    *n = strtod(text, &end);
    return end > text && isfinite(*n) ? end : NULL;
}

bool parse_time(const char *text, double *seconds)
{
    static const struct { char name; double seconds; } unit[] = {
        {'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1},
    };
    double total = 0, n;
    int    next = 0;                // units come in this order, each at most once

    while (*text) {
        text = decimal(text, &n);
        if (!text)
            return false;
        char name = *text ? *text++ : 's';

        while (next < 4 && unit[next].name != name)
            next++;
        if (next == 4)
            return false;
        total += n * unit[next++].seconds;
    }
    *seconds = total;
    return total > 0 && total <= TIME_MOST;
}

bool parse_count(const char *text, double *n)
{
    static const struct { char name; double times; } unit[] = {
        {'k', 1e3}, {'K', 1e3}, {'M', 1e6}, {'G', 1e9}, {'B', 1e9}, {'T', 1e12},
    };
    double      sign = *text == '-' ? -1 : 1;
    const char *end = decimal(text + (*text == '-'), n);

    if (!end)
        return false;
    for (size_t i = 0; *end && i < sizeof unit / sizeof *unit; i++)
        if (*end == unit[i].name) {
            *n *= unit[i].times;
            end++;
            break;
        }
    *n *= sign;
    return *end == 0 && isfinite(*n);
}
