/* What every verb shares: its flags and its last words.
 *
 *     --name value   --name=value   -n 5   -n5      '-' and '_' are the same in names
 *     key=value      --key value                    a setting, where the verb takes them
 *     --                                            what follows is neither
 */
#ifndef WEFT_CLI_H
#define WEFT_CLI_H

#include "data/base/fail.h"

#include <stdbool.h>
#include <stdint.h>

enum { CLI_WORDS = 16 };

/* The values of a flag that may be given several times. */
struct words {
    const char *word[CLI_WORDS];
    int         n;
};

/* A flag of a verb. Exactly one target is set. */
struct flag {
    const char   *name;             // "top-k"
    char          letter;           // 'n' for -n, or 0
    const char   *value;            // how --help names its value, "N"; NULL: a switch
    const char   *about;            // its line in --help; NULL: not listed
    const char  **text;
    int          *number;
    long         *count;            // also takes 12k, 3M, 1e9
    uint64_t     *seed;
    double       *real;             // also takes 12k, 3M, 1e15
    bool         *on;               // a switch
    double        min, max;         // of numbers, when max > min
    struct words *words;
};

/* A verb's command line: flags, settings and the rest. */
struct cli {
    const char        *verb;      // "train"
    const char        *help;      // how --help begins: usage, an example, a few words
    const struct flag *flags;     // ends with a NULL name; --help lists them after `help`
    const char *const *settings;  // names of the settings, ends with NULL; NULL: none
    void             (*explain)(void);      // (optional) prints them: --help settings
    const char      *(*other)(const char *name);    // (optional) what weft calls one that
                                                    // others call so, or NULL
    const char       **args;      // out: what is neither flag nor setting
    int                n_args;
    const char       **set;       // out: set[2 i] is a key's name, set[2 i + 1] its value
    int                n_set;     // out: number of pairs, in the order given
};

/* Parse argv (argv[0] is the verb). --help and -h print to stdout and exit 0;
 * anything unknown, or a value that does not parse, dies with exit 2 and the
 * nearest name. Settings are only collected: the verb applies them in its order
 * (defaults < size < preset < file < command line). args and set point into argv and are
 * valid until the next cli_parse. */
void cli_parse(struct cli *c, int argc, char **argv);

/* How weft was called, for command lines that work as printed: weft, build/bin/weft. */
const char *cli_program(void);

/* From now on a mapped file that another program makes shorter ends the verb with one
 * line and FAIL_INPUT, where it would be a SIGBUS. */
void cli_guard_maps(const struct cli *c);

/* Print "weft VERB: line" on stderr and exit with code. */
void cli_die(const struct cli *c, int err, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
void cli_fail(const struct cli *c, int err, const struct why *why)
    __attribute__((noreturn));

/* The exit code of a verb that ended with `code`: FAIL_WRITE, after a line on stderr,
 * when something that it printed did not reach stdout. */
int cli_deliver(int err);

#endif
