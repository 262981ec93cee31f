/* weft VERB ...: one program with a table of verbs. Called as weft-train or weft-infer
 * it is that verb. */
#include "data/base/cli.h"
#include "data/base/json.h"
#include "data/base/version.h"
#include "infer/verbs.h"
#include "model/kernels/product.h"
#include "infer/serve/serve.h"
#include "tools/level.h"
#include "tools/verbs.h"
#include "train/train_verb.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct verb {
    const char *name;
    int       (*main)(int argc, char **argv);
    const char *about;
} verbs[] = {
    {"train", train_main, "train a model on text, or continue a run"},
    {"infer", infer_main, "stream text from a run"},
    {"score", score_main, "how well a run predicts a text"},
    {"plot", plot_main, "draw the curves of runs"},
    {"serve", serve_main, "answer requests over HTTP, with a page to watch and try it"},
    {"data", data_main, "tokenize text into a dataset; write the built-in stories"},
    {"info", info_main, "describe a dataset, a run, or the mixers (--arch)"},
    {"export", export_main, "a run in the files of transformers, llama.cpp or llama2.c"},
    {"import", import_main, "a model of theirs as a run"},
    {"verify", verify_main, "check every hash of a dataset, a run or a checkpoint"},
    {"compare", compare_main, "which architecture wins on a text at equal compute"},
    {"lab", lab_main, "the papers' claims as experiments beside exact yardsticks"},
    {"bench", bench_main, "measure this machine, and training and decoding on it"},
};
enum { N_VERBS = sizeof verbs / sizeof *verbs };

static void print_help(FILE *f)
{
    fputs("weft trains small language models from plain text and streams text "
          "from them.\n"
          "\n"
          "  weft train book.txt --for 3m                   train for three minutes\n"
          "  weft infer runs/book -p \"Once upon a time\"     and let it write\n"
          "\n"
          "No text at hand?\n"
          "\n"
          "  weft data stories > stories.txt\n"
          "  weft train stories.txt --for 1m\n"
          "\n"
          "Verbs:\n", f);
    for (int i = 0; i < N_VERBS; i++)
        fprintf(f, "  %-8s %s\n", verbs[i].name, verbs[i].about);
    fputs("\n"
          "weft VERB --help (or: weft help VERB) says more; weft --version.\n"
          "Exit status: 0 done, 2 usage, 3 input, 4 diverged, 5 writing, 6 memory,\n"
          "130 interrupted.\n",
          f);
}

static const struct verb *find_verb(const char *name)
{
    for (int i = 0; i < N_VERBS; i++)
        if (!strcmp(name, verbs[i].name))
            return &verbs[i];
    return NULL;
}

static int unknown_verb(char *name)
{
    const char *names[N_VERBS], *near;

    for (int i = 0; i < N_VERBS; i++)
        names[i] = verbs[i].name;
    near = nearest_name(name, names, N_VERBS);
    fprintf(stderr, "weft: unknown verb '%s'; ", one_line(name));
    if (near)
        fprintf(stderr, "did you mean 'weft %s'?\n", near);
    else
        fputs("weft alone lists them\n", stderr);
    return FAIL_USAGE;
}

static int help(int argc, char **argv)
{
    const struct verb *v = argc > 1 ? find_verb(argv[1]) : NULL;
    char               flag[] = "--help";

    if (argc > 1 && !v)
        return unknown_verb(argv[1]);
    if (v)
        return v->main(2, (char *[]){argv[1], flag, NULL});
    print_help(stdout);
    return 0;
}

/* The verb in the program's own name: weft-train. */
static const struct verb *named_verb(const char *program)
{
    const char *slash = strrchr(program, '/'), *base = slash ? slash + 1 : program;

    return strncmp(base, "weft-", 5) ? NULL : find_verb(base + 5);
}

static int is_one_of(const char *word, const char *a, const char *b)
{
    return !strcmp(word, a) || !strcmp(word, b);
}

/* A file that weft opens must not become its stdout or stderr because the caller closed
 * them: what is said would go into the file. What stands in for them fails as they do. */
static void hold_streams(void)
{
    static const int useless[] = {O_WRONLY, O_RDONLY, O_RDONLY};

    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", useless[fd]) != fd)
            exit(FAIL_WRITE);
}

static int run(int argc, char **argv)
{
    const struct verb *v = argc > 0 ? named_verb(argv[0]) : NULL;
    int                skip = v ? 0 : 1;

    if (!v && argc < 2)
        return help(argc, argv);
    if (!v && is_one_of(argv[1], "--help", "-h"))
        return help(1, argv + 1);
    if (!v && !strcmp(argv[1], "help"))
        return help(argc - 1, argv + 1);
    if (!v && is_one_of(argv[1], "--version", "version")) {
        puts(version_line);
        return 0;
    }
    if (!v)
        v = find_verb(argv[1]);
    if (!v)
        return unknown_verb(argv[1]);
    json_watch();
    signal(SIGXFSZ, SIG_IGN);       // a file at its limit is a failed write
    threads_start(argc, argv);
    argv[skip] = (char *)v->name;
    return v->main(argc - skip, argv + skip);
}

static int weft_main(int argc, char **argv)
{
    hold_streams();
    return cli_deliver(run(argc, argv));
}

const struct level weft_level = {version_level, level_needs, weft_main};
