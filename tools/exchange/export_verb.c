/* weft export: a run in the files of other programs. */
#include "data/base/cli.h"
#include "data/base/file.h"
#include "data/base/format.h"
#include "model/files/checkpoint.h"
#include "tools/exchange/exchange.h"
#include "tools/verbs.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "weft export runs/book --to gguf\n"
    "weft export RUN --to hf|gguf|llama2c [--type T] [--out DIR]\n"
    "\n"
    "Writes the model as a new directory for other programs: hf for transformers and\n"
    "flash-linear-attention, gguf for llama.cpp and ollama, llama2c for run.c. A\n"
    "README.md says what it is, what it was trained on and how well it predicts. What\n"
    "the other program cannot compute is refused with the reason (docs/exchange.md).\n"
    "weft import reads every export back.\n"
    "\n"
    "  weft export runs/book --to gguf --type q8_0 --out book-q8\n";

static const struct format {
    const char *name;
    enum fail (*write)(struct outgoing *x, const char *dir, struct why *why);
} formats[] = {
    {"hf", hf_export}, {"gguf", gguf_export}, {"llama2c", llama2c_export},
};
enum { N_FORMATS = sizeof formats / sizeof *formats };

static const struct format *find_format(const struct cli *c, const char *name)
{
    if (!name)
        cli_die(c, FAIL_USAGE, "to which format? --to hf, gguf or llama2c");
    for (int i = 0; i < N_FORMATS; i++)
        if (!strcmp(formats[i].name, name))
            return &formats[i];
    cli_die(c, FAIL_USAGE, "--to %s: not one of hf, gguf, llama2c", name);
}

static enum packed find_type(const struct cli *c, const char *name)
{
    for (int i = PACKED_F32; i <= PACKED_Q8_0; i++)
        if (!name || !strcmp(packed_name((enum packed)i), name))
            return (enum packed)i;
    cli_die(c, FAIL_USAGE, "--type %s: not one of f32, f16, bf16, q8_0", name);
}

/* The last part of a path without slashes at its end. */
static void take_name(char *buf, size_t cap, const char *path)
{
    size_t len = strlen(path), at;

    while (len > 1 && path[len - 1] == '/')
        len--;
    for (at = len; at > 0 && path[at - 1] != '/'; at--)
        ;
    snprintf(buf, cap, "%.*s", (int)(len - at), path + at);
}

static enum fail load(struct outgoing *x, const char *run, struct why *why)
{
    enum fail err = checkpoint_load(run, &x->model, &x->tokenizer, x->dir, sizeof x->dir,
                                    why);

    take_name(x->name, sizeof x->name, run);
    return err ? err : vocab_open(&x->vocab, x->tokenizer, why);
}

/* Everything into a directory that appears whole. */
static enum fail write_all(struct outgoing *x, const struct format *f, const char *out,
                           struct why *why)
{
    struct dir d;
    enum fail  err = dir_begin(&d, out, why);

    if (err)
        return err;
    err = f->write(x, d.tmp, why);
    if (!err)
        err = card_write(x, d.tmp, why);
    if (!err)
        err = dir_commit(&d, why);
    if (err)
        dir_abort(&d);
    return err;
}

static void tell_written(const struct outgoing *x, const char *out)
{
    char count[32], word[PATH_MAX];

    format_count(count, sizeof count, (double)model_count(&x->model));
    say(stdout, "%s: %s, %s parameters\n", out, x->form, count);
    for (int i = 0; i < x->n_notes; i++)
        say(stdout, "note: %s\n", x->notes[i]);
    say(stdout, "\nback: %s import %s --out RUN\n", cli_program(),
           path_quote(word, sizeof word, out));
}

int export_main(int argc, char **argv)
{
    static struct outgoing x;

    const char       *to = NULL, *type = NULL, *out = NULL;
    const struct flag flags[] = {
        {"to", 0, "FORMAT", "hf, gguf or llama2c", .text = &to},
        {"type", 0, "T", "of the weights: f32, f16, bf16, or q8_0 in gguf (f32)",
         .text = &type},
        {"out", 'o', "DIR", "a new directory (NAME-FORMAT here)", .text = &out},
        {0},
    };
    struct cli           c = {.verb = "export", .help = help, .flags = flags};
    const struct format *f;
    char                 standard[192], word[PATH_MAX];
    struct why           why;
    enum fail            err;

    cli_parse(&c, argc, argv);
    if (c.n_args != 1)
        cli_die(&c, FAIL_USAGE, "give one run: weft export RUN --to gguf");
    f = find_format(&c, to);
    x = (struct outgoing){.to = to, .type = find_type(&c, type)};
    err = load(&x, c.args[0], &why);
    if (err)
        cli_fail(&c, err, &why);
    snprintf(standard, sizeof standard, "%s-%s", x.name, to);
    out = out && *out ? out : standard;
    if (path_exists(out))
        cli_die(&c, FAIL_USAGE, "%s: exists already; remove it or give another --out",
                out);
    snprintf(x.command, sizeof x.command, "weft export %.*s --to %s --type %s", PATH_MAX,
             path_quote(word, sizeof word, x.name), to, packed_name(x.type));
    err = write_all(&x, f, out, &why);
    if (err)
        cli_fail(&c, err, &why);
    tell_written(&x, out);
    vocab_close(&x.vocab);
    tokenizer_free(x.tokenizer);
    model_close(&x.model);
    return 0;
}
