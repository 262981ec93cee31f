#include "data/inputs.h"

#include "data/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether the first *n characters of name end in suffix, in any case; if so, *n drops. */
static bool strip(const char *name, size_t *n, const char *suffix)
{
    size_t len = strlen(suffix);

    if (*n <= len || strncasecmp(name + *n - len, suffix, len))
        return false;
    *n -= len;
    return true;
}

/* Set jsonl and zst; false when a directory's file of this name is passed over. */
static bool classify(struct input *f, const char *name)
{
    size_t n = strlen(name);

    f->zst = strip(name, &n, ".zst");
    f->jsonl = strip(name, &n, ".jsonl");
    return f->jsonl || strip(name, &n, ".txt");
}

static enum fail no_memory(struct why *why)
{
    return fail(why, FAIL_MEMORY, "no memory for the list of input files; give fewer");
}

static enum fail push(struct inputs *in, struct input f, struct why *why)
{
    if (in->n == in->cap) {
        size_t        cap = in->cap ? 2 * in->cap : 16;
        struct input *file = realloc(in->file, cap * sizeof *file);

        if (!file)
            return no_memory(why);
        in->file = file;
        in->cap = cap;
    }
    f.path = strdup(f.path);
    if (!f.path)
        return no_memory(why);
    in->file[in->n++] = f;
    return 0;
}

/* Set f->size if the file can be read. */
static enum fail probe(struct input *f, struct why *why)
{
    int       fd;
    enum fail err = file_open(f->path, &fd, &f->size, why);

    if (!err)
        close(fd);
    return err;
}

/* ---- a directory ------------------------------------------------------------------- */

struct walk {
    struct inputs *in;
    struct inputs  dirs;        // still to be read; only path is used
    void          *seen;        // tree of struct place
    struct why    *why;
};

struct place {
    dev_t dev;
    ino_t ino;
};

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->dev != y->dev)
        return x->dev < y->dev ? -1 : 1;
    return x->ino == y->ino ? 0 : x->ino < y->ino ? -1 : 1;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct input *)a)->path, ((const struct input *)b)->path);
}

/* Queue a directory that has not been seen in this walk. */
static int enter(struct walk *w, char *path, const struct stat *st)
{
    struct place *here = malloc(sizeof *here), **node;

    if (!here)
        return no_memory(w->why);
    *here = (struct place){st->st_dev, st->st_ino};
    node = tsearch(here, &w->seen, by_place);
    if (!node || *node != here)
        free(here);
    if (!node)
        return no_memory(w->why);
    if (*node != here)
        return fail(w->why, FAIL_INPUT,
                    "%s: leads into a directory that is read already; remove that link",
                    path);
    return push(&w->dirs, (struct input){.path = path}, w->why);
}

static int visit(struct walk *w, const char *dir, const char *name)
{
    char         path[PATH_MAX];
    struct input f = {.path = path};
    struct stat  st;
    enum fail    err;

    if (strlen(dir) + strlen(name) + 2 > sizeof path)
        return fail(w->why, FAIL_INPUT, "%s: the path of '%s' in it is too long", dir,
                    name);
    path_join(path, sizeof path, dir, name);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return enter(w, path, &st);
    if (!classify(&f, name))
        return 0;
    err = probe(&f, w->why);
    return err || f.size == 0 ? err : push(w->in, f, w->why);
}

static int read_dir(struct walk *w, const char *dir)
{
    DIR           *d = opendir(dir);
    struct dirent *e;
    enum fail      err = 0;

    if (!d)
        return fail(w->why, FAIL_INPUT, "%s: cannot open: %s", dir, strerror(errno));
    while (!err && (errno = 0, e = readdir(d)))
        if (e->d_name[0] != '.')
            err = visit(w, dir, e->d_name);
    if (!err && errno)
        err = fail(w->why, FAIL_INPUT, "%s: cannot read: %s", dir, strerror(errno));
    closedir(d);
    return err;
}

/* Append the text files below path, sorted. No recursion and one open directory at a
 * time, so depth costs nothing. */
static enum fail list_dir(struct inputs *in, char *path, const struct stat *st,
                          struct why *why)
{
    struct walk w = {.in = in, .why = why};
    size_t      first = in->n;
    enum fail   err = enter(&w, path, st);

    while (!err && w.dirs.n) {
        char *dir = w.dirs.file[--w.dirs.n].path;

        err = read_dir(&w, dir);
        free(dir);
    }
    tdestroy(w.seen, free);
    inputs_free(&w.dirs);
    if (!err && in->n == first)
        return fail(why, FAIL_INPUT,
                    "%s: no .txt or .jsonl file (or .zst of them) with text in this "
                    "directory; name the files themselves", path);
    if (!err)
        qsort(in->file + first, in->n - first, sizeof *in->file, by_path);
    return err;
}

/* ---- all of them ------------------------------------------------------------------- */

/* .jsonl packed by another program than zstd; stdin would take its lines for text. */
static enum fail refuse_packed(const char *path, size_t packed, const char *with,
                               struct why *why)
{
    char word[1200], plain[1200], lines[PATH_MAX];

    snprintf(lines, sizeof lines, "%.*s", (int)packed, path);
    path_quote(plain, sizeof plain, lines);
    return fail(why, FAIL_INPUT,
                "%.200s: %s is not read; unpack it: %s %.250s > %.200s && weft train "
                "%.200s", path, path + packed, with,
                path_quote(word, sizeof word, path), plain, plain);
}

/* Files that hold text in a form that weft does not read, and what turns it into text. */
static enum fail refuse_form(const char *path, struct why *why)
{
    static const char *const forms[][3] = {
        {".gz", "zcat", ""},          {".xz", "xzcat", ""},
        {".bz2", "bzcat", ""},        {".pdf", "pdftotext", " -"},
        {".html", "pandoc -t plain", ""}, {".htm", "pandoc -t plain", ""},
        {".epub", "pandoc -t plain", ""}, {".docx", "pandoc -t plain", ""},
    };
    char word[1200];

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t n = strlen(path), packed;

        if (!strip(path, &n, forms[i][0]))
            continue;
        packed = n;
        if (strip(path, &n, ".jsonl"))
            return refuse_packed(path, packed, forms[i][1], why);
        return fail(why, FAIL_INPUT,
                    "%.300s: %s is not read; make it text, and give - for it: "
                    "%s %.400s%s | weft train -",
                    path, forms[i][0], forms[i][1],
                    path_quote(word, sizeof word, path), forms[i][2]);
    }
    return 0;
}

static enum fail list_path(struct inputs *in, const char *path, struct why *why)
{
    struct input f = {.path = (char *)path};
    struct stat  st;
    enum fail    err;

    if (!strcmp(path, "-"))
        return push(in, f, why);
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return list_dir(in, f.path, &st, why);
    classify(&f, path);
    err = probe(&f, why);
    if (!err)
        err = refuse_form(path, why);
    if (err)
        return err;
    if (f.size == 0)
        return fail(why, FAIL_INPUT, "%s: empty; give a file with text in it", path);
    return push(in, f, why);
}

/* The same file twice would be learned by heart, and stand in both splits. */
static enum fail refuse_twice(const struct inputs *in, struct why *why)
{
    void       *seen = NULL;
    struct stat st;
    enum fail   err = 0;

    for (size_t i = 0; !err && i < in->n; i++) {
        struct place *here, **node;

        if (!strcmp(in->file[i].path, "-") || stat(in->file[i].path, &st))
            continue;
        here = malloc(sizeof *here);
        if (here)
            *here = (struct place){st.st_dev, st.st_ino};
        node = here ? tsearch(here, &seen, by_place) : NULL;
        if (!node)
            err = no_memory(why);
        else if (*node != here)
            err = fail(why, FAIL_USAGE, "%s: given twice; leave it out once",
                       in->file[i].path);
        if (!node || *node != here)
            free(here);
    }
    tdestroy(seen, free);
    return err;
}

enum fail inputs_list(struct inputs *in, const char *const *paths, int n, struct why *why)
{
    enum fail err = 0;

    *in = (struct inputs){0};
    if (n < 1)
        return fail(why, FAIL_INPUT,
                    "no input; give a text file, a directory, or - for stdin");
    for (int i = 0; i < n && !err; i++)
        err = list_path(in, paths[i], why);
    if (!err)
        err = refuse_twice(in, why);
    if (err)
        inputs_free(in);
    return err;
}

enum fail inputs_check(const char *const *paths, int n, const char *field,
                       struct why *why)
{
    struct inputs in;
    bool          fields = !field;
    enum fail     err = inputs_list(&in, paths, n, why);

    if (err)
        return err;
    for (size_t i = 0; i < in.n; i++)
        fields |= in.file[i].jsonl || inputs_stdin(in.file[i].path);
    if (!fields)
        err = fail(why, FAIL_USAGE, "--field %s: it goes with .jsonl, and %s is none",
                   field, in.file[0].path);
    inputs_free(&in);
    return err;
}

static enum fail weigh(const char **word, double *weight, struct why *why)
{
    const char *colon = strrchr(*word, ':');
    char       *path = colon ? strndup(*word, (size_t)(colon - *word)) : NULL, *end;

    *weight = 1;
    if (colon && !path)
        return no_memory(why);
    if (!colon || path_exists(*word) || !path_exists(path)) {
        free(path);
        return 0;
    }
    *weight = strtod(colon + 1, &end);
    if (end == colon + 1 || *end || !(*weight >= 0.001 && *weight <= 1000)) {
        free(path);
        return fail(why, FAIL_USAGE,
                    "%s: its weight '%s' is not a number from 0.001 to 1000", *word,
                    colon + 1);
    }
    *word = path;
    return 0;
}

enum fail inputs_weigh(const char **words, int n, double **weights, struct why *why)
{
    enum fail err = 0;

    *weights = malloc(((size_t)n + 1) * sizeof **weights);
    if (!*weights)
        return no_memory(why);
    for (int i = 0; i < n && !err; i++)
        err = weigh(&words[i], &(*weights)[i], why);
    return err;
}

bool inputs_stdin(const char *path)
{
    const char *slash = strrchr(path, '/');

    return !strcmp(slash ? slash + 1 : path, "-");
}

void inputs_free(struct inputs *in)
{
    for (size_t i = 0; i < in->n; i++)
        free(in->file[i].path);
    free(in->file);
    *in = (struct inputs){0};
}
