#include "data/base/live.h"

#include "data/base/clock.h"
#include "data/base/fail.h"
#include "data/base/format.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LINE = 1536, BAR = 20 };

static const double redraw = 0.1;

static bool term_live(void)
{
    const char *term = getenv("TERM");

    return isatty(STDERR_FILENO) && !(term && !strcmp(term, "dumb"));
}

int term_columns(int fd)
{
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) ? 0 : size.ws_col;
}

int term_width(void)
{
    int columns = term_columns(STDERR_FILENO);

    return columns ? columns : 80;
}

bool term_color(void)
{
    const char *no = getenv("NO_COLOR");

    return term_live() && !(no && *no);
}

/* ---- the line ---- */

static void put(const char *text)
{
    ssize_t n = write(STDERR_FILENO, text, strlen(text));

    (void)n; // a closed stderr must not stop the work
}

struct live live_open(double plain)
{
    bool terminal = term_live();

    return (struct live){.terminal = terminal,
                         .every = terminal ? redraw : plain,
                         .shown = wall_seconds()};
}

bool live_due(const struct live *l)
{
    return l->every > 0 && wall_seconds() - l->shown >= l->every;
}

void live_show(struct live *l, const char *format, ...)
{
    char    text[LINE], line[LINE + 16];
    va_list args;

    if (!(l->every > 0))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    one_line(text);
    if (l->terminal)
        snprintf(line, sizeof line, "\r%.*s\033[K", term_width() - 1, text);
    else
        snprintf(line, sizeof line, "%s\n", text);
    put(line);
    l->drawn = l->terminal;
    l->shown = wall_seconds();
}

/* Newlines for the spaces where a line of so many columns is full. */
static void break_lines(char *text, int columns)
{
    char *space = NULL;
    int   column = 0, at = 0;

    for (; *text; text++) {
        column += (*text & 0xc0) != 0x80;
        if (*text == ' ')
            space = text, at = column;
        if (column > columns && space) {
            *space = '\n';
            column -= at;
            space = NULL;
        }
    }
}

static void say_above(struct live *l, bool bold, const char *format, va_list args)
{
    char text[LINE], line[LINE + 16];

    vsnprintf(text, sizeof text, format, args);
    one_line(text);
    if (l->terminal)
        break_lines(text, term_width());
    snprintf(line, sizeof line, bold ? "\033[1m%s\033[0m\n" : "%s\n", text);
    live_clear(l);
    put(line);
}

void live_say(struct live *l, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_above(l, false, format, args);
    va_end(args);
}

void live_title(struct live *l, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_above(l, term_color(), format, args);
    va_end(args);
}

void live_clear(struct live *l)
{
    if (l->drawn)
        put("\r\033[K");
    l->drawn = false;
}

/* ---- phases ---- */

static void show_phase(struct live *l, double done)
{
    char   left[32] = "", bar[BAR + 1];
    double took = wall_seconds() - l->began;

    if (done <= 0) {
        live_show(l, "%s ...", l->phase);
        return;
    }
    for (int i = 0; i < BAR; i++)
        bar[i] = i < (int)(done * BAR) ? '=' : ' ';
    bar[BAR] = 0;
    if (done > 0.02 && took > 1)
        format_time(left, sizeof left, took * (1 - done) / done);
    live_show(l, "%s  [%s] %3.0f %%%s%s%s", l->phase, bar, 100 * done, *left ? "  " : "",
              left, *left ? " left" : "");
}

void live_phase(void *user, const char *phase, double done)
{
    struct live *l = user;
    bool         fresh = strcmp(phase, l->phase) != 0;

    if (fresh) {
        snprintf(l->phase, sizeof l->phase, "%s", phase);
        l->began = wall_seconds();
    }
    if (fresh && !l->terminal)
        live_say(l, "%s", phase);
    else if (l->terminal && (fresh || live_due(l)))
        show_phase(l, done);
}
