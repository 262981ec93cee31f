/* What every verb shares: its flags, its last words, and the terminal. */
#ifndef WEFT_CLI_H
#define WEFT_CLI_H

#include "data/fail.h"
#include "model/config.h"

#include <stdbool.h>
#include <stdint.h>

/* A flag of a verb. Exactly one target is set. */
struct flag {
    const char  *name;              // "top-k"; given as --top-k 40 or --top-k=40
    char         letter;            // 'n' for -n, or 0
    const char  *value;             // how --help names its value, "N"; NULL: a switch
    const char  *about;
    const char **text;
    int         *number;
    long        *count;
    uint64_t    *seed;
    double      *real;
    bool        *on;                // a switch
    double       min, max;          // of numbers, when max > min
};

/* A verb's command line: flags, settings (key=value or --key value) and the rest. */
struct cli {
    const char        *verb;        // "train"
    const char        *help;        // the screen that --help prints: example first
    const struct flag *flags;       // ends with a NULL name
    struct config     *config;      // (optional) settings are taken into it; see cli_settings
    bool               settings;    // settings are allowed
    const char       **args;        // out: what is neither flag nor setting
    int                n_args;
    const char       **set;         // out: "key", "value" pairs in the order given
    int                n_set;
};

/* Parse argv (argv[0] is the verb). --help prints to stdout and exits 0; anything unknown, or a
 * value that does not parse, dies with exit 2 and the nearest name. Settings are only collected:
 * the verb applies them in its order (defaults < size < preset < file < command line). */
void cli_parse(struct cli *c, int argc, char **argv);

/* Print "weft VERB: line" on stderr and exit with code. */
void cli_die(const struct cli *c, int code, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
void cli_fail(const struct cli *c, int code, const struct why *why) __attribute__((noreturn));

/* ---- the terminal ---- */

bool   term_live(void);                     // stderr is a terminal: one rewritten line
int    term_width(void);                    // columns of stderr, 80 when unknown
bool   term_color(void);                    // stderr is a terminal and NO_COLOR is not set
double wall_seconds(void);                  // monotonic
void   format_count(char *buf, size_t cap, double n);       // 12.3M
void   format_bytes(char *buf, size_t cap, double n);       // 1.2 GiB
void   format_time(char *buf, size_t cap, double seconds);  // 3m20s
bool   parse_time(const char *text, double *seconds);       // 90, 90s, 3m, 1h30m
bool   parse_count(const char *text, double *n);            // 5000, 12k, 3M, 1e15

/* Set from SIGINT and SIGTERM once catch_interrupts was called; a second signal kills. */
extern volatile int interrupted;
void catch_interrupts(void);

#endif
