/* weft infer: stream text from a checkpoint. */
#include "data/base/cli.h"
#include "data/base/clock.h"
#include "data/base/format.h"
#include "data/base/live.h"
#include "data/base/memory.h"
#include "infer/bias.h"
#include "infer/verbs.h"
#include "infer/writer.h"
#include "model/files/checkpoint.h"

#include <errno.h>
#include <limits.h>
#include <omp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { PROMPT_MAX = 64 << 20 };     // bytes taken from stdin
enum { LONG_TEXT = 10000 };         // tokens, of which the tenths are told

static const char help[] =
    "weft infer runs/book -p \"Once upon a time\"\n"
    "weft infer RUN [-p PROMPT] [flags]\n"
    "\n"
    "Streams the prompt and what the model makes of it. RUN is a run directory, which\n"
    "means its latest checkpoint, RUN@best, RUN@STEP, or a checkpoint directory.\n"
    "Without -p the prompt is stdin's text; one newline at its end is dropped.\n"
    "\n"
    "  weft infer runs/book@best -p \"Once upon a time\" --frequency-penalty 0.3\n";

struct infer {
    struct cli            cli;
    struct writer_options o;
    struct words          stop, biases;
    struct logit_bias     bias[CLI_WORDS];
    const char           *prompt;
    int                   threads, context;
    const char           *weights;
    bool                  interactive, no_echo;

    char              taken[PATH_MAX];      // the checkpoint
    struct model      model;
    struct tokenizer *tokenizer;
    struct writer     writer;
    char             *text;         // of the prompt; owned, also where the program exits
    bool              full;         // some layer attends to all tokens it holds
    bool              said;         // that the oldest are dropped
};

/* ---- set-up ---- */

static uint64_t random_seed(void)
{
    uint32_t seed;

    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
        seed = (uint32_t)time(NULL) ^ (uint32_t)getpid() << 16;
    return seed;
}

static void parse(struct infer *f, int argc, char **argv)
{
    const struct flag flags[] = {
        {"prompt", 'p', "TEXT", "what the text begins with", .text = &f->prompt},
        {"n-predict", 'n', "N", "tokens to write; -1: until the text ends (256)",
         .number = &f->o.n, .min = -1, .max = 1e9},
        {"temp", 0, "X", "temperature; 0: the most likely token (0.8)",
         .real = &f->o.sampler.temp, .max = 100},
        {"top-k", 0, "N", "choose among the N most likely; 0: all (40)",
         .number = &f->o.sampler.top_k, .max = 1e9},
        {"top-p", 0, "X", "the best that make up this share; 1: all (0.95)",
         .real = &f->o.sampler.top_p, .max = 1},
        {"min-p", 0, "X", "those with this share of the best; 0: all (0.05)",
         .real = &f->o.sampler.min_p, .max = 1},
        {"repeat-penalty", 0, "X", "make recent tokens less likely; 1: not (1)",
         .real = &f->o.sampler.repeat_penalty, .min = 0.01, .max = 100},
        {"repeat-last-n", 0, "N", "how many tokens are recent (64)",
         .number = &f->o.sampler.repeat_last_n, .max = 1e6},
        {"presence-penalty", 0, "X", "off the logit of a token written before (0)",
         .real = &f->o.sampler.presence_penalty, .min = -100, .max = 100},
        {"frequency-penalty", 0, "X", "the same, for each time it was written (0)",
         .real = &f->o.sampler.frequency_penalty, .min = -100, .max = 100},
        {"logit-bias", 0, "TOKEN+X", "add X to its logit, as in 15043+1 or ' cat'-inf",
         .words = &f->biases},
        {"seed", 's', "N", "the same seed gives the same text",
         .seed = &f->o.sampler.seed},
        {"stop", 0, "TEXT", "end before this text; may be repeated", .words = &f->stop},
        {"ignore-eos", 0, NULL, "never end the text", .on = &f->o.ignore_eos},
        {"no-echo", 0, NULL, "leave out the prompt", .on = &f->no_echo},
        {"samples", 0, "K", "write K texts, decoded together (1)",
         .number = &f->o.K, .min = 1, .max = 1024},
        {"interactive", 'i', NULL, "go on with each line you type; /help there",
         .on = &f->interactive},
        {"context", 0, "N", "tokens that full attention holds (as trained)",
         .number = &f->context, .min = 1, .max = 1 << 24},
        {"weights", 0, "T", "f32, or rounded on load to bf16 or q8_0 (f32)",
         .text = &f->weights},
        {"threads", 0, "N", "threads (all cores)",
         .number = &f->threads, .min = 1, .max = 1024},
        {0},
    };

    f->o = (struct writer_options){.K = 1, .n = 256, .out = stdout};
    sampler_defaults(&f->o.sampler);
    f->o.sampler.seed = random_seed();
    f->cli = (struct cli){.verb = "infer", .help = help, .flags = flags};
    cli_parse(&f->cli, argc, argv);
    f->cli.flags = NULL;
}

static void check(const struct infer *f)
{
    if (f->cli.n_args == 0)
        cli_die(&f->cli, FAIL_USAGE, "which run? weft infer RUN -p PROMPT");
    if (f->cli.n_args > 1)
        cli_die(&f->cli, FAIL_USAGE,
                "'%s' is one argument too many; a prompt is given as -p \"...\"",
                f->cli.args[1]);
    if (f->interactive && f->o.K > 1)
        cli_die(&f->cli, FAIL_USAGE, "-i writes one text; leave out --samples");
    for (int i = 0; i < f->stop.n; i++)
        if (!*f->stop.word[i])
            cli_die(&f->cli, FAIL_USAGE, "--stop: the text is empty");
}

/* Does the layer keep every token there is? Its state then grows with the context. */
static bool attends_to_all(const struct mixer_cfg *layer)
{
    struct mixer_cfg twice = *layer;
    struct sizes     one, two;

    twice.context *= 2;
    mixer_sizes(layer, 1, 1, &one);
    mixer_sizes(&twice, 1, 1, &two);
    return one.state != two.state;
}

/* Find the layers of full attention; they are to hold --context tokens. */
static void set_context(struct infer *f)
{
    struct model *m = &f->model;

    if (f->context)
        m->cfg.context = f->context;
    for (int i = 0; i < m->cfg.layers; i++)
        if (attends_to_all(&m->layer[i])) {
            m->layer[i].context = m->cfg.context;
            f->full = true;
        }
}

static enum fail take_biases(struct infer *f, struct why *why)
{
    struct why bad;

    for (int i = 0; i < f->biases.n; i++) {
        enum fail err = bias_parse(&f->bias[i], f->biases.word[i], f->tokenizer, &bad);

        if (err)
            return fail(why, err, "--logit-bias: %s", bad.line);
    }
    f->o.sampler.bias = f->bias;
    f->o.sampler.n_bias = f->biases.n;
    return 0;
}

static void load(struct infer *f)
{
    struct why why;
    enum fail  err = checkpoint_map(f->cli.args[0], &f->model, &f->tokenizer,
                                    f->taken, sizeof f->taken, &why);

    f->o.stop = f->stop.word;
    f->o.n_stop = f->stop.n;
    f->o.terminal = isatty(STDOUT_FILENO);
    f->o.columns = f->o.terminal ? term_columns(STDOUT_FILENO) : 0;
    if (!err)
        err = take_biases(f, &why);
    if (!err)
        err = model_pack(&f->model, f->weights, &why);
    if (!err) {
        set_context(f);
        err = writer_open(&f->writer, &f->model, f->tokenizer, &f->o, &why);
    }
    if (err)
        cli_fail(&f->cli, err, &why);
}

static void unload(struct infer *f)
{
    writer_close(&f->writer);
    tokenizer_free(f->tokenizer);
    model_close(&f->model);
    free(f->text);
}

/* ---- the prompt ---- */

/* All of stdin but one newline at its end; malloc'ed. */
static char *read_stdin(const struct infer *f, size_t *len)
{
    char   part[4096], *text = NULL;
    size_t n = 0, got;
    FILE  *all = memory_stream(&text, len);

    while (all && n <= PROMPT_MAX && (got = fread(part, 1, sizeof part, stdin)) > 0)
        n += fwrite(part, 1, got, all);
    if (ferror(stdin))
        cli_die(&f->cli, FAIL_INPUT, "stdin: %s", strerror(errno));
    if (!all || fclose(all) || n > PROMPT_MAX)
        cli_die(&f->cli, FAIL_INPUT, "stdin: the prompt is longer than %d MiB",
                PROMPT_MAX >> 20);
    *len -= n && text[n - 1] == '\n';
    return text;
}

/* The prompt's text; malloc'ed. */
static char *prompt_text(const struct infer *f, size_t *len)
{
    if (!f->prompt && !f->interactive && !isatty(STDIN_FILENO))
        return read_stdin(f, len);
    char *text = strdup(f->prompt ? f->prompt : "");

    if (!text)
        cli_die(&f->cli, FAIL_MEMORY, "no memory for the prompt");
    *len = strlen(text);
    return text;
}

/* ---- writing ---- */

/* A reader that has seen enough (head -1) is no failure. */
static void check_output(const struct infer *f)
{
    if (f->writer.error == EPIPE)
        exit(0);
    if (f->writer.error)
        cli_die(&f->cli, f->writer.error == ENOMEM ? FAIL_MEMORY : FAIL_WRITE,
                "cannot write the text: %s", strerror(f->writer.error));
}

static void say_dropped(struct infer *f)
{
    int context = f->model.cfg.context;

    if (f->said || !f->full || f->writer.session.pos[0] <= context)
        return;
    f->said = true;
    fprintf(stderr,
            "past the %d tokens the model %s: the oldest are dropped\n", context,
            f->context ? "may hold" : "was trained on");
}

/* Feed a text and write what follows. */
static void answer(struct infer *f, const char *text, size_t len)
{
    struct why why;
    enum fail  err = f->interactive ? writer_mark(&f->writer, &why) : FAIL_NONE;

    if (!err)
        err = writer_feed(&f->writer, text, len, &why);
    if (err)
        cli_fail(&f->cli, err, &why);
    say_dropped(f);
    catch_interrupts();
    writer_run(&f->writer);
    check_output(f);
    say_dropped(f);
}

static void begin(struct infer *f)
{
    size_t len;

    f->text = prompt_text(f, &len);
    if (!f->no_echo)
        writer_echo(&f->writer, f->text, len);
    check_output(f);
    if (!f->interactive || f->prompt)
        answer(f, f->text, len);
}

/* ---- commands of -i ---- */

static void set_temp(struct infer *f, const char *word)
{
    char  *end;
    double temp = strtod(word, &end);

    if (end == word || *end || !(temp >= 0 && temp <= 100)) {
        fprintf(stderr, "/temp X: a number from 0 to 100; it is %g\n", f->o.sampler.temp);
        return;
    }
    f->o.sampler.temp = temp;
    writer_temp(&f->writer, temp);
    fprintf(stderr, "temperature %g\n", temp);
}

static void set_seed(struct infer *f, const char *word)
{
    char              *end;
    unsigned long long seed = strtoull(word, &end, 10);

    if (!*word || *end || word[strspn(word, "0123456789")]) {
        fprintf(stderr, "/seed N: a whole number; it is %llu\n",
                (unsigned long long)f->o.sampler.seed);
        return;
    }
    f->o.sampler.seed = seed;
    writer_seed(&f->writer, seed);
    fprintf(stderr, "seed %llu\n", seed);
}

static void undo(struct infer *f, const char *word)
{
    (void)word;
    fputs(writer_undo(&f->writer) ? "the last line and its answer are taken back\n"
                                  : "nothing is left to take back\n", stderr);
}

static void list_commands(struct infer *f, const char *word);

static const struct command {
    const char *name, *value, *about;
    void      (*run)(struct infer *f, const char *word);
} commands[] = {
    {"/temp", " X", "temperature from now on; 0: the most likely token", set_temp},
    {"/seed", " N", "the same seed and lines give the same answers", set_seed},
    {"/undo", "", "take the last line and its answer back", undo},
    {"/help", "", "this list; //text is text that begins with /", list_commands},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void list_commands(struct infer *f, const char *word)
{
    (void)f, (void)word;
    for (int i = 0; i < COMMANDS; i++)
        fprintf(stderr, "%s%-4s %s\n", commands[i].name, commands[i].value,
                commands[i].about);
}

/* Run the command that a line "/NAME WORD" is. */
static void obey(struct infer *f, char *line)
{
    size_t len = strcspn(line, " \t\r\n");
    char  *word = line + len + strspn(line + len, " \t\r\n");

    word[strcspn(word, " \t\r\n")] = 0;
    for (int i = 0; i < COMMANDS; i++)
        if (strlen(commands[i].name) == len && !strncmp(line, commands[i].name, len)) {
            commands[i].run(f, word);
            return;
        }
    line[len] = 0;
    fprintf(stderr, "no command %s; /help lists them\n", one_line(line));
}

/* Ctrl-C ends an answer, and while a line is read, the program. */
static void converse(struct infer *f)
{
    bool   marked = isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    char  *line = NULL;
    size_t cap = 0;

    for (;;) {
        ssize_t len;

        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        if (marked)
            fputs("> ", stderr);
        len = getline(&line, &cap, stdin);
        if (len < 0)
            break;
        if (line[0] == '/' && line[1] != '/')
            obey(f, line);
        else
            answer(f, line + (line[0] == '/'), (size_t)len - (line[0] == '/'));
    }
    if (marked)
        fputc('\n', stderr);
    free(line);
    interrupted = 0;
}

/* ---- the verb ---- */

/* "first tenth: 312 us a token, 14.1 MiB held"; of several texts, a token of each. */
static void report_tenth(const struct infer *f, const char *which, const struct tenth *t)
{
    char memory[16];

    format_bytes(memory, sizeof memory, (double)t->memory);
    fprintf(stderr, "%s tenth: %.0f us a token%s, %s held\n", which,
            t->seconds * 1e6 / (f->o.n / 10), f->o.K > 1 ? " of each" : "", memory);
}

/* Of a sequence: full attention holds the tokens read, not all that it may. */
static double state_held(const struct infer *f)
{
    const struct model *m = &f->model;
    long                pos = f->writer.session.pos[0];
    double              bytes = (double)model_state_bytes(m);

    for (int i = 0; i < m->cfg.layers; i++) {
        struct mixer_cfg read = m->layer[i];
        struct sizes     may, now;

        if (!attends_to_all(&read) || pos >= read.context)
            continue;
        mixer_sizes(&m->layer[i], 1, 1, &may);
        read.context = pos > 0 ? (int)pos : 1;
        mixer_sizes(&read, 1, 1, &now);
        bytes -= (double)may.state - (double)now.state;
    }
    return bytes;
}

static void report(const struct infer *f)
{
    const struct writer *w = &f->writer;
    char prompt[16], text[16], state[16];

    format_count(prompt, sizeof prompt,
                 (double)w->prompt_tokens / (w->prompt_seconds + 1e-9));
    format_count(text, sizeof text, (double)w->tokens / (w->seconds + 1e-9));
    format_bytes(state, sizeof state, state_held(f));
    fprintf(stderr, "tokens: prompt %ld, %s/s; text %ld, %s/s; state %s%s\n",
            w->prompt_tokens, prompt, w->tokens, text, state, f->o.K > 1 ? " each" : "");
    if (f->o.n >= LONG_TEXT && w->last.seconds > 0) {
        report_tenth(f, "first", &w->first);
        report_tenth(f, "last", &w->last);
    }
}

int infer_main(int argc, char **argv)
{
    struct infer f = {0};

    parse(&f, argc, argv);
    check(&f);
    if (f.threads)
        omp_set_num_threads(f.threads);
    cli_guard_maps(&f.cli);
    load(&f);
    signal(SIGPIPE, SIG_IGN);
    say(stderr, "seed %llu\ncheckpoint %s\n", (unsigned long long)f.o.sampler.seed,
            one_line(f.taken));
    begin(&f);
    if (f.interactive)
        converse(&f);
    report(&f);
    unload(&f);
    return interrupted ? FAIL_INTERRUPTED : 0;
}
