/* weft data build | stories: text into datasets, and text out of nothing. */
#include "data/base/cli.h"
#include "data/base/clock.h"
#include "data/base/file.h"
#include "data/base/format.h"
#include "data/base/live.h"
#include "data/dataset.h"
#include "data/inputs.h"
#include "model/config.h"
#include "tools/verbs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char build_help[] =
    "weft data build book.txt --out data/book\n"
    "weft data build INPUT... --out DIR [flags]\n"
    "\n"
    "Tokenizes text once, for many runs: weft train DIR. INPUT is .txt (documents\n"
    "parted by lines <|endoftext|>), .jsonl (a document per line), either with .zst,\n"
    "a directory of such files, or - for stdin; a.txt:2 is read twice as often. The\n"
    "end of the text becomes the validation split. Killed, it goes on where it was\n"
    "when the same command is given again; memory does not grow with the text.\n"
    "\n"
    "  weft data build corpus/ more.jsonl.zst --out data/mix --vocab 4096\n"
    "  weft data build a.txt:2 b.jsonl:1 --val held.txt --out data/two\n"
    "  cat *.txt | weft data build - --out data/all\n";

/* ---- weft data build ---- */

/* The settings of a dataset, each with its flag's value. */
struct setting {
    const char *key, *value;
};

static void apply(const struct cli *c, struct config *config, const struct setting *s)
{
    struct why why;

    if (s->value && config_set(config, s->key, s->value, &why))
        cli_fail(c, FAIL_USAGE, &why);
}

/* key=value among the inputs gives that setting its value. */
static void take_settings(struct cli *c, struct setting *s)
{
    int n = 0;

    for (int i = 0; i < c->n_args; i++) {
        const char     *word = c->args[i];
        size_t          len = strcspn(word, "=");
        struct setting *to = s;

        while (to->key && (strncmp(to->key, word, len) || to->key[len] || !word[len]))
            to++;
        if (to->key)
            to->value = word + len + 1;
        else
            c->args[n++] = word;
    }
    c->n_args = n;
}

/* 1234567 as 1,234,567. */
static const char *grouped(char buf[32], uint64_t n)
{
    char digits[24];
    int  len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n), at = 0;

    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            buf[at++] = ',';
        buf[at++] = digits[i];
    }
    buf[at] = 0;
    return buf;
}

static void print_split(const char *name, const struct split *s, const char *after)
{
    char bytes[32], documents[32], tokens[32];

    say(stdout, "  %-12s %s bytes in %s document%s, %s tokens%s\n", name,
           grouped(bytes, s->bytes), grouped(documents, s->documents),
           s->documents == 1 ? "" : "s", grouped(tokens, s->tokens), after);
}

static void print_summary(const struct dataset *d, double seconds, double stood)
{
    double bytes = (double)(d->train.bytes + d->val.bytes);
    char   share[32], buf[32], word[PATH_MAX];

    snprintf(share, sizeof share, " (%.1f %%)", 100 * (double)d->val.bytes / bytes);
    format_time(buf, sizeof buf, seconds);
    say(stdout, "%s: written in %s\n", d->dir, buf);
    if (stood > 0)
        say(stdout, "  went on      from %.0f %% of the text, where it was stopped "
            "before\n", 100 * stood);
    print_split("train", &d->train, "");
    print_split("validation", &d->val, share);
    say(stdout, "  vocabulary   %d (%s), %.2f bytes per token\n", d->vocab,
           tokenizer_kind(d->tokenizer),
           bytes / (double)(d->train.tokens + d->val.tokens));
    say(stdout, "  yardsticks   zstd -19 %.3f, order-2 model %.3f bits per byte\n",
        d->zstd_bpb, d->order2_bpb);
    if (d->floor_bpb > 0)
        say(stdout, "  exact floor  %.3f bits per byte, which no model beats\n",
            d->floor_bpb);
    if (dataset_overlaps(d)) {
        char lines[32];

        say(stdout, "  in training  %s of %s lines of validation, so its loss flatters\n",
            grouped(buf, d->val_seen), grouped(lines, d->val_lines));
    }
    if (d->invalid)
        say(stdout, "  not UTF-8    %s bytes, kept as they are\n",
            grouped(buf, d->invalid));
    say(stdout, "\nnext: %s train %s --for 3m\n", cli_program(),
           path_quote(word, sizeof word, d->dir));
}

/* Build, open and describe. */
static int build(const struct cli *c, const char *out, struct dataset_options o)
{
    struct live    l = live_open(0);
    struct dataset d;
    struct why     why;
    double         began = wall_seconds(), stands = 0;
    enum fail      err;

    o.progress = live_phase;
    o.user = &l;
    o.stop = &interrupted;
    o.stands = &stands;
    catch_interrupts();
    err = dataset_build(out, &o, &why);
    live_clear(&l);
    if (err == FAIL_INTERRUPTED && stands > 0)
        cli_die(c, FAIL_INTERRUPTED, "interrupted; %.0f %% of the text stands in "
                "%s.part, and the same command goes on from there", 100 * stands, out);
    if (err == FAIL_INTERRUPTED)
        cli_die(c, FAIL_INTERRUPTED, "interrupted; nothing was written");
    if (err || (err = dataset_open(&d, out, &why)))
        cli_fail(c, err, &why);
    print_summary(&d, wall_seconds() - began, stands);
    dataset_close(&d);
    return 0;
}

static int build_main(int argc, char **argv)
{
    enum { VOCAB, TOKENIZER, SHARE, THREADS };

    const char    *out = NULL, *field = NULL, *val = NULL;
    long           shard = 0;
    struct setting s[] = {{"vocab", NULL}, {"tokenizer", NULL}, {"val_fraction", NULL},
                          {"threads", NULL}, {NULL, NULL}};

    const struct flag flags[] = {
        {"out", 'o', "DIR", "where to write the dataset; it must not exist yet",
         .text = &out},
        {"vocab", 0, "N", "number of tokens; 0 (default): what suits the text",
         .text = &s[VOCAB].value},
        {"tokenizer", 0, "KIND", "unigram (default), bpe or bytes",
         .text = &s[TOKENIZER].value},
        {"field", 0, "NAME", "of .jsonl lines, what holds the text (default: text)",
         .text = &field},
        {"val-fraction", 0, "X", "share of the text kept for validation (default: 0.05)",
         .text = &s[SHARE].value},
        {"val", 0, "FILE", "validation text; the inputs are then all for training",
         .text = &val},
        {"shard", 0, "N", "tokens in one file of the dataset (default: 64M)",
         .count = &shard, .min = 1, .max = 1e12},
        {"threads", 0, "N", "default: all cores", .text = &s[THREADS].value},
        {0},
    };
    struct cli    c = {.verb = "data build", .help = build_help, .flags = flags};
    struct config config;
    double       *weight;
    struct why    why;
    enum fail     err;

    config_defaults(&config);
    cli_parse(&c, argc, argv);
    take_settings(&c, s);
    for (int i = VOCAB; i <= THREADS; i++)
        apply(&c, &config, &s[i]);
    if (!c.n_args)
        cli_die(&c, FAIL_USAGE, "no INPUT; for example: weft data build book.txt "
                "--out data/book");
    if (!out || !*out)
        cli_die(&c, FAIL_USAGE,
                "no --out DIR; for example: weft data build %s --out data/name",
                c.args[0]);
    if (val && s[SHARE].value)
        cli_die(&c, FAIL_USAGE, "--val %s is the validation text; leave val_fraction out",
                val);
    if (val && !strcmp(val, "-"))
        cli_die(&c, FAIL_USAGE, "--val: give a file; stdin is an input");
    err = inputs_weigh(c.args, c.n_args, &weight, &why);
    if (err)
        cli_fail(&c, err, &why);
    err = build(&c, out, (struct dataset_options){
        .inputs = c.args, .n_inputs = c.n_args, .weights = weight, .val = val,
        .field = field,
        .tokenizer = config.tokenizer, .vocab = config.vocab,
        .val_fraction = config.val_fraction, .shard = (uint64_t)shard, .lock_fd = -1,
    });
    free(weight);
    return err;
}

/* ---- weft data ---- */

static const struct sub {
    const char *name, *about;
    int       (*main)(int argc, char **argv);
} subs[] = {
    {"build", "tokenize text into a dataset directory", build_main},
    {"stories", "write the built-in corpus, or check a text against its grammar",
     stories_main},
};
enum { N_SUBS = sizeof subs / sizeof *subs };

static int print_help(void)
{
    puts("weft data stories --bytes 5M > stories.txt\n"
         "weft data build stories.txt --out data/stories\n"
         "weft train data/stories --for 3m\n");
    for (int i = 0; i < N_SUBS; i++)
        say(stdout, "  %-9s %s\n", subs[i].name, subs[i].about);
    puts("\nweft data build --help and weft data stories --help say more.");
    return 0;
}

int data_main(int argc, char **argv)
{
    const struct cli c = {.verb = "data"};
    const char      *names[N_SUBS], *near;

    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return print_help();
    for (int i = 0; i < N_SUBS; i++) {
        names[i] = subs[i].name;
        if (!strcmp(argv[1], names[i]))
            return subs[i].main(argc - 1, argv + 1);
    }
    near = nearest_name(argv[1], names, N_SUBS);
    if (near)
        cli_die(&c, FAIL_USAGE, "no '%s'; did you mean 'weft data %s'?", argv[1], near);
    cli_die(&c, FAIL_USAGE, "no '%s'; there is build and stories", argv[1]);
}
