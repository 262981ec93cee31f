#include "tests/spawn.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINE = 1024, WORDS = 64 };

const char *spawn_run_dir = "";

static void slurp(FILE *f, char *text, size_t cap)
{
    rewind(f);
    size_t n = fread(text, 1, cap - 1, f);

    text[n] = 0;
    fclose(f);
}

static int split(char *line, char **argv)
{
    int n = 0;

    for (char *word = strtok(line, " "); word && n < WORDS - 1; word = strtok(NULL, " ")) {
        for (char *c = word; *c; c++)
            *c = *c == '~' ? ' ' : *c;
        argv[n++] = strcmp(word, "@") ? word : (char *)spawn_run_dir;
    }
    argv[n] = NULL;
    return n;
}

const struct ran *spawn_verb(int (*verb)(int argc, char **argv), const char *line,
                            const char *input)
{
    static struct ran r;
    FILE *out = tmpfile(), *err = tmpfile(), *in = tmpfile();
    char  copy[LINE], *argv[WORDS];
    int   status;

    fputs(input, in);
    rewind(in);
    fflush(NULL);
    pid_t child = fork();

    if (child == 0) {
        snprintf(copy, sizeof copy, "%s", line);
        dup2(fileno(in), 0), dup2(fileno(out), 1), dup2(fileno(err), 2);
        exit(verb(split(copy, argv), argv));
    }
    waitpid(child, &status, 0);
    r.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    slurp(out, r.out, sizeof r.out);
    slurp(err, r.err, sizeof r.err);
    fclose(in);
    return &r;
}

void spawn_refused(const struct ran *r, const char *line, int code, const char *words)
{
    ck_assert_msg(r->code == code, "%s: exit %d, not %d: %s", line, r->code, code, r->err);
    ck_assert_msg(strstr(r->err, words) != NULL, "%s: '%s'", line, r->err);
    ck_assert_msg(strchr(r->err, '\n') == r->err + strlen(r->err) - 1, "%s: not one line: '%s'",
                  line, r->err);
    ck_assert_msg(!strncmp(r->err, "weft ", 5), "%s: '%s'", line, r->err);
}
