/* weft import: a model of another program as a checkpoint of weft. */
#include "data/base/cli.h"
#include "data/base/file.h"
#include "data/base/format.h"
#include "model/files/checkpoint.h"
#include "tools/exchange/exchange.h"
#include "tools/verbs.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "weft import stories15M.bin --tokenizer tokenizer.bin --out runs/stories15M\n"
    "weft import PATH --out RUN [--tokenizer FILE]\n"
    "\n"
    "Reads a model of another program, or one that weft export wrote: a Hugging Face\n"
    "directory (llama, mistral, ministral, qwen3), a .gguf (llama, qwen3, granite_swa\n"
    "in F32, F16, BF16 or Q8_0), a .bin of llama2.c, or a directory with one of\n"
    "these in it. The result is a run for infer, score, export, and train --from;\n"
    "with --arch in another mixer.\n"
    "\n"
    "  weft train more.txt --from runs/stories15M --for 5m\n";

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && !strcmp(text + n - m, end);
}

/* The file that a path means, and who reads it. */
static enum fail read_any(struct incoming *in, const char *path, const char *tokenizer,
                          struct why *why)
{
    char file[PATH_MAX];

    if (!path_exists(path))
        return fail(why, FAIL_INPUT, "%s: no such file or directory", path);
    if (!path_is_dir(path))
        return ends_with(path, ".gguf") ? gguf_import(in, path, tokenizer, why)
               : ends_with(path, ".bin") ? llama2c_import(in, path, tokenizer, why)
               : fail(why, FAIL_INPUT, "%s: neither .gguf nor .bin; of a Hugging Face "
                      "model give its directory", path);
    if (file_beside(file, sizeof file, path, "model.gguf"))
        return gguf_import(in, file, tokenizer, why);
    if (file_beside(file, sizeof file, path, "model.bin"))
        return llama2c_import(in, file, tokenizer, why);
    if (file_beside(file, sizeof file, path, "config.json"))
        return hf_import(in, path, tokenizer, why);
    return fail(why, FAIL_INPUT, "%s: no config.json, model.gguf or model.bin in it",
                path);
}

int import_main(int argc, char **argv)
{
    static struct incoming in;

    const char       *out = NULL, *tokenizer = NULL;
    const struct flag flags[] = {
        {"out", 'o', "RUN", "a new directory for the model", .text = &out},
        {"tokenizer", 0, "FILE", "tokenizer.model or tokenizer.bin (beside the model)",
         .text = &tokenizer},
        {0},
    };
    struct cli c = {.verb = "import", .help = help, .flags = flags};
    char       count[32], word[PATH_MAX];
    struct why why;
    enum fail  err;

    cli_parse(&c, argc, argv);
    if (c.n_args != 1)
        cli_die(&c, FAIL_USAGE, "give one model: weft import PATH --out RUN");
    if (!out || !*out)
        cli_die(&c, FAIL_USAGE, "where to? --out RUN, a new directory");
    if (path_exists(out))
        cli_die(&c, FAIL_USAGE, "%s: exists already; remove it or give another --out",
                out);
    in = (struct incoming){0};
    err = read_any(&in, c.args[0], tokenizer, &why);
    if (!err)
        err = checkpoint_save(out, &in.model, in.tokenizer, &why);
    if (err) {
        incoming_close(&in);
        cli_fail(&c, err, &why);
    }
    format_count(count, sizeof count, (double)model_count(&in.model));
    say(stdout, "%s: %s, %s parameters, mixers = %s\n", out, in.from, count,
           in.model.cfg.mixers);
    if (*in.note)
        say(stderr, "note: %s\n", in.note);
    say(stdout, "\nnext: %s infer %s -p \"Once upon a time\"\n", cli_program(),
           path_quote(word, sizeof word, out));
    incoming_close(&in);
    return 0;
}
