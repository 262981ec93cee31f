#include "tests/support/spawn.h"

#include "data/base/file.h"
#include "model/files/checkpoint.h"

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

    for (char *word = strtok(line, " "); word && n < WORDS - 1;
         word = strtok(NULL, " ")) {
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

/* Parameter `name` of the mixer of a layer, or NULL. */
static real *weights(const struct model *m, int layer, const char *name, size_t *n)
{
    char full[64];

    snprintf(full, sizeof full, "blocks.%d.mixer.%s", layer, name);
    for (int i = 0; i < m->n_param; i++)
        if (!strcmp(m->param[i].name, full)) {
            *n = param_size(&m->param[i].is);
            return m->w + m->param[i].at;
        }
    return NULL;
}

static void set_queries(struct model *m)
{
    for (int i = 0; i < m->cfg.layers; i++) {
        size_t n_q = 0, n_k = 0;
        real  *q = weights(m, i, "wq", &n_q), *k = weights(m, i, "wk", &n_k);

        if (q && i == 0)
            memset(q, 0, n_q * sizeof *q);
        else if (q && k && n_q == n_k)
            memcpy(q, k, n_q * sizeof *q);
    }
}

/* key=value ...; false when one cannot be set. */
static bool settings(struct config *c, int n, char **pair, struct why *why)
{
    for (int i = 0; i < n; i++) {
        char *value = strchr(pair[i], '=');

        *value++ = 0;
        if (config_set(c, pair[i], value, why))
            return false;
    }
    return true;
}

int spawn_checkpoint(int argc, char **argv)
{
    struct config     c;
    struct model      m;
    struct tokenizer *t;
    struct why        why = {"?"};

    config_defaults(&c);
    c.layers = 2, c.width = 32, c.context = 32, c.vocab = 257, c.tied = 0;
    if (argc < 2 || config_set(&c, "mixers", argv[1], &why) ||
        !settings(&c, argc - 2, argv + 2, &why) || config_resolve(&c, &why) ||
        model_open(&m, &c, &why))
        return 1;
    model_init(&m, 1);
    set_queries(&m);
    if (tokenizer_load(&t, "weft-bytes", 10, &why) || dir_make(argv[0], &why) ||
        checkpoint_write(argv[0], &m, t, &why) || manifest_write(argv[0], &why))
        return 1;
    tokenizer_free(t);
    model_close(&m);
    return 0;
}

void spawn_refused(const struct ran *r, const char *line, int code, const char *words)
{
    ck_assert_msg(r->code == code, "%s: exit %d, not %d: %s", line, r->code,
                  code, r->err);
    ck_assert_msg(strstr(r->err, words) != NULL, "%s: '%s'", line, r->err);
    ck_assert_msg(strchr(r->err, '\n') == r->err + strlen(r->err) - 1,
                  "%s: not one line: '%s'", line, r->err);
    ck_assert_msg(!strncmp(r->err, "weft ", 5), "%s: '%s'", line, r->err);
}
