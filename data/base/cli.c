#include "data/base/cli.h"

#include "data/base/format.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_MAX_LEN = 64, NAMES = 128 };

const char *cli_program(void)
{
    const char *name = program_invocation_name, *base = strrchr(name, '/');

    return base && !strcmp(base, "/weft") && !strpbrk(name, " '\"$\\") ? name : "weft";
}

void cli_die(const struct cli *c, int err, const char *format, ...)
{
    char    line[2 * PATH_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    fflush(stdout);
    fprintf(stderr, "weft %s: %s\n", c->verb, one_line(line));
    exit(err);
}

void cli_fail(const struct cli *c, int err, const struct why *why)
{
    cli_die(c, err, "%s", why->line);
}

static char lost[80];               // what the handler says: it may form no line itself

static void say_lost(int signal)
{
    (void)signal;
    if (write(STDERR_FILENO, lost, strlen(lost)) < 0)
        _exit(FAIL_WRITE);
    _exit(FAIL_INPUT);
}

void cli_guard_maps(const struct cli *c)
{
    snprintf(lost, sizeof lost, "weft %s: the model's file became shorter while it was "
             "used\n", c->verb);
    signal(SIGBUS, say_lost);
}

int cli_deliver(int err)
{
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout))
        return err;
    fprintf(stderr, "weft: cannot write to stdout: %s\n", strerror(errno ? errno : EIO));
    return FAIL_WRITE;
}

/* ---- help ---- */

/* "-n, --top-k N" */
static int flag_form(const struct flag *f, char *buf, size_t cap)
{
    char letter[8] = "    ";

    if (f->letter)
        snprintf(letter, sizeof letter, "-%c, ", f->letter);
    return snprintf(buf, cap, "%s--%s%s%s", letter, f->name, f->value ? " " : "",
                    f->value ? f->value : "");
}

static void help_flags(const struct flag *flags)
{
    char form[NAME_MAX_LEN * 2];
    int  widest = 0;

    for (const struct flag *f = flags; f->name; f++) {
        int width = f->about ? flag_form(f, form, sizeof form) : 0;

        widest = width > widest ? width : widest;
    }
    if (widest)
        puts("\nFlags:");
    for (const struct flag *f = flags; f->name; f++)
        if (f->about) {
            flag_form(f, form, sizeof form);
            printf("  %-*s  %s\n", widest, form, f->about);
        }
}

/* about: what follows --help; "settings" explains those. */
static _Noreturn void help(const struct cli *c, const char *about)
{
    size_t len = strlen(c->help);

    if (c->explain && about && !strcmp(about, "settings")) {
        c->explain();
        exit(cli_deliver(0));
    }
    fputs(c->help, stdout);
    if (len && c->help[len - 1] != '\n')
        putchar('\n');
    help_flags(c->flags);
    if (c->explain)
        printf("\nSettings, key=value or --key value: weft %s --help settings\n",
               c->verb);
    exit(cli_deliver(0));
}

/* ---- names ---- */

/* Are they equal up to '-' and '_'? Compares len bytes of word with all of name. */
static bool same_name(const char *word, size_t len, const char *name)
{
    for (size_t i = 0; i < len; i++) {
        char a = word[i] == '-' ? '_' : word[i], b = name[i] == '-' ? '_' : name[i];

        if (a != b)
            return false;
    }
    return name[len] == 0;
}

static const struct flag *find_flag(const struct cli *c, const char *word, size_t len)
{
    for (const struct flag *f = c->flags; f->name; f++)
        if (same_name(word, len, f->name))
            return f;
    return NULL;
}

static const struct flag *find_letter(const struct cli *c, char letter)
{
    for (const struct flag *f = c->flags; f->name; f++)
        if (f->letter && f->letter == letter)
            return f;
    return NULL;
}

static const char *find_key(const struct cli *c, const char *word, size_t len)
{
    for (const char *const *k = c->settings; k && *k; k++)
        if (same_name(word, len, *k))
            return *k;
    return NULL;
}

/* Die on a name that is neither flag nor setting. dashes: "--", or "" for key=value. */
static _Noreturn void unknown(const struct cli *c, const char *dashes, const char *word,
                              size_t len)
{
    const char *names[NAMES], *near;
    char        name[NAME_MAX_LEN];
    int         n = 0;

    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : sizeof name - 1),
             word);
    if (*dashes)
        names[n++] = "help";
    for (const struct flag *f = c->flags; *dashes && f->name && n < NAMES; f++)
        names[n++] = f->name;
    for (const char *const *k = c->settings; k && *k && n < NAMES; k++)
        names[n++] = *k;
    near = nearest_name(name, names, n);
    const char *what = *dashes ? "flag" : "setting",
               *other = c->other ? c->other(name) : NULL;

    if (other)
        cli_die(c, FAIL_USAGE, "unknown %s '%s%s'; weft calls it %s", what, dashes, name,
                other);
    if (near)
        cli_die(c, FAIL_USAGE, "unknown %s '%s%s'; did you mean '%s%s'?", what,
                dashes, name, dashes, near);
    cli_die(c, FAIL_USAGE, "unknown %s '%s%s'; weft %s --help lists them", what,
            dashes, name, c->verb);
}

/* ---- values ---- */

static void check_range(const struct cli *c, const struct flag *f, const char *text,
                        double n)
{
    if (f->max > f->min && !(n >= f->min && n <= f->max))
        cli_die(c, FAIL_USAGE, "--%s: %s is out of range; it goes from %.15g to %.15g",
                f->name, text, f->min, f->max);
}

static _Noreturn void not_a_number(const struct cli *c, const struct flag *f,
                                   const char *text, const char *kind)
{
    if (f->max > f->min)
        cli_die(c, FAIL_USAGE, "--%s: '%s' is not %s; it goes from %.15g to %.15g",
                f->name, text, kind, f->min, f->max);
    cli_die(c, FAIL_USAGE, "--%s: '%s' is not %s", f->name, text, kind);
}

/* A whole number; 12k, 3M and 1e9 too when scaled. */
static long whole(const struct cli *c, const struct flag *f, const char *text,
                  bool scaled)
{
    char  *end;
    double n;

    errno = 0;
    long exact = strtol(text, &end, 10);

    if (strchr("-0123456789", *text) && end > text && *end == 0 && !errno) {
        check_range(c, f, text, (double)exact);
        return exact;
    }
    if (errno == ERANGE)
        cli_die(c, FAIL_USAGE, "--%s: %s is too large", f->name, text);
    if (!scaled || !parse_count(text, &n) || n != rint(n))
        not_a_number(c, f, text, "a whole number");
    if (fabs(n) > 9e18)
        cli_die(c, FAIL_USAGE, "--%s: %s is too large", f->name, text);
    check_range(c, f, text, n);
    return (long)n;
}

static int small(const struct cli *c, const struct flag *f, const char *text)
{
    long n = whole(c, f, text, false);

    if (n < INT_MIN || n > INT_MAX)
        cli_die(c, FAIL_USAGE, "--%s: %s is too large", f->name, text);
    return (int)n;
}

static uint64_t seed(const struct cli *c, const struct flag *f, const char *text)
{
    char *end;

    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);

    if (!strchr("0123456789", *text) || end == text || *end || errno)
        cli_die(c, FAIL_USAGE, "--%s: '%s' is not a whole number from 0 to 2^64 - 1",
                f->name, text);
    return n;
}

static double scaled_real(const struct cli *c, const struct flag *f, const char *text)
{
    double n;

    if (!parse_count(text, &n))
        not_a_number(c, f, text, "a number");
    check_range(c, f, text, n);
    return n;
}

static void store(const struct cli *c, const struct flag *f, const char *text)
{
    if (f->text)
        *f->text = text;
    else if (f->number)
        *f->number = small(c, f, text);
    else if (f->count)
        *f->count = whole(c, f, text, true);
    else if (f->seed)
        *f->seed = seed(c, f, text);
    else if (f->real)
        *f->real = scaled_real(c, f, text);
    else if (f->words->n == CLI_WORDS)
        cli_die(c, FAIL_USAGE, "--%s: given more than %d times", f->name, CLI_WORDS);
    else
        f->words->word[f->words->n++] = text;
}

/* ---- arguments ---- */

/* The value of argv[*i], which names a flag or setting: after its '=', or the
 * next argument. */
static const char *value_of(const struct cli *c, const char *name, const char *glued,
                            int argc, char **argv, int *i)
{
    if (glued)
        return glued;
    const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;

    if (next && !strncmp(next, "--", 2)) {
        size_t len = strcspn(next + 2, "=");

        if (find_flag(c, next + 2, len) || find_key(c, next + 2, len))
            next = NULL;
    }
    if (!next)
        cli_die(c, FAIL_USAGE, "--%s needs a value", name);
    ++*i;
    return next;
}

static void take_setting(struct cli *c, const char *key, const char *value)
{
    c->set[2 * c->n_set] = key;
    c->set[2 * c->n_set + 1] = value;
    c->n_set++;
}

static void take_flag(const struct cli *c, const struct flag *f, const char *glued,
                      int argc, char **argv, int *i)
{
    if (!f->on)
        store(c, f, value_of(c, f->name, glued, argc, argv, i));
    else if (glued)
        cli_die(c, FAIL_USAGE, "--%s takes no value", f->name);
    else
        *f->on = true;
}

static void take_long(struct cli *c, int argc, char **argv, int *i)
{
    const char *name = argv[*i] + 2;
    size_t      len = strcspn(name, "=");
    const char *glued = name[len] ? name + len + 1 : NULL;

    const struct flag *f = find_flag(c, name, len);
    const char        *key = find_key(c, name, len);

    if (f)
        take_flag(c, f, glued, argc, argv, i);
    else if (key)
        take_setting(c, key, value_of(c, key, glued, argc, argv, i));
    else if (len == 4 && !strcmp(name, "help"))
        help(c, argv[*i + 1]);
    else
        unknown(c, "--", name, len);
}

static void take_short(const struct cli *c, int argc, char **argv, int *i)
{
    const char        *word = argv[*i];
    const struct flag *f = find_letter(c, word[1]);

    if (!f && !strcmp(word, "-h"))
        help(c, argv[*i + 1]);
    if (!f || (f->on && word[2]))
        cli_die(c, FAIL_USAGE, "unknown flag '%s'; weft %s --help lists them", word,
                c->verb);
    take_flag(c, f, word[2] ? word + 2 : NULL, argc, argv, i);
}

/* The length of the key of word = "key=value", or 0. A path with '=' in it has a '/' or
 * a '.' before, or can be given one: ./a=b. */
static size_t setting_len(const char *word)
{
    size_t len = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_-");

    return word[len] == '=' ? len : 0;
}

static void take_word(struct cli *c, const char *word)
{
    size_t      len = c->settings ? setting_len(word) : 0;
    const char *key = len ? find_key(c, word, len) : NULL;

    if (key)
        take_setting(c, key, word + len + 1);
    else if (len)
        unknown(c, "", word, len);
    else
        c->args[c->n_args++] = word;
}

void cli_parse(struct cli *c, int argc, char **argv)
{
    static const char **memory;
    int i = 1;

    free(memory);
    memory = calloc((size_t)argc * 3 + 3, sizeof *memory);
    if (!memory)
        cli_die(c, FAIL_MEMORY, "out of memory");
    c->args = memory;
    c->set = memory + argc + 1;
    c->n_args = c->n_set = 0;
    for (; i < argc && strcmp(argv[i], "--"); i++)
        if (!strncmp(argv[i], "--", 2))
            take_long(c, argc, argv, &i);
        else if (argv[i][0] == '-' && argv[i][1])
            take_short(c, argc, argv, &i);
        else
            take_word(c, argv[i]);
    for (i++; i < argc; i++)
        c->args[c->n_args++] = argv[i];
}
