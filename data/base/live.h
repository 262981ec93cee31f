/* The terminal behind stderr, and one line on it that says how far something is.
 *
 *     struct live l = live_open(10);
 *
 *     if (live_due(&l))
 *         live_show(&l, "%d of %d", i, n);
 *     live_say(&l, "a line that stays, above it");
 *     live_clear(&l);
 *
 * On a terminal the line is rewritten in place and cut at its width. Elsewhere it is a
 * plain line, or nothing. A stderr that is closed stops nobody.
 */
#ifndef WEFT_LIVE_H
#define WEFT_LIVE_H

#include <stdbool.h>

int  term_columns(int fd);          // 0: it is no terminal, or does not say
int  term_width(void);              // of stderr, 80 when unknown
bool term_color(void);              // stderr is a terminal and NO_COLOR is not set

struct live {
    bool   terminal;  // one that can rewrite a line
    bool   drawn;     // a line that will be rewritten stands there
    double every;     // seconds from line to line; 0: nothing off a terminal
    double shown;     // when the last came
    char   phase[32]; // of live_phase, and when it began
    double began;
};

/* A tenth of a second from line to line; off a terminal `plain` seconds, 0: no line. */
struct live live_open(double plain);

/* Has the time for the next line come? Then its text is worth making. */
bool live_due(const struct live *l);

/* The line, now. */
void live_show(struct live *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A line that stays, on a terminal or not; there one that is too long breaks at words. */
void live_say(struct live *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same in bold, where a terminal has it. */
void live_title(struct live *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Take the line away. */
void live_clear(struct live *l);

/* How far a phase of some work is, 0 .. 1; user is a struct live. Off a terminal each
 * phase is a line when it begins.
 *
 *     encoding  [==========          ]  52 %  3s left
 */
void live_phase(void *user, const char *phase, double done);

#endif
