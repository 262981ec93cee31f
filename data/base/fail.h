/* How a library function says that it failed.
 *
 * It prints nothing and never exits: it returns the exit code that the failure deserves
 * and leaves in *why one line for a person: what is wrong, where, and what to do next.
 * The verb prints that line once and exits with that code.
 *
 *     if (n < 1)
 *         return fail(why, FAIL_INPUT, "%s: empty; give a file with text in it", path);
 */
#ifndef WEFT_FAIL_H
#define WEFT_FAIL_H

#include <stdio.h>

#ifdef __clang__
#define MUST_CHECK __attribute__((warn_unused_result))
#else
#define MUST_CHECK [[nodiscard]]
#endif

enum MUST_CHECK fail {
    FAIL_NONE = 0,
    FAIL_USAGE = 2,         // bad flag, key or value
    FAIL_INPUT = 3,         // input or run missing, empty, too small, corrupt, of the
                            // wrong kind
    FAIL_DIVERGED = 4,      // training diverged
    FAIL_WRITE = 5,         // writing failed, or the run is locked
    FAIL_MEMORY = 6,        // not enough memory
    FAIL_INTERRUPTED = 130, // a signal ended it, as shells count; *why is not
                            // set: the verb says what is kept
};

struct why {
    char line[1024];
};

#ifdef __cplusplus
extern "C" {
#endif

/* Format the line and return code. */
enum fail fail(struct why *why, enum fail err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* text with a ? for every control character, in place: names and values come from files
 * and command lines, and must neither break the line, nor turn it, nor speak to the
 * terminal. fail does it itself. */
char *one_line(char *text);

/* For verbs: fprintf of at most 8191 bytes with the same care; newlines and tabs stay. */
void say(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The member of names (count of them) nearest to word, or NULL when none is near: for
 * "unknown key 'lauers'; did you mean 'layers'?". */
const char *nearest_name(const char *word, const char *const *names, int count);

#ifdef __cplusplus
}
#endif

#endif
